"""The visible contents of a report: formulas, citations, code, tables; live, saved, untrusted and exported."""

import os
import re
import shutil
from pathlib import Path

import pypdfium2
import pytest
from browser.axe import axe_in_both_themes
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook, write_notebook
from browser.pictures import save_pictures
from browser.windows import VIEWPORT
from execution import export_html
from playwright.sync_api import Browser, Locator, expect

from artifactflow_nb.core.text.content_style import content_style
from artifactflow_nb.core.text.markdown import MarkdownRenderer

pytestmark = pytest.mark.browser

SOON_MS = 20_000
REPORT = r"""# How far the estimate reaches

The mean of $n$ values has the error $\sigma/\sqrt{n}$, which costs $5 and $6 a sample. The density is

$$
f(x_c) = \frac{1}{\sigma\sqrt{2\pi}}\, e^{-\frac{(x-\mu)^2}{2\sigma^2}}
$$

and for two groups \(\hat\beta = (\mathbf{X}^\top\mathbf{X})^{-1}\mathbf{X}^\top y\), so that

\[
\begin{aligned}
\operatorname{Var}(\bar x) &= \frac{\sigma^2}{n} \\
&\le \sum_{i=1}^{n} \frac{1}{i^2}
\end{aligned}
\]
"""
CELL = f"""import artifactflow_nb as af
from artifactflow_nb.core.toolcalls.xml import format_call

report = {REPORT!r}
call = format_call("create_artifact", {{"id": "reach", "title": "How far the estimate reaches", "content": report}})
wb = af.Workbench(model=af.ScriptedModel([call, "The error is $\\\\sigma/\\\\sqrt{{n}}$: see the report."]),
                  approvals={{"create_artifact": "DECISION"}})
run = wb.ask("How far does the estimate reach?")
run"""


CITED = """import artifactflow_nb as af

wb = af.Workbench(approvals="approve", data_dir="cited")
wb.sources.add("handbook")
cited = wb.ask("How are backups checked, and what happens if the check fails?")
cited"""


@pytest.fixture(scope="module")
def page(lab: LabServer) -> str:
    """The name of a notebook with a finished run and a run that waits; `cited.ipynb` in its folder has sources."""
    (lab.root / "content").mkdir()
    shutil.copytree(Path(__file__).parents[2] / "data" / "handbook", lab.root / "content" / "handbook")
    name = "content/content.ipynb"
    write_notebook(lab, name, [CELL.replace("DECISION", "approve"), CELL.replace("DECISION", "ask")])
    write_notebook(lab, "content/cited.ipynb", [CITED])
    return name


def formula(view: Locator) -> Locator:
    return view.locator("math[alttext]:visible")


_BOXES = """node => {
    const box = (element) => element.getBoundingClientRect();
    const parts = [...node.querySelectorAll("mi, mn, mo")].map(box);
    const below = node.closest("p").getBoundingClientRect().bottom - box(node).bottom;
    return {
        font: getComputedStyle(node).fontFamily,
        within: parts.every(({ top, bottom }) => top >= box(node).top && bottom <= box(node).bottom),
        below,
        drops: [...node.querySelectorAll("msub")].map(({ children: [a, b] }) => box(b).bottom - box(a).bottom),
    };
}"""
"""The font of a displayed formula, whether it is cut, the space below it and how far its subscripts hang, in pixels."""


def expect_whole(formula: Locator) -> None:
    """A displayed formula is in a font for formulas, is not cut, and has no empty line below it."""
    measured = formula.evaluate(_BOXES)
    assert measured["within"]
    assert "STIX Two Math" in measured["font"]
    assert measured["below"] < 10
    assert all(drop > 1 for drop in measured["drops"])


