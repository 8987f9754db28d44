"""`latentmdp fit`: from the shipped log to a model, a policy and a page, as a new user would."""

import json

import pytest
from places import EXAMPLES
from report_pages import HOSTILE, Page

import latentmdp as lm
from latentmdp.commands.cli import run
from latentmdp.fitting.deciding.decision import decide

LOG = EXAMPLES / "maintenance_log.csv"
COLUMNS = ["--episode", "job", "--step", "week", "--state", "condition", "--reward", "profit",
           "--context", "fault", "--terminated", "stopped"]  # fmt: skip


def test_the_shipped_log_is_what_its_script_makes(tmp_path):
    import runpy
    import sys

    script, path = LOG.with_suffix(".py"), tmp_path / "log.csv"
    before, sys.argv = sys.argv, [str(script), str(path)]
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv = before
    assert path.read_bytes() == LOG.read_bytes()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The whole command, once: the folder, and what it printed as JSON."""
    import contextlib
    import io

    folder = tmp_path_factory.mktemp("fit")
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        code = run(
            ["fit", str(LOG), *COLUMNS, "--prior", "0.5", "--out", str(folder / "m.npz"),
             "--policy", str(folder / "p.json"), "--report", str(folder / "page.html"),
             "--time-limit", "8", "--json"]
        )  # fmt: skip
    assert code == 0
    return folder, json.loads(text.getvalue().splitlines()[-1])


def test_careful_objectives_say_what_they_promise(tmp_path, capsys):
    """The bound is that of `fit.plan`; a smaller `delta` and a wider range promise less."""
    fit = lm.fit(LOG, episode="job", step="week", state="condition", reward="profit",
                 context="fault", terminated="stopped")  # fmt: skip
    command = ["fit", str(LOG), *COLUMNS, "--objective", "pessimistic", "--plan"]
    promised = []
    for options in ([], ["--delta", "0.01"], ["--reward-range", "-40", "20"]):
        assert run([*command, *options, "--json"]) == 0
        promised.append(json.loads(capsys.readouterr().out.splitlines()[-1])["decision"])
    scores = [found["markov_score"] for found in promised]
    assert scores[0] > max(scores[1:])
    assert run([*command, "--rewards", "fixed"]) == 2
    assert "with rewards='fixed' one" in capsys.readouterr().err
    assert scores[0] == fit.plan("pessimistic", "markov").lower
    assert [found["delta"] for found in promised] == [0.1, 0.01, 0.1]
    assert [found["status"] for found in promised] == ["not certified"] * 2 + ["certified"]
    for options, score, said in (
        ([], scores[0], ". Not certified: rewards were taken to lie between"),
        (["--reward-range", "-40", "20"], scores[2], ": certain but for a chance of 0.1, if"),
    ):
        assert run([*command, *options, "--report", str(tmp_path / "page.html")]) == 0
        said = f"without at least {score:.4g}{said}"
        assert said in capsys.readouterr().out.replace("\n", " ")
        assert said in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert decide(fit, "mean", time_limit=4.0).promise == ""
    assert decide(fit, "quantile:0.2", time_limit=4.0).promise.startswith("In all but 0.2 of")


def test_one_command_gives_a_model_a_policy_and_a_page(made):
    folder, facts = made
    assert (facts["rows"], facts["episodes"], facts["M"], facts["H"]) == (2377, 300, 3, 12)
    model = lm.load(folder / "m.npz")
    policy = lm.load_policy(folder / "p.json", model)
    value = lm.evaluate(model, policy).value
    decision = facts["decision"]
    assert value - decision["optimism"] == pytest.approx(decision["memory"]["value"])
    order = [facts["decision"][name]["value"] for name in ("logged", "markov", "memory", "knowing")]
    assert order == sorted(order)
    assert facts["decision"]["gain"]["lower"] > 0
    assert model.state_names == ("noisy", "rough", "smooth", "(end)")


def test_the_page_says_what_to_do_without_javascript(made):
    folder, _ = made
    page = Page((folder / "page.html").read_text(encoding="utf-8"))
    text = " ".join(page.texts)
    for words in ("What to do", "safe policy with memory", "grease", "tells most", "tighten in",
                  "Can the data tell contexts apart?", "what knowing the context"):  # fmt: skip
        assert words in text, words
    assert not page.open
    assert [source["name"] for source in page.data["sources"]] == ["with memory", "without memory"]
    assert "://" not in (folder / "page.html").read_text(encoding="utf-8")


def test_the_summary_for_people(capsys):
    assert run(["fit", str(LOG), *COLUMNS]) == 0
    text = capsys.readouterr().out
    for words in ("2,377 rows, 300 episodes", "bearing", "told apart", "never seen"):
        assert words in text


def test_names_from_a_log_cannot_break_the_page(tmp_path):
    import pandas as pd

    from latentmdp.fitting.deciding.decision import decide
    from latentmdp.report.fit_page import write_fit_page

    rows = [
        (e, HOSTILE[e % 2], HOSTILE[2 + (e + t) % 4], HOSTILE[6 + t % 2], 1.0)
        for e in range(6) for t in range(2)
    ]  # fmt: skip
    log = pd.DataFrame(rows, columns=["episode", "context", "state", "action", "reward"])
    found = lm.fit(log)
    decision = decide(found, draws=20, time_limit=4.0)
    write_fit_page(tmp_path / "page.html", found, found.summary(), decision, command=HOSTILE[0])
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert len(page.scripts) == 2
    assert not any(tag == "img" for tag, _ in page.tags)
    assert page.data["models"][0]["contextNames"] == list(found.names["contexts"])


@pytest.mark.parametrize(("arguments", "words"), [
    (["none.csv"], "no such file"),
    ([str(LOG)], "must have a column 'episode' for the episode, 'state' for the state, 'reward' "
     "for the reward, 'context' for the context; its columns are job, week"),
    ([str(LOG), *COLUMNS, "--out", "m.txt"], "--out must end in one of .npz, .json"),
    ([str(LOG), *COLUMNS, "--report", "page.pdf"], "--report must end in one of .html"),
    ([str(LOG), *COLUMNS, "--plan", "--objective", "best"], "objective must be safe"),
    ([str(LOG), *COLUMNS, "--plan", "--delta", "0.2"], "--delta and --reward-range need"),
    ([str(LOG), *COLUMNS, "--objective", "pessimistic", "--delta", "1"], "--delta must lie"),
    ([str(LOG), *COLUMNS, "--plan", "--objective", "pessimistic", "--reward-range", "0", "1"],
     "reward_range must be two numbers"),
    ([str(LOG), *COLUMNS, "--unseen", "no"], "unseen must be one of"),
    ([str(LOG), *COLUMNS, "--context", "week"], "each column must have one meaning"),
    ([str(LOG), *COLUMNS, "--state", "fault"], "each column must have one meaning"),
    ([str(LOG), *COLUMNS, "--reward", "action"], "'action' was named twice"),
])  # fmt: skip
def test_mistakes_get_one_line(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["fit", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_tutorials_commands_and_code_run(tmp_path, monkeypatch):
    import re
    import shlex
    import shutil

    page = (LOG.parents[1] / "docs" / "tutorial_logs.md").read_text(encoding="utf-8")
    shutil.copy(LOG, tmp_path)
    monkeypatch.chdir(tmp_path)
    lines = [line for code in re.findall(r"```console\n(.*?)```", page, re.S)
             for line in code.splitlines()]  # fmt: skip
    assert len(lines) == 2
    for line in lines:
        assert run(shlex.split(line)[1:]) == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"machine.npz", "policy.json", "page.html"}
    namespace = {}
    for code in re.findall(r"```py\n(.*?)```", page, re.S):
        exec(compile(code, "tutorial_logs.md", "exec"), namespace)
    assert len(namespace["models"]) == 100


def test_knowing_the_context_never_costs():
    """Contexts that are alike: the difference is 0, not a rounding error below it."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    rows = [(e, t, str(rng.integers(2)), str(rng.integers(2)), -0.1 * rng.integers(3), str(e % 3))
            for e in range(60) for t in range(5)]  # fmt: skip
    names = ["episode", "step", "state", "action", "reward", "context"]
    found = decide(lm.fit(pd.DataFrame(rows, columns=names), prior=0.5), draws=30, time_limit=4.0)
    assert min(found.worth_of_knowing) >= 0.0
