"""What a notebook shows of a result fits on a line and says what matters."""

from dataclasses import replace

import numpy as np

import latentmdp as lm


def test_an_evaluation_is_one_line():
    model = lm.make("maze:size=4,goals=8,horizon=10")
    ev = lm.evaluate(model, lm.PolicyGraph.from_table(np.zeros((10, model.S), dtype=int)))
    text = repr(ev)
    assert text.startswith(f"Evaluation(value {ev.value:.6g}, variance {ev.variance:.6g}, by con")
    assert text.endswith(f"... 8 in all; alpha of {10 * model.S} nodes)")
    assert len(text) < 200
    assert "array" not in text
    few = repr(lm.evaluate(lm.make("bandit:contexts=2,arms=2,horizon=3"),
                           lm.PolicyGraph.from_table(np.zeros((3, 3), dtype=int))))  # fmt: skip
    assert "in all" not in few


def test_an_audit_is_one_line():
    run = lm.learn(lm.make("bandit:contexts=2,arms=2,horizon=3"), "mvp", 200, audit=True)
    report = lm.audit(run)
    held = sum(row.verdict == "held" for row in report.rows)
    text = repr(report)
    assert text.startswith(f"AuditReport({held} of {len(report.rows)} rows held")
    assert "\n" not in text
    assert len(text) < 300
    bad = (replace(report.rows[0], verdict="bug"), *report.rows[1:])
    assert f"bug: {report.rows[0].name}" in repr(replace(report, rows=bad))
    assert "2 faults" in repr(replace(report, faults=("a", "b")))