def test_formulas_are_displayed_live_saved_and_untrusted(page: str, lab: LabServer, open_page: OpenPage) -> None:
    """Pages draw MathML; JupyterLab typesets the TeX where its sanitiser has removed the MathML."""
    shown = open_page(page)
    shown.open()
    shown.run_cell(0)
    saved = shown.wait_saved(0, "Completed")
    expect(formula(saved)).to_have_count(6)
    expect(saved.locator(".af-page")).to_contain_text("costs $5 and $6 a sample")
    expect(saved.locator("mjx-container")).to_have_count(0)
    expect_whole(saved.locator("math[display=block]:visible").first)
    shown.run_cell(1)
    live = shown.output(1).locator(".af-live")
    expect(formula(live.locator(".af-preview"))).to_have_count(5, timeout=SOON_MS)
    save_pictures(shown, saved, "formulas")
    shown.save()
    shown.page.wait_for_timeout(500)
    shutil.copy(lab.root / page, lab.root / "content" / "untrusted.ipynb")

    untrusted: LabPage = open_page("content/untrusted.ipynb")
    untrusted.open_elsewhere()
    output = untrusted.output(0)
    expect(output.locator("mjx-container:visible")).to_have_count(6, timeout=SOON_MS)
    expect(output.locator(".af-math").first).not_to_contain_text("\\(")
    assert "costs $5 and $6 a sample" in output.inner_text()
    save_pictures(untrusted, output, "formulas-untrusted")
    assert shown.errors == untrusted.errors == []
    assert untrusted.foreign_requests() == []


def test_citation_shows_its_passage_in_the_saved_output(page: str, open_page: OpenPage) -> None:
    """Hover and focus open the passage at its mark, with the quoted words and a link to the file."""
    shown = open_page(page.replace("content.ipynb", "cited.ipynb"))
    shown.open()
    shown.run_cell(0)
    saved = shown.wait_saved(0, "Completed")
    mark = saved.locator(".af-page").get_by_role("button", name="[1] Storage: Backups").first
    passage = saved.locator(".af-page .af-passage").first
    expect(passage).to_be_hidden()
    mark.hover()
    expect(passage).to_be_visible()
    shown.page.mouse.move(0, 0)
    expect(passage).to_be_hidden()
    mark.focus()
    expect(passage).to_contain_text("Section backups")
    expect(passage.locator("mark")).to_contain_text("only after a restore has been tried")
    expect(passage.get_by_role("link", name="Open the source")).to_have_attribute(
        "href",
        re.compile(r"/content/handbook/storage\.md"),  # JupyterLab adds the folder of the notebook
    )
    shown.page.keyboard.press("Tab")
    expect(passage.get_by_role("link", name="Open the source")).to_be_focused()
    mark.focus()
    save_pictures(shown, saved, "citation")
    assert passage.bounding_box()["width"] > 300
    assert shown.errors == []


UNREAD = """import artifactflow_nb as af

text = "Backups run at night [1]. Elephants sing at dawn [2].\\n\\n1. Storage — local:handbook/storage.md#backups"
text += "\\n2. https://example.org/never\\n"
turns = [af.ToolCall("web_fetch", {"urls": ["local:handbook/storage.md#backups"]}),
         af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": text}), text]
wb = af.Workbench(model=af.ScriptedModel(turns), approvals="approve", data_dir="unread",
                  graph_config={"lead_agent": {"tools": ["all"]}})
wb.sources.add("handbook")
unread = wb.ask("When do backups run?")
unread"""


def test_unread_source_is_recognisable(page: str, lab: LabServer, open_page: OpenPage) -> None:
    """The mark of an unread source is dotted and says so: in a run, an artifact and its panel, and without a kernel."""
    name = "content/unread.ipynb"
    write_notebook(lab, name, [UNREAD, "unread.artifacts['note']", "wb.artifact_panel()"])
    shown = open_page(name)
    shown.open()
    shown.run_cell(0)
    shown.wait_saved(0, "Completed")
    shown.run_cell(1)
    shown.run_cell(2)
    for index in range(3):
        view = shown.visible_run(index)
        read = view.get_by_role("button", name="[1] Storage", exact=True).first
        unread = view.get_by_role("button", name="[2] https://example.org/never, not read by this run").first
        expect(unread).to_be_visible(timeout=SOON_MS)
        styles = [mark.evaluate("mark => getComputedStyle(mark).textDecorationStyle") for mark in (read, unread)]
        assert styles == ["solid", "dotted"]
        unread.focus()
        passage = unread.locator("xpath=following-sibling::*")
        expect(passage).to_contain_text("This run has not read this source.")
        save_pictures(shown, view, f"unread-{index}")
        assert axe_in_both_themes(shown, ".af-run") == []
        shown.theme(light=True)
    shown.saved_outputs(0)
    shown.shutdown_kernel()
    exported = export_html(lab.root / name)
    shown.page.goto(exported.as_uri())
    expect(shown.page.locator(".af-cite-unread:visible")).to_have_count(4)
    assert shown.errors == []


