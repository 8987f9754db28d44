"""Both sides of sizes at which files, domains, theory and report go another way, or refuse."""

import json

import numpy as np
import pytest
from strategies import random_model, random_policy

import latentmdp as lm
from latentmdp.builtin_domains import spec as domain_spec
from latentmdp.formats import archive, document, schema, tables
from latentmdp.report import optimistic, phases
from latentmdp.report.encode import pack_real
from latentmdp.theory.variance import known_context as variance_known
from latentmdp.theory.variance import maximum as variance
from latentmdp.theory.variance.maximum import max_variance


def chain_of(S, H=1):
    """Each state leads to all states, one context and action."""
    return lm.LatentMDP.from_arrays(
        np.full((1, S, 1, S), 1.0 / S), np.zeros((1, S, 1)), [1.0], np.full((1, S), 1.0 / S), H
    )


# ---------------------------------------------------------------------- files


def test_documents_have_so_many_keys_and_no_more(tmp_path, monkeypatch):
    lm.save(lm.make("bandit"), tmp_path / "m.json")
    keys = len(json.loads((tmp_path / "m.json").read_text()))
    monkeypatch.setattr(schema, "MOST_KEYS", keys)
    assert lm.load(tmp_path / "m.json") == lm.make("bandit")
    monkeypatch.setattr(schema, "MOST_KEYS", keys - 1)
    with pytest.raises(lm.ModelError, match=f"at most {keys - 1} keys; found {keys}"):
        lm.load(tmp_path / "m.json")


def test_archives_have_so_many_arrays_and_no_more(tmp_path, monkeypatch):
    lm.save(lm.make("bandit"), tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as found:
        members = len(found)
    monkeypatch.setattr(archive, "MOST_MEMBERS", members)
    assert lm.load(tmp_path / "m.npz") == lm.make("bandit")
    monkeypatch.setattr(archive, "MOST_MEMBERS", members - 1)
    with pytest.raises(lm.ModelError, match=f"at most {members - 1} arrays; found {members}"):
        lm.load(tmp_path / "m.npz")


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 8, 9])
def test_arrays_are_read_in_pieces_of_any_size(length, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "CHUNK", 32)  # four numbers
    written = {"a": np.arange(float(length)), "b": np.arange(length)}
    archive.write_npz(tmp_path / "x.npz", written, level=1)
    found = archive.read_npz(tmp_path / "x.npz")
    assert all(np.array_equal(found[name], written[name]) for name in written)


@pytest.mark.parametrize("copies", [1, 6])
def test_what_is_written_can_be_read_on_both_sides_of_what_a_file_may_take(
    copies, tmp_path, monkeypatch
):
    """Zeros deflate to nothing; beyond the limit they are stored as they are."""
    array = np.zeros(2000)
    sizes = []
    for free in (copies * array.nbytes - 1, copies * array.nbytes):
        monkeypatch.setattr(archive, "FREE_BYTES", free)
        archive.write_npz(tmp_path / "x.npz", {"a": array}, level=6, copies=copies)
        assert np.array_equal(archive.read_npz(tmp_path / "x.npz", copies)["a"], array)
        sizes.append((tmp_path / "x.npz").stat().st_size)
    assert sizes[0] > array.nbytes > sizes[1]
    monkeypatch.setattr(archive, "FREE_BYTES", 0)
    with pytest.raises(lm.ModelError, match="must not be far larger than the file"):
        archive.read_npz(tmp_path / "x.npz", copies)


def test_layouts_up_to_the_largest_grid(tmp_path, monkeypatch):
    model = lm.make("maze:size=3,goals=2,horizon=3")
    lm.save(model, tmp_path / "m.json")
    monkeypatch.setattr(document, "LARGEST_GRID", 9)
    assert lm.load(tmp_path / "m.json") == model
    monkeypatch.setattr(document, "LARGEST_GRID", 8)
    with pytest.raises(lm.ModelError, match=r"layout_shape must be .* at most 8 cells"):
        lm.load(tmp_path / "m.json")


