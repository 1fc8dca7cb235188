"""The serialiser of saved outputs: nodes as HTML, Markdown and plain text."""

import pytest
from markdown_it import MarkdownIt
from support.hostile_texts import HOSTILE
from support.played_runs import acting_tokens

from artifactflow_nb.core.language import ENGLISH
from artifactflow_nb.core.text.markdown import MarkdownRenderer, escape
from artifactflow_nb.widgets.page.markdown import html_to_markdown, summary_html
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import saved_output

MARKDOWN = """# Title

A *plain* **bold** [link](<https://example.org/a(b)>) ~~not~~ `co|de` and `` a`b ``.

- one
  - two

1. three
2. four

> quote
>\x20
> - five

| a | b |
| --- | --- |
| 1 | \\| |

~~~~
def f():
    ~~~
~~~~"""


def test_rendered_markdown_becomes_the_same_markdown() -> None:
    """HTML rendered from Markdown is converted to the same Markdown."""
    assert html_to_markdown(MarkdownRenderer().html(MARKDOWN)) == MARKDOWN


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<p>1. Not a list</p><p># nor a heading</p>", "1\\. Not a list\n\n\\# nor a heading"),
        ("<p>__init__ of lead_agent costs $5</p>", "\\_\\_init\\_\\_ of lead_agent costs \\$5"),
        ("<dl><dt>query</dt><dd>tea</dd><dt>n</dt><dd>3</dd></dl>", "- query: tea\n- n: 3"),
        ("<p>one<br>two</p>", "one\\\ntwo"),
        ("<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>", "- a\n  - b\n- c"),
        ("<div hidden='hidden'><rp><svg><text>no</text></svg></rp></div><img alt='A picture'>", "A picture"),
        ("<style>p { color: red }</style><p>text", "text"),
        ("<strong>bold </strong>and <code></code>", "**bold** and"),
    ],
)
def test_html_becomes_markdown(html: str, markdown: str) -> None:
    """Characters with a meaning in Markdown are escaped; drawings and styles are omitted."""
    assert html_to_markdown(html) == markdown


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_of_hostile_texts_is_inert(text: str) -> None:
    """Rendered and escaped hostile texts have no effect in a renderer that allows HTML and images."""
    for html in (MarkdownRenderer().html(text), f"<p>{escape(text)}</p>", f"<pre>{escape(text)}</pre>"):
        assert acting_tokens(html_to_markdown(html)) == []
    assert "<" not in summary_html(escape(text)).replace("<code>", "").replace("</code>", "")


def test_nodes_are_saved_without_controls() -> None:
    """Folds and lists are preserved; a node's plain text replaces that of its children."""
    item = Node("item", kind="item", children=(Node("line", "<b>One</b>"),))
    nodes = (
        Node("head", "<strong>Title</strong>", text="Title"),
        Node("do", "<button>Press</button>", "controls"),
        Node("fold", "<code>tool</code> 5 &lt; 6", "fold", "af-tool", True, children=(
            Node("list", kind="list", children=(item, item)), Node("form", kind="form"),
        )),
        Node("box", kind="box", text="In short.", children=(Node("long", "<p>At length.</p>", text="At length."),)),
    )  # fmt: skip
    output = saved_output(nodes, ENGLISH, css="af-chat")
    assert output["text/plain"] == "Title\n\nIn short."
    assert output["text/markdown"] == (
        "**Title**\n\n<details open><summary><code>tool</code> 5 &lt; 6</summary>\n\n- **One**\n- **One**\n\n</details>"
        "\n\nAt length."
    )
    html = output["text/html"]
    assert "Press" not in html
    assert '<ol class="" role="list"><li class=""><div class=""><b>One</b></div></li>' in html
    assert ".af-chat" in html
    assert ".af-steps" not in html
    assert "<li>\n<p><strong>One" not in MarkdownIt().render(output["text/markdown"])