CODE_REPORT = f"""# Rates

A rate is computed by `rate(returned)`, see https://docs.python.org/3/library/math.html.

```python
def rate(returned: list[int]) -> float:
    # a share, not a percentage
    return sum(returned) / max(len(returned), 1)  # {"and so on, " * 20}
```

| place | number of loggers returned | number of loggers ignored | share of the loggers that were returned in time |
|---|---:|---:|---:|
| North | 12 | 3 | 0.8 |
| South | 7 | 7 | 0.5 |

- [x] count them
- [ ] ask again[^1]

[^1]: In spring.
"""
CODE_CELL = f"""import artifactflow_nb as af
from artifactflow_nb.core.toolcalls.xml import format_call

call = format_call("create_artifact", {{"id": "rates", "title": "Rates", "content": {CODE_REPORT!r}}})
answer = "See it:\\n\\n~~~python\\nprint(1)\\n~~~\\n"
wb = af.Workbench(model=af.ScriptedModel([call, answer]), approvals="approve", data_dir="rates")
run = wb.ask("What is the rate?")
run"""


_OVERLAPS = """box => {
    const rects = [...box.querySelectorAll("button, pre, table")].map((element) => element.getBoundingClientRect());
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    return rects.some((a, i) => rects.slice(i + 1).some((b) => meet(a, b)));
}"""
"""True if a button covers another one, the code or the table."""


def expect_apart(boxes: Locator) -> None:
    """The buttons of code and tables cover nothing, even while a button has the focus or the pointer."""
    for box in boxes.all():
        box.get_by_role("button").last.hover()
        assert not box.evaluate(_OVERLAPS)
        box.get_by_role("button").last.focus()
        assert not box.evaluate(_OVERLAPS)


def test_code_and_tables_can_be_copied(lab: LabServer, open_page: OpenPage) -> None:
    """In a saved output the buttons copy code and tables; in a live panel code is added as a cell."""
    write_notebook(lab, "rates.ipynb", [CODE_CELL, "wb.chat(run)"])
    shown = open_page("rates.ipynb", new=True)
    shown.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shown.open()
    shown.run_cell(0)
    saved = shown.wait_saved(0, "Completed")
    copy = saved.locator(".af-page").get_by_role("button", name="Copy this code")
    copy.click()
    expect(saved.locator(".af-page").get_by_role("button", name="Copied")).to_be_visible()
    expect(copy).to_have_text("Copy")
    clipboard = "() => navigator.clipboard.readText()"
    assert str(shown.page.evaluate(clipboard)).startswith("def rate(returned: list[int]) -> float:\n    # a share")
    saved.get_by_role("button", name="Copy this table").click()
    assert str(shown.page.evaluate(clipboard)).splitlines()[-1] == "South\t7\t7\t0.5"
    saved.get_by_role("button", name="Open as a DataFrame").click(timeout=SOON_MS)
    expect(shown.cells.nth(1)).to_contain_text(".tables[0]")
    shown.run_cell(1)
    expect(shown.output(1)).to_contain_text("South", timeout=SOON_MS)
    shown.run_cell(2)
    panel = shown.visible_run(2)
    expect(panel.get_by_role("button", name="Add to notebook as a cell").first).to_be_visible(timeout=SOON_MS)
    for width in (1280, 800, 400):
        shown.page.set_viewport_size({"width": width, "height": 900})
        check_code_layout(shown, saved, panel, width)
    shown.page.set_viewport_size(VIEWPORT)
    panel.get_by_role("button", name="Copy this code").first.click()
    notice = panel.get_by_role("alert").filter(has_text="Copied.")
    expect(notice).to_be_visible()
    expect(notice).to_have_count(0)
    panel.get_by_role("button", name="Add to notebook as a cell").first.click()
    expect(shown.cells.nth(3)).to_contain_text("print(1)")
    assert shown.errors == []


