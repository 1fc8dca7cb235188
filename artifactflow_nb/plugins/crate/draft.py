"""A report as the draft of a paper: LaTeX or Quarto, with citation keys instead of numbers."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import orjson
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from artifactflow_nb.core.text.markdown import safe_markdown
from artifactflow_nb.sources.citation_marks import (
    MARK,
    REST_OF_ENTRY,
    SOURCES_HEADING,
    cited_numbers,
    code_and_formulas,
    source_entries,
)
from artifactflow_nb.store.encoding import to_json

_FILES = files(__package__)
_ESCAPED = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "[": "{[}", "]": "{]}", "*": "{*}",
    **{chr(n): "" for n in (*range(32), *range(127, 160), 0xFFFE, 0xFFFF) if chr(n) not in "\n\t"},
    **orjson.loads((_FILES / "symbols.json").read_bytes()),
})  # fmt: skip
_CODE = _ESCAPED | {ord("-"): "{-}", ord("'"): r"\textquotesingle{}", ord("`"): r"\textasciigrave{}", ord(" "): "~"}
_HAN = re.compile(r"[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
_HAN_PACKAGE = "\\usepackage[scheme=plain,fontset=fandol]{ctex}"
_HEADINGS = ("section", "section", "subsection", "subsubsection", "paragraph", "subparagraph")
_LISTS = {"bullet_list": "itemize", "ordered_list": "enumerate", "blockquote": "quote"}
_MOST_LISTS = 4  # one in the other; LaTeX refuses more
_MOST_TABLE_CHARS = 80  # in a line; the cells of wider tables have lines of their own
_PICTOGRAPH = re.compile(r"[\u2300-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]")  # no font of the draft has them
_KEY = re.compile(r"<[^<>\s]*>|(?<![\w\\])@")  # outside of an address, `@name` cites in Quarto
_TABLE_HEAD = re.compile(r"^[^\n]*\|[^\n]*\n[ \t|:-]+\Z", re.MULTILINE)


def tex(text: str, escaped: Mapping[int, str] = _ESCAPED) -> str:
    """Escape a text for LaTeX; no command of the text remains, and pictographs become their names."""
    return _PICTOGRAPH.sub(lambda sign: f"({unicodedata.name(sign[0], 'sign').lower()})", text.translate(escaped))


def without_sources(markdown: str) -> str:
    """Return a report without its lists of sources and the headings of the lists."""
    parts, end = [""], 0
    for entry in source_entries(markdown):
        if (before := markdown[end : entry.start()]).strip():
            text = _TABLE_HEAD.sub("", before.strip("\n").rstrip()).rstrip()
            head, _, last = text.rpartition("\n")
            is_heading = re.match(r"\s*(#|\*\*)", last) or SOURCES_HEADING.fullmatch(last.strip("*_:： "))
            parts.append(head.rstrip() if is_heading else text)
        rest = REST_OF_ENTRY.match(markdown, entry.start())
        end = rest.end() if rest else entry.end()
    return "\n\n".join([*filter(None, parts), markdown[end:].lstrip("\n")]) if end else markdown


def code_of(markdown: str) -> Callable[[int], bool]:
    """Return a function that tells whether a position of a text is in code or in a formula, which stays as it is."""
    lines = [0, *(line.end() for line in re.finditer("\n", markdown)), len(markdown)]
    blocks = [token.map for token in MarkdownIt("commonmark").parse(markdown) if token.type in {"fence", "code_block"}]
    spans = [*code_and_formulas(markdown), *((lines[block[0]], lines[block[1]]) for block in filter(None, blocks))]
    return lambda position: any(start <= position < end for start, end in spans)


def cite(text: str, keys: Mapping[int, str], form: Callable[[list[str]], str], other: Callable[[str], str]) -> str:
    """Replace the marks whose numbers all have keys by citations, and pass all other text through `other`."""
    parts, done, is_code = [], 0, code_of(text)
    for mark in MARK.finditer(text):
        numbers = cited_numbers(mark["numbers"])
        if numbers and all(number in keys for number in numbers) and not is_code(mark.start()):
            cited = list(dict.fromkeys(keys[number] for number in numbers))
            parts += [other(text[done : mark.start()]), form(cited)]
            done = mark.end()
    return "".join([*parts, other(text[done:])])


class _Latex:
    """Markdown as LaTeX, with a method for each type of node; only commands of this class are in the result."""

    def __init__(self, keys: Mapping[int, str]) -> None:
        self._keys = keys
        self._n_lists = 0  # around the node

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

    def hardbreak(self, _node: SyntaxTreeNode) -> str:
        return "\\leavevmode\\\\\n"  # a break without a text before it is an error

    def hr(self, _node: SyntaxTreeNode) -> str:
        return "\n\\bigskip\n"

    def paragraph(self, node: SyntaxTreeNode) -> str:
        return f"\n{self.children(node)}\n"

    def em(self, node: SyntaxTreeNode) -> str:
        return rf"\emph{{{self.children(node)}}}"

    def strong(self, node: SyntaxTreeNode) -> str:
        return rf"\textbf{{{self.children(node)}}}"

    def code_inline(self, node: SyntaxTreeNode) -> str:
        return rf"\texttt{{{tex(node.content, _CODE).replace('~', ' ')}}}"

    def fence(self, node: SyntaxTreeNode) -> str:
        lines = [tex(line, _CODE) or "~" for line in node.content.expandtabs().rstrip().split("\n")]
        lines = [re.sub(r"(?<=[^~])~(?=[^~])", " ", line) for line in lines]  # a long line is broken there
        shown = "\\\\\n".join(rf"\texttt{{{line}}}" for line in lines)
        return f"\n\\begin{{flushleft}}\n{shown}\n\\end{{flushleft}}\n"

    code_block = fence

    def heading(self, node: SyntaxTreeNode) -> str:
        return f"\n\\{_HEADINGS[int(node.tag[1]) - 1]}{{{self.children(node)}}}\n"

    def bullet_list(self, node: SyntaxTreeNode) -> str:
        if self._n_lists == _MOST_LISTS:
            return "\n".join(f"\n--- {self.children(item).strip()}\n" for item in node.children)
        self._n_lists += 1
        name, body = _LISTS[node.type], self.children(node)
        self._n_lists -= 1
        return f"\n\\begin{{{name}}}\n{body}\n\\end{{{name}}}\n"

    ordered_list = blockquote = bullet_list

    def list_item(self, node: SyntaxTreeNode) -> str:
        parent: Any = node.parent
        first = int(parent.attrs.get("start", 1))
        label = "" if first == 1 else f"[{first + parent.children.index(node)}.]"
        return f"\\item{label} {{}}{self.children(node).strip()}\n"

    def link(self, node: SyntaxTreeNode) -> str:
        address, text = str(node.attrs.get("href", "")), self.children(node)
        target = re.sub(r"([%#&_])", r"\\\1", quote(address, safe=":/?#[]@!&'()*+,;=%-._"))
        return rf"\href{{{target}}}{{{text}}}" if address.startswith(("http://", "https://")) else text

    def table(self, node: SyntaxTreeNode) -> str:
        rows = [
            [self.children(cell).strip() for cell in row.children] for part in node.children for row in part.children
        ]
        lines = [" & ".join(row) + r" \\" for row in rows]
        widths = [max(len(row[n]) for row in rows) + 2 for n in range(len(rows[0]))]
        shares = [0.9 * width / sum(widths) for width in widths]
        is_wide = sum(widths) > _MOST_TABLE_CHARS
        columns = "".join(rf"p{{{share:.2f}\linewidth}}" if is_wide else "l" for share in shares)
        body = "\n".join([lines[0], r"\hline \endhead", *lines[1:]])
        return f"\n\\begin{{longtable}}{{{columns}}}\n{body}\n\\end{{longtable}}\n"


def latex(markdown: str, keys: Mapping[int, str], values: Mapping[str, str]) -> str:
    """Return a report as a document of LaTeX.

    `values` are title, authors, date, origin, methods and the bibliography as plain texts.
    """
    filled = {name: " ".join(tex(value).split()) for name, value in values.items()}
    filled |= {"body": _Latex(keys).convert(without_sources(markdown))}
    filled |= {"packages": _HAN_PACKAGE if any(map(_HAN.search, filled.values())) else ""}
    return _fill("report.tex", filled)


def quarto(markdown: str, keys: Mapping[int, str], values: Mapping[str, str]) -> str:
    """Return a report as a document of Quarto that runs no code and includes no file; arguments as for `latex`."""
    text = safe_markdown(without_sources(re.sub(r"\r\n?", "\n", markdown)))
    text = re.sub(r"(`+|~{3,})(\s*)\{", r"\1\2 \\{", text)  # `{python}` would be code that runs
    text = text.replace("{{<", "{ {<")
    is_code = code_of(text)

    def without_header(line: re.Match[str]) -> str:
        return f" {line[0]}" if is_code(line.start()) else "***"

    text = re.sub(r"^(---|\.\.\.)[ \t]*$", without_header, text, flags=re.MULTILINE)  # a second header
    is_code = code_of(text)
    text = _KEY.sub(lambda at: at[0] if at[0] != "@" or is_code(at.start()) else r"\@", text)
    body = cite(text, keys, lambda cited: f"[{'; '.join(f'@{key}' for key in cited)}]", str)
    filled = {name: to_json(value.replace("{{<", "{ {<").replace("`{", "` {")) for name, value in values.items()}
    filled |= {"body": body, "methods": re.sub(r"([\\`*_{}\[\]<>$@|])", r"\\\1", values["methods"])}
    return _fill("report.qmd", filled)


def _fill(name: str, values: Mapping[str, str]) -> str:
    template = (_FILES / name).read_text(encoding="utf-8")
    return re.sub(r"%\((\w+)\)s", lambda field: values[field[1]], template)
