"""Saved output of a view: its nodes as HTML and plain text that are readable without a kernel.

This is the only serialiser of nodes. Buttons and forms are omitted; folds remain. The plain text consists of the `text`
of the nodes, which has no ids, times or tokens, so that a notebook test can compare it.
"""

import re
from collections.abc import Iterator

from artifactflow_nb.analysis.plots.svg import BOTH_STYLE
from artifactflow_nb.core.language import current_language, translate
from artifactflow_nb.core.text.cards import escape_invisible, hidden_style
from artifactflow_nb.core.text.format import clip
from artifactflow_nb.core.text.markdown import escape
from artifactflow_nb.core.text.panels import panel_style
from artifactflow_nb.widgets.page.nodes import Node

SavedOutput = dict[str, str]
"""Static output in a saved notebook, by media type: `text/plain` and `text/html`."""

_LIVE_ONLY = frozenset({"controls", "form"})
_LISTS = {"list": ("ol", ' role="list"'), "item": ("li", "")}
"""Tag and attributes by kind; with `list-style: none`, some browsers drop the list semantics without a role."""
_COPIED = re.compile(r'<(pre|table) tabindex="0"[^>]*>.*?</\1>', re.DOTALL)
LIVE_BUTTON = "af-live-button"
"""Class of a button within a text that needs the kernel, and is left out of saved outputs."""
_LIVE_BUTTONS = re.compile(rf'<button [^>]*class="[^"]*\b{LIVE_BUTTON}\b[^"]*"[^>]*>[^<]*</button>')

_LABEL_COLUMNS = 100
_NAME_TOOLTIP = re.compile(r'(?<=<span class="af-name") title="[^"]*"')
"""Tooltips with names in code: a saved notebook has thousands."""

_EMPTY_SPAN = re.compile(r' ?<span class="[\w -]*"></span>')
_BREAK_BETWEEN_BLOCKS = re.compile(r"(</(?:p|h[1-6]|[ou]l|li|blockquote|t\w+)>|<(?:[ou]l|li|blockquote|t\w+)>)\n")
_LINE_BREAK = "&#10;"


def saved_output(nodes: tuple[Node, ...], *, css: str = "") -> SavedOutput:
    """Serialise nodes with the styles that they need; the root element has the classes `af-run` and `css`."""
    output = saved_fragment(nodes)
    lang = "" if (language := current_language()) == "en" else f' lang="{language}"'
    root = f'<div class="{f"af-run af-saved mathjax_ignore tex2jax_ignore {css}".rstrip()}"{lang}>'
    html = _NAME_TOOLTIP.sub("", _EMPTY_SPAN.sub("", output["text/html"]))
    html = _BREAK_BETWEEN_BLOCKS.sub(r"\1", html).replace("\n", _LINE_BREAK)
    # When a notebook is converted to Markdown, an HTML block ends at the first blank line; and a notebook file takes 13
    # characters for each line.
    root += f'<div class="af-tree">{html}</div></div>'
    root = _COPIED.sub(_with_copy_button, root)
    plots = BOTH_STYLE if "<svg" in root or "<img" in root else ""
    style = panel_style(root, plots)
    # JupyterLab shows the first line of a collapsed output as text.
    label = escape(clip(output["text/plain"].partition("\n")[0].replace("--", "–"), _LABEL_COLUMNS))
    return {**output, "text/html": f"<!-- {label} -->\n{hidden_style(style)}\n{root}"}


def saved_text(html: str) -> str:
    """Serialise the sanitised HTML of a text with the styles that the text needs."""
    return saved_output((Node("text", html, css="af-md"),))["text/html"].partition("\n")[2]


def copy_script() -> str:
    """Return the only script in a saved output: it copies code as text and a table as values between tabs."""
    label, copied, refused = translate("Copy"), translate("Copied"), translate("Not allowed")
    return (
        "const s=getSelection(),name=this.ariaLabel;"
        "s.selectAllChildren(this.closest('.af-code-box').lastElementChild);"
        f"this.ariaLabel=this.textContent=document.execCommand('copy')?'{copied}':'{refused}';"
        f"s.removeAllRanges();setTimeout(()=>{{this.textContent='{label}';this.ariaLabel=name}},2000)"
    )


def _with_copy_button(match: re.Match[str]) -> str:
    """Add a copy button to code or a table; the button stays hidden if a sanitiser removes the script."""
    name = translate("Copy this code" if match[1] == "pre" else "Copy this table")
    script = copy_script()
    button = f'<button type="button" class="af-button af-small af-copy-code" aria-label="{name}" onclick="{script}">'
    tools = f'<span class="af-code-tools" hidden="hidden">{button}{translate("Copy")}</button></span>'
    return f'<div class="af-code-box">{tools}{match[0]}</div>'


def saved_fragment(nodes: tuple[Node, ...]) -> SavedOutput:
    """Serialise a part of a view, without the root element and the styles."""
    return {"text/plain": escape_invisible("\n\n".join(_texts(nodes))), "text/html": saved_html(nodes)}


def saved_html(nodes: tuple[Node, ...]) -> str:
    """Serialise nodes as HTML: folds as `<details>`, no buttons and no forms."""
    return "".join(_html(node) for node in nodes if node.kind not in _LIVE_ONLY)


def _html(node: Node) -> str:
    inside = saved_html(node.children)
    text = _LIVE_BUTTONS.sub("", node.html) if LIVE_BUTTON in node.html else node.html
    if node.kind == "fold":
        state = " open" if node.is_open else ""
        body = f'<div class="af-body">{inside}</div>' if inside else ""
        return f'<details class="{node.css}"{state}><summary>{node.html}</summary>{body}</details>'
    name, role = _LISTS.get(node.kind, ("div", ""))
    return f'<{name} class="{node.css}"{role}>{text}{inside}</{name}>'


def _texts(nodes: tuple[Node, ...]) -> Iterator[str]:
    """Yield the plain texts of nodes; the text of a node includes its children."""
    for node in nodes:
        if node.text is None:
            yield from _texts(node.children)
        elif node.text:
            yield node.text
