"""The audit: its sums against plain replays of every step, and faults that it must name."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.optimize import linprog

import latentmdp as lm
from latentmdp import LatentMDP, PolicyGraph, evaluate
from latentmdp.learning.counts import Counts
from latentmdp.learning.learner import Learner
from latentmdp.learning.run import Run
from latentmdp.learning.session import Phase, Session, Spec
from latentmdp.learning.simulation import Simulator
from latentmdp.learning.solvers import Answer
from latentmdp.optimism import confidence
from latentmdp.theory.audit import Auditor, audit
from latentmdp.theory.optimistic import Variant, optimistic_alpha
from strategies import random_model

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
        found = Auditor(self.model, spec, 0.0)
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


# ---------------------------------------------------------------------- deliberate faults


def with_rule(monkeypatch, name, compute):
    rule = confidence.RULES[name]
    changed = dataclasses.replace(rule, compute=compute, code=0)  # and not its compiled twin
    monkeypatch.setitem(confidence.RULES, name, changed)


def test_bonus_without_its_variance_term_is_named(hard, monkeypatch):
    def broken(evidence, setting, rng):
        return confidence.mvp(evidence, setting, rng)._replace(c1=0.0)

    with_rule(monkeypatch, "mvp", broken)
    report = audit(lm.learn(hard, "mvp", 10**6, audit=True), variance=(0.25, 0.25))
    assert not report.held
    assert report["value"].verdict == "bug"
    assert any("without its variance term" in fault for fault in report.faults), report.faults


@pytest.mark.parametrize(("algorithm", "what"), [("bernstein", "radius"), ("mvp", "bonus")])
def test_broken_radius_is_named(hard, monkeypatch, algorithm, what):
    original = confidence.RULES[algorithm].compute

    def broken(evidence, setting, rng):
        return original(evidence, dataclasses.replace(setting, scale=0.25), rng)

    with_rule(monkeypatch, algorithm, broken)
    report = audit(lm.learn(hard, algorithm, 10**6, audit=True), variance=(0.25, 0.25))
    assert not report.held
    assert report["value"].verdict == "bug"
    assert any(f"{what} broken by a factor 0.25" in fault for fault in report.faults)


@pytest.mark.parametrize("rule", ["late", "whole episode"])
def test_wrong_snapshot_rule_is_named(hard, monkeypatch, rule):
    """One visit too late; or at the end of the episode instead of in its middle."""
    original = Simulator.replay

    def late(self, counts):
        changed = original(self, counts)
        counts.N[changed] = np.maximum(counts.N[changed] - 1, 1)
        return changed

    def whole(self, counts):
        changed = original(self, counts).copy()
        for row in changed:
            counts.snapshot(int(row))
        return changed

    model = hard
    if rule == "whole episode":  # needs a row that an episode visits twice
        model = lm.make("riverswim:states=3,horizon=6")
    monkeypatch.setattr(Simulator, "replay", late if rule == "late" else whole)
    report = audit(lm.learn(model, "mvp", 10**4, audit=True), variance=(0.0, 0.25))
    assert report["snapshot"].verdict == "bug"
    assert any(fault.startswith("snapshot rule") for fault in report.faults)


def test_wrong_visits_or_values_are_named(hard):
    run = lm.learn(hard, "mvp", 10**4, audit=True)
    phases = list(run.phases)
    node, context, visits = phases[-1].visits
    wrong = {"visits": (node, context, visits + (node == node[-1]))}
    run.phases = [*phases[:-1], Phase(**{**phases[-1].__dict__, **wrong})]
    report = audit(run, variance=(0.25, 0.25))
    assert report["snapshot"].verdict == "bug"
    assert report.faults[0].startswith("visits")
    run.phases = [*phases[:-1], Phase(**{**phases[-1].__dict__, "value": 0.1})]
    assert audit(run, variance=(0.25, 0.25))["decomposition"].verdict == "bug"


def test_wrong_iota_is_named(hard, monkeypatch):
    """The audit has its own logarithm. A factor on iota is not a factor on the bonus."""
    right = confidence.Setting.iota.func
    monkeypatch.setattr(confidence.Setting, "iota", property(lambda self: right(self) / 4))
    for algorithm in ("mvp", "bernstein"):
        report = audit(lm.learn(hard, algorithm, 10**6, audit=True), variance=(0.25, 0.25))
        assert report["value"].verdict == "bug"
        (fault,) = report.faults
        assert "iota broken by a factor 0.25" in fault
        assert " or " not in fault, fault


def test_s_in_place_of_the_support_is_named(hard, monkeypatch):
    def broken(evidence, setting, rng):
        support = np.full_like(evidence.support, setting.S)
        return confidence.mvp(dataclasses.replace(evidence, support=support), setting, rng)

    with_rule(monkeypatch, "mvp", broken)
    report = audit(lm.learn(hard, "mvp", 10**6, audit=True), variance=(0.25, 0.25))
    (fault,) = report.faults
    assert fault.endswith("that is S in place of supp(P_hat)"), fault


def test_a_reward_added_twice_is_named():
    model = choice_model(0.5, reward=0.4)
    spec = lm.learn(model, "mvp", 9000, optimal=(0.2, 0.2)).spec
    twice = Variant("", reward=2.0)

    class Twice:
        """Honest but for the reward."""

        def replan(self, counts, changed):
            policy = PolicyGraph.from_table(np.ones((2, 3), dtype=int))
            alpha = optimistic_alpha(model, policy, counts, spec, twice)
            return Answer(policy, float(alpha[policy.root[0], 0]), 1.0)

    record = Record(model, "mvp", 9000, solver=Twice())
    report = audit(as_run(record, spec, (0.2, 0.2)), variance=(0.04, 0.04))
    assert report["value"].verdict == "bug"
    assert any("the reward added twice" in fault for fault in report.faults), report.faults


def test_a_last_next_state_that_is_not_counted_is_named(monkeypatch):
    original = Simulator.replay

    def forgetful(self, counts):
        changed = original(self, counts)
        counts.n_next[self._path[1][-1]] -= 1
        return changed

    monkeypatch.setattr(Simulator, "replay", forgetful)
    model = lm.make("riverswim:states=3,horizon=6")
    report = audit(lm.learn(model, "mvp", 10**4, audit=True), variance=(0.0, 0.25))
    assert report["snapshot"].verdict == "bug"
    assert any(fault.startswith("counts:") for fault in report.faults), report.faults


def test_a_missed_trigger_is_named(hard):
    run = lm.learn(hard, "mvp", 10**4, audit=True)
    phase = run.phases[-1]
    counts = phase.counts.copy()
    row = int(np.argmax(counts.n))
    grown = counts.N[row] * 2 - counts.n[row]
    counts.n[row] += grown
    counts.n_next[counts.indptr[row]] += grown
    run.phases = [*run.phases[:-1], Phase(**{**phase.__dict__, "counts": counts})]
    report = audit(run, variance=(0.25, 0.25))
    assert report["snapshot"].verdict == "bug"
    assert any(fault.startswith("missed trigger") for fault in report.faults), report.faults


def test_a_certificate_that_is_false_is_a_bug():
    """V~ below V*, and a solver that says it has no gap: not the approximation's fault."""
    model = choice_model(0.9)
    spec = lm.learn(model, "mvp", 6000, optimal=(0.9, 0.9)).spec

    class Liar:
        def replan(self, counts, changed):
            policy = PolicyGraph.from_table(np.zeros((2, 3), dtype=int))
            value = float(optimistic_alpha(model, policy, counts, spec)[policy.root[0], 0])
            return Answer(policy, value, value)

    record = Record(model, "mvp", 6000, solver=Liar())
    report = audit(as_run(record, spec, (0.9, 0.9)), variance=(0.09, 0.09))
    assert report["optimism"].verdict == "bug", str(report)


