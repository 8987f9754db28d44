"""The pictures of docs/figures.md, made by the page's own code: `python scripts/gallery.py`."""

import os
import re
import shutil
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    """Run the page's code blocks in an empty folder and keep the pictures it shows."""
    page = (DOCS / "figures.md").read_text(encoding="utf-8")
    namespace: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            for code in re.findall(r"```python\n(.*?)```", page, re.S):
                exec(compile(code, "figures.md", "exec"), namespace)
        finally:
            os.chdir(before)
        for name in re.findall(r"images/gallery_(\w+\.svg)", page):
            shutil.copyfile(Path(folder) / name, DOCS / "images" / f"gallery_{name}")


if __name__ == "__main__":
    main()
