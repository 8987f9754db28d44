"""Every domain against its own facts: sizes, totals, laws, closed forms, messages."""

import itertools
import math
import zlib

import brute
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import latentmdp as lm
from latentmdp.builtin_domains import DOMAINS, complete_spec
from latentmdp.builtin_domains.lower_bound import hard_instance

# ---------------------------------------------------------------- all domains

SMALL = {
    "maze": {
        "size": st.integers(2, 6),
        "goals": st.integers(1, 3),
        "horizon": st.integers(1, 12),
        "slip": st.sampled_from([0.0, 0.1, 0.5, 1.0]),
        "walls": st.sampled_from([0, 0.25]),
    },
    "hard": {
        "contexts": st.integers(1, 6),
        "states": st.integers(6, 30),
        "actions": st.integers(2, 4),
        "eps": st.sampled_from([0.01, 0.1, 0.25]),
        "reward": st.sampled_from([0.3, 1.0]),
    },
    "garnet": {
        "states": st.integers(4, 9),
        "actions": st.integers(1, 3),
        "contexts": st.integers(1, 4),
        "branching": st.integers(1, 4),
        "horizon": st.integers(1, 60),
        "shared_support": st.booleans(),
        "shared_rewards": st.booleans(),
    },
    "riverswim": {
        "states": st.integers(2, 9),
        "contexts": st.integers(1, 5),
        "horizon": st.integers(1, 60),
    },
    "troubleshoot": {
        "faults": st.integers(1, 6),
        "tests": st.integers(1, 5),
        "horizon": st.integers(1, 60),
    },
    "mastermind": {
        "colours": st.integers(1, 3),
        "balls": st.integers(1, 3),
        "guesses": st.integers(1, 5),
        "white": st.booleans(),
    },
    "bandit": {
        "arms": st.integers(1, 5),
        "contexts": st.integers(1, 5),
        "horizon": st.integers(2, 60),
    },
    "deterministic": {
        "states": st.integers(1, 12),
        "actions": st.integers(1, 4),
        "horizon": st.integers(1, 60),
    },
}
SIZES = {  # M, S, A, H from the keys
    "maze": lambda k: (
        k["goals"], round(k["size"] ** 2 * (1 - k["walls"])) + 1, 4, k["horizon"]),
    "hard": lambda k: (k["contexts"], k["states"], k["actions"], k["horizon"]),
    "garnet": lambda k: (k["contexts"], k["states"], k["actions"], k["horizon"]),
    "riverswim": lambda k: (k["contexts"], k["states"], 2, k["horizon"]),
    "troubleshoot": lambda k: (
        k["faults"], 2 * k["tests"] + 3, k["tests"] + k["faults"], k["horizon"]),
    "mastermind": lambda k: (
        k["colours"] ** k["balls"], 2 + k["guesses"] * len(wrong_answers(**k)),
        k["colours"] ** k["balls"], k["guesses"]),
    "bandit": lambda k: (k["contexts"], 3, k["arms"], k["horizon"]),
    "deterministic": lambda k: (1, k["states"], k["actions"], k["horizon"]),
}  # fmt: skip


def wrong_answers(colours, balls, white, **_):
    """All answers to wrong guesses, by plain loops: black pegs, and white ones or 0."""
    answers = set()
    for code, guess in itertools.permutations(itertools.product(range(colours), repeat=balls), 2):
        black = sum(map(int.__eq__, code, guess))
        common = sum(min(code.count(c), guess.count(c)) for c in range(colours))
        answers.add((black, (common - black) * int(white)))
    return answers


def spec_of(name, keys):
    return f"{name}:" + ",".join(f"{k}={int(v) if v is True else v}" for k, v in keys.items())


