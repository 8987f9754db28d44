"""The audit's table: what each lemma promises, what was measured, and whose fault a failure is.

Verdicts are kept apart. `held`; `event`: a lemma's event failed, which the proof allows with
probability `delta` each; `solver`: the planner's approximation broke optimism, its certified gap
covers it; `bug`: nothing allows it; `not promised`: failed where the theorem says nothing (another
algorithm, another bonus scale, rewards on transitions); `not defined`: counts do not determine it.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Floats
from latentmdp.theory.auditing.optimistic_values import PAPER_ALGORITHMS
from latentmdp.theory.bounds import max_updates, upper_bound

if TYPE_CHECKING:
    from latentmdp.learning.run import Run
    from latentmdp.theory.auditing.audit import Auditor


@dataclass(frozen=True)
class AuditRow:
    """One lemma. `margin = promise - measured` (reversed for lower bounds): at least 0 if held."""

    name: str
    statement: str
    promise: float
    measured: float
    margin: float
    held: bool | None
    closest: int  # the episode at which the margin was smallest, relative to the promise
    verdict: str
    note: str = ""


@dataclass(frozen=True)
class AuditReport:
    """Rows by name; `faults` are bugs found on the way, each named."""

    rows: tuple[AuditRow, ...]
    faults: tuple[str, ...]
    heading: str

    def __getitem__(self, name: str) -> AuditRow:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def __iter__(self) -> Iterator[AuditRow]:
        return iter(self.rows)

    @property
    def held(self) -> bool:
        """Whether everything that was promised held."""
        return all(row.held is not False or row.verdict == "not promised" for row in self.rows)

    @property
    def bugs(self) -> tuple[str, ...]:
        """What only a mistake in the program explains."""
        rows = (f"{row.name}: {row.statement}" for row in self.rows if row.verdict == "bug")
        return (*self.faults, *rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "held": self.held,
            "heading": self.heading,
            "faults": list(self.faults),
            "rows": [asdict(row) for row in self.rows],
        }

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """For notebooks: the table, with what each row says."""
        from latentmdp.tables import notebook

        headers = ("row", "promise", "measured", "margin", "closest at", "verdict", "what")
        rows = [
            (row.name, _number(row.promise), _number(row.measured), _number(row.margin),
             _episode(row.closest), row.verdict, "; ".join(filter(None, (row.statement, row.note))))
            for row in self.rows
        ]  # fmt: skip
        faults = "".join(f"<div>BUG {notebook.text(fault)}</div>" for fault in self.faults)
        heading = " ".join(self.heading.split())
        return notebook.page(heading, faults, notebook.table(headers, rows, len(rows)))

    def __repr__(self) -> str:
        verdicts: dict[str, list[str]] = {}
        for row in self.rows:
            verdicts.setdefault(row.verdict, []).append(row.name)
        parts = [f"{len(verdicts.pop('held', []))} of {len(self.rows)} rows held"]
        parts += [f"{verdict}: {', '.join(names)}" for verdict, names in verdicts.items()]
        parts += [f"{len(self.faults)} faults"] * bool(self.faults)
        return f"AuditReport({'; '.join(parts)}; str() is the table)"

    def text(self, width: int = 80) -> str:
        """The table, at most so many columns wide (80 at least); what the rows mean beside it if
        there is room, else below it."""
        table = [("row", "promise", "measured", "margin", "closest at", "verdict")] + [
            (row.name, _number(row.promise), _number(row.measured), _number(row.margin),
             _episode(row.closest), row.verdict)
            for row in self.rows
        ]  # fmt: skip
        meaning = ["what"] + [row.statement for row in self.rows]
        widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
        beside = sum(widths) + 2 * len(widths) + max(map(len, meaning)) <= width
        lines = []
        for line, what in zip(table, meaning, strict=True):
            cells = [
                cell.rjust(w) if 0 < i < 5 else cell.ljust(w)
                for i, (cell, w) in enumerate(zip(line, widths, strict=True))
            ]
            lines.append("  ".join([*cells, what] if beside else cells).rstrip())
        below = [
            (
                f"  {row.name}: ",
                "; ".join(filter(None, ("" if beside else row.statement, row.note))),
            )
            for row in self.rows
        ]
        notes = [_filled(*pair, width) for pair in below if pair[1]]
        faults = [_filled("BUG ", fault, width) for fault in self.faults]
        parts = (*(_filled("", h, width) for h in self.heading.split("\n")), "", *lines, "")
        return "\n".join([*parts, *notes, *faults])


def _filled(start: str, text: str, width: int) -> str:
    return textwrap.fill(
        text, max(width, 80), initial_indent=start, subsequent_indent="    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _episode(k: int) -> str:
    return str(k) if k < 10**10 else f"{k:.4g}"


def _number(x: float) -> str:
    return "-" if math.isnan(x) else f"{x:.4g}"


def build_report(run: Run, auditor: Auditor, variance: tuple[float, float]) -> AuditReport:
    """Put the auditor's series beside the lemmas."""
    return _Builder(run, auditor, variance).report()


