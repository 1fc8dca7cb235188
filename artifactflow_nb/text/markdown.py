"""Markdown of models and of the web, made harmless: to HTML for the page, and to Markdown for other people's pages.

Nothing in the result fetches anything: an image becomes a link. Nothing in it runs: raw HTML is text, and what the
parser makes goes through a sanitiser as well. Each block is short (see `markdown_blocks`): that bounds what a hostile
one costs. Chinese is marked as such, paragraph by paragraph. A name like `__exit__` stays a name, where Markdown alone
would make it a bold "exit".
"""

import html
import re
from collections.abc import Callable
from functools import lru_cache

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from artifactflow_nb.text.chinese import language_tag
from artifactflow_nb.text.markdown_blocks import Block, TextBlocks

_TAGS = frozenset(
    {"p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code"}
) | {"em", "strong", "s", "table", "thead", "tbody", "tr", "th", "td", "a"}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "th": {"style"}, "td": {"style"}, "*": {"lang"}}
_SET = {"a": {"target": "_blank"}, "pre": {"tabindex": "0"}, "table": {"tabindex": "0"}}
"""What every such element gets: code and tables scroll where they are too wide, and the keyboard is to reach them."""

_SAFE_ADDRESS = re.compile(r"(?:https?://|mailto:|#)", re.IGNORECASE)
_MAX_NESTING = 20
_FENCE_WORDS = re.compile(r"^([ \t>*+\-\d.)]*(?:`{3,}(?=[^\n`]*$)|~{3,}))[ \t]*([^\n]*)$", re.MULTILINE)
_LANGUAGE = re.compile(r"[\w+#.-]*")
_DUNDER = re.compile(r"(?<![\w\\])__[A-Za-z]\w*?__(?!\w)")
_DOLLAR = re.compile(r"(?<!\\)((?:\\\\)*)\$")
"""One that may begin a formula; one that is escaped already stays so."""
_CODE_SPAN = re.compile(r"(?<![\\`])(`+)(?!`)(.*?)(?<!`)\1(?!`)", re.DOTALL)


class MarkdownRenderer:
    """Renders blocks of Markdown; a block that was rendered before is not rendered again.

    Args:
        n_cached: How many blocks are remembered.
    """

    def __init__(self, n_cached: int = 1024) -> None:
        options = {"html": False, "linkify": False, "maxNesting": _MAX_NESTING}
        self._parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).disable("reference")
        self._parser.inline.ruler.before("emphasis", "dunder", _take_dunder)
        self._parser.validateLink = lambda _url: True  # type: ignore[assignment, method-assign]  # judged by _settle_links
        self._cleaner = nh3.Cleaner(
            tags=set(_TAGS),
            attributes=_ATTRIBUTES,
            link_rel="noopener noreferrer nofollow",
            set_tag_attribute_values=_SET,
            url_schemes={"http", "https", "mailto"},
            filter_style_properties={"text-align"},
        )
        self.block = lru_cache(n_cached)(self._render)
        """HTML of one block."""

    def html(self, text: str) -> str:
        """HTML of a whole text, block by block."""
        return "".join(self.block(block.markdown) for block in TextBlocks(text).blocks)

    def _render(self, markdown: str) -> str:
        env: dict[str, object] = {}
        tokens = self._parser.parse(_without_controls(markdown), env)
        for token in tokens:
            if token.children:
                token.children = _settle_links(token.children)
        _mark_languages(tokens)
        return self._cleaner.clean(self._parser.renderer.render(tokens, self._parser.options, env))


def _mark_languages(tokens: list[Token]) -> None:
    """Say of each outermost element whether it is Chinese."""
    opened: Token | None = None
    said: list[str] = []
    for token in tokens:
        if opened is None and token.nesting == 1:
            opened = token
        elif token.type == "inline":
            said.append(token.content)
        elif opened is not None and token.nesting == -1 and token.level == opened.level:
            if tag := language_tag("\n".join(said)):
                opened.attrSet("lang", tag)
            opened, said = None, []


def _take_dunder(state: StateInline, silent: bool) -> bool:
    """Read a name between double underscores as text."""
    found = _DUNDER.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        state.pending += found[0]
    state.pos = found.end()
    return True


def _without_controls(text: str) -> str:
    return text.replace("\x00", "�").encode("utf-8", "replace").decode("utf-8")


