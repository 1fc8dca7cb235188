"""Sanitised rendering of untrusted Markdown, to HTML and to Markdown that is safe in other renderers.

The result fetches nothing: images become links. It runs nothing: raw HTML is escaped, and the parser's output passes a
sanitiser as well. Blocks are short (see `markdown_stream`), which bounds the cost of hostile input. Chinese paragraphs
get a `lang` attribute. A name like `__exit__` is kept, where standard Markdown would render a bold "exit".
"""

import hashlib
import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import nh3
from linkify_it import LinkifyIt
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from artifactflow_nb.core.text.chinese import language_tag
from artifactflow_nb.core.text.content_style import ELEMENTS, highlight
from artifactflow_nb.core.text.folds import fold_rule
from artifactflow_nb.core.text.format import fenced, storable_text
from artifactflow_nb.core.text.formulas import (
    CLEANER_ATTRIBUTES,
    CLEANER_CLASSES,
    CLEANER_TAGS,
    Formula,
    add_formulas,
    split_formulas,
)
from artifactflow_nb.core.text.markdown_stream import MarkdownStream
from artifactflow_nb.core.text.scripts import InlineParser, with_directions

_TAGS = frozenset(
    {"p", "sub", "sup", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code"}
) | {"em", "strong", "s", "table", "thead", "tbody", "tr", "th", "td", "a", "details", "summary"}
_ATTRIBUTES = {
    "a": {"href", "id", "title"},
    "ol": {"start"},
    "li": {"value"},
    "sup": {"title"},
    "th": {"style"},
    "td": {"style"},
    "*": {"lang"},
}
_SET = {"a": {"target": "_blank"}, "pre": {"tabindex": "0"}, "table": {"tabindex": "0"}}
"""Attributes added to elements; wide code and tables scroll, so they must be reachable by keyboard."""

_SAFE_ADDRESS = re.compile(r"(?:https?://|mailto:|#)", re.IGNORECASE)
_WEB_HOST = {
    "validate": lambda links, text, start: (
        text[max(start - 5, 0)] not in "./:@-" and max(links.test_schema_at(f"//{text[start:]}", "http:", 0) - 2, 0)
    ),
    "normalize": lambda _links, match: setattr(match, "url", f"http://{match.url}"),
}
"""A rule of linkify-it: `www.example.org/x` is an address; `example.org` may be the name of a file."""
_CHINESE_MARKS = str.maketrans(dict.fromkeys("，。、；：！？（）《》「」『』【】", " "))
_OWN_PAGE = re.compile(r'(<a [^>]*?href="#[^"]*"[^>]*?) target="_blank" rel="[^"]*"')
"""A link within the page, with the attributes by which other links open a new page."""
_MAX_NESTING = 20
_FENCE_WORDS = re.compile(r"^([ \t>*+\-\d.)]*(?:`{3,}(?=[^\n`]*$)|~{3,}))[ \t]*([^\n]*)$", re.MULTILINE)
_LANGUAGE = re.compile(r"[\w+#.-]*")
_DUNDER = re.compile(r"(?<![\w\\])__[A-Za-z]\w*?__(?!\w)")
_DOLLAR = re.compile(r"(?<!\\)((?:\\\\)*)\$")
"""An unescaped dollar sign, which may start a formula."""
_SOURCE_LINE = r"\[\d{1,3}\]:?[ ]+.*(?:local:|https?://)"
_SOURCE_LINES = re.compile(
    rf"^{_SOURCE_LINE}.*(?:\n{_SOURCE_LINE}.*)+|(?:\A|(?<=[:：*\n]\n)){_SOURCE_LINE}\S+$", re.MULTILINE
)
"""Lines such as `[1] Title, https://...`: several lines, or one that begins a paragraph and ends with an address."""
_SOURCE_NUMBER = re.compile(r"^\[(\d{1,3})\]:?[ ]+", re.MULTILINE)
_FOOTNOTE = re.compile(r"\[\^([\w.:-]{1,40})\](:[ ]*)?")
"""The mark of a footnote, `[^1]`, or the label of its text, `[^1]: `."""
_NOTE_TEXT = re.compile(r"^\[\^([\w.:-]{1,40})\]:.*(?:\n(?!\[\^[\w.:-]{1,40}\]:)[^\n]+)*\n*", re.MULTILINE)
_NOTE_ITEM = re.compile(r"^(?:[-*]|\d+\.)[ ]+(?=\[\^[\w.:-]{1,40}\]:)", re.MULTILINE)
"""The mark of a list before the label of a note, which is not displayed as a list."""
_NOTE_MARKS = re.compile(r"[*`<>\[\]\\]")
_NOTE_CHARS = 200
_CHECK_BOX = re.compile(r"\[([ xX])\][ ]+")
_PLAIN_TAG = re.compile(r"<(/?)(b|i|sub|sup|(?<!/)br(?=\s*/?>))\s*/?>", re.IGNORECASE)
"""A supported tag without attributes; all other tags stay text."""
_PLAIN_ELEMENT_OR_TAG = re.compile(
    r"<(?:br ?/?>|(b|i|sub|sup)>(?:[^<>\n]|<br ?/?>|<(i|sub|sup)>[^<>\n]*</\2>)*</\1>)|<", re.IGNORECASE
)
"""A line break, an element with its end, or the start of any other tag."""
_CODE_SPAN = re.compile(r"(?<![\\`])(`+)(?!`)(.*?)(?<!`)\1(?!`)", re.DOTALL)


_CACHED_BLOCKS = 4096


class Footnote(NamedTuple):
    """A footnote: name, number (0 without a reference), beginning of the plain text, block that first refers to it."""

    name: str
    number: int
    text: str
    block: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Footnotes:
    """The footnotes of a text, with an id that depends on their content, so that comparisons are cheap.

    Attributes:
        by_name: The footnotes by name, in the order of their numbers; footnotes without a reference come last.
        id: Prefix of the element ids of the footnotes; it differs between the texts of a page.
    """

    by_name: Mapping[str, Footnote]
    id: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Footnotes) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


