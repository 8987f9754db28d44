"""Where things lie: the repository, its examples, and what tests start in other processes."""

from pathlib import Path

SUPPORT = Path(__file__).parent
ROOT = SUPPORT.parents[1]
EXAMPLES = ROOT / "examples"
DOCS = ROOT / "docs"