@pytest.mark.parametrize("name", DOMAINS)
@settings(max_examples=30)
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_every_member_is_valid_named_repeatable_and_pays_at_most_one(name, data, seed):
    keys = {k: data.draw(values, label=k) for k, values in SMALL[name].items()}
    if name == "maze":
        keys["goals"] = min(keys["goals"], round(keys["size"] ** 2 * (1 - keys["walls"])) - 1)
    keys = {k: int(v) if isinstance(v, bool) else v for k, v in keys.items()}
    if any(key.name == "seed" for key in DOMAINS[name].keys):
        keys["seed"] = seed
    spec = spec_of(name, keys)
    model = lm.make(spec)
    complete = DOMAINS[name].complete(keys)
    assert SIZES[name](complete) == (model.M, model.S, model.A, model.H)
    names = model.context_names, model.state_names, model.action_names
    assert [len(x) for x in names] == [model.M, model.S, model.A]
    assert all(len(set(x)) == len(x) for x in names[1:])
    unlimited = model.replace(max_return=None)
    assert unlimited.min_return >= 0
    assert unlimited.max_return <= 1 + 1e-12
    assert lm.make(spec) == model
    assert lm.make(complete_spec(spec)) == model
    assert DOMAINS[name](**keys) == model
    hidden = lm.make(spec, observe_rewards=False)
    assert not hidden.observe_rewards
    assert model.observe_rewards


@pytest.mark.parametrize("name", DOMAINS)
def test_defaults_alone_make_a_model_and_the_docstring_says_what_for(name):
    model = lm.make(name)
    assert lm.make(f"{name}:") == model
    domain = DOMAINS[name]
    assert "Good for:" in domain.description
    assert "totals are at" in domain.description or "variance 0" in domain.description
    assert domain.summary
    assert all(key.meaning and key.default_as_text() != "-" for key in domain.keys)


# The default member of each domain, as it was first published: CRC of structure and numbers.
GOLDEN = {
    "maze": 2668130903,
    "hard": 1413327621,
    "garnet": 775421595,
    "riverswim": 59320302,
    "troubleshoot": 3425754638,
    "mastermind": 2941579922,
    "bandit": 1397289347,
    "deterministic": 345211052,
}


@pytest.mark.parametrize("name", GOLDEN)
def test_bits_do_not_change_between_versions(name):
    assert fingerprint(lm.make(name)) == GOLDEN[name]


def fingerprint(model):
    parts = (model.indptr, model.next, model.symbol)
    numbers = (model.prob, model.reward, model.w, model.nu)
    text = b"".join(np.ascontiguousarray(x).astype("<i8").tobytes() for x in parts)
    text += b"".join(np.round(x * 1e9).astype("<i8").tobytes() for x in numbers)
    return zlib.crc32(text)


@pytest.mark.parametrize("name", [n for n in DOMAINS if n not in ("hard", "mastermind")])
def test_another_seed_is_another_model(name):
    assert lm.make(f"{name}:seed=1") != lm.make(f"{name}:seed=2")


def test_another_seed_has_other_secrets():
    drawn = [hard_instance(20, 40, 3, seed=seed).secrets for seed in (1, 2)]
    assert drawn[0] != drawn[1]
    assert len(set(drawn[0])) > 5


