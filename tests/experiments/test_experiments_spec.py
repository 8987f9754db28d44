"""The study's file: runs that come of it, ids by content, refusals with their line."""

import json
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import latentmdp as lm
from latentmdp.errors import ModelError
from latentmdp.experiments.lines import Document
from latentmdp.experiments.spec import StudySpec
from latentmdp.experiments.study_run import content_key, stream_of

SMALL = "bandit:arms=2,contexts=2,horizon=3"


def spec_of(base, **values):
    return StudySpec(Document({"models": [SMALL], "algorithms": ["random"]} | values), base)


def from_text(folder, text):
    path = folder / "study.toml"
    path.write_text(text)
    return lm.Study.load(path).spec


def ids(spec):
    return [run.id for run in spec.runs()]


def test_everything_swept_is_multiplied(tmp_path):
    both = {"A": [2, 3], "H": 4}
    spec = spec_of(
        tmp_path,
        models=[{"name": "b", "model": "bandit:arms={A},horizon={H}", "sweep": both}],
        algorithms=["mvp", {"algorithm": "bernstein", "bonus_scale": [1, 0.01]}],
        episodes=[10, 1e3],
        classes=["markov", "history"],
        seeds=5,
    )  # fmt: skip
    runs = list(spec.runs())
    assert len(runs) == 2 * 3 * 2 * 2 * 5
    assert len({run.key for run in runs}) == len(runs)
    first = runs[0]
    assert first.labels == {
        "model": "b", "A": 2, "H": 4, "algorithm": "mvp", "episodes": 10,
        "policy_class": "markov", "delta": 0.1, "bonus_scale": 1.0, "simulator": "counts",
        "ties": "secondary", "seed": 0,
    }  # fmt: skip
    assert first.content["model"] == {"spec": "bandit:arms=2,contexts=3,horizon=4,seed=0"}
    assert len({run.optimum_key for run in runs}) == 2 * 2


def test_the_more_specific_option_wins(tmp_path):
    spec = spec_of(
        tmp_path, episodes=10, delta=0.2,
        models=[{"model": SMALL, "episodes": 20, "delta": 0.3}],
        algorithms=["random", {"algorithm": "greedy", "episodes": 30}],
    )  # fmt: skip
    found = [(run.labels["episodes"], run.labels["delta"]) for run in spec.runs()]
    assert found == [(20, 0.3), (30, 0.3)]


def test_a_new_value_renames_no_run(tmp_path):
    model = {"model": "bandit:arms={A}", "sweep": {"A": [3, 2]}}
    more = {"model": "bandit:arms={A}", "sweep": {"A": [2, 5, 3]}}
    before = set(ids(spec_of(tmp_path, models=[model], seeds=2)))
    after = spec_of(tmp_path, models=[SMALL, more], algorithms=["mvp", "random"], seeds=3)
    assert before < set(ids(after))


def test_names_and_what_is_kept_do_not_matter(tmp_path):
    a = next(spec_of(tmp_path).runs())
    b = next(
        spec_of(tmp_path, models=[{"name": "x", "model": SMALL + ",seed=0"}], keep="runs").runs()
    )
    assert a.key == b.key
    assert a.id != b.id


def test_a_models_file_counts_by_its_content(tmp_path):
    model = lm.make(SMALL)
    lm.save(model, tmp_path / "a.npz")
    lm.save(model, tmp_path / "b.npz")
    lm.save(model.replace(horizon=2), tmp_path / "c.npz")
    spec = spec_of(
        tmp_path, models=["a.npz", "b.npz", "c.npz", {"model": "a.npz", "horizon": 2, "name": "d"}]
    )
    a, b, c, d = spec.runs()
    assert a.key == b.key
    assert len({a.key, c.key, d.key}) == 3
    assert d.content["model"]["digest"] == c.content["model"]["digest"]


def test_own_code_counts_by_its_content(tmp_path):
    (tmp_path / "mine.py").write_text("def f(seed, stream): return {}\n")
    before = next(spec_of(tmp_path, models=[], algorithms=[], tasks=["mine.py:f"]).runs())
    (tmp_path / "mine.py").write_text("def f(seed, stream): return {'a': 1}\n")
    after = next(spec_of(tmp_path, models=[], algorithms=[], tasks=["mine.py:f"]).runs())
    assert before.key != after.key


