"""Reports as drafts of papers: keys instead of numbers, and no command of the text in LaTeX and Quarto."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexMacroNode, LatexWalker
from support.awkward_reports import BIBLIOGRAPHY, KEYS, REPORTS

import artifactflow_nb as af
from artifactflow_nb.plugins.crate.draft import latex, quarto, without_sources

OpenWorkbench = Callable[..., af.Workbench]

VALUES = {"title": "A & B_c", "authors": "Ada", "date": "2026-11-28", "origin": "run-1", "methods": "50 % of $5.",
          "references": ""}  # fmt: skip
HOSTILE = r"""# Depth \input{/etc/passwd}

\immediate\write18{id} and $\input{x}$ and ^^5cinput{x} <b>bold</b>
<script>alert(1)</script> {{< include secret.qmd >}} % no comment

```{python}
import os; os.system("id")  # \end{flushleft}\input{x}
```

`{python} 1+1` and `\input{y}`{=latex} ~~~ {r}

---
engine: jupyter
---

[a link](https://lake.example/a%20b_c?d=1&e=#f) and [another](javascript:alert(1)) and ![a picture](https://x.example/p.png)

| site | depth |
|---|---|
| A | 41 & more |

- one [1, 2]
- two [1–3] and [9]
"""
SYMBOLS = json.loads((files("artifactflow_nb.plugins.crate") / "symbols.json").read_text(encoding="utf-8"))
ALLOWED = frozenset(re.findall(r"\\([A-Za-z]+)", " ".join(SYMBOLS.values()))) | frozenset(
    {"documentclass", "usepackage", "iftex", "ifPDFTeX", "fi", "title", "author", "date", "maketitle", "section",
     "subsection", "bibliographystyle", "bibliography", "cite", "emph", "textbf", "texttt", "href", "item", "hline",
     "paragraph", "nocite", "leavevmode", "bigskip", "subsubsection", "subparagraph", "textquotesingle",
     "textasciigrave", "endhead", "linewidth",
     "textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar", "textquotedbl"}
)  # fmt: skip


def macros(text: str) -> set[str]:
    """The commands of a document of LaTeX, in all environments and arguments; the document must parse."""
    found: set[str] = set()

    def visit(nodes: list[object]) -> None:
        for node in nodes:
            if node is None:
                continue
            if isinstance(node, LatexMacroNode):
                found.add(node.macroname)
            if isinstance(node, LatexEnvironmentNode):
                found.add(f"begin:{node.environmentname}")
            arguments = getattr(node, "nodeargd", None)
            visit(list(getattr(arguments, "argnlist", None) or ()))
            visit(list(getattr(node, "nodelist", None) or ()))

    visit(LatexWalker(text, tolerant_parsing=False).get_latex_nodes()[0])
    return found


def test_no_command_of_a_text_is_in_the_latex() -> None:
    text = latex(HOSTILE, {1: "lake", 2: "pond", 3: "sea"}, VALUES)
    commands = {name for name in macros(text) if re.fullmatch(r"[A-Za-z]+", name)}
    assert commands <= ALLOWED
    assert {name for name in macros(text) if name.startswith("begin:")} <= {
        *("begin:document", "begin:flushleft", "begin:longtable", "begin:itemize")
    }  # fmt: skip
    assert "^^" not in text
    assert text.count(r"\end{document}") == 1
    assert r"\title{A \& B\_c}" in text
    assert r"\href{https://lake.example/a\%20b\_c?d=1\&e=\#f}{a link}" in text
    assert r"\href{javascript" not in text
    assert r"A & 41 \& more \\" in text


def test_marks_become_keys_if_all_their_numbers_are_listed() -> None:
    keys = {1: "lake", 2: "pond", 3: "sea"}
    text = latex(HOSTILE, keys, VALUES)
    assert r"one \cite{lake,pond}" in text
    assert r"two \cite{lake,pond,sea} and {[}9{]}" in text
    assert "one [@lake; @pond]" in quarto(HOSTILE, keys, VALUES)


def test_no_code_of_a_text_runs_in_quarto() -> None:
    """The draft has no block or span of code that Quarto runs, no include, no second header and no raw block."""
    text = quarto(HOSTILE, {}, VALUES)
    header, body = text.removeprefix("---\n").split("\n---\n", 1)
    assert "engine: markdown" in header
    assert "enabled: false" in header
    assert 'title: "A & B_c"' in header
    assert re.search(r"(?:`|~~~)\s*\{", body) is None
    assert "{{<" not in body
    assert re.search(r"^(---|\.\.\.)\s*$", body, re.MULTILINE) is None
    assert "<script" not in body
    other = quarto("One.\r\n\r\n---\r\ninclude-before-body: a.md\r\n---\r\n", {}, VALUES)
    assert re.search(r"^(---|\.\.\.)\s*$", other.split("\n---\n", 1)[1], re.MULTILINE) is None
    assert "{{<" not in quarto("One.", {}, {**VALUES, "title": "{{< env OPENAI_API_KEY >}}"})


def test_no_attribute_of_a_text_is_one_of_html_in_quarto() -> None:
    """Attributes such as `onclick` would be code in the page, and a style loads pictures of other sites."""
    text = quarto('[x]{onclick="a()"} `c`{onclick="b()"}', {}, VALUES)
    header = yaml.safe_load(text.split("---\n")[1])
    extensions = {"bracketed_spans", "fenced_divs", "header_attributes", "link_attributes", "inline_code_attributes",
                  "fenced_code_attributes", "raw_html", "raw_attribute", "raw_tex"}  # fmt: skip
    assert extensions <= set(header["from"].split("-"))
    assert ":::" not in text


@pytest.mark.parametrize("name", REPORTS)
def test_awkward_report_parses_and_keeps_its_text(name: str) -> None:
    """Each character of a text is in the draft, and only commands of the package are."""
    report, parts = REPORTS[name]
    text = latex(report, KEYS, {**VALUES, "references": BIBLIOGRAPHY})
    assert {each for each in macros(text) if re.fullmatch(r"[A-Za-z]+", each)} <= ALLOWED
    assert [part for part in parts if part not in text] == []


@pytest.mark.skipif(shutil.which("xelatex") is None, reason="no xelatex: only the test above runs, which parses")
@pytest.mark.parametrize("name", REPORTS)
def test_awkward_report_compiles(name: str, tmp_path: Path) -> None:
    """XeLaTeX and BibTeX end without an error, every citation is defined, and every character has a glyph."""
    text = latex(REPORTS[name][0], KEYS, {**VALUES, "title": f"A & B_c\n\n#1 {name}", "references": BIBLIOGRAPHY})
    (tmp_path / "report.tex").write_text(text, encoding="utf-8")
    (tmp_path / "references.bib").write_text(BIBLIOGRAPHY, encoding="utf-8")
    compile_it = ["xelatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "report.tex"]
    for command in (compile_it, ["bibtex", "report"], compile_it, compile_it):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-2_000:]
    log = (tmp_path / "report.log").read_text(encoding="utf-8", errors="replace")
    assert "Missing character" not in log
    assert "undefined" not in log
    assert (tmp_path / "report.pdf").stat().st_size > 1_000


def test_code_stays_as_it_is_in_quarto() -> None:
    """Neither a span, a fence, an indented block nor a formula gets a citation; a line of code stays a line."""
    code = (
        "Set `v[1]` and ``a`[2]`` [1].\n\n```yaml\n---\na: v[1]\n```\n\n    v[2] = @x\n\n"
        "$v[1]$ @x a@b.example\n\n> ~~~\n> v[3]\n> ~~~\n"
    )
    text = quarto(code, KEYS, VALUES)
    for part in ("`v[1]`", "``a`[2]``", "\n ---\na: v[1]\n", "    v[2] = @x", "> v[3]", "v[1]$", r"\@x a@b.example"):
        assert part in text
    assert text.count("[@lake]") == 1
    assert "v[@" not in text


def test_reversed_range_stays_a_text() -> None:
    for text in (latex("So [3-1] and [1-3].", KEYS, VALUES), quarto("So [3-1] and [1-3].", KEYS, VALUES)):
        assert re.search(r"So (\{\[\}3-1\{\]\}|\[3-1\]) and (\\cite\{lake,pond,sea\}|\[@lake; @pond; @sea\])", text)


def test_long_range_cites_each_source() -> None:
    keys = {number: f"key{number}" for number in range(1, 21)}
    assert rf"\cite{{{','.join(keys.values())}}}" in latex("All [1–20].", keys, VALUES)


CHAPTERS = """# One

Text [1].

## Sources

1. Lake: https://lake.example/
   > a quoted passage

# Two

More text [2].

1. an item
2. another item

**References:**

[2] Pond — https://pond.example/

| # | Title | Address |
|---|---|---|
| 3 | Sea | https://sea.example/ |

# Three

The end.
"""


def test_chapters_between_lists_of_sources_stay() -> None:
    text = without_sources(CHAPTERS)
    assert text == (
        "# One\n\nText [1].\n\n# Two\n\nMore text [2].\n\n1. an item\n2. another item\n\n# Three\n\nThe end.\n"
    )
    assert without_sources("No list [1].") == "No list [1]."
    assert without_sources("Text [1].\n\nSources:\n\n1. A: https://a.example\n") == "Text [1].\n\n"


def test_draft_of_a_report_cites_its_bibliography(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The list of sources is left out, its works are in the bibliography, and the methods end the draft."""
    report = "# Depth\n\nIt is 41 metres deep [1].\n\n## Sources\n\n1. Lakes of the north: https://lake.example/depth\n"
    call = af.ToolCall("create_artifact", {"id": "report", "title": "Depth", "content": report})
    wb = workbench([call, "Done."], interactive=False, approvals="approve")
    run = wb.ask("How deep is the lake?").wait()
    path = wb.crate.latex(run.artifacts["report"], tmp_path / "paper", authors=["Ada Lovelace"])
    text, bibliography = path.read_text(encoding="utf-8"), (path.parent / "references.bib").read_text(encoding="utf-8")
    [key] = re.findall(r"@misc\{([^,]+),", bibliography)
    assert f"It is 41 metres deep \\cite{{{key}}}." in text
    assert "lake.example" in bibliography
    assert "lake.example" not in text
    assert r"\author{Ada Lovelace}" in text
    assert "the question “How deep is the lake?” was put to" in text
    with pytest.raises(af.errors.UsageError, match="There is a file"):
        wb.crate.quarto(run.artifacts["report"], tmp_path / "paper")
    again = wb.crate.quarto(run.artifacts["report"], tmp_path / "paper", replace=True)
    assert f"It is 41 metres deep [@{key}]." in again.read_text(encoding="utf-8")
    with af.open_run(run.seal(tmp_path / "run.afrun")) as sealed:
        same = sealed.crate.latex(sealed.artifacts["report"], tmp_path / "sealed", authors=["Ada Lovelace"])
        assert same.read_text(encoding="utf-8") == text
    edited = run.artifacts["report"].edit("Other text.")
    with pytest.raises(af.errors.UsageError, match="that a run wrote"):
        wb.crate.latex(edited, tmp_path / "paper", replace=True)
