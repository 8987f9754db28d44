"""`audit`: every quantity of the upper bound's proof, measured on a finished run.

Works phase by phase on what `learn(..., audit=True)` keeps (or on a rerun of the recorded spec):
the policy graph, the snapshot `N, P_hat` in force, visits per (node, context), and the path of the
episode that triggered an update. The optimistic alpha vectors are computed anew from the paper's
equations, not taken from the learner.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Floats
from latentmdp.errors import ModelError
from latentmdp.evaluation.evaluate import evaluate
from latentmdp.kernels.policies import policy_nodes
from latentmdp.kernels.structs import PhaseVisits, PricedRows, ProofTerms
from latentmdp.kernels.theory import audit as kernels
from latentmdp.learning.run import Run
from latentmdp.theory.auditing.optimistic_values import WRONG, Variant, optimistic_alpha
from latentmdp.theory.auditing.report import AuditReport, build_report
from latentmdp.theory.bounds import iota
from latentmdp.theory.variance.maximum import max_variance

if TYPE_CHECKING:
    from latentmdp.learning.session import Phase
    from latentmdp.learning.spec import RunSpec
    from latentmdp.model.latent_mdp import LatentMDP

EQUAL_WITHIN = 1e-9  # values closer than this are equal
FACTOR_WITHIN = 1e-6  # relative: how closely a suspected factor must explain a value
MOST_SUSPICIONS = 20  # wrong values for which explanations are tried
VARIANCE_EFFORT: dict[str, Any] = {"state_limit": 20_000, "centres": 3, "time_limit": 3.0}

# one entry per phase, all cumulative up to its last episode unless said otherwise
SERIES = (
    "episodes", "updates", "V~ - V", "X1", "X2", "X3", "X4", "X5", "X6", "bellman",
    "at t0", "V inside", "V before", "sum_1/N", "as recorded",
    "optimistic", "recorded", "omega_1", "omega_2", "bellman margin", "bellman error",
    "largest error", "lowest zeta", "solver gap",
)  # fmt: skip


def audit(
    run: Run, *, variance: tuple[float, float] | None = None, auditor: Auditor | None = None
) -> AuditReport:
    """Check a finished run against every lemma of the proof; `str()` of the report is a table.

    `variance` brackets `Var*` of the policy class (default: `max_variance`, some seconds). A run
    made without `audit=True` is run again from its spec, to the same bits, unless an `auditor` has
    looked on: `learn(..., observer=auditor.observe)`. Neither of these two keeps any phase.

    >>> import latentmdp as lm
    >>> run = lm.learn(lm.make("bandit"), "mvp", episodes=1000, audit=True)
    >>> report = audit(run)
    >>> report["decomposition"].held, report["updates"].held
    (True, True)
    """
    if not isinstance(run, Run):
        raise ModelError(f"audit needs a Run, as learn gives; it was given a {type(run).__name__}")
    run = run.in_model_units
    if run.episodes < 1:
        raise ModelError("an audit needs a run with episodes; none has been played yet")
    if auditor is not None:
        auditor.check_saw(run)
    elif run.phases is not None:
        auditor = Auditor(run.model, run.spec)
        for phase in run.phases:
            auditor.observe(phase)
    else:
        auditor = Auditor(run.model, run.spec)
        run.replay(auditor.observe)
    if variance is None:
        found = max_variance(run.model, run.spec.policy_class, **VARIANCE_EFFORT)
        variance = found.lower, found.upper
    return build_report(run, auditor, variance)


@dataclass
class Auditor:
    """Looks at one phase after the other; `series` then holds what the report is made of."""

    model: LatentMDP
    spec: RunSpec
    faults: list[str] = field(default_factory=list)  # bugs, in the order found
    has_alpha: bool = True  # whether counts determine the optimistic values
    mismatches: int = 0  # phases whose optimistic value is not the equations'
    suspects: list[Variant] = field(default_factory=list)  # what explains all of them

    def __post_init__(self) -> None:
        model, spec = self.model, self.spec
        self.iota = iota(model.M, model.S, model.A, model.H, spec.episodes, spec.delta)
        self.rows: list[list[float]] = []
        self.values: list[float] = []  # of the phases' policies
        self.sums = dict.fromkeys(SERIES, 0.0)
        self.n = np.zeros(model.M * model.S * model.A, dtype=np.int64)  # counted by the audit
        self.n_next = np.zeros(len(model.next), dtype=np.int64)
        self.N, self.N_next = self.n.copy(), self.n_next.copy()
        self._counted = self.n_next.copy()  # up to the last phase's end
        self.start = model.w[:, None] * model.nu

    @property
    def series(self) -> dict[str, Floats]:
        """`(phases,)` each."""
        return dict(zip(SERIES, np.array(self.rows).reshape(-1, len(SERIES)).T, strict=True))

    def regret(self, optimum: float) -> Floats:
        """`(phases,)` cumulative, against the best value of the class that is known."""
        lengths = np.diff(self.series["episodes"], prepend=0.0)
        return np.cumsum(lengths * (optimum - np.array(self.values)))

    def check_saw(self, run: Run) -> None:
        """Refuse a run that is not the one that was observed, from its first episode to its end."""
        same = self.spec == run.spec and self.model.digest == run.model.digest
        table = run.state["table"]
        if not same or not np.array_equal(self.values, table["value"]):
            raise ModelError(
                f"the auditor must have observed this run, {len(table['value'])} phases from the "
                f"first to the last; it has seen {len(self.values)} phases of "
                f"{'it' if same else 'another run'}"
            )

    def observe(self, phase: Phase) -> None:
        """Measure one finished phase."""
        model, sums = self.model, self.sums
        self._check_snapshot(phase)
        self._check_counts(phase)
        first_trigger = self._walk(phase)
        inside, before = self._visits(phase, first_trigger)
        episodes = float(phase.length)
        sums["episodes"] += episodes
        sums["updates"] += phase.triggered
        self.values.append(phase.value)
        sums["recorded"] = phase.optimistic_value
        sums["solver gap"] = phase.upper - phase.optimistic_value
        sums["omega_1"], sums["omega_2"] = self._good_events(phase)
        ev = evaluate(model, phase.policy)
        opt = optimistic_alpha(model, phase.policy, phase.counts, self.spec)
        if opt is None:
            self.has_alpha = False
            opt = ev.alpha
        else:
            sums["optimistic"] = self._root(phase, opt).sum()
            self._check_value(phase, sums["optimistic"])
        self._add_proof(phase, ev.alpha, opt, inside, before, first_trigger)
        self.rows.append([sums[name] for name in SERIES])

    # ------------------------------------------------------------------ counts and snapshots

    def _check_snapshot(self, phase: Phase) -> None:
        """Alg. 1, l. 11 to 16: the snapshot in force is the one the audit's own walk gave."""
        counts = phase.counts
        wrong = np.flatnonzero(counts.N != self.N)
        if len(wrong) == 0:
            wrong = counts.slot_row[counts.N_next != self.N_next]
        if len(wrong):
            row = int(wrong[0])
            self._note_fault(
                f"snapshot rule: in force from episode {phase.episode}, {self._row(row)} has "
                f"N={counts.N[row]} where Algorithm 1 has N={self.N[row]} (snapshots are taken "
                "when a count becomes a power of two, at that very moment)"
            )

    def _check_counts(self, phase: Phase) -> None:
        """Every next state was counted, and no power of two was passed without an update."""
        counts = phase.counts
        total = np.bincount(counts.slot_row, weights=counts.n_next, minlength=counts.rows)
        wrong = np.flatnonzero(total != counts.n)
        if len(wrong):
            row = int(wrong[0])
            self._note_fault(
                f"counts: in the phase from episode {phase.episode}, {self._row(row)} was visited "
                f"{counts.n[row]} times and its next states {int(total[row])} times (the state "
                "after the last step counts too)"
            )
        missed = np.flatnonzero((counts.n >= 2 * counts.N) & (counts.n > 0))
        if len(missed):
            row = int(missed[0])
            self._note_fault(
                f"missed trigger: in the phase from episode {phase.episode}, {self._row(row)} "
                f"reached {counts.n[row]} visits, its snapshot is of {counts.N[row]}"
            )

    def _note_fault(self, text: str) -> None:
        """Keep a fault unless there is one of its kind, the words before the colon, already."""
        kind = text.partition(":")[0]
        if not any(fault.startswith(kind) for fault in self.faults):
            self.faults.append(text)

    def _row(self, row: int) -> str:
        m, sa = divmod(row, self.model.S * self.model.A)
        return f"row (m={m}, s={sa // self.model.A}, a={sa % self.model.A})"

    def _walk(self, phase: Phase) -> int:
        """Count the phase; the updating episode in time order. Returns `t0`, `H` if none."""
        counts = phase.counts
        self._check_visits(phase)
        self.n[:], self.n_next[:] = counts.n, counts.n_next
        first = self.model.H
        if phase.path is None:
            return first
        for t, (row, outcome) in enumerate(zip(*phase.path[1:], strict=True)):
            self.n[row] += 1
            self.n_next[outcome] += 1
            if self.n[row] & (self.n[row] - 1) == 0:
                first = min(first, t)
                part = slice(self.model.indptr[row], self.model.indptr[row + 1])
                self.N[row], self.N_next[part] = self.n[row], self.n_next[part]
        if first == self.model.H:
            self.faults.append(
                f"trigger: episode {phase.episode + phase.length - 1} ended a phase, but no count "
                "became a power of two in it"
            )
        return first

    def _check_visits(self, phase: Phase) -> None:
        """Visits by (node, context) add up to what the counts grew by, row by row."""
        model, policy = self.model, phase.policy
        node, context, visits = phase.visits
        row = (context * model.S + policy.state[node]) * model.A + policy.action[node]
        grown = phase.counts.n - self.n
        if phase.path is not None:
            grown = grown + np.bincount(phase.path[1], minlength=len(grown))
        found = np.bincount(row, weights=visits, minlength=len(grown))
        if (found != grown).any():
            i = int(np.argmax(found != grown))
            self._note_fault(
                f"visits: in the phase from episode {phase.episode}, row {i} was visited "
                f"{int(found[i])} times by the policy's nodes, and its count grew by {grown[i]}"
            )

    def _visits(self, phase: Phase, t0: int) -> tuple[Floats, Floats]:
        """`(N, M)` visits with `t <= t0`, and with `t < t0`: `I(k, t)` and `I(k, t+1)`."""
        node, context, visits = phase.visits
        inside = np.zeros((phase.policy.N, self.model.M))
        np.add.at(inside, (node, context), visits)
        before = inside
        if phase.path is not None:
            nodes, rows, _ = phase.path
            m = int(rows[0]) // (self.model.S * self.model.A)
            before = inside.copy()
            inside[nodes[t0 + 1 :], m] -= 1.0  # one node per step: no node twice
            before[nodes[t0:], m] -= 1.0
        return inside, before

    # ------------------------------------------------------------------ events, values

    def _good_events(self, phase: Phase) -> tuple[float, float]:
        """Largest deviation over radius, Eqs. (6) and (7); both are to stay at most 1."""
        counts, P = phase.counts, self.model.prob
        N = counts.N[counts.slot_row]
        seen = N > 0
        if not seen.any():
            return 0.0, 0.0
        P, P_hat, unit = P[seen], counts.p_hat[seen], self.iota / N[seen]
        deviation = np.abs(P_hat - P)
        first = deviation / (2.0 * np.sqrt(P_hat * unit) + 5.0 * unit)  # Eq. (6)
        second = deviation / (np.sqrt(2.0 * P * unit) + unit)  # Eq. (7)
        return float(first.max()), float(second.max())

    def _root(self, phase: Phase, alpha: Floats) -> Floats:
        return self.start * alpha[phase.policy.root].T

    def _check_value(self, phase: Phase, value: float) -> None:
        """The learner's optimistic value is that of its own policy by the paper's equations."""
        found = phase.optimistic_value
        if abs(found - value) <= EQUAL_WITHIN:
            return
        self.mismatches += 1
        if self.mismatches == 1:
            equation = "Eq. (2)" if self.spec.algorithm == "bernstein" else "Eqs. (3) to (5)"
            self.faults.append("")
            self._fault = (
                len(self.faults) - 1,
                (
                    f"optimistic value: at episode {phase.episode} the learner has {found:.10g}, "
                    f"{equation} give {value:.10g} for its policy and snapshot"
                ),
            )
            self.suspects = self._suspects(phase, found)
        elif self.mismatches <= MOST_SUSPICIONS:
            self.suspects = [v for v in self.suspects if self._explains(phase, v)]
        i, text = self._fault
        names = " or ".join(variant.text for variant in self.suspects)
        self.faults[i] = text + (
            f"; that is {names}" if names else "; no simple change explains it"
        )

    def _value(self, phase: Phase, variant: Variant) -> float:
        opt = optimistic_alpha(self.model, phase.policy, phase.counts, self.spec, variant)
        return np.nan if opt is None else float(self._root(phase, opt).sum())

    def _explains(self, phase: Phase, variant: Variant) -> bool:
        found = phase.optimistic_value
        return abs(self._value(phase, variant) - found) <= FACTOR_WITHIN * max(found, EQUAL_WITHIN)

    def _suspects(self, phase: Phase, found: float) -> list[Variant]:
        """Which wrong versions of the equations give what was found; later phases thin them out."""
        what = "radius" if self.spec.algorithm == "bernstein" else "bonus"
        suspects = [replace(variant, text=variant.text.format(what)) for variant in WRONG]
        for words, power in ((f"a {what}", 1.0), ("an iota", 0.5)):
            low, high = 0.0, 16.0
            for _ in range(60):  # monotone in the factor
                middle = (low + high) / 2.0
                if self._value(phase, Variant("", middle**power, middle)) < found:
                    low = middle
                else:
                    high = middle
            text = f"{words} broken by a factor {high:.4g}"
            suspects.append(Variant(text, high**power, high))
        return [variant for variant in suspects if self._explains(phase, variant)]

    # ------------------------------------------------------------------ the proof's sums

    def _add_proof(
        self, phase: Phase, alpha: Floats, opt: Floats, inside: Floats, before: Floats, t0: int
    ) -> None:
        model, policy, sums = self.model, phase.policy, self.sums
        found, worst = np.zeros(10), np.array([np.inf, 0.0, -np.inf])
        rows = PricedRows(model.A, model.indptr, model.next, model.symbol, model.prob, model.reward)
        proof = ProofTerms(model.Gamma, self.iota, phase.counts.N)
        visits, scratch = PhaseVisits(inside, before), np.empty((2, model.Gamma))
        kernels.proof_sums(
            rows, proof, policy_nodes(policy), alpha, opt, visits, scratch, found, worst
        )
        episodes = float(phase.length)
        started = policy.step == 0
        later = ~started
        value, value_opt = self._root(phase, alpha).sum(), self._root(phase, opt).sum()
        excess = self._reward_excess(phase, t0)
        sums["V~ - V"] += episodes * (value_opt - value)
        sums["as recorded"] += episodes * (phase.optimistic_value - phase.value)
        sums["X1"] += episodes * value_opt - (inside * opt)[started].sum()
        sums["X2"] += found[kernels.REWARD] + excess[0] - episodes * value
        sums["X3"] += found[kernels.MEAN_BEFORE] - (inside * opt)[later].sum() - excess[1]
        sums["X4"] += found[kernels.BETA]
        sums["X5"] += episodes * self._spread(phase, alpha) + found[kernels.VALUE_SPREAD]
        sums["X6"] += episodes * self._spread(phase, opt - alpha) + found[kernels.GAP_SPREAD]
        sums["bellman"] += found[kernels.BELLMAN]
        sums["at t0"] += (
            found[kernels.MEAN_INSIDE] - found[kernels.MEAN_BEFORE] - (excess[0] - excess[1])
        )
        sums["V inside"] += found[kernels.SPREAD_INSIDE]
        sums["V before"] += found[kernels.SPREAD_BEFORE]
        sums["sum_1/N"] += found[kernels.INVERSE_VISITS]
        sums["bellman margin"], sums["bellman error"], sums["largest error"] = worst
        sums["lowest zeta"] = (opt - alpha)[inside > 0].min()

    def _spread(self, phase: Phase, alpha: Floats) -> float:
        """`V(w∘nu, alpha)`."""
        first = alpha[phase.policy.root].T
        return float((self.start * (first - (self.start * first).sum()) ** 2).sum())

    def _reward_excess(self, phase: Phase, t0: int) -> tuple[float, float]:
        """Realised minus expected rewards, over visits with `t <= t0` and with `t < t0`.

        Zero where rewards sit on rows, as in the paper; by outcome where they sit on transitions.
        """
        model = self.model
        if not model.rewards_on_transitions:
            return 0.0, 0.0
        surplus = model.reward - np.repeat(model.row_reward, np.diff(model.indptr))
        total = float((phase.counts.n_next - self._counted) @ surplus)
        self._counted = self.n_next.copy()
        inside = before = 0.0
        if phase.path is not None:
            path = surplus[phase.path[2]]
            inside, before = float(path[: t0 + 1].sum()), float(path[:t0].sum())
        return total + inside, total + before
