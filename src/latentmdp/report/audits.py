"""The audit's table in HTML: promise, measure and verdict of every lemma."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from latentmdp.report.html import section, table, tag

if TYPE_CHECKING:
    from latentmdp.theory.auditing.report import AuditReport

_GOOD, _BAD = ("held",), ("bug", "event", "solver")
_MEANING = {
    "held": "held",
    "event": "failed: a lemma's event, which the proof allows with probability δ each",
    "solver": "failed within the planner's certified gap",
    "bug": "failed, and nothing allows it: a mistake in the program",
    "not promised": "failed where the theorem promises nothing",
    "not defined": "counts do not determine it",
}


def audit_section(audits: Sequence[tuple[str, "AuditReport"]]) -> Markup:
    """One table for each audited run, and a line that says how it went, and in which units."""
    words = tag(
        "p",
        "Every quantity of the upper bound's proof, measured exactly on the run, next to what its "
        "lemma promises.",
    )
    parts: list[Any] = []
    for name, report in audits:
        if len(audits) > 1:
            parts.append(tag("h3", name))
        parts += _one(name, report)
    return section("audit", "Audit", words, *parts)


def _one(name: str, report: "AuditReport") -> list[Markup]:
    verdict = "Everything that was promised held." if report.held else "Not everything held."
    rows = [
        (tag("code", row.name), row.promise, row.measured, row.margin, _verdict(row.verdict),
         int(row.closest), row.statement + (f" ({row.note})" if row.note else ""))
        for row in report.rows
    ]  # fmt: skip
    headers = ("quantity", "promise", "measured", "margin", "verdict", "closest at episode", "what")
    found = [
        tag("p", tag("strong", verdict), " ", report.heading),
        table(f"Audit: {name}", headers, rows),
    ]
    if report.faults:
        found.append(tag("ul", *(tag("li", fault) for fault in report.faults)))
    used = list(dict.fromkeys(row.verdict for row in report.rows))
    keys = "; ".join(f"{v}: {_MEANING.get(v, v)}" for v in used if v != "held")
    return [*found, tag("p", keys, ".", class_="small soft")] if keys else found


def _verdict(verdict: str) -> Markup:
    kind = "held" if verdict in _GOOD else "broken" if verdict in _BAD else "open"
    sign = {"held": "✓", "broken": "✗", "open": "–"}[kind]
    return tag("span", f"{sign} {verdict}", class_=f"verdict {kind}")