def test_the_table_fits_a_terminal(hard):
    report = audit(lm.learn(hard, "mvp", 10**5, audit=True), variance=(0.25, 0.25))
    narrow, wide = str(report), report.text(200)
    assert max(map(len, narrow.splitlines())) <= 80
    assert 80 < max(map(len, wide.splitlines())) <= 200
    for row in report:
        for text in (narrow, wide):
            lines = [line for line in text.splitlines() if line.split()[:1] == [row.name]]
            assert len(lines) == 1
            assert row.verdict in lines[0]
        assert row.statement in wide
        assert row.statement[:40] in narrow


def as_run(record, spec, optimal):
    """A `Run` around recorded phases."""
    session = Session(record.model, spec)
    session.columns = {
        "episode": [p.episode for p in record.phases],
        "length": [p.length for p in record.phases],
        "value": [p.value for p in record.phases],
        "optimistic_value": [p.optimistic_value for p in record.phases],
        "planner_gap": [p.upper - p.optimistic_value for p in record.phases],
        "updates": list(range(len(record.phases))),
        "kept": [0] * len(record.phases),
    }
    session.done = spec.episodes
    run = Run(record.model, session.state(), optimal, 0.0)
    run.phases = record.phases
    return run


def choice_model(win, reward=1.0):
    """One step; action 0 pays 0, action 1 leads to a state that pays, with probability `win`."""
    P = np.zeros((1, 3, 2, 3))
    P[0, 0, 0, 1] = P[0, 1, :, 1] = P[0, 2, :, 1] = 1.0
    P[0, 0, 1] = [0.0, 1 - win, win]
    R = np.zeros((1, 3, 2))
    R[0, 2] = reward
    return LatentMDP.from_arrays(P, R, [1.0], [[1.0, 0.0, 0.0]], 2)


