"""The audit: its sums against plain replays of every step, and faults that it must name."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from strategies import random_model

import latentmdp as lm
from latentmdp import PolicyGraph, evaluate
from latentmdp.learning.learner import Learner
from latentmdp.learning.session import Phase, RunSpec
from latentmdp.model.counts import Counts
from latentmdp.theory.auditing.audit import Auditor, audit
from latentmdp.theory.auditing.optimistic_values import optimistic_alpha

ROWS = (
    "omega_1", "omega_2", "optimism", "updates", "bellman", "sum_1/N", "X1", "X2", "X3", "X4", "X5",
    "X6", "decomposition", "regret", "bound",
)  # fmt: skip


def walk(policy, model, m, rng):
    """One episode of context m: `(nodes, rows, outcomes)`."""
    node = int(policy.root[rng.choice(model.S, p=model.nu[m])])
    nodes, rows, outcomes = [], [], []
    for t in range(model.H):
        row = (m * model.S + int(policy.state[node])) * model.A + int(policy.action[node])
        lo, hi = model.indptr[row], model.indptr[row + 1]
        i = int(rng.choice(np.arange(lo, hi), p=model.prob[lo:hi] / model.prob[lo:hi].sum()))
        nodes.append(node)
        rows.append(row)
        outcomes.append(i)
        if t < model.H - 1:
            node = int(policy.successors(node, model.symbol[i], model.next[i]))
    return np.array(nodes), np.array(rows), np.array(outcomes)


class Record:
    """A learner played step by step in `world`, everything kept; phases as a session keeps them."""

    def __init__(self, model, algorithm, episodes, seed=0, world=None, solver=None):
        self.model, world = model, world or model
        rng = np.random.default_rng(seed)
        counts = Counts.for_model(model)
        learner = Learner(model, algorithm, episodes=episodes, counts=counts, seed=seed)
        if solver is not None:
            learner.solver = solver
            learner._solve(np.arange(counts.rows))
        self.episodes, self.phases = [], []
        first, visits = 1, {}
        for k in range(1, episodes + 1):
            policy, before = learner.policy, learner.counts.copy()
            told = learner.optimistic_value, learner.upper
            m = int(rng.choice(model.M, p=model.w))
            path = walk(policy, world, m, rng)
            self.episodes.append((policy, before, m, path))
            for node in path[0]:
                visits[int(node), m] = visits.get((int(node), m), 0) + 1
            learner.begin(int(policy.state[path[0][0]]))
            for i in path[2]:
                learner.step(float(world.reward[i]), int(world.next[i]))
            triggered = learner.end(m)
            if triggered or k == episodes:
                seen = before if triggered else learner.counts.copy()
                cells = np.array(list(visits)).T
                self.phases.append(
                    Phase(
                        first,
                        k - first + 1,
                        evaluate(model, policy).value,
                        *told,
                        triggered,
                        policy,
                        seen,
                        (cells[0], cells[1], np.array(list(visits.values()))),
                        path if triggered else None,
                    )
                )
                first, visits = k + 1, {}
        self.learner = learner

    def auditor(self, spec):
        found = Auditor(self.model, spec)
        for phase in self.phases:
            found.observe(phase)
        return found


def plain_alpha(model, policy, counts, algorithm, iota):
    """Eqs. (2) to (4) by recursion over nodes; the interval by a linear program."""
    M, S, A, H = model.M, model.S, model.A, model.H
    visits, N = counts.snapshot_visits(), counts.N.reshape(M, S, A)
    alpha = {}
    for n in reversed(range(policy.N)):
        t, s, a = int(policy.step[n]), int(policy.state[n]), int(policy.action[n])
        for m in range(M):
            row = (m * S + s) * A + a
            symbol = int(model.symbol[model.indptr[row]])
            value = np.zeros(S)
            if t < H - 1:
                for nxt in range(S):
                    value[nxt] = alpha[int(policy.successors(n, symbol, nxt)), m]
            r, count = float(model.row_reward[row]), int(N[m, s, a])
            p = visits[m, s, a] / max(count, 1)
            if algorithm == "mvp":
                if count == 0:
                    alpha[n, m] = 1.0
                    continue
                var = p @ (value - p @ value) ** 2
                bonus = max(
                    16 * S * iota / count, 4 * math.sqrt((p > 0).sum() * var * iota / count)
                )
                alpha[n, m] = min(r + bonus + p @ value, 1.0)
            else:
                box = [(0, 1)] * S
                if count:
                    radius = 2 * np.sqrt(p * iota / count) + 5 * iota / count
                    box = list(
                        zip(np.maximum(p - radius, 0), np.minimum(p + radius, 1), strict=True)
                    )
                best = linprog(-value, A_eq=[[1] * S], b_eq=[1], bounds=box)
                alpha[n, m] = min(r - best.fun, 1.0)
    return np.array([[alpha[n, m] for m in range(M)] for n in range(policy.N)])


def plain_sums(record, algorithm, spec):
    """The table of the proof, read literally, episode by episode and step by step."""
    model = record.model
    S, H, w_nu = model.S, model.H, model.w[:, None] * model.nu
    iota = 2 * math.log(2 * model.M * S * model.A * H * spec.episodes / spec.delta)
    sums = dict.fromkeys(
        ("X1", "X2", "X3", "X4", "X5", "X6", "bellman", "at t0", "V inside", "V before", "sum_1/N",
         "V~ - V", "updates"), 0.0
    )  # fmt: skip
    cache = {}

    def variance(p, x):
        return p @ (x - p @ x) ** 2

    for policy, counts, m, (nodes, rows, outcomes) in record.episodes:
        if id(policy) not in cache:
            opt = plain_alpha(model, policy, counts, algorithm, iota)
            cache[id(policy)] = policy, evaluate(model, policy).alpha, opt
        _, alpha, opt = cache[id(policy)]
        first, first_opt = alpha[policy.root].T, opt[policy.root].T
        V, V_opt = (w_nu * first).sum(), (w_nu * first_opt).sum()
        n, t0 = counts.n.copy(), H
        for t in range(H):
            n[rows[t]] += 1
            if math.log2(n[rows[t]]) % 1 == 0:
                t0 = t
                break
        sums["updates"] += t0 < H
        sums["V~ - V"] += V_opt - V
        sums["X1"] += V_opt - opt[nodes[0], m]
        sums["X5"] += variance(w_nu.ravel(), first.ravel())
        sums["X6"] += variance(w_nu.ravel(), (first_opt - first).ravel())
        sums["X2"] -= V
        for t in range(H):
            part = slice(model.indptr[rows[t]], model.indptr[rows[t] + 1])
            p, after = model.prob[part], np.zeros((2, part.stop - part.start))
            realised = 0.0
            if t < H - 1:
                to = policy.successors(
                    np.full(len(p), nodes[t]), model.symbol[part], model.next[part]
                )
                after = np.array([opt[to, m], alpha[to, m]])
                realised = opt[nodes[t + 1], m]
            r = float(model.reward[outcomes[t]])
            count = max(int(counts.N[rows[t]]), 1)
            spread = variance(p, after[0])
            if t <= t0:  # (k, t) not in X
                sums["X2"] += r
                sums["bellman"] += opt[nodes[t], m] - r - p @ after[0]
                sums["X4"] += (
                    7 * math.sqrt(model.Gamma * spread * iota / count) + 30 * S * iota / count
                )
                sums["V inside"] += spread
                sums["sum_1/N"] += 1 / count
            if t == t0:
                sums["at t0"] += p @ after[0]
            if t + 1 <= t0:  # (k, t + 1) not in X
                sums["X3"] += p @ after[0] - realised
                sums["X5"] += variance(p, after[1])
                sums["X6"] += variance(p, after[0] - after[1])
                sums["V before"] += spread
    return sums


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
def test_sums_equal_a_plain_replay_of_every_step(algorithm):
    for seed in range(3):
        rng = np.random.default_rng(100 + seed)
        model = random_model(
            rng, M=2, S=3, A=2, H=3, negative=False, discounted=False, on_transitions=False
        )
        spec = lm.learn(model, algorithm, 60, optimal=(0, 1)).spec
        record = Record(model, algorithm, 60, seed)
        auditor = record.auditor(spec)
        expected = plain_sums(record, algorithm, spec)
        assert auditor.faults == []
        for name, value in expected.items():
            assert auditor.sums[name] == pytest.approx(value, abs=1e-8), name


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
def test_optimistic_alpha_equals_the_equations(algorithm):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        model = random_model(
            rng, M=2, S=3, A=2, H=3, negative=False, discounted=False, on_transitions=False
        )
        counts = Counts.for_model(model)
        for row in range(counts.rows):
            part = slice(model.indptr[row], model.indptr[row + 1])
            n = int(rng.choice([0, 1, 3, 1000, 10**6]))
            counts.n_next[part] = rng.multinomial(n, model.prob[part] / model.prob[part].sum())
            counts.n[row] = n
        counts.snapshot_all()
        policy = PolicyGraph.from_table(rng.integers(model.A, size=(model.H, model.S)))
        spec = lm.learn(model, algorithm, 1000, optimal=(0, 1)).spec
        iota = 2 * math.log(2 * model.M * model.S * model.A * model.H * 1000 / 0.1)
        expected = plain_alpha(model, policy, counts, algorithm, iota)
        found = optimistic_alpha(model, policy, counts, spec)
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.fixture(scope="module")
def hard():
    return lm.make("hard:contexts=2,states=6,actions=2,eps=0.25")


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
def test_everything_holds_on_a_paper_run(hard, algorithm):
    run = lm.learn(hard, algorithm, 10**6, audit=True)
    report = audit(run, variance=(0.25, 0.25))
    assert report.held, str(report)
    assert report.bugs == ()
    text = str(report)
    lines = {line.split()[0]: line for line in text.splitlines() if line.split()}
    for name in ROWS:
        assert name in lines
        assert "held" in lines[name], lines[name]
        row = report[name]
        assert row.promise != row.measured, "a promise printed as a measurement"
        assert 1 <= row.closest <= 10**6
    assert report["updates"].measured == run.updates
    assert report["bound"].measured == pytest.approx(run.regret)
    # without audit=True the run is repeated from its spec, to the same bits
    again = lm.learn(hard, algorithm, 10**6)
    assert again.phases is None
    assert audit(again, variance=(0.25, 0.25)) == report


@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_an_auditor_that_looks_on_reports_the_same(hard, policy_class):
    spec = RunSpec("bernstein", 2000, policy_class, bonus_scale=0.03)
    auditor = Auditor(hard, spec)
    run = lm.learn(
        hard, "bernstein", 2000, policy_class, bonus_scale=0.03, observer=auditor.observe
    )
    assert run.phases is None
    report = audit(run, variance=(0.25, 0.25), auditor=auditor)
    assert report == audit(run, variance=(0.25, 0.25))
    assert report["bound"].measured == pytest.approx(run.regret)


def test_an_auditor_that_looked_at_something_else_is_refused(hard):
    spec = RunSpec("mvp", 500)
    auditor = Auditor(hard, spec)
    run = lm.learn(hard, "mvp", 500, observer=auditor.observe)
    with pytest.raises(lm.ModelError, match=r"must have observed this run, .* of it$"):
        audit(run.more(500), auditor=auditor)
    other = lm.learn(hard, "mvp", 500, seed=1)
    with pytest.raises(lm.ModelError, match=r"phases of another run$"):
        audit(other, auditor=auditor)


def test_variance_is_found_when_it_is_not_given(hard):
    report = audit(lm.learn(hard, "mvp", 1000, audit=True))
    assert "Var* in [0.24" in report.heading or "Var* in [0.25" in report.heading


@pytest.mark.parametrize("algorithm", ["lucrl", "greedy", "psrl", "random", "oracle", "ucrl"])
def test_every_algorithm_can_be_audited(algorithm):
    model = lm.make("bandit:arms=2,contexts=2,horizon=4,seed=0")
    report = audit(lm.learn(model, algorithm, 2000, audit=True), variance=(0.0, 0.25))
    assert report.bugs == (), str(report)
    assert report["omega_1"].held
    assert report["updates"].held
    assert "promises nothing" in report.heading
    defined = algorithm not in ("psrl", "random", "oracle")
    assert (report["X1"].verdict != "not defined") == defined
    assert report["decomposition"].held is (True if defined else None)


def test_rewards_on_transitions_keep_the_identity():
    for seed in range(40):
        model = random_model(
            np.random.default_rng(seed), M=2, S=3, A=2, H=3, negative=False, discounted=False,
            on_transitions=True,
        )  # fmt: skip
        if model.rewards_on_transitions:
            break
    for algorithm in ("mvp", "bernstein"):
        run = lm.learn(model, algorithm, 3000, optimal=(0.0, 1.0), audit=True)
        report = audit(run, variance=(0.0, 0.25))
        assert report["decomposition"].held, str(report)
        assert "rewards must sit on" in report.heading


def test_other_scales_are_excused_not_blamed(hard):
    report = audit(lm.learn(hard, "mvp", 10**5, bonus_scale=0.001, audit=True), variance=(0, 0.25))
    assert report.bugs == (), str(report)
    assert "bonus_scale must be 1" in report.heading
