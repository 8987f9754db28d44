"""For the site: pages that the navigation of mkdocs.yml does not name are listed under "More"."""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """MkDocs calls this before it reads the pages."""
    named = set(_pages(config["nav"]))
    pages = sorted(path.name for path in Path(config["docs_dir"]).glob("*.md"))
    more = [page for page in pages if page not in named]
    if more:
        config["nav"].append({"More": more})
    return config


def _pages(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in _pages(part)]
