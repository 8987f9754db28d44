"""The audit's table in HTML, from whatever audit report is given."""

from collections.abc import Sequence
from typing import Any

from latentmdp.report.html import Html, section, tag


def audit_section(audits: Sequence[tuple[str, Any]]) -> Html:
    """One table for each audited run."""
    words = tag(
        "p",
        "Every quantity of the proof, measured on the run, next to what the lemma promises.",
    )
    parts = []
    for name, report in audits:
        if len(audits) > 1:
            parts.append(tag("h3", name))
        parts.append(tag("pre", str(report)))
    return section("audit", "Audit", words, *parts)