def _settle_links(tokens: list[Token]) -> list[Token]:
    """Images become links; a link to anywhere but the web becomes its text with the address behind it."""
    settled: list[Token] = []
    refused: list[str | None] = []
    for token in tokens:
        if token.type == "image":
            settled += _image_as_link(token)
        elif token.type == "link_open":
            address = str(token.attrGet("href") or "")
            refused.append(None if _SAFE_ADDRESS.match(address) else address)
            if refused[-1] is None:
                settled.append(token)
        elif token.type == "link_close":
            unsafe = refused.pop()
            settled.append(token if unsafe is None else _text(f" ({unsafe})"))
        else:
            settled.append(token)
    return settled


def _image_as_link(token: Token) -> list[Token]:
    address = str(token.attrGet("src") or "")
    label = _text(token.content or "image")
    if not _SAFE_ADDRESS.match(address):
        return [_text(f"{label.content} ({address[:80]})")]
    return [Token("link_open", "a", 1, attrs={"href": address}), label, Token("link_close", "a", -1)]


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def escape(text: object) -> str:
    """Any text as HTML: names, parameters and errors come from models too."""
    return html.escape(_without_controls(str(text)))


def speak(text: object) -> str:
    """The same, with Chinese in an element of its own that says so."""
    tag = language_tag(str(text))
    return f'<span lang="{tag}">{escape(text)}</span>' if tag else escape(text)


def portable(text: str) -> str:
    """The text as Markdown that is harmless wherever it is rendered: no HTML, no images, no formulas, code kept.

    Judged by a parser with HTML and images switched on: a block in which it still finds any is escaped as a whole.
    Blocks stand apart and close what they open, so that together they read as each was judged.
    """
    judge = MarkdownIt("commonmark").enable("table")
    judge.validateLink = lambda _url: True  # type: ignore[assignment, method-assign]  # other parsers refuse no address
    whole = text if text.endswith("\n") else f"{text}\n"  # a last line that closes a fence is seen when it has ended
    return "\n\n".join(_portable_block(block, judge) for block in TextBlocks(whole).blocks)


def portable_line(text: str) -> str:
    """The text as a part of one line of Markdown: its letters, none of which is markup there."""
    return _escape_markdown(" ".join(_without_controls(text).split()))


def _portable_block(block: Block, judge: MarkdownIt) -> str:
    if block.closing and not block.markdown.startswith(block.closing):
        return _fenced(block.source)
    markdown = block.markdown.rstrip() + ("\n" + block.closing if block.closing else "")
    markdown = _FENCE_WORDS.sub(_language_only, markdown)
    if not markdown.startswith(("```", "~~~", "    ", "\t")):
        markdown = _outside_code(markdown, _escape_dunders)
    if not _is_loaded(markdown, judge) and ("$" not in markdown or markdown.startswith(("```", "~~~"))):
        return markdown
    gentle = _outside_code(markdown, _defuse)
    return gentle if not _is_loaded(gentle, judge) else _escape_markdown(markdown)


def _language_only(fence: re.Match[str]) -> str:
    """The line that opens a fence with no more than the name of a language: JupyterLab puts it into an attribute."""
    name = _LANGUAGE.match(fence[2])
    return fence[1] + (name[0] if name else "")


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """The Markdown with everything changed that is not in a code span."""
    pieces: list[str] = []
    position = 0
    for span in _CODE_SPAN.finditer(markdown):
        pieces += [change(markdown[position : span.start()]), span[0]]
        position = span.end()
    return "".join([*pieces, change(markdown[position:])])


def _escape_dunders(text: str) -> str:
    return _DUNDER.sub(lambda found: found[0].replace("_", r"\_"), text)


def _fenced(text: str) -> str:
    """The text as code, in a fence that nothing in it can close."""
    fence = "~" * max(3, 1 + max((len(run) for run in re.findall("~+", text)), default=0))
    return f"{fence}\n{text.rstrip()}\n{fence}"


def _is_loaded(markdown: str, judge: MarkdownIt) -> bool:
    """Whether the Markdown holds anything that acts: HTML, an image, a link that is not to the web, a link's target."""
    env: dict[str, object] = {}
    pending = judge.parse(markdown, env)
    if env.get("references"):  # an image in another block may point to it
        return True
    while pending:
        token = pending.pop()
        if token.type in {"html_block", "html_inline", "image"} or token.level >= _MAX_NESTING - 2:  # read no deeper
            return True
        if token.type == "link_open" and not _SAFE_ADDRESS.match(str(token.attrGet("href") or "")):
            return True
        pending += token.children or []
    return False


def _defuse(text: str) -> str:
    text = text.replace("![", "[").replace("]:", r"]\:").replace("<", "&lt;")
    text = _DOLLAR.sub(r"\1\$", text)
    return re.sub(r"\]\((?!https?://|mailto:|#)", r"]\\(", text)


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))