def check_code_layout(shown: LabPage, saved: Locator, panel: Locator, width: int) -> None:
    """Code is highlighted in one size and scrolls; buttons cover no text, before and after a change of the theme."""
    code = saved.locator(".af-page pre")
    code.scroll_into_view_if_needed()
    expect(code.locator("b")).to_have_text(["def", "return"])
    sizes = "pre => [...new Set([...pre.querySelectorAll('*')].map((part) => getComputedStyle(part).fontSize))]"
    assert len(code.evaluate(sizes)) == 1
    assert code.evaluate("pre => pre.scrollWidth > pre.clientWidth && pre.clientHeight < 100")
    expect_apart(saved.locator(".af-code-box:visible"))
    assert axe_in_both_themes(shown, ".af-saved") == []
    save_pictures(shown, saved, f"code-{width}")
    expect_apart(saved.locator(".af-code-box:visible"))
    panel.scroll_into_view_if_needed()
    expect(panel.locator(".af-code-box").first).to_be_visible()
    expect_apart(panel.locator(".af-code-box:visible"))
    save_pictures(shown, panel, f"code-chat-{width}")


WRITTEN = f"""import artifactflow_nb as af

report = {REPORT!r} + "".join(f"\\n{{n}}. The station reports its level every hour.\\n" for n in range(1, 60))
writing = af.Workbench(
    model=af.ScriptedModel(
        [af.ToolCall("create_artifact", {{"id": "reach", "title": "How far the estimate reaches", "content": report}}),
         report], chunk_chars=12, delay_s=0.02),
    approvals="approve").ask("How far does the estimate reach?")
writing"""


def test_report_streams_in_its_final_place(lab: LabServer, open_page: OpenPage) -> None:
    """A streamed text does not move; the title, and an answer that repeats the text, are displayed once."""
    (lab.root / "writing").mkdir()
    write_notebook(lab, "writing/writing.ipynb", [WRITTEN])
    shown = open_page("writing/writing.ipynb")
    shown.open()
    shown.run_cell(0)
    live = shown.output(0).locator(".af-live")
    text = live.locator(".af-writing")
    expect(formula(text).nth(2)).to_be_visible(timeout=SOON_MS)
    before = len(text.inner_text())
    expect(text.locator("li").nth(25)).to_be_visible(timeout=SOON_MS)
    assert len(text.inner_text()) > before
    if folder := os.environ.get("AF_SCREENSHOTS"):
        shown.page.screenshot(path=Path(folder) / "writing.png")
    saved = shown.wait_saved(0, "Completed")
    expect(saved.locator(".af-page:visible")).to_have_count(1)
    expect(saved.locator(".af-artifact").get_by_text("How far the estimate reaches", exact=True)).to_have_count(1)
    expect(saved.locator(".af-repeats")).to_contain_text("The answer repeats the report below.")
    save_pictures(shown, saved, "report-repeated")
    assert shown.errors == []


_WATCH = """text => {
    const isRead = (node) => node.checkVisibility() && [...node.parentElement.children].indexOf(node) === 19;
    text.querySelectorAll("li")[19].scrollIntoView({ block: "center" });
    window.places = [];
    const watch = () => {
        const read = [...document.querySelectorAll(".af-writing li, .af-preview li")].find(isRead);
        window.places.push(read ? read.getBoundingClientRect().top : -1);
        requestAnimationFrame(watch);
    };
    requestAnimationFrame(watch);
}"""
"""Records in each frame where the line is that the reader reads: in the text that is written, or in the preview."""


