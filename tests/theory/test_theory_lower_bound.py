"""Theorem 3 played out, and the commands `lower-bound` and `audit`."""

import json
import math

import numpy as np
import pytest

import latentmdp as lm
from latentmdp import ModelError
from latentmdp.commands.cli import run as cli
from latentmdp.theory import bounds
from latentmdp.theory.lower_bound import (
    Rules,
    all_secrets,
    figure,
    neighbours,
    play_lower_bound,
    play_many,
)


@pytest.fixture(scope="module")
def game():
    return play_lower_bound(1, 6, 2, 20_000, "mvp", secrets=4)


def test_all_secrets_are_enumerated_once():
    found = all_secrets(2, 2, 3)
    assert len(found) == len(set(found)) == 6**2
    assert all(0 <= leaf < 2 and 0 <= action < 3 for secret in found for leaf, action in secret)


def test_average_over_all_secrets_is_above_the_bound(game):
    assert game.all_secrets
    assert game.n_secrets == 4
    assert game.bound.applies
    assert game.bound.value == pytest.approx(math.sqrt(4 * 20_000) / (32 * math.sqrt(2)))
    assert game.bound.value < game.mean < game.upper
    text = str(game)
    assert "4 all secrets, 1 run each" in text
    assert "BELOW" not in text


def test_random_pays_what_a_blind_player_pays(game):
    """On average over all secrets exactly so in expectation; its few policies make it noisy."""
    eps = bounds.lower_bound(1, 6, 2, 20_000).eps
    assert game.blind == pytest.approx(eps * 20_000 * 0.75)
    assert (game.random <= eps * 20_000 + 1e-9).all()
    assert abs(game.random.mean() - game.blind) < 0.5 * game.blind


def test_below_the_bound_is_said(game):
    lucky = type(game)(**{**game.__dict__, "regrets": np.array([1.0, 2.0]), "n_secrets": 2,
                          "all_secrets": False})  # fmt: skip
    assert f"BELOW the bound by {game.bound.value - 1.5:.6g}" in str(lucky)
    assert "2 randomly chosen secrets" in str(lucky)
    failed = bounds.lower_bound(1, 6, 2, 30)
    beyond = type(game)(**{**lucky.__dict__, "bound": failed, "regrets": np.array([0.0, 0.0])})
    assert "conditions do not hold" in str(beyond)


def test_markov_class_is_refused():
    with pytest.raises(ModelError, match="history class"):
        play_lower_bound(policy_class="markov")


def test_figure_is_written(game, tmp_path):
    figure({"K": [game, game], "M": [game]}, tmp_path / "bound.png")
    assert (tmp_path / "bound.png").stat().st_size > 5000


def test_many_games_are_played_once_each_and_as_alone(game):
    rules = Rules(1, 6, 2, 20_000, secrets=4)
    said = []
    played = play_many([rules, rules], say=said.append)
    assert said[-1] == "8 of 8 runs played"  # 4 secrets, two players; the second game is the first
    assert played[0] is played[1]
    np.testing.assert_array_equal(played[0].regrets, game.regrets)
    np.testing.assert_array_equal(played[0].random, game.random)
    in_processes = play_many([Rules(1, 6, 2, 20_000, "random", secrets=1)], jobs=2)[0]
    assert in_processes.regrets == in_processes.random


def test_neighbours_vary_one_size_and_skip_what_is_impossible():
    varied = neighbours(Rules(3, 7, 2, 10**5, secrets=9))
    assert list(varied) == ["K", "M", "S", "A"]
    assert [r.episodes for r in varied["K"]] == [10**4, 10**5, 10**6]
    assert [r.contexts for r in varied["M"]] == [1, 2, 3, 4]
    assert [r.states for r in varied["S"]] == [7, 8, 11, 19]
    assert all(r.secrets == 3 for many in varied.values() for r in many)
    few = neighbours(Rules(24, 8, 2, 10**6))  # 24 <= floor(S/2)! needs 8 states
    assert [r.states for r in few["S"]] == [8, 11, 19]
    assert [r.contexts for r in neighbours(Rules(7, 8, 2, 10**6))["M"]] == [1, 2, 4, 7]


def test_command_draws_the_figure(capsys, tmp_path):
    place = tmp_path / "bound.svg"
    arguments = ["lower-bound", "-m", "1", "-s", "6", "-k", "1e3", "-a", "random", "--secrets", "1"]
    assert cli([*arguments, "--jobs", "1", "--figure", str(place), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert place.read_text(encoding="utf-8").count("<svg") == 1
    assert set(facts["varied"]) == {"K", "M", "S", "A"}
    for name, field in (("K", "episodes"), ("M", "contexts"), ("S", "states"), ("A", "actions")):
        sizes = [game[field] for game in facts["varied"][name]]
        assert len(sizes) >= 3
        assert sizes == sorted(set(sizes))
    assert cli([*arguments, "--figure", str(tmp_path / "bound.txt")]) == 2
    assert "must end in" in capsys.readouterr().err
    assert cli([*arguments, "--figure", str(tmp_path / "no" / "bound.svg")]) == 2
    assert "folder does not exist" in capsys.readouterr().err


def test_command_lower_bound(capsys):
    arguments = ["lower-bound", "--contexts", "1", "--states", "6", "--episodes", "2e4"]
    assert cli([*arguments, "--algorithm", "random", "--secrets", "2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["lower_bound"] < facts["regret"]
    assert facts["applies"] is True
    assert facts["averaged"].startswith("2 randomly chosen")
    assert cli([*arguments, "--class", "markov"]) == 2
    captured = capsys.readouterr()
    assert "history class" in captured.err
    assert captured.err.count("\n") == 1
    for option, value in (("--variance", "2"), ("--jobs", "0"), ("--secrets", "2.5")):
        assert cli([*arguments, option, value]) == 2
        assert option in capsys.readouterr().err


def test_command_audit(capsys, tmp_path):
    lm.learn(lm.make("hard:states=6"), "mvp", 2000).save(tmp_path / "run")
    assert cli(["audit", str(tmp_path / "run"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["held"] is True
    assert {"omega_1", "X3", "bound"} <= {row["name"] for row in facts["rows"]}
    assert cli(["audit", str(tmp_path / "run")]) == 0
    assert "decomposition" in capsys.readouterr().out
    assert cli(["audit", str(tmp_path / "nothing")]) == 2