def test_an_event_that_failed_is_called_that():
    """The world loses where the model wins: no bug, no solver, an event of tiny probability."""
    model = choice_model(0.95)
    record = Record(model, "bernstein", 6000, world=choice_model(0.05))
    spec = lm.learn(model, "bernstein", 6000, optimal=(0.95, 0.95)).spec
    report = audit(as_run(record, spec, (0.95, 0.95)), variance=(0.0475, 0.0475))
    assert report["omega_1"].verdict == "event"
    assert report["optimism"].verdict == "event", str(report)
    assert report.bugs == (), str(report)


def test_a_solver_that_is_far_from_its_bound_is_called_that():
    model = choice_model(0.9)

    class Lazy:
        """Always action 0, with an honest value and an honest bound."""

        def replan(self, counts, changed):
            policy = PolicyGraph.from_table(np.zeros((2, 3), dtype=int))
            alpha = optimistic_alpha(model, policy, counts, spec)
            return Answer(policy, float(alpha[policy.root[0], 0]), 1.0)

    spec = lm.learn(model, "mvp", 6000, optimal=(0.9, 0.9)).spec
    record = Record(model, "mvp", 6000, solver=Lazy())
    report = audit(as_run(record, spec, (0.9, 0.9)), variance=(0.09, 0.09))
    assert report["omega_1"].held
    assert report["optimism"].verdict == "solver", str(report)
    assert report.bugs == (), str(report)


def test_x3_as_printed_fails_where_the_corrected_row_holds():
    """docs/errata.md, E1, on the learner itself: one fair coin, 10^12 episodes."""
    P = np.zeros((1, 3, 1, 3))
    P[0, 0, 0] = [0.0, 0.5, 0.5]
    P[0, 1, 0, 2] = P[0, 2, 0, 2] = 1.0
    R = np.zeros((1, 3, 1))
    R[0, 1] = 1.0
    coin = LatentMDP.from_arrays(P, R, [1.0], [[1.0, 0.0, 0.0]], 2)
    printed = 0
    for seed in range(12):
        run = lm.learn(coin, "mvp", 10**12, seed=seed, optimal=(0.5, 0.5), audit=True)
        report = audit(run, variance=(0.25, 0.25))
        assert report.held, str(report)
        promise = float(report["X3"].note.split()[-1])
        printed += report["X3"].measured > promise
    assert printed >= 1  # each with probability about 1/3


def test_a_run_without_episodes_is_refused():
    model = lm.make("bandit")
    session = Session(model, Spec("mvp", 100))
    run = lm.Run(model, session.state(), (1.0, 1.0), 0.0)
    with pytest.raises(lm.ModelError, match="none has been played yet"):
        lm.audit(run)
