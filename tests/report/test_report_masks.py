"""The report's explorer shows unavailable actions as unavailable, in a real browser."""

import numpy as np
import pytest
from report_browser import Watched, browser, transcript  # noqa: F401  # a fixture

import latentmdp as lm
from latentmdp.report import write_report

pytestmark = pytest.mark.browser
ACTIONS = ".actions button"


@pytest.fixture(scope="module")
def masked():
    return lm.make("maze:size=3,goals=2,horizon=6,blocked=1,walls=1")


@pytest.fixture(scope="module")
def page_of(masked, tmp_path_factory):
    run = lm.learn(masked, "mvp", 2000, optimal=(0.5, 1.0), audit=True, bonus_scale=0.01)
    return write_report([run], tmp_path_factory.mktemp("report") / "report.html", title="A maze")


def test_unavailable_actions_cannot_be_clicked(browser, page_of, masked):
    with Watched(browser, page_of) as page:
        page.locator("#explore-first").click()
        for step in range(masked.H):
            state, action = transcript(page)[step][:2]
            assert masked.allowed[state, action]
            off = page.eval_on_selector_all(ACTIONS, "b => b.map(x => x.disabled)")
            assert (np.array(off) == ~masked.allowed[state]).all()
            words = page.eval_on_selector_all(ACTIONS, "b => b.map(x => x.innerText)")
            said = ["unavailable" in text for text in words]
            assert said == off
            if step + 1 < masked.H:
                page.locator("#explore-step").fill(str(step + 1))
        page.locator("#explore-first").click()
        state = transcript(page)[0][0]
        other = int(masked.actions_in(state)[-1])
        page.locator(ACTIONS).nth(other).click()
        assert transcript(page)[0][1] == other


def test_the_model_in_the_page_is_the_model(browser, page_of, masked, tmp_path):
    file = tmp_path / "model.json"
    with Watched(browser, page_of) as page:
        with page.expect_download() as download:
            page.locator("button[data-model]").click()
        download.value.save_as(file)
    assert lm.load(file) == masked
