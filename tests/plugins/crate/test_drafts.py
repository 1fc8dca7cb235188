"""Reports as drafts of papers: keys instead of numbers, and no command of the text in LaTeX and Quarto."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexMacroNode, LatexWalker

import artifactflow_nb as af
from artifactflow_nb.plugins.crate.draft import latex, quarto

OpenWorkbench = Callable[..., af.Workbench]

VALUES = {"title": "A & B_c", "authors": "Ada", "date": "2026-11-28", "origin": "run-1", "methods": "50 % of $5."}
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
ALLOWED = frozenset(
    {"documentclass", "usepackage", "iftex", "ifPDFTeX", "fi", "title", "author", "date", "maketitle", "section",
     "subsection", "bibliographystyle", "bibliography", "cite", "emph", "textbf", "texttt", "href", "item", "hline",
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
        *("begin:document", "begin:flushleft", "begin:center", "begin:tabular", "begin:itemize")
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
