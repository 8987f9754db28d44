"""Pictures of a report: `python scripts/screenshots.py demo/report.html docs/images`.

Needs Playwright and a Chromium (`LATENTMDP_CHROMIUM` names another one than `chromium`).
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
CONTEXT = "2"


def main(report: Path, folder: Path) -> None:
    """Write `explorer.png` and `explorer-phone.png` (dark) into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    found = os.environ.get("LATENTMDP_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 1330})
        page.goto(report.resolve().as_uri())
        _walk(page)
        page.locator("#explore-box").screenshot(path=folder / "explorer.png")
        phone = browser.new_context(viewport={"width": 390, "height": 1180}, color_scheme="dark")
        small = phone.new_page()
        small.goto(report.resolve().as_uri())
        _walk(small)
        small.locator(".stage").screenshot(path=folder / "explorer-phone.png")
        browser.close()


def _walk(page: Any) -> None:
    """Into an episode until a context is ruled out, with nothing sticky in the way."""
    page.add_style_tag(content=".contents, .transport { position: static !important; }")
    page.locator("#explore-context").select_option(CONTEXT)
    for _ in range(50):
        page.locator("#explore-forward").click()
        beliefs = page.eval_on_selector_all(".belief", "rows => rows.map(r => +r.dataset.belief)")
        if sum(belief == 0 for belief in beliefs) >= 1:
            break
    page.wait_for_timeout(500)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