@pytest.mark.parametrize("S", [256, 257])  # 65,536 outcomes are one piece, 66,049 are two
def test_csv_is_written_in_pieces(S, tmp_path):
    model = chain_of(S)
    lm.save(model, tmp_path / "m.csv")
    again = lm.load(tmp_path / "m.csv", horizon=1)
    assert np.array_equal(again.prob, model.prob)
    assert np.array_equal(again.next, model.next)


def test_the_longest_header_of_a_table(tmp_path):
    line = "step,state,action," + "x" * (tables.LONGEST_HEADER - 19)
    for header, fits in ((line, True), (line + "x", False)):
        assert (len(header) + 1 <= tables.LONGEST_HEADER) == fits
        (tmp_path / "p.csv").write_text(header + "\n0,0,0,0\n")
        if fits:
            assert lm.PolicyGraph.load(tmp_path / "p.csv").table.tolist() == [[0]]
        else:
            with pytest.raises(lm.ModelError, match="header line must be at most 10000 bytes"):
                lm.PolicyGraph.load(tmp_path / "p.csv")


@pytest.mark.parametrize("suffix", ["json", "npz", "csv"])
def test_the_largest_number_of_a_policy(suffix, tmp_path):
    path = tmp_path / f"p.{suffix}"
    for action, fits in ((2**31 - 1, True), (2**31, False)):
        if suffix == "json":
            path.write_text(json.dumps({"table": [[action]]}))
        elif suffix == "npz":
            np.savez(path, table=np.array([[action]]))
        else:
            path.write_text(f"step,state,action\n0,0,{action}\n")
        if fits:
            policy = lm.PolicyGraph.load(path)
            policy.save(path)
            assert lm.PolicyGraph.load(path).table.tolist() == [[action]]
        else:
            with pytest.raises(lm.ModelError, match=r"2\^31|below 2147483648; .* it is 2147483648"):
                lm.PolicyGraph.load(path)


@pytest.mark.parametrize("number", [2.0**53 - 1, 2.0**53])
def test_whole_numbers_that_a_float_holds(number):
    found = schema.Fields({"x": np.array([number])}, ("x",))
    if number < schema.EXACT_WHOLE:
        assert found.wholes("x").tolist() == [2**53 - 1]
    else:
        with pytest.raises(lm.ModelError, match="must be a whole number"):
            found.wholes("x")


@pytest.mark.parametrize("state", [1, 2, 10**8])
def test_first_states_of_a_csv_are_states_of_its_table(tmp_path, state):
    lm.save(chain_of(2), tmp_path / "m.csv")
    initial = next(tmp_path.glob("*initial*"))
    initial.write_text(f"idstate,probability\n{state},1.0\n")
    if state < 2:
        assert lm.load(tmp_path / "m.csv", horizon=1).nu[0].tolist() == [0.0, 1.0]
    else:
        with pytest.raises(lm.ModelError, match=f"there is no state '{state}'"):
            lm.load(tmp_path / "m.csv", horizon=1)


# ---------------------------------------------------------------------- models and domains


@pytest.mark.parametrize(("horizon", "fits"), [(10**6, True), (10**6 + 1, False)])
def test_the_longest_horizon(horizon, fits, tmp_path):
    lm.save(chain_of(1), tmp_path / "m.json")
    text = json.loads((tmp_path / "m.json").read_text())
    (tmp_path / "m.json").write_text(json.dumps(text | {"H": horizon}))
    makers = (
        lambda: chain_of(1, horizon),
        lambda: lm.load(tmp_path / "m.json"),
        lambda: lm.make(f"bandit:horizon={horizon}"),
    )
    for make in makers:
        if fits:
            assert make().horizon == horizon
        else:
            with pytest.raises(lm.ModelError, match=r"horizon must be (at most|between)"):
                make()


