"""One self-contained HTML page about runs: regret, audit, and an episode explorer."""

from latentmdp.report.write import write_report

__all__ = ["write_report"]