# ---------------------------------------------------------------- spec strings


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mase", "unknown domain 'mase' (did you mean 'maze'?); known domains: maze, hard, garnet"),
        ("", "unknown domain ''"),
        ("maze:sise=3", "maze: unknown key 'sise' (did you mean 'size'?); known keys: size, goals"),
        ("maze:size", "maze: expected key=value between commas; found 'size'"),
        ("maze:size=", "maze: expected key=value between commas; found 'size='"),
        ("maze:,", "maze: expected key=value between commas; found ''"),
        ("maze:size=3,size=4", "maze: key 'size' is given twice"),
        ("maze:size=1", "maze: size must be between 2 and 1000; it is 1"),
        ("maze:size=2.5", "maze: size must be a whole number; it is 2.5"),
        ("maze:size=big", "maze: size must be a number; it is 'big'"),
        ("maze:size=nan", "maze: size must be a number; it is 'nan'"),
        ("maze:size=1e999", "maze: size must be a finite number; it is '1e999'"),
        ("maze:size=1_0", "maze: size must be a number; it is '1_0'"),
        ("maze:slip=-0.1", "maze: slip must be between 0 and 1; it is -0.1"),
        ("maze:goals=25", "maze: goals must be at most 24 (free cells without the start)"),
        ("maze:walls=24", "maze: walls must leave 2 of 25 cells free; 24 are walls"),
        ("maze:walls=2.5", "maze: walls must be a whole number or below 1; it is 2.5"),
        ("garnet:branching=21", "garnet: branching must be at most states = 20; it is 21"),
        ("garnet:shared_support=2", "garnet: shared_support must be 0 or 1; it is '2'"),
        ("garnet:states=1e6,actions=1e4", "must be at most 50,000,000; these keys give"),
        ("mastermind:colours=10,balls=5", "must be at most 50,000,000; these keys give"),
        ("mastermind:guesses=0", "mastermind: guesses must be between 1 and 1000; it is 0"),
        ("bandit:horizon=1", "bandit: horizon must be between 2 and 1e6; it is 1"),
        (
            "hard:contexts=7,states=6",
            "hard: contexts must be at most floor(states/2)! = 6; it is 7",
        ),
        ("hard:states=5", "hard: states must be between 6 and"),
        ("hard:actions=1", "hard: actions must be between 2 and"),
        ("hard:horizon=5", "hard: horizon must be at least d1 + d2 + 1 = 6"),
        ("hard:eps=0.26", "hard: eps must be between 0 and 0.25; it is 0.26"),
        ("hard:eps=0", "hard: eps must be above 0 and at most 0.25; it is 0"),
        ("hard:reward=0", "hard: reward must be above 0 and at most 1; it is 0"),
        ("hard:variance=0.26", "hard: variance must be between 0 and 0.25; it is 0.26"),
        ("hard:variance=0", "hard: variance must be above 0 and at most 0.25; it is 0"),
        ("hard:eps=0.1,episodes=1e6", "hard: give either eps and reward, or variance and episodes"),
        ("hard:reward=1,variance=0.1", "hard: give either eps and reward, or variance and"),
        ("hard:episodes=51", "hard: episodes must be at least 52 so that eps <= 0.25; it is 51"),
    ],
)
def test_bad_specs_are_refused_in_one_clear_sentence(spec, message):
    with pytest.raises(lm.ModelError) as error:
        lm.make(spec)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_spec_must_be_a_string_and_values_from_python_are_checked_too():
    with pytest.raises(lm.ModelError, match="a spec must be a string"):
        lm.make(3)
    with pytest.raises(lm.ModelError, match="maze: size must be a number; it is True"):
        DOMAINS["maze"](size=True)
    with pytest.raises(lm.ModelError, match="maze: size must be a finite number; it is nan"):
        DOMAINS["maze"](size=math.nan)


def test_whole_numbers_may_be_written_as_floats_and_spaces_do_not_matter():
    assert lm.make(" maze : size = 4e0 , horizon=1e1 ") == lm.make("maze:size=4,horizon=10")
    assert lm.make("hard:variance=0.1,episodes=1e9") == lm.make(
        "hard:variance=.1,episodes=1000000000"
    )
    assert DOMAINS["maze"](size=np.int64(4)) == lm.make("maze:size=4")


# ---------------------------------------------------------------- mastermind


@pytest.mark.parametrize("white", [0, 1])
def test_mastermind_answers_and_pays_as_the_game_does(white):
    model = lm.make(f"mastermind:colours=3,balls=2,guesses=3,white={white}")
    state, code = model.state_names, model.context_names
    assert code == model.action_names
    assert code[1] == "red blue"
    assert model.w == pytest.approx(1 / 9)
    (first,) = np.flatnonzero(model.nu[0])
    assert state[first] == "start"
    for m, a in itertools.product(range(9), range(9)):
        s = first
        for guess in range(1, 4):
            (nxt,) = np.flatnonzero(model.P[m, s, a])
            assert model.R[m, s, a] == (m == a and guess == 1)
            right, said = code[m].split(), code[a].split()
            black = sum(x == y for x, y in zip(right, said, strict=True))
            common = sum(min(right.count(c), said.count(c)) for c in set(said))
            pegs = f"{black} black" + f", {common - black} white" * white
            assert state[nxt] == ("solved" if m == a else f"guess {guess}: {pegs}")
            s = nxt


def test_observed_rewards_tell_nothing_new_in_mastermind():
    values = [
        lm.plan(lm.make("mastermind", observe_rewards=observe), gap=None).lower
        for observe in (False, True)
    ]
    assert values == pytest.approx([7 / 9, 7 / 9])