def footnotes(blocks: Sequence[str], *, is_arriving: bool = False) -> Footnotes:
    """Collect the footnotes of a text, numbered by their first reference; the last block may still be arriving."""
    texts: dict[str, str] = {}
    names: dict[str, str] = {}
    for n, block in enumerate(blocks, 1):
        if "[^" not in block or block.startswith(("```", "~~~")):
            continue
        prose = _CODE_SPAN.sub("", _NOTE_ITEM.sub("", block))
        for match in _FOOTNOTE.finditer(prose):
            if not match[2]:
                names.setdefault(match[1], block)
            elif not (is_arriving and n == len(blocks)):
                text = prose[match.end() :].partition("\n[^")[0].partition("\n\n")[0]
                texts.setdefault(match[1], " ".join(_NOTE_MARKS.sub("", text).split())[:_NOTE_CHARS])
    referred = [Footnote(name, n, texts.get(name, ""), block) for n, (name, block) in enumerate(names.items(), 1)]
    notes = [*referred, *(Footnote(name, 0, text) for name, text in texts.items() if name not in names)]
    digest = hashlib.blake2b(digest_size=8)
    for note in notes:
        digest.update(repr(note[:3]).encode("utf-8", "replace"))
    for block in dict.fromkeys(names.values()):
        digest.update(block.encode("utf-8", "replace"))
    return Footnotes({note.name: note for note in notes}, f"af-note-{digest.hexdigest()}")


NO_NOTES = Footnotes({}, "")