def test_domains_build_so_many_outcomes_and_no_more(monkeypatch):
    model = "garnet:contexts=2,states=4,actions=2,branching=3,horizon=2"
    monkeypatch.setattr(domain_spec, "MAX_OUTCOMES", 48)
    assert len(lm.make(model).next) == 48
    monkeypatch.setattr(domain_spec, "MAX_OUTCOMES", 47)
    with pytest.raises(lm.ModelError, match="must be at most 47; these keys give 48"):
        lm.make(model)


def test_dense_views_up_to_two_to_the_31():
    S = 46_341  # its square is just above 2^31
    rows = np.arange(S)
    model = lm.LatentMDP.from_rows(
        0 * rows, rows, 0 * rows, rows, 1.0 + 0 * rows, 0.0 * rows, [1.0], np.eye(1, S), 1
    )
    assert model.R.shape == (1, S, 1)
    with pytest.raises(lm.ModelError, match=r"at most 2\^31 entries; 2147488281 asked"):
        _ = model.P


# ---------------------------------------------------------------------- theory and report


@pytest.mark.parametrize("policy_class", ["history", "markov"])
def test_the_largest_variance_is_bracketed_whatever_fits(policy_class, monkeypatch):
    """No room for the grid of totals, none for an ascent with memory, no exact search."""
    models = [random_model(np.random.default_rng(s), M=2, S=3, A=2, H=3) for s in range(12)]
    exact = [max_variance(model, policy_class).lower for model in models]
    quick = {"exact_limit": 1, "centres": 3, "time_limit": 2.0}
    for name, module, size in (("MOST_CELLS", variance_known, 0), ("MOST_SCRATCH", variance, 20)):
        monkeypatch.setattr(module, name, size)
        for model, wanted in zip(models, exact, strict=True):
            if model.H * model.S * model.M > 5 * variance.MOST_SCRATCH:
                continue
            found = max_variance(model, policy_class, **quick)
            assert found.lower - 1e-12 <= wanted <= found.upper + 1e-9


def test_models_too_large_for_the_largest_variance_are_refused(monkeypatch):
    model = lm.make("bandit:arms=2,contexts=2,horizon=5")  # 5 * S * 2
    monkeypatch.setattr(variance, "MOST_SCRATCH", model.H * model.S * model.M // 5)
    max_variance(model, "markov")
    monkeypatch.setattr(variance, "MOST_SCRATCH", model.H * model.S * model.M // 5 - 1)
    with pytest.raises(lm.ModelError, match="max_variance needs"):
        max_variance(model, "markov")


@pytest.mark.parametrize("large", [0, 1, 5, 10**6])
def test_policies_on_the_page_are_worth_what_they_were(large, monkeypatch):
    monkeypatch.setattr(phases, "LARGE_POLICY", large)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        model = random_model(rng)
        policy = random_policy(rng, model)
        shown = phases.slim(model, policy)
        value = lm.evaluate(model, policy).value
        assert lm.evaluate(model, shown).value == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("limit", ["MAX_WORK", "MAX_KEPT"])
def test_hoped_for_values_are_shown_up_to_a_size(limit, monkeypatch):
    model = lm.make("maze:size=3,goals=2,horizon=6")
    run = lm.learn(model, "mvp", 200, optimal=(0.5, 1.0))
    M, S, A, H, N = model.M, model.S, model.A, model.H, run.policy.N
    size = M * S**2 * A * H + N * M * S if limit == "MAX_WORK" else N * M * A
    counts = run.session().learner.counts
    monkeypatch.setattr(optimistic, limit, size)
    assert optimistic.optimistic_actions(run, counts, run.policy).shape == (N, M, A)
    monkeypatch.setattr(optimistic, limit, size - 1)
    assert optimistic.optimistic_actions(run, counts, run.policy) is None


@pytest.mark.parametrize(("length", "packed"), [(4, True), (3, False)])
def test_numbers_that_repeat_are_listed_once(length, packed):
    assert isinstance(pack_real(np.full(length, 0.1)), dict) == packed
