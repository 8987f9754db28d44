"""Deliberate faults and runs that go wrong: the audit must name each."""

import dataclasses

import numpy as np
import pytest
from test_theory_audit import Record

import latentmdp as lm
from latentmdp import LatentMDP, PolicyGraph
from latentmdp.learning.run import Run
from latentmdp.learning.session import Phase, Session
from latentmdp.learning.simulation import Simulator
from latentmdp.learning.solvers import Answer
from latentmdp.learning.spec import RunSpec
from latentmdp.optimism import confidence
from latentmdp.theory.auditing.audit import audit
from latentmdp.theory.auditing.optimistic_values import Variant, optimistic_alpha


@pytest.fixture(scope="module")
def hard():
    return lm.make("hard:contexts=2,states=6,actions=2,eps=0.25")


def with_rule(monkeypatch, name, compute):
    rule = confidence.RULES[name]
    changed = dataclasses.replace(rule, compute=compute, code=0)  # and not its compiled twin
    monkeypatch.setitem(confidence.RULES, name, changed)


def test_bonus_without_its_variance_term_is_named(hard, monkeypatch):
    def broken(evidence, constants, rng):
        return confidence.mvp(evidence, constants, rng)._replace(c1=0.0)

    with_rule(monkeypatch, "mvp", broken)
    report = audit(lm.learn(hard, "mvp", 10**6, audit=True), variance=(0.25, 0.25))
    assert not report.held
    assert report["value"].verdict == "bug"
    assert any("without its variance term" in fault for fault in report.faults), report.faults


@pytest.mark.parametrize(("algorithm", "what"), [("bernstein", "radius"), ("mvp", "bonus")])
def test_broken_radius_is_named(hard, monkeypatch, algorithm, what):
    original = confidence.RULES[algorithm].compute

    def broken(evidence, constants, rng):
        return original(evidence, dataclasses.replace(constants, scale=0.25), rng)

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
    right = confidence.BonusConstants.iota.func
    monkeypatch.setattr(confidence.BonusConstants, "iota", property(lambda self: right(self) / 4))
    for algorithm in ("mvp", "bernstein"):
        report = audit(lm.learn(hard, algorithm, 10**6, audit=True), variance=(0.25, 0.25))
        assert report["value"].verdict == "bug"
        (fault,) = report.faults
        assert "iota broken by a factor 0.25" in fault
        assert " or " not in fault, fault


def test_s_in_place_of_the_support_is_named(hard, monkeypatch):
    def broken(evidence, constants, rng):
        support = np.full_like(evidence.support, constants.S)
        return confidence.mvp(dataclasses.replace(evidence, support=support), constants, rng)

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
        counts.n_next[self.path()[2][-1]] -= 1
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
    session.rows = [
        (p.episode, p.length, p.value, p.optimistic_value, p.upper - p.optimistic_value, i, 0)
        for i, p in enumerate(record.phases)
    ]
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
    session = Session(model, RunSpec("mvp", 100))
    run = lm.Run(model, session.state(), (1.0, 1.0), 0.0)
    with pytest.raises(lm.ModelError, match="none has been played yet"):
        lm.audit(run)