class _Builder:
    def __init__(self, run: Run, auditor: Auditor, variance: tuple[float, float]) -> None:
        model, spec = run.model, run.spec
        self.run, self.auditor, self.spec, self.model = run, auditor, spec, model
        self.variance = variance
        self.s = auditor.series | {"regret": auditor.regret(run.best_value)}
        self.k = self.s["episodes"]
        self.iota = auditor.iota
        self.sizes = (model.M, model.S, model.A, model.H)
        self.rows: dict[str, AuditRow] = {}
        self.promised = (
            spec.algorithm in PAPER_ALGORITHMS
            and spec.bonus_scale == 1.0
            and not model.rewards_on_transitions
            and run.episodes <= spec.episodes
        )

    def add(
        self,
        name: str,
        statement: str,
        promise: Floats,
        measured: Floats,
        blame: str,
        *,
        at_most: bool = True,
        always: bool = False,
        defined: bool = True,
        note: str = "",
        tolerance: float = 0.0,
    ) -> None:
        """One row from its series; the verdict is at the last episode, the closest anywhere."""
        promise = np.broadcast_to(np.asarray(promise, dtype=float), self.k.shape)
        margin = promise - measured if at_most else measured - promise
        relative = margin / np.maximum(np.abs(promise), 1e-12)
        i, last = int(np.argmin(relative)), len(self.k) - 1
        at = i if always else last
        held: bool | None = bool(margin[at] >= -tolerance)
        verdict = "held" if held else blame
        if not held and not self.promised and blame != "bug":
            verdict = "not promised"
        shown = promise[at], measured[at], margin[at]
        if not defined:
            held, verdict, shown = None, "not defined", (math.nan, math.nan, math.nan)
            note = "the counts do not determine this algorithm's optimistic values"
        episode = self.k[i] if not always else self.k[i - 1] + 1 if i else 1
        self.rows[name] = AuditRow(
            name, statement, float(shown[0]), float(shown[1]), float(shown[2]), held, int(episode),
            verdict, note,
        )  # fmt: skip

    def failed(self, *names: str) -> bool:
        return any(self.rows[name].held is False for name in names)

    def report(self) -> AuditReport:
        self._counts()
        self._values()
        self._martingales()
        self._total()
        order = (
            "omega_1", "omega_2", "snapshot", "value", "optimism", "updates", "bellman", "sum_1/N",
            "X1", "X2", "X3", "X4", "X5", "X6", "decomposition", "regret", "bound",
        )  # fmt: skip
        return AuditReport(
            tuple(self.rows[name] for name in order), tuple(self.auditor.faults), self._heading()
        )

    def _heading(self) -> str:
        spec, (low, high) = self.spec, self.variance
        text = (
            f"audit of {spec.algorithm}, {spec.policy_class} class, {self.run.episodes} episodes, "
            f"delta {spec.delta:g}, bonus_scale {spec.bonus_scale:g}: iota {self.iota:.4g}, "
            f"Gamma {self.model.Gamma}, Var* in [{low:.6g}, {high:.6g}], "
            f"V* in [{self.run.optimal[0]:.6g}, {self.run.optimal[1]:.6g}]"
        )
        if self.model.units:
            text += f"\nall numbers, as the proof's, are in {self.model.units_in_words}"
        if not self.promised:
            text += "\nthe theorem promises nothing here: " + (
                "it is about mvp and bernstein"
                if self.spec.algorithm not in PAPER_ALGORITHMS
                else "bonus_scale must be 1"
                if self.spec.bonus_scale != 1.0
                else "rewards must sit on (state, action)"
                if self.model.rewards_on_transitions
                else "more episodes were played than planned"
            )
        return text

    # ------------------------------------------------------------------ rows

    def _counts(self) -> None:
        M, S, A, H = self.sizes
        s, one = self.s, np.ones_like(self.k)
        for name, equation in (("omega_1", "(6)"), ("omega_2", "(7)")):
            self.add(
                name, f"|P_hat - P| over its radius, Eq. {equation}", one, s[name], "event",
                always=True,
            )  # fmt: skip
        self.add(
            "updates", "episodes with a trigger, M S A (log2(HK) + 1)",
            np.array([max_updates(M, S, A, H, int(k)) for k in self.k]), s["updates"], "bug",
        )  # fmt: skip
        self.add(
            "sum_1/N", "sum of I/max(N,1), M S A (2 + floor(log2 HK))",
            M * S * A * (2 + np.floor(np.log2(H * self.k))), s["sum_1/N"], "bug", tolerance=1e-6,
        )  # fmt: skip
        broken = [f for f in self.auditor.faults if not f.startswith("optimistic")]
        self.add(
            "snapshot", "counts, snapshots, triggers unlike Algorithm 1's", 0.0 * one,
            np.full_like(one, len(broken)), "bug",
        )  # fmt: skip

    def _values(self) -> None:
        s, defined, one = self.s, self.auditor.has_alpha, np.ones_like(self.k)
        optimum = self.run.best_value
        shortfall = np.abs(s["recorded"] - s["optimistic"])
        self.add(
            "value", "learner's V~ against the equations'", 1e-9 + 0.0 * self.k, shortfall, "bug",
            always=True, defined=defined,
        )  # fmt: skip
        margin = s["optimistic"] - optimum
        i = int(np.argmin(margin))
        blame = "bug"
        if self.failed("omega_1"):
            blame = "event"
        elif s["solver gap"][i] >= -margin[i]:
            blame = "solver"
        if self.failed("value"):
            blame = "bug"
        note = f"the solver's gap there is {s['solver gap'][i]:.4g}"
        if self.run.open_gap:
            note += (
                f"; V* is the best known value, the optimum is at most {self.run.open_gap:.4g} more"
            )
        self.add(
            "optimism", "V~ - V*", 0.0 * self.k, margin, blame, at_most=False, always=True,
            defined=defined, tolerance=1e-9, note=note,
        )  # fmt: skip
        if self.rows["optimism"].verdict == "bug" and not self.promised:
            self._excuse("optimism")
        blame = "event" if self.failed("omega_1", "omega_2") else "bug"
        j = int(np.argmin(s["bellman margin"]))
        if np.isfinite(s["bellman margin"][j]):
            error, margin_j, note = s["bellman error"][j], s["bellman margin"][j], ""
        else:
            j = int(np.argmax(s["largest error"]))
            error, note = s["largest error"][j], "every beta is at least 1: the bound is trivial"
            margin_j = 1.0 - error
        held = bool(margin_j >= -1e-9)
        verdict = "held" if held else blame if self.promised else "not promised"
        self.rows["bellman"] = AuditRow(
            "bellman", "alpha~ - R - P alpha~ against min(beta, 1)", float(error + margin_j),
            float(error), float(margin_j), held, int(self.k[j - 1]) + 1 if j else 1, verdict, note,
        )  # fmt: skip
        if not defined:
            self.add("bellman", "alpha~ - R - P alpha~", one, one, "bug", defined=False)

    def _excuse(self, name: str) -> None:
        row = self.rows[name]
        self.rows[name] = AuditRow(**{**asdict(row), "verdict": "not promised"})

    def _martingales(self) -> None:
        M, S, A, _ = self.sizes
        s, i, G, k = self.s, self.iota, self.model.Gamma, self.k
        defined, spread = self.auditor.has_alpha, self.variance[1] * self.k
        root = np.sqrt
        self.add(
            "X1", "sum of V~ - alpha~(s_1): 4 sqrt(X5 i) + 4 sqrt(X6 i) + 5 i",
            4 * root(s["X5"] * i) + 4 * root(s["X6"] * i) + 5 * i, s["X1"], "event",
            defined=defined,
        )  # fmt: skip
        self.add(
            "X2", "rewards inside minus V: 2 sqrt(2 Var* K i) + 5 i",
            2 * root(2 * spread * i) + 5 * i, s["X2"], "event",
        )  # fmt: skip
        as_printed = 2 * root(2 * s["X4"] * i) + 5 * i
        self.add(
            "X3", "sum of P alpha~ - alpha~(h'): 2 sqrt(2 V3 i) + 5 i (corrected)",
            2 * root(2 * s["V before"] * i) + 5 * i, s["X3"], "event", defined=defined,
            note=f"as printed in the paper (X4 for V3) the promise would be {as_printed[-1]:.4g}",
        )  # fmt: skip
        self.add(
            "X4", "sum of beta: 7 sqrt(3 M Gamma S A i^2 V) + 90 M S^2 A i^2",
            7 * root(3 * M * G * S * A * i**2 * s["V inside"]) + 90 * M * S**2 * A * i**2, s["X4"],
            "bug", defined=defined,
        )  # fmt: skip
        self.add(
            "X5", "variance along the run: 3 Var* K + 46 i^2", 3 * spread + 46 * i**2, s["X5"],
            "event",
        )  # fmt: skip
        self.add(
            "X6", "variance of alpha~ - alpha: 42 i + 4 X4 + 2 updates",
            42 * i + 4 * s["X4"] + 2 * s["updates"], s["X6"], "event", defined=defined,
            note=f"smallest alpha~ - alpha at a reached node: {s['lowest zeta'].min():.4g}",
        )  # fmt: skip
        parts = s["X1"] + s["X2"] + s["X3"] + s["bellman"] + s["at t0"]
        slack = 1e-9 + 1e-12 * k * (self.model.H + 2)
        self.add(
            "decomposition", "sum of V~ - V against X1 + X2 + X3 + bellman + last steps", slack,
            np.abs(s["as recorded"] - parts), "bug", defined=defined,
        )  # fmt: skip

    def _total(self) -> None:
        M, S, A, H = self.sizes
        bound = np.array([
            upper_bound(
                M, S, A, H, int(k), Gamma=self.model.Gamma, variance=self.variance[1],
                delta=self.spec.delta,
            ).total
            for k in self.k
        ])  # fmt: skip
        events = ("omega_1", "omega_2", "X1", "X2", "X3", "X5", "X6")
        blame = "bug"
        if self.failed("optimism") and self.rows["optimism"].verdict == "solver":
            blame = "solver"
        elif self.failed(*events):
            blame = "event"
        s, bracket = self.s, self.run.regret_bracket
        note = ""
        if not bracket.exact:
            note = f"V* is bracketed: the regret is {bracket.text()}, the lower end is measured"
            if bracket.upper > bound[-1]:
                note += ", and the upper end is above the theorem's bound"
        self.add(
            "regret", "sum of V* - V against X1 + X2 + X3 + X4 + updates",
            s["X1"] + s["X2"] + s["X3"] + s["X4"] + s["updates"], s["regret"], blame,
            defined=self.auditor.has_alpha, note=note,
        )  # fmt: skip
        self.add(
            "bound", "sum of V* - V against the theorem's bound", bound, s["regret"], blame,
            note=note,
        )  # fmt: skip
        for name in ("regret", "bound"):
            if self.rows[name].verdict == "bug" and not self.promised:
                self._excuse(name)
