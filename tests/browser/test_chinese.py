"""A Chinese run in JupyterLab: fonts, line breaks, light and dark."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from browser.lab import LabPage, LabServer, new_notebook
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

FOLDER = Path(__file__).parents[1] / "models" / "offline" / "chinese"
QUESTION = "出差住宿每晚最多可以报多少钱，发票丢了应该怎么办？"
CELLS = [
    f"""import artifactflow_nb as af

wb = af.Workbench(approvals={{"create_artifact": "ask"}})
wb.sources.add("chinese")
run = wb.ask({QUESTION!r})
run"""
]
_OVERFLOWING = """root => [...root.querySelectorAll("p, h1, h2, li, dd, blockquote, .af-question")]
    .filter(node => node.clientWidth && node.scrollWidth > node.clientWidth + 1).map(node => node.textContent)"""


def test_chinese_run_has_language_font_and_no_overflow(
    lab: LabServer, open_page: Callable[[str], LabPage], tmp_path: Path
) -> None:
    """Live and saved text is marked as Chinese, has a Chinese font and does not overflow."""
    folder = Path(os.environ.get("AF_PICTURES") or tmp_path)
    name = new_notebook(lab, *CELLS)
    shutil.copytree(FOLDER, (lab.root / name).with_name("chinese"))
    page = open_page(name)
    page.page.set_viewport_size({"width": 900, "height": 1100})
    page.open()
    page.theme(light=True)
    page.run_cell(0)
    approve = page.output(0).get_by_role("button", name="Approve write artifact")
    expect(approve).to_be_visible(timeout=20_000)
    expect(page.output(0).locator(".af-question [lang]")).to_have_attribute("lang", "zh")
    page.page.screenshot(path=folder / "chinese-live.png")
    approve.click()
    saved = page.output(0).locator(".af-saved")
    expect(saved.locator(".af-answer blockquote[lang=zh]", has_text="450元").first).to_be_visible(timeout=20_000)
    font = saved.locator("blockquote[lang=zh]").first.evaluate("node => getComputedStyle(node).fontFamily")
    assert "Noto Sans CJK SC" in font
    page.page.screenshot(path=folder / "chinese-light.png")
    assert saved.evaluate(_OVERFLOWING) == []
    page.dark()
    page.page.set_viewport_size({"width": 520, "height": 1100})
    assert saved.evaluate(_OVERFLOWING) == []
    page.page.wait_for_timeout(300)
    page.page.screenshot(path=folder / "chinese-dark.png")
    assert page.errors == []