class MarkdownRenderer:
    """Renders Markdown block by block, with a cache, because streaming renders the same blocks again and again."""

    def __init__(self) -> None:
        options = {"html": False, "linkify": True, "maxNesting": _MAX_NESTING}
        rules = ["table", "strikethrough", "linkify"]
        self._parser = MarkdownIt("commonmark", options)
        self._parser.inline = InlineParser()
        self._parser.configure("commonmark", options).enable(rules).disable("reference")
        links = self._parser.linkify = LinkifyIt({"www.": _WEB_HOST}, {"fuzzy_link": False, "fuzzy_email": False})
        measure = links.test_schema_at  # Chinese has no space after a full stop
        links.test_schema_at = lambda text, *place: measure(text.translate(_CHINESE_MARKS), *place)
        self._parser.inline.ruler.before("emphasis", "dunder", _dunder_rule)
        self._parser.block.ruler.before("paragraph", "fold", fold_rule, {"alt": ["paragraph", "blockquote", "list"]})
        add_formulas(self._parser)
        self._parser.inline.ruler.before("link", "footnote", _footnote_rule)
        self._parser.inline.ruler.before("autolink", "tag", _tag_rule)
        self._parser.core.ruler.after("inline", "check_boxes", _check_box_rule)
        self._parser.add_render_rule("fence", _render_fence)
        self._parser.add_render_rule("check_box", _render_check_box)
        self._parser.validateLink = lambda _url: True  # type: ignore[assignment, method-assign]  # judged by _secure_links
        self._cleaner = nh3.Cleaner(
            tags={*_TAGS, *CLEANER_TAGS, *ELEMENTS},
            attributes={**_ATTRIBUTES, **CLEANER_ATTRIBUTES},
            allowed_classes={"span": {*CLEANER_CLASSES, "af-box"}, "code": {"af-code", "af-python"}},
            link_rel="noopener noreferrer nofollow",
            set_tag_attribute_values=_SET,
            url_schemes={"http", "https", "mailto"},
            filter_style_properties={"text-align"},
        )
        self.render_block = lru_cache(_CACHED_BLOCKS)(self._render)
        """Render one block as HTML; code is not highlighted while it is still growing (`is_growing=True`)."""

    def html(self, text: str) -> str:
        """Render a whole text as HTML."""
        blocks = [block.markdown for block in MarkdownStream(text).blocks]
        notes = footnotes(blocks)
        return "".join(self.render_block(block, notes if "[^" in block else NO_NOTES) for block in blocks)

    def _render(self, markdown: str, notes: Footnotes = NO_NOTES, *, is_growing: bool = False) -> str:
        by_name = notes.by_name
        env: dict[str, object] = {"is_growing": is_growing, "notes": by_name, "notes_id": notes.id, "block": markdown}
        # Models also write lists of sources as lines that start with `[1]`, which Markdown would join to a paragraph.
        text = _list_sources(_without_controls(markdown), r"\1. ")
        if by_name and not text.startswith(("```", "~~~")):
            # Each note is a paragraph; a note to which nothing refers is left out.
            text = _NOTE_TEXT.sub(
                lambda m: "" if (note := by_name.get(m[1])) and not note.number else f"{m[0]}\n\n",
                _NOTE_ITEM.sub("", text),
            )
        tokens = self._parser.parse(text, env)
        _keep_numbers(tokens)
        for token in tokens:
            if token.children:
                token.children = _secure_links(token.children)
        element: Token | None = None  # the outermost element, which gets the `lang` attribute of Chinese text
        texts: list[str] = []
        for token in tokens:
            if element is None and token.nesting == 1:
                element = token
            elif token.type == "inline":
                texts.append(token.content)
            elif element is not None and token.nesting == -1 and token.level == element.level:
                if tag := language_tag("\n".join(texts)):
                    element.attrSet("lang", tag)
                element, texts = None, []
        markup = self._cleaner.clean(self._parser.renderer.render(tokens, self._parser.options, env))
        return with_directions(_OWN_PAGE.sub(r"\1", markup))


def _list_sources(text: str, item: str) -> str:
    """Write lines of sources as a list: in each line, the template `item` replaces the number in brackets."""
    return _SOURCE_LINES.sub(lambda lines: _SOURCE_NUMBER.sub(item, lines[0]), text)


def _keep_numbers(tokens: list[Token]) -> None:
    """Keep the numbers of list items if they increase: the text around the list may cite them, such as `[4]`."""
    lists: list[list[Token]] = []
    for token in tokens:
        if token.type == "ordered_list_open":
            lists.append([])
        elif token.type == "list_item_open" and token.info:
            lists[-1].append(token)
        elif token.type == "ordered_list_close":
            for before, item in pairwise(lists.pop()):
                if int(item.info) <= int(before.info):
                    break
                if int(item.info) > int(before.info) + 1:
                    item.attrSet("value", item.info)


def _dunder_rule(state: StateInline, silent: bool) -> bool:
    """Inline rule of markdown-it: parse a name between double underscores as text."""
    match = _DUNDER.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.pending += match[0]
    state.pos = match.end()
    return True


def _tag_rule(state: StateInline, silent: bool) -> bool:
    """Inline rule of markdown-it: parse a tag that has a closing tag; the sanitiser corrects the order of tags."""
    match = _PLAIN_TAG.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    name, is_end = match[2].lower(), bool(match[1])
    around = state.src[: match.start()] if is_end else state.src[match.end() : state.posMax]
    if name != "br" and f"<{'' if is_end else '/'}{name}>" not in around.lower():
        return False
    if not silent:
        state.push("hardbreak" if name == "br" else f"tag_{name}", name, 0 if name == "br" else -1 if is_end else 1)
    state.pos = match.end()
    return True