# ---------------------------------------------------------------- maze


def maze_twin(model, size, slip):
    """P and R of a maze by plain loops, from its layout alone."""
    layout = model.layout
    cell = {p: s for s, p in enumerate(layout.positions) if p != (-1, -1)}
    done = model.S - 1
    P = np.zeros((model.M, model.S, 4, model.S))
    R = np.zeros((model.M, model.S, 4))
    moves = [(-1, 0), (0, 1), (1, 0), (0, -1)]
    for m in range(model.M):
        (goal,) = layout.marks[m]
        P[m, done, :, done] = 1
        for (r, c), s in cell.items():
            for a in range(4):
                if s == goal:
                    P[m, s, a, done], R[m, s, a] = 1, 1
                    continue
                for d, (dr, dc) in enumerate(moves):
                    target = cell.get((r + dr, c + dc), s)
                    P[m, s, a, target] += 1 - slip if d == a else slip / 3
    return P, R


@pytest.mark.parametrize("keys", ["size=5", "size=4,slip=0.4,walls=4", "size=6,walls=0.3,slip=0"])
def test_maze_moves_slip_stay_at_walls_and_pay_once_at_the_goal(keys):
    model = lm.make(f"maze:{keys},seed=3")
    slip = DOMAINS["maze"].complete(dict(k.split("=") for k in keys.split(",")))["slip"]
    P, R = maze_twin(model, model.layout.shape[0], slip)
    np.testing.assert_allclose(model.P, P, atol=1e-15)
    np.testing.assert_array_equal(model.R, R)
    assert model.action_names == ("up", "right", "down", "left")
    assert model.state_names[-1] == "done"


