"""A report as the draft of a paper: LaTeX or Quarto, with citation keys instead of numbers."""

import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from artifactflow_nb.core.text.markdown import safe_markdown
from artifactflow_nb.sources.citation_marks import MARK, source_entries
from artifactflow_nb.store.encoding import to_json

_ESCAPED = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "[": "{[}", "]": "{]}",
    **{chr(n): "" for n in range(32) if chr(n) not in "\n\t"},
})  # fmt: skip
_HEADINGS = ("section", "section", "subsection", "subsubsection", "paragraph", "subparagraph")
_LISTS = {"bullet_list": "itemize", "ordered_list": "enumerate", "blockquote": "quote"}


def tex(text: str) -> str:
    """Escape a text for LaTeX; no command of the text remains."""
    return text.translate(_ESCAPED)


def without_sources(markdown: str) -> str:
    """Return a report without its list of sources and the heading of the list."""
    entries = source_entries(markdown)
    if not entries:
        return markdown
    before = markdown[: entries[0].start()].rstrip()
    head, _, last = before.rpartition("\n")
    before = head if re.match(r"\s*(#|\*\*)", last) else before
    return f"{before}\n{markdown[entries[-1].end() :].partition(chr(10))[2]}"


def cite(text: str, keys: Mapping[int, str], form: Callable[[list[str]], str], other: Callable[[str], str]) -> str:
    """Replace the marks whose numbers all have keys by citations, and pass all other text through `other`."""
    parts, done = [], 0
    for mark in MARK.finditer(text):
        numbers: list[int] = []
        for first, last in re.findall(r"(\d+)(?:\s?[–-]\s?(\d+))?", mark["numbers"]):
            numbers += range(int(first), min(int(last or first), int(first) + len(keys)) + 1)
        if all(number in keys for number in numbers):
            cited = list(dict.fromkeys(keys[number] for number in numbers))
            parts += [other(text[done : mark.start()]), form(cited)]
            done = mark.end()
    return "".join([*parts, other(text[done:])])


class _Latex:
    """Markdown as LaTeX, with a method for each type of node; only commands of this class are in the result."""

    def __init__(self, keys: Mapping[int, str]) -> None:
        self._keys = keys

    def convert(self, markdown: str) -> str:
        """Convert a text in Markdown; HTML and formulas appear as they are written."""
        parser = MarkdownIt("commonmark", {"html": False}).enable("table")
        return re.sub(r"\n{3,}", "\n\n", self.children(SyntaxTreeNode(parser.parse(markdown)))).strip()

    def children(self, node: SyntaxTreeNode) -> str:
        return "".join(getattr(self, child.type, self.children)(child) for child in node.children)

    def text(self, node: SyntaxTreeNode) -> str:
        return cite(node.content, self._keys, lambda cited: rf"\cite{{{','.join(cited)}}}", tex)

    def softbreak(self, _node: SyntaxTreeNode) -> str:
        return "\n"

    def paragraph(self, node: SyntaxTreeNode) -> str:
        return f"\n{self.children(node)}\n"

    def em(self, node: SyntaxTreeNode) -> str:
        return rf"\emph{{{self.children(node)}}}"

    def strong(self, node: SyntaxTreeNode) -> str:
        return rf"\textbf{{{self.children(node)}}}"

    def code_inline(self, node: SyntaxTreeNode) -> str:
        return rf"\texttt{{{tex(node.content)}}}"

    def fence(self, node: SyntaxTreeNode) -> str:
        lines = [tex(line).replace(" ", "~") or "~" for line in node.content.expandtabs().rstrip().split("\n")]
        shown = "\\\\\n".join(rf"\texttt{{{line}}}" for line in lines)
        return f"\n\\begin{{flushleft}}\n{shown}\n\\end{{flushleft}}\n"

    code_block = fence

    def heading(self, node: SyntaxTreeNode) -> str:
        return f"\n\\{_HEADINGS[int(node.tag[1]) - 1]}{{{self.children(node)}}}\n"

    def bullet_list(self, node: SyntaxTreeNode) -> str:
        name = _LISTS[node.type]
        return f"\n\\begin{{{name}}}\n{self.children(node)}\n\\end{{{name}}}\n"

    ordered_list = blockquote = bullet_list

    def list_item(self, node: SyntaxTreeNode) -> str:
        return f"\\item {{}}{self.children(node).strip()}\n"

    def link(self, node: SyntaxTreeNode) -> str:
        address, text = str(node.attrs.get("href", "")), self.children(node)
        target = re.sub(r"([%#&_])", r"\\\1", quote(address, safe=":/?#[]@!&'()*+,;=%-._"))
        return rf"\href{{{target}}}{{{text}}}" if address.startswith(("http://", "https://")) else text

    def table(self, node: SyntaxTreeNode) -> str:
        rows = [
            [self.children(cell).strip() for cell in row.children] for part in node.children for row in part.children
        ]
        lines = [" & ".join(row) + r" \\" for row in rows]
        body = "\n".join([lines[0], r"\hline", *lines[1:]])
        columns = "l" * max(map(len, rows))
        return f"\n\\begin{{center}}\n\\begin{{tabular}}{{{columns}}}\n{body}\n\\end{{tabular}}\n\\end{{center}}\n"


def latex(markdown: str, keys: Mapping[int, str], values: Mapping[str, str]) -> str:
    """Return a report as a document of LaTeX; `values` are title, authors, date, origin and methods as plain texts."""
    filled = {name: tex(value) for name, value in values.items()}
    filled |= {"body": _Latex(keys).convert(without_sources(markdown)), "origin": " ".join(filled["origin"].split())}
    return _fill("report.tex", filled)


def quarto(markdown: str, keys: Mapping[int, str], values: Mapping[str, str]) -> str:
    """Return a report as a document of Quarto that runs no code and includes no file; arguments as for `latex`."""
    text = safe_markdown(without_sources(re.sub(r"\r\n?", "\n", markdown)))
    text = re.sub(r"(`+|~{3,})(\s*)\{", r"\1\2 \\{", text)  # `{python}` would be code that runs
    text = text.replace("{{<", "{ {<")
    text = re.sub(r"^(---|\.\.\.)[ \t]*$", "***", text, flags=re.MULTILINE)  # a second header
    body = cite(text, keys, lambda cited: f"[{'; '.join(f'@{key}' for key in cited)}]", str)
    filled = {name: to_json(value.replace("{{<", "{ {<").replace("`{", "` {")) for name, value in values.items()}
    filled |= {"body": body, "methods": re.sub(r"([\\`*_{}\[\]<>$@|])", r"\\\1", values["methods"])}
    return _fill("report.qmd", filled)


def _fill(name: str, values: Mapping[str, str]) -> str:
    template = (files(__package__) / name).read_text(encoding="utf-8")
    return re.sub(r"%\((\w+)\)s", lambda field: values[field[1]], template)