def _footnote_rule(state: StateInline, silent: bool) -> bool:
    """Inline rule of markdown-it: render the mark of a footnote, and the label before its text, as superscripts."""
    match = _FOOTNOTE.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        note = state.env["notes"].get(match[1])
        element = state.push("sup_open", "sup", 1)
        if note and note.text and not match[2]:
            element.attrSet("title", note.text)
        is_link = note and (note.text or match[2])
        if is_link:
            text_id = f"{state.env['notes_id']}-{note.number}"
            link = state.push("link_open", "a", 1)
            link.attrs = {"href": f"#{text_id}-mark", "id": text_id} if match[2] else {"href": f"#{text_id}"}
            if not match[2] and note.block == state.env["block"] and match[1] not in state.env:  # the first mark
                state.env[match[1]] = link.attrs["id"] = f"{text_id}-mark"
        state.push("text", "", 0).content = str(note.number) if note else match[1]
        if is_link:
            state.push("link_close", "a", -1)
        state.push("sup_close", "sup", -1)
        if match[2]:
            state.pending += " "
    state.pos = match.end()
    return True


def _check_box_rule(state: StateCore) -> None:
    """Core rule of markdown-it: turn `[ ]` and `[x]` at the beginning of a list item into check boxes."""
    for before, token in pairwise(state.tokens):
        children = token.children or []
        is_first = token.type == "inline" and before.type == "paragraph_open" and before.level > 1
        if is_first and children and children[0].type == "text" and (box := _CHECK_BOX.match(children[0].content)):
            children[0].content = children[0].content[box.end() :]
            token.children = [Token("check_box", "", 0, content="☐" if box[1] == " " else "☑"), *children]


def _render_check_box(
    _self: RendererHTML, tokens: list[Token], index: int, _options: OptionsDict, _env: EnvType
) -> str:
    return f'<span class="af-box">{tokens[index].content} </span>'


def _render_fence(_self: RendererHTML, tokens: list[Token], index: int, _options: OptionsDict, env: EnvType) -> str:
    token = tokens[index]
    language = "" if env.get("is_growing") else token.info.strip().partition(" ")[0]
    code = highlight(token.content, language)
    if "</" not in code:
        return f"<pre><code>{code}</code></pre>\n"
    # By `af-python` a page finds the code that it can insert into the notebook.
    css_class = "af-code af-python" if language.lower().startswith("py") else "af-code"
    return f'<pre><code class="{css_class}">{code}</code></pre>\n'


def _without_controls(text: str) -> str:
    return storable_text(text.replace("\x00", "�"))


def _secure_links(tokens: list[Token]) -> list[Token]:
    """Turn images into links, and links with an unsafe scheme into their text followed by the address."""
    result: list[Token] = []
    unsafe: list[str | None] = []  # for each open link: its address if the address is unsafe
    for token in tokens:
        if token.type == "image":
            address = str(token.attrGet("src") or "")
            label = token.content or "image"
            if _SAFE_ADDRESS.match(address):
                link = Token("link_open", "a", 1, attrs={"href": address})
                result += [link, _text(label), Token("link_close", "a", -1)]
            else:
                result.append(_text(f"{label} ({address[:80]})"))
        elif token.type == "link_open":
            address = str(token.attrGet("href") or "")
            unsafe.append(None if _SAFE_ADDRESS.match(address) else address)
            if unsafe[-1] is None:
                result.append(token)
        elif token.type == "link_close":
            unsafe_address = unsafe.pop()
            result.append(token if unsafe_address is None else _text(f" ({unsafe_address})"))
        else:
            result.append(token)
    return result


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def escape(text: object) -> str:
    """Escape any value for HTML; names, parameters and errors are untrusted too, as models write them."""
    return html.escape(_without_controls(str(text)))


def escape_with_language(text: object) -> str:
    """Escape a value for HTML, and mark Chinese with a `lang` attribute."""
    tag = language_tag(str(text))
    return f'<span lang="{tag}">{escape(text)}</span>' if tag else escape(text)