@given(size=st.integers(2, 9), fraction=st.floats(0, 0.95), seed=st.integers(0, 99))
def test_walls_never_cut_the_maze_in_two(size, fraction, seed):
    count = min(round(fraction * size * size), size * size - 2)
    model = lm.make(f"maze:size={size},goals=1,walls={count},slip=0,seed={seed}")
    layout = model.layout
    assert len(layout.walls) == count == len(set(layout.walls))
    assert not set(layout.walls) & set(layout.positions)
    free = set(layout.positions[:-1])
    assert len(free) == size * size - count
    (start,) = np.flatnonzero(model.nu[0])
    assert layout.positions[start] == (size // 2, size // 2)
    seen, front = set(), [layout.positions[start]]
    while front:
        r, c = front.pop()
        if (r, c) in free and (r, c) not in seen:
            seen.add((r, c))
            front += [(r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)]
    assert seen == free


def test_maze_goals_are_distinct_and_never_the_start():
    model = lm.make("maze:size=5,goals=24")
    goals = [goal for (goal,) in model.layout.marks]
    assert len(set(goals)) == 24
    assert int(np.argmax(model.nu[0])) not in goals


def test_maze_moves_as_in_the_benchmark_models():
    benchmark = lm.datasets.load("maze_n5_M4")
    theirs, pays = benchmark.P, benchmark.R
    ours = lm.make("maze:size=5,goals=4,slip=0.1")
    goals = {goal for (goal,) in ours.layout.marks} | set(np.argwhere(pays.max(axis=(0, 2)))[:, 0])
    plain = [s for s in range(26) if s not in goals]
    np.testing.assert_allclose(ours.P[:, plain], theirs[:, plain], atol=1e-15)
    their_goal = int(np.argmax(pays[0].max(axis=1)))
    (our_goal,) = ours.layout.marks[0]
    np.testing.assert_array_equal(ours.P[0, our_goal], theirs[0, their_goal])
    np.testing.assert_array_equal(ours.R[0, our_goal], pays[0, their_goal])


# ---------------------------------------------------------------- the others


def test_garnet_shares_what_it_says():
    base = "garnet:states=12,actions=3,contexts=4,branching=3,seed=7"
    for support in (0, 1):
        for rewards in (0, 1):
            model = lm.make(f"{base},shared_support={support},shared_rewards={rewards}")
            assert (np.diff(model.indptr) == 3).all()
            same_support = ((model.P > 0) == (model.P[0] > 0)).all()
            assert same_support == bool(support)
            assert (model.R[0] == model.R).all() == bool(rewards)
            assert not np.allclose(model.P[0], model.P[1])


def test_garnet_subsets_are_uniform():
    # 3 of 5 states: 10 subsets, 20,000 rows; chi-square with 9 degrees of freedom exceeds 45.1
    # with probability 1e-6 (the seed is fixed)
    model = lm.make("garnet:states=5,actions=4000,contexts=1,branching=3")
    rows = model.next.reshape(-1, 3)
    _, counts = np.unique(np.sort(rows, axis=1) @ [25, 5, 1], return_counts=True)
    assert len(counts) == 10
    expected = len(rows) / 10
    assert ((counts - expected) ** 2 / expected).sum() < 45.1


def test_riverswim_rests_in_a_strong_current_and_swims_in_a_weak_one():
    model = lm.make("riverswim")
    assert model.Gamma == 3
    _, best = lm.context_optimal(model)
    first = best[0, :, 0]
    assert first[0] == 0
    assert first[-1] == 1
    assert (model.R[0] == model.R).all()
    assert model.layout.shape == (1, 6)
    advance = model.P[:, 2, 1, 3]
    assert (np.diff(advance) > 0).all()
    assert (advance > 0.1).all()
    assert (advance < 0.9).all()


def test_troubleshoot_tests_inform_and_only_the_right_part_repairs():
    model = lm.make("troubleshoot:faults=4,tests=3,seed=2")
    P, R = model.P, model.R
    still, running = model.S - 2, model.S - 1
    assert (R[0] == R).all()  # rewards reveal nothing
    for m in range(4):
        for f in range(4):
            assert (P[m, :running, 3 + f, running if f == m else still] == 1).all()
        assert (P[m, running, :, running] == 1).all()
        for k in range(3):
            low, high = P[m, 0, k, 1 + 2 * k], P[m, 0, k, 2 + 2 * k]
            assert low + high == pytest.approx(1)
            assert 0.04 < high < 0.96
    assert len({tuple(row) for row in (P[:, 0, :3, 2:8:2].diagonal(axis1=1, axis2=2) > 0.5)}) == 4
    assert (R[0, running] == 1 / model.H).all()
    assert (R[0, 0] < 1 / model.H).all()
    assert R[0, 0, :3].min() > R[0, 0, 3:].max()  # a part costs more than a test


def test_troubleshoot_is_worth_testing():
    # tests help: without them the best is to try parts in some order
    model = lm.make("troubleshoot:faults=4,tests=2,horizon=5")
    best = brute.best_history_value(model)
    blind = max(
        lm.evaluate(
            model, lm.PolicyGraph.from_table([[2 + f] * model.S for f in (*order, 0)])
        ).value
        for order in itertools.permutations(range(4))
    )
    known = (model.w * lm.context_optimal(model)[0][0][:, 0]).sum()
    assert blind + 0.005 < best < known - 0.005


def test_bandit_pays_wins_a_step_later():
    model = lm.make("bandit:arms=3,contexts=2,horizon=5")
    assert (model.R[:, 2] == 0.25).all()
    assert (model.R[:, :2] == 0).all()
    assert (model.P[:, 0] == model.P[:, 1]).all()
    assert (model.P[:, 0] == model.P[:, 2]).all()
    arm = lm.evaluate(model, lm.PolicyGraph.from_table(np.full((5, 3), 1)))
    assert arm.value == pytest.approx(model.P[:, 0, 1, 2].mean())


def test_deterministic_has_no_variance_and_reaches_every_state():
    model = lm.make("deterministic:states=12,actions=3,horizon=12")
    assert model.M == 1
    assert model.Gamma == 1
    table = np.random.default_rng(0).integers(3, size=(12, 12))
    assert lm.evaluate(model, lm.PolicyGraph.from_table(table)).variance == pytest.approx(0)
    state, seen = 0, set()
    for _ in range(12):
        seen.add(state)
        state = int(np.argmax(model.P[0, state, 0]))
    assert len(seen) == 12


def test_large_members_build():
    model = lm.make("maze:size=30,goals=20,walls=0.2")
    assert (model.M, model.S) == (20, 721)
    assert lm.make("garnet:states=500,actions=5,contexts=10,branching=6").S == 500