def test_ids_and_streams_are_these_for_ever(tmp_path):
    """Whoever changes them makes all finished studies run again."""
    run = next(spec_of(tmp_path, episodes=1000).runs())
    assert run.key == content_key({"kind": "learn", **run.content})
    assert json.loads(json.dumps(run.content)) == run.content
    assert (run.key, run.stream) == KNOWN
    code = f"from latentmdp.experiments.study_run import stream_of; print(stream_of({run.key!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == run.stream  # whatever Python's own hash is seeded with


KNOWN = ("b2bbbb69e3d1b39e", 1066554102588197646)


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.floats(allow_nan=False,
       allow_infinity=False) | st.text(max_size=3) | st.booleans(), max_size=4))  # fmt: skip
def test_keys_tell_contents_apart(content):
    key = content_key(content)
    assert key == content_key(dict(reversed(content.items())))
    for name in content:
        other = content | {name: [content[name]]}
        assert content_key(other) != key
    assert 0 <= stream_of(key) < 2**60


BANDIT = 'models = ["bandit"]\nalgorithms = ["mvp"]\n'
SWEPT = 'algorithms = ["mvp"]\n[[models]]\nmodel = "bandit:arms={{{0}}}"\nsweep = {{ {0} = [2] }}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('modles = ["maze"]\nalgorithms = ["mvp"]', "line 1: unknown key 'modles' (did you mean"),
        ('models = ["maze"]\n\n[[algorithms]]\nalgorithm = "mvp"\n[[algorithms]]\n'
         'algorithm = "mvp"\nbonus_scal = 2', "line 7: unknown key 'bonus_scal' in algorithms"),
        ('models = ["maze"]\nalgorithms = [{algorithm = "mvp", klass = 2}]', "line 2: unknown key"),
        ('models = ["maze:sise=3"]\nalgorithms = ["mvp"]', "line 1: maze: unknown key 'sise' (did"),
        ('models = ["mase"]\nalgorithms = ["mvp"]', "unknown domain 'mase' (did you mean 'maze'?)"),
        ('algorithms = ["mvp"]\nmodels = [\n"maze",\n{model = "maze", nam = 2}]', "line 4: u"),
        ('algorithms = ["mvp"]\nmodels = [\n "maze",\n "maze:sise=3"]', "line 4: maze: unkn"),
        ('models = ["maze"]\nalgorithms = ["mpv"]', "algorithm must be one of"),
        ('models = ["maze"]', "needs algorithms; there are none"),
        ("seeds = 2", "needs models and algorithms, or tasks"),
        ('models = ["maze"]\nalgorithms = ["mvp"]\nseeds = 0', "line 3: seeds must be a number"),
        ('models = ["maze"]\nalgorithms = ["mvp"]\nepisodes = 2.5', "episodes must be a whole"),
        ('models = ["maze"]\nalgorithms = ["mvp"]\nclasses = "memory"', "'memory'"),
        ('models = ["maze"]\nalgorithms = ["mvp"]\nkeep = "everything"', "line 3: keep must be"),
        ('models = ["maze"]\nalgorithms = ["mvp"]\nlimits = 3', "line 3: limits must be like {"),
        ('models = ["maze"]\nalgorithms = ["mvp"]\nlimits = { a = "b" }', "line 3: limits must be"),
        ('models = ["maze"]\nalgorithms = ["mvp"]\nseeds = 1' + 400 * "0", "line 3: seeds must be"),
        ('[[tasks]]\nfunction = "a:b"\nexponent = "1/2"', "line 3: exponent must be a number"),
        ('[[tasks]]\nfunction = "a:b"\nnote = 3', "line 3: note must be text; it is 3"),
        ('models = ["maze:size={S}"]\nalgorithms = ["mvp"]', "{S} in 'maze:size={S}' must be"),
        ('algorithms = ["mvp"]\n[[models]]\nmodel = "maze"\nsweep = {S = [3]}', "'S' must be in"),
        ('algorithms = ["mvp"]\n[[models]]\nmodel = "maze"\nsweep = 3', "line 4: sweep must be"),
        ('algorithms = ["mvp"]\n[[models]]\nname = "x"', "must have model as text"),
        ('algorithms = ["mvp"]\nmodels = ["none.npz"]', "none.npz: there is no such file"),
        ('tasks = ["math"]', "function must be like module:name"),
        (f"{BANDIT}bonus_scale = nan", "line 3: bonus_scale must be finite numbers"),
        (f"{BANDIT}bonus_scale = -1", "line 3: bonus_scale must be finite and at least 0"),
        (f"{BANDIT}delta = [0.1, 2]", "line 3: delta must lie strictly between 0 and 1"),
        (f"{BANDIT}episodes = 'x'", "line 3: episodes must be a whole number"),
        (f"{BANDIT}episodes = []", "line 3: episodes must have values; it has none"),
        (f"{BANDIT}[limit]\nregret = 3", "line 3: unknown key 'limit' (did you mean 'limits'?)"),
        ('[[tasks]]\nfunction = "a:b"\nsweep = { x = [inf] }', "line 3: x must be finite numbers"),
        ('[[tasks]]\nfunction = "a:b"\narguments = { x = 2020-01-01 }', "line 3: x must be fin"),
        ('[[tasks]]\nfunction = "a:b"\narguments = { seed = 1 }', "must not have 'seed'"),
        ('[[tasks]]\nfunction = "a:b"\nsweep = { x = [] }', "line 3: x must have values"),
        ('[[tasks]]\nfunction = "a:b"\nsweep = { stream = [1] }', "line 3: a swept key must be"),
        ('tasks = ["a:b", { function = "a:b", arguments = { x = 1 } }]', "line 1: runs of a study"),
        (SWEPT.format("regret"), "line 4: a swept key must be a word that names no other column"),
        (SWEPT.format("algorithm"), "line 4: a swept key must be a word that names no other"),
        ('models = ["maze"]\nalgorithms = ["mvp", "mvp"]', "line 1: runs of a study must differ"),
        ('algorithms = ["mvp"]\nmodels = ["maze", {model = "maze", horizon = 2}]', "give its ent"),
        ('algorithms = ["mvp"]\n[[models]]\nmodel = "maze"\nnormalize = "no"', "line 4: normalize"),
        ('algorithms = ["mvp"]\n[[models]]\nmodel = "maze"\nhorizon = [2, 3]', "line 4: horizon"),
        ('algorithms = ["mvp"]\n[[models]]\nmodel = "maze"\ndiscount = 2', "line 4: discount"),
        ('models = ["maze"]\nalgorithms = [{algorithm = "a", python = 3}]', "line 2: python must"),
        ("models = [", "must be TOML"),
        ("tasks = 3", "tasks must be a list; it is 3"),
    ],
)  # fmt: skip
def test_refusals_say_what_and_where(tmp_path, text, words):
    with pytest.raises(ModelError) as caught:
        from_text(tmp_path, text)
    assert words in str(caught.value)
    assert "study.toml" in str(caught.value)