def safe_markdown(text: str) -> str:
    """Sanitise Markdown for any renderer: no HTML and no images; code and safe formulas are kept.

    A parser with HTML and images enabled checks each block, and a block with remaining active content is escaped as a
    whole. Blocks are separated by blank lines and closed, so that the joined text parses like the checked blocks.
    """
    parser = MarkdownIt("commonmark").enable("table")
    parser.validateLink = lambda _url: True  # type: ignore[assignment, method-assign]  # other parsers accept any scheme
    complete = text if text.endswith("\n") else f"{text}\n"  # the stream recognises a closing fence at its line feed
    blocks = []
    for block in MarkdownStream(complete).blocks:
        if block.closing and not block.markdown.startswith(block.closing):
            blocks.append(fenced(block.source.rstrip(), "~"))
            continue
        markdown = block.markdown.rstrip() + ("\n" + block.closing if block.closing else "")
        # JupyterLab puts the info string of a fence into an attribute: only the language name is left.
        markdown = _FENCE_WORDS.sub(lambda match: match[1] + (_LANGUAGE.match(match[2]) or [""])[0], markdown)
        if not markdown.startswith(("```", "~~~", "    ", "\t")):
            # Sources become list items and notes become paragraphs: as lines of one paragraph they would run together.
            markdown = _list_sources(_replace_outside_code(markdown, _ESCAPED_NAMES), r"- [\1] ")
            markdown = _NOTE_TEXT.sub(lambda match: f"{match[0].rstrip()}\n\n", markdown).rstrip()
        may_change = ("$" in markdown or _PLAIN_TAG.search(markdown)) and not markdown.startswith(("```", "~~~"))
        if may_change or _is_active(markdown, parser):
            neutral = _replace_outside_code(markdown, _NEUTRALISED)
            markdown = _escape_markdown(markdown) if _is_active(neutral, parser) else neutral
        blocks.append(markdown)
    return "\n\n".join(blocks)


def safe_markdown_line(text: str) -> str:
    """Escape a text for use within one line of Markdown."""
    return _escape_markdown(" ".join(_without_controls(text).split()))


def plain_line(text: str) -> str:
    """Convert Markdown to one line of plain text; formulas are TeX without font commands."""
    pieces = (_FONT_COMMAND.sub(r"\1", part if isinstance(part, str) else part.tex) for part in split_formulas(text))
    markup = MarkdownRenderer().html("".join(pieces))
    return " ".join(html.unescape(_TAG.sub("", _END_OF_BLOCK.sub(" ", markup))).split())


_FONT_COMMAND = re.compile(r"\\(?:mathrm|mathbf|mathit|mathsf|text|operatorname|ce)\*?\{([^{}]*)\}")
_END_OF_BLOCK = re.compile(r"</(?:p|li|h[1-6]|td|th|pre|summary)>|<br>")
_TAG = re.compile(r"<[^>]*>")
_Replacements = tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]

_ESCAPED_NAMES: _Replacements = ((_DUNDER, lambda match: match[0].replace("_", r"\_")),)
_NEUTRALISED: _Replacements = (
    (re.compile(r"(?<!\\)!\["), "["),  # an image becomes a link
    (re.compile(r"\]:"), r"]\\:"),  # a link definition
    (_PLAIN_ELEMENT_OR_TAG, lambda match: "&lt;" if match[0] == "<" else match[0]),
    (_DOLLAR, r"\1\\$"),
    (re.compile(r"\]\((?!https?://|mailto:|#)"), "]&#40;"),  # a link with an unsafe scheme
)
"""Replacements that make active Markdown inactive."""


def _replace_outside_code(markdown: str, replacements: _Replacements) -> str:
    """Apply replacements, one after the other, to all text outside code spans and formulas."""
    pieces: list[str] = []
    position = 0
    for span in (*_CODE_SPAN.finditer(markdown), None):
        for piece in split_formulas(markdown[position : span.start() if span else None]):
            if isinstance(piece, Formula):
                pieces.append(piece.markdown)
                continue
            text = piece
            for pattern, replacement in replacements:
                text = pattern.sub(replacement, text)
            pieces.append(text)
        pieces.append(span[0] if span else "")
        position = span.end() if span else position
    return "".join(pieces)


def _is_active(markdown: str, parser: MarkdownIt) -> bool:
    """Return whether Markdown contains HTML, images, links with an unsafe scheme, or link definitions."""
    env: dict[str, object] = {}
    pending = parser.parse(markdown, env)
    if env.get("references"):  # an image in another block may refer to it
        return True
    while pending:
        token = pending.pop()
        # The parser stops at its nesting limit, so deeper content is unchecked.
        is_html = token.type == "html_block" or (
            token.type == "html_inline" and not _PLAIN_TAG.fullmatch(token.content)
        )
        if is_html or token.type == "image" or token.level >= _MAX_NESTING - 2:
            return True
        if token.type == "link_open" and not _SAFE_ADDRESS.match(str(token.attrGet("href") or "")):
            return True
        pending += token.children or []
    return False


def _escape_markdown(text: str) -> str:
    r"""Escape a text, but not `(` and `[`: `\(` and `\[` begin formulas. An escaped `]` prevents links and images."""
    text = re.sub(r"([\\`*_{}\]#+!|~$])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))
    return re.sub(r"\\\\(?=[()\[]|\\\])", "&#92;", text)
