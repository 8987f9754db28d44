"""One self-contained HTML page about runs: regret, audit, and an episode explorer."""

from latentmdp.report.phases import Collector, save_phases
from latentmdp.report.write import write_report

__all__ = ["Collector", "save_phases", "write_report"]
