"""The page of a study with hostile names, in Chromium: no script runs, and the page works.

Needs Playwright and a Chromium, like `test_report_browser.py`.
"""

import re

import pytest
from hostile_names import NAMES, quoted
from report_browser import BROKEN_NUMBERS, LOW_CONTRAST, Watched, browser  # noqa: F401

import latentmdp as lm
from latentmdp.commands import cli
from latentmdp.errors import printable

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MODEL = "bandit:arms=2,contexts=2,horizon=2"
TASK = """
def regret(name, x, algorithm, seed, stream):
    return {"regret": (1.0 + seed) * x, "note": name}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A page whose models and algorithms all have hostile names."""
    folder = tmp_path_factory.mktemp("models")
    some = list(NAMES.values())
    text = f"title = {quoted(some[0] + some[14])}\nepisodes = 20\nseeds = 2\n"
    some.remove(NAMES["template"])  # braces name swept keys
    for i, name in enumerate(some):
        text += f'[[models]]\nname = {quoted(name)}\nmodel = "{MODEL},seed={i}"\n'
    for name, algorithm in zip((some[5], some[1]), ("random", "greedy"), strict=True):
        text += f'[[algorithms]]\nname = {quoted(name)}\nalgorithm = "{algorithm}"\n'
    return reported(folder, text), some


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """A page of functions, whose words, arguments and learners are hostile."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "task.py").write_text(TASK)
    some = list(NAMES.values())
    text = "seeds = 2\n"
    for i, name in enumerate(some):
        text += f'[[tasks]]\nname = {quoted(name)}\nfunction = "task.py:regret"\n'
        text += f"arguments = {{ name = {quoted(some[-1 - i])} }}\n"
        text += f'sweep = {{ x = [1, 2, 4], algorithm = [{quoted(name)}, "b"] }}\n'
        text += f"exponent = 0.5\nsize = {quoted(name)}\nsetting = {quoted(name)}\n"
        text += f"note = {quoted(name)}\n"
    return reported(folder, text), some


def reported(folder, text):
    path = folder / "s.toml"
    path.write_text(text, encoding="utf-8")
    study = lm.Study.load(path).run(jobs=1)
    assert study.status()["failed"] == 0, study.status()["failures"][0]
    assert cli.run(["study", "report", str(path)]) == 0
    return folder / "s.html"


def shown(name):
    """How a name stands in a page: controls are escaped, white space is what HTML makes of it."""
    seen = "".join(
        c if c in " \t\r\n\u200d\U0010ffff" or c.isprintable() else printable(c) for c in name
    )
    return re.sub(r"[ \t\r\n]+", " ", seen).strip(" ")


@pytest.fixture(params=["models", "tasks"])
def page(request):
    return request.getfixturevalue(request.param)


def test_no_name_gets_out_of_its_place(page, browser):
    path, names = page
    with Watched(browser, path) as opened:
        dialogs = []
        opened.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        for text in opened.query_selector_all("th button, .panel svg, td")[:200]:
            text.hover(force=True)
        opened.keyboard.press("Tab")
        assert dialogs == []
        scripts = opened.eval_on_selector_all("script", "s => s.length")
        assert scripts <= 2  # the data and the page's own
        handlers = "s => s.flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on'))"
        assert opened.eval_on_selector_all("*", handlers) == []
        assert opened.eval_on_selector_all("img, iframe, base, link, object", "s => s.length") == 0
        hidden = re.compile(
            "[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufffd]"
        )
        words = opened.eval_on_selector("html", "e => e.textContent")
        assert hidden.findall(words) == []
        cells = opened.eval_on_selector_all(
            "#table-runs tbody th", "s => s.map(e => e.textContent.trim().replace(/\\s+/g, ' '))"
        )
        for name in names:
            if shown(name):
                assert any(shown(name) in cell for cell in cells), name
        assert opened.evaluate(BROKEN_NUMBERS) == []
        assert opened.evaluate(LOW_CONTRAST) == []


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_long_names_do_not_widen_the_page(page, browser, size):
    path, _ = page
    with Watched(browser, path, size) as opened:
        assert opened.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        height = opened.eval_on_selector_all(
            "tbody tr", "rows => Math.max(...rows.map(r => r.getBoundingClientRect().height))"
        )
        assert height < 1500


def test_tables_are_sorted_and_filtered(page, browser):
    path, names = page
    with Watched(browser, path) as opened:
        heading = opened.locator("#table-runs thead th", has_text="regret")
        for direction in ("ascending", "descending"):
            heading.locator("button").click()
            assert heading.get_attribute("aria-sort") == direction
            column = opened.eval_on_selector(
                "#table-runs", "t => [...t.querySelectorAll('tbody tr')].map(r => "
                "Number(r.cells[[...t.querySelectorAll('th[scope=col]')].findIndex("
                "h => h.textContent.trim() === 'regret')].textContent))",
            )  # fmt: skip
            assert column == sorted(column, reverse=direction == "descending")
        for name in names:
            words = shown(name)
            if not words:
                continue
            opened.fill("#search-runs", words)
            found = opened.eval_on_selector_all(
                "#table-runs tbody tr", "r => r.filter(x => !x.hidden).map(x => x.textContent)"
            )
            assert found, name
            low = [text.lower() for text in found]
            assert all(word in text for text in low for word in words.lower().split()), name
        opened.fill("#search-runs", "")
