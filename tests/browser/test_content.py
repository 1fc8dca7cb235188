"""What a reader sees of a report: formulas, citations, code, tables; live, saved, untrusted and exported."""

import shutil

import pytest
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, write_notebook
from browser.pictures import save_pictures
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
REPORT = r"""# How far the estimate reaches

The mean of $n$ values has the error $\sigma/\sqrt{n}$, which costs $5 and $6 a sample. The density is

$$
f(x) = \frac{1}{\sigma\sqrt{2\pi}}\, e^{-\frac{(x-\mu)^2}{2\sigma^2}}
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


@pytest.fixture(scope="module")
def page(lab: LabServer) -> str:
    """The name of a notebook with a finished run and a run that waits."""
    (lab.root / "content").mkdir()
    name = "content/content.ipynb"
    write_notebook(lab, name, [CELL.replace("DECISION", "approve"), CELL.replace("DECISION", "ask")])
    return name


def formula(view: Locator) -> Locator:
    return view.locator("math[alttext]:visible")


def test_formulas_are_displayed_live_saved_and_untrusted(page: str, lab: LabServer, open_page: OpenPage) -> None:
    """Pages draw MathML, and JupyterLab sets the TeX where its sanitiser has removed that."""
    shown = open_page(page)
    shown.open()
    shown.run_cell(0)
    saved = shown.wait_saved(0, "Completed")
    expect(formula(saved)).to_have_count(6)
    expect(saved.locator(".af-page")).to_contain_text("costs $5 and $6 a sample")
    expect(saved.locator("mjx-container")).to_have_count(0)
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