def test_a_short_file_that_asks_for_millions_is_refused_before_they_are_made(tmp_path):
    values = list(range(1, 401))
    path = tmp_path / "huge.toml"
    path.write_text(
        f'algorithms = ["random"]\n[[models]]\nname = "m"\n'
        f'model = "bandit:arms={{a}},contexts={{b}},horizon={{c}}"\n'
        f"sweep = {{ a = {values}, b = {values}, c = {values} }}\n"
    )
    begun = time.perf_counter()
    with pytest.raises(ModelError, match=r"at most 100,000 combinations .* has 64,000,000"):
        lm.Study.load(path)
    assert time.perf_counter() - begun < 5.0  # it was minutes and gigabytes


def test_values_that_are_given_twice_count_once(tmp_path):
    path = tmp_path / "twice.toml"
    path.write_text(
        'algorithms = ["random"]\nepisodes = [10, 10.0]\n[[models]]\n'
        'model = "bandit:arms={a}"\nsweep = { a = [2, 3, 2] }\n'
    )
    assert [run.labels["a"] for run in lm.Study.load(path).spec.runs()] == [2, 3]


@pytest.mark.parametrize("place", ["top", "model", "algorithm"])
def test_classes_is_an_older_name_of_policy_class(place, tmp_path):
    def study(**options):
        tables = {name: options if name == place else {} for name in ("top", "model", "algorithm")}
        return spec_of(
            tmp_path,
            models=[{"model": "bandit", **tables["model"]}],
            algorithms=[{"algorithm": "mvp", **tables["algorithm"]}],
            **tables["top"],
        )

    both = ["markov", "history"]
    assert ids(study(policy_class=both)) == ids(study(classes=both))
    assert len(ids(study(classes=both))) == 2
    with pytest.raises(ModelError, match="classes is an older name of policy_class"):
        study(classes=both, policy_class=both)
