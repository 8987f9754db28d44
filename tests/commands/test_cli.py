"""The command line: what it prints where, exit codes, one line per error."""

import json
import os
import re

import numpy as np
import pytest
from cli_answers import MAZE, last_json, only_line
from pomdp_samples import SENSOR, policyx

import latentmdp as lm
from latentmdp.commands import cli


@pytest.fixture
def run(capsys):
    """Run a command in this process: `run("show", "maze") -> (code, output, errors)`."""

    def call(*arguments):
        code = cli.run([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def policy(tmp_path):
    """A file with a Markov policy for `maze:size=3,goals=2,horizon=4`."""
    model = lm.make("maze:size=3,goals=2,horizon=4")
    graph = lm.PolicyGraph.from_table(np.ones((model.H, model.S), dtype=int))
    lm.save_policy(graph, tmp_path / "policy.json")
    return tmp_path / "policy.json"


# ---------------------------------------------------------------------- what goes well


def test_show_prints_sizes_and_differences(run):
    code, output, errors = run("show", MAZE)
    assert (code, errors) == (0, "")
    assert "2 contexts, 10 states, 4 actions, horizon 4" in output
    assert "transitions differ at" in output
    assert "goal " in output  # the contexts' names


def test_show_json_is_one_line(run):
    code, output, _ = run("show", MAZE, "--json")
    assert code == 0
    assert output.count("\n") == 1
    facts = last_json(output)
    assert (facts["M"], facts["S"], facts["A"], facts["H"]) == (2, 10, 4, 4)


def test_options_change_the_model(run):
    _, output, _ = run(
        "show", MAZE, "--json", "--hidden-rewards", "--horizon", "1e1", "--discount", "0.5"
    )
    facts = last_json(output)
    assert (facts["H"], facts["discount"], facts["observe_rewards"]) == (10, 0.5, False)


def test_a_longer_horizon_drops_the_limit_on_totals(run):
    code, output, _ = run("show", "garnet", "--horizon", "1000", "--json")
    assert code == 0
    assert max(last_json(output)["largest_totals"]) > 1


def test_show_draws_a_picture(run, tmp_path):
    code, output, _ = run("show", MAZE, "--picture", tmp_path / "maze.png")
    assert code == 0
    assert "maze.png" in output
    assert (tmp_path / "maze.png").read_bytes().startswith(b"\x89PNG")
    assert os.listdir(tmp_path) == ["maze.png"]


def test_show_with_many_contexts_is_short(run):
    code, output, _ = run("show", "bandit:contexts=50")
    assert code == 0
    assert "... 30 more contexts" in output


def test_domains_lists_keys_defaults_ranges(run):
    from latentmdp.builtin_domains import DOMAINS

    code, output, _ = run("domains")
    assert code == 0
    for name, domain in DOMAINS.items():
        assert re.search(rf"^{name}: ", output, re.M)
        for key in domain.keys:
            assert key.meaning in output
    code, output, _ = run("domains", "maze")
    assert code == 0
    assert "2 to 1000" in output
    assert "Good for" in output


def test_domains_json(run):
    code, output, _ = run("domains", "--json")
    assert code == 0
    assert "maze" in [domain["name"] for domain in last_json(output)["domains"]]
    _, output, _ = run("domains", "hard", "--json")
    (hard,) = last_json(output)["domains"]
    assert {"key", "default", "allowed", "meaning"} == set(hard["keys"][0])


@pytest.mark.parametrize("ending", ["npz", "json"])
def test_convert_and_back(run, tmp_path, ending):
    first, second = tmp_path / f"m.{ending}", tmp_path / "n.npz"
    assert run("convert", "garnet:states=5", first)[0] == 0
    assert run("convert", first, second, "--json")[0] == 0
    assert lm.load(second) == lm.make("garnet:states=5")


def test_convert_to_csv_says_what_is_lost(run, tmp_path):
    code, output, _ = run("convert", MAZE, tmp_path / "m.csv", "--json")
    assert code == 0
    assert set(last_json(output)["lost"]) == {"layout"}
    code, output, _ = run("show", tmp_path / "m.csv", "--json")
    assert last_json(output)["H"] == 4


def test_convert_says_which_horizon_to_give(run, tmp_path):
    one, several = "garnet:states=2,contexts=2,horizon=3", str(tmp_path / "several.npz")
    lm.save(lm.make(one).replace(nu=[[0.5, 0.5]] * 2), several)
    best = {one: lm.plan(lm.make(one), gap=None), several: lm.plan(lm.load(several), gap=None)}
    for spec, ending, steps in (
        (one, "pomdp", 3), (one, "pomdpx", 3), (several, "pomdp", 4), (several, "pomdpx", 3),
    ):  # fmt: skip
        file = tmp_path / f"m.{ending}"
        code, output, _ = run("convert", spec, file)
        assert code == 0
        assert f"give --horizon {steps} (in Python" in output
        assert ("have 4 steps, one more than the model's 3" in output) == (steps == 4)
        code, output, _ = run("convert", spec, file, "--json")
        assert last_json(output)["horizon_to_give"] == steps
        again = lm.plan(lm.load(file, horizon=steps), gap=None)
        assert again.lower == pytest.approx(best[spec].lower)
    for words in ((several, tmp_path / "m.npz"), (one, tmp_path / "m.csv")):
        assert "horizon to" not in run("convert", *words)[1]
    endless = run("convert", several, tmp_path / "m.pomdp", "--horizon", "inf", "--discount", "0.9")
    assert endless[0] == 0
    assert "--horizon" not in endless[1]


def test_evaluate(run, policy):
    expected = lm.evaluate(lm.make(MAZE), lm.load_policy(policy))
    code, output, _ = run("evaluate", MAZE, policy, "--json")
    assert code == 0
    facts = last_json(output)
    assert set(facts) == {"value", "variance", "contexts"}
    assert facts["value"] == expected.value
    assert facts["variance"] == expected.variance
    assert facts["contexts"] == expected.contexts.tolist()
    code, output, _ = run("evaluate", MAZE, policy)
    assert code == 0
    assert f"{expected.value:.10g}" in output


def test_evaluate_alpha_vectors_on_a_pomdp(run, tmp_path):
    """Listen four times, or for ever: -1 each, with a discount of 0.9."""
    pomdp, vectors = str(tmp_path / "m.pomdp"), str(tmp_path / "p.policyx")
    (tmp_path / "m.pomdp").write_text(SENSOR)
    (tmp_path / "p.policyx").write_text(policyx([(0, 0, [1, 1]), (1, 0, [0, 0])], 2))
    code, output, _ = run("evaluate", pomdp, vectors, "--horizon", "4", "--json")
    assert code == 0
    assert last_json(output)["value"] == pytest.approx(-(1 + 0.9 + 0.81 + 0.729))
    assert last_json(run("evaluate", pomdp, vectors, "--json")[1])["value"] == pytest.approx(-10)


def test_evaluate_distribution(run, policy):
    code, output, _ = run("evaluate", MAZE, policy, "--distribution", "--json")
    assert code == 0
    facts = last_json(output)
    totals, probabilities = (np.array(x) for x in facts["distribution"].values())
    assert probabilities.sum() == pytest.approx(1)
    assert totals @ probabilities == pytest.approx(facts["value"])
    code, output, _ = run("evaluate", MAZE, policy, "--distribution")
    assert "total reward" in output


def test_a_folder_named_like_a_domain_does_not_hide_it(run, tmp_path, monkeypatch):
    (tmp_path / "maze").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run("show", "maze")[0] == 0


def test_version_and_help(run):
    assert run("--version")[:2] == (0, f"latentmdp {lm.__version__}\n")
    code, output, _ = run("--help")
    assert code == 0
    assert run()[:2] == (0, output)
    for command in ("show", "domains", "convert", "evaluate"):
        assert command in output
        code, text, _ = run(command, "--help")
        assert code == 0
        assert "--json" in text


# ---------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["--bogus"], "No such option"),
        (["show"], "Missing argument 'MODEL'"),
        (["show", "maze", "more"], "unexpected extra argument"),
        (["show", "maze", "--bogus"], "No such option"),
        (["show", "maze", "--horizon"], "requires an argument"),
        (["show", "maze", "--horizon", "abc"], "must be a whole number like 20 or 1e9"),
        (["show", "maze", "--horizon", "2.5"], "must be a whole number like 20 or 1e9"),
        (["show", "maze", "--horizon", "1e99999999"], "must be a whole number like 20 or 1e9"),
        (["show", "maze", "--horizon", "nan"], "must be a whole number like 20 or 1e9"),
        (["show", "maze", "--horizon", "0"], "horizon must be a whole number of at least 1"),
        (["show", "maze", "--horizon", "1e12"], "horizon must be at most"),
        (["show", "maze", "--discount", "x"], "--discount"),
        (["show", "maze", "--discount", "2"], "discount must be above 0"),
        (["show", "maze", "--discount", "nan"], "discount must be above 0"),
        (["show", "mazze"], "did you mean 'maze'?"),
        (["show", "maze:size=x"], "size must be a number"),
        (["show", "maze:sizes=3"], "known keys: size"),
        (["show", "maze:size"], "expected key=value"),
        (["show", ""], "is no file and no spec string"),
        (["show", "no/such/file"], "must end in one of"),
        (["show", "none.npz"], "none.npz: there is no such file"),
        (["show", "."], "must end in one of"),
        (["show", "maze", "--picture", "picture.xyz"], "must end in .png"),
        (["show", "maze", "--picture", "no/such/folder/p.png"], "folder"),
        (["domains", "mazze"], "known domains: maze"),
        (["convert", "maze"], "Missing argument 'OUT'"),
        (["convert", "maze", "m.txt"], "must end in one of .npz, .json, .csv"),
        (["convert", "maze", "no/such/folder/m.npz"], "its folder does not exist"),
        (["evaluate", "maze"], "Missing argument 'POLICY'"),
        (["evaluate", "maze", "none.json"], "none.json: there is no such file"),
        (["evaluate", "maze", "maze"], "a policy must end in one of"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert said in only_line(*run(*arguments))
    assert os.listdir(tmp_path) == []


def test_a_policy_that_does_not_fit(run, policy):
    line = only_line(*run("evaluate", "maze:size=4", policy))
    assert "the policy must be for" in line
    assert "a policy was asked for" in only_line(*run("evaluate", MAZE, _model_file(policy)))
    assert "a model was asked for" in only_line(*run("evaluate", policy, policy))


def _model_file(policy):
    file = policy.with_name("model.json")
    lm.save(lm.make(MAZE), file)
    return file


def test_names_in_files_cannot_steer_the_terminal(run, tmp_path):
    model = lm.make("bandit:contexts=1").replace(context_names=("\x1b[31mred\x07",))
    lm.save(model, tmp_path / "m.json")
    code, output, _ = run("show", tmp_path / "m.json")
    assert code == 0
    assert "\x1b" not in output
    assert "\\x1b[31mred\\x07" in output
    assert "\\x1b" in only_line(*run("show", "\x1b[31m.npz"))


def test_other_errors_of_the_system_are_one_line(run, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr("latentmdp.commands.show.print_json", full)
    code, output, errors = run("show", MAZE, "--json")
    assert json.loads(output) == {"error": "somewhere: No space left on device"}
    assert "somewhere: No space left" in only_line(code, "", errors)

    def exhausted(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr("latentmdp.commands.show.print_json", exhausted)
    code, output, errors = run("show", MAZE, "--json")
    assert json.loads(output) == {"error": "not enough memory"}
    assert only_line(code, "", errors) == "latentmdp: not enough memory\n"


def test_an_interrupt_is_one_line(run, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("latentmdp.commands.show.read_model", interrupted)
    code, output, errors = run("show", MAZE)
    assert (code, output, errors) == (130, "", "latentmdp: interrupted\n")
    code, output, errors = run("show", MAZE, "--json")
    assert (code, json.loads(output)) == (130, {"error": "interrupted"})