def test_reader_keeps_the_place_when_the_text_waits_for_approval(lab: LabServer, open_page: OpenPage) -> None:
    """The card replaces the streamed text without moving the line that the reader reads."""
    name = new_notebook(lab, WRITTEN.replace('approvals="approve"', 'approvals={"create_artifact": "ask"}'))
    shown = open_page(name)
    shown.open()
    shown.run_cell(0)
    text = shown.output(0).locator(".af-live .af-writing")
    expect(text.locator("li").nth(25)).to_be_visible(timeout=SOON_MS)
    text.evaluate(_WATCH)
    preview = shown.output(0).locator(".af-approval .af-preview")
    expect(preview.locator("li").nth(58)).to_be_visible(timeout=SOON_MS)
    shown.page.wait_for_timeout(500)
    places = shown.page.evaluate("window.places")
    assert len(places) > 20
    assert max(places) - min(places) <= 2, "The text jumped under the reader."
    expect(preview.locator("li").nth(19)).to_be_in_viewport()
    assert shown.errors == []


PRINTED_PX = 700
"""Width of a printed page."""
_BROKEN_NUMBERS = """cells => cells.filter((cell) => {
    const text = document.createRange();
    text.selectNodeContents(cell);
    return /^[\\d.,]+$/.test(cell.textContent) && text.getClientRects().length > 1;
}).map((cell) => cell.textContent)"""


def test_print_shows_everything(lab: LabServer, open_page: OpenPage) -> None:
    """On paper nothing is cut, numbers do not break, outputs begin below their input, and there are no buttons."""
    (lab.root / "printed").mkdir()
    code = "```python\\n" + "x = 1  # " + "long " * 60 + "\\n```"
    columns = ["Model", "Type", "COP at 7 °C", "COP at −15 °C", "Noise dB(A)", "Refrigerant", "Price (EUR)", "Source"]
    rows = [columns, ["-"] * 7 + ["-:"], ["Granitt GS150", "ground", "4.71", "4.40", "42", "R410A", "18,400", "11,200"]]
    table = "\\n".join(f"| {' | '.join(row)} |" for row in rows)
    text = "\\n\\n".join(f"Paragraph {n} of the answer." for n in range(60))
    write_notebook(
        lab,
        "printed/printed.ipynb",
        [
            f"""import artifactflow_nb as af

answer = "An answer.\\n\\n{code}\\n\\n{table}\\n\\n{text}"
run = af.Workbench(model=af.ScriptedModel([answer])).ask("How is it printed?")
run"""
        ],
    )
    shown = open_page("printed/printed.ipynb")
    shown.open()
    shown.run_cell(0)
    saved = shown.wait_saved(0, "Completed")
    shown.page.emulate_media(media="print")
    code_block = saved.locator("pre").first
    expect(code_block).to_be_visible()
    assert code_block.evaluate("node => node.scrollWidth <= node.clientWidth + 1")
    expect(saved.locator("button:visible")).to_have_count(0)
    shown.page.set_viewport_size({"width": PRINTED_PX, "height": 900})
    assert saved.locator("td").evaluate_all(_BROKEN_NUMBERS) == []
    assert saved.locator("th").evaluate_all("cells => cells.every((cell) => cell.scrollWidth <= cell.clientWidth)")
    assert shown.errors == []
    shown.saved_outputs(0)
    page = export_html(lab.root / "printed" / "printed.ipynb")
    shown.page.goto(page.as_uri())
    with pypdfium2.PdfDocument(shown.page.pdf(format="A4")) as document:
        assert "Completed" in document[0].get_textpage().get_text_bounded()


def test_formula_appears_once_beside_other_styles(chromium: Browser) -> None:
    """The formula appears once where a page forces `[hidden]`, and where a sanitiser has removed the drawing."""
    formula = MarkdownRenderer().html("$x^2$")
    without_drawing = re.sub(r"(<span hidden[^>]*>).*?(</span>)", r"\1x2\2", formula, count=1)
    page = chromium.new_page()
    page.set_content(
        f"<style>[hidden] {{ display: none !important; }}</style><style>{content_style(formula)}</style>"
        f"<div id='trusted'>{formula}</div><div id='untrusted'>{without_drawing}</div>"
    )
    drawn = page.locator("#trusted .af-math > span")
    expect(drawn).to_be_visible()
    expect(page.locator("#trusted .af-math > math")).to_be_hidden()
    expect(page.locator("#untrusted .af-math > span")).to_be_hidden()
    page.close()
