"""Small pieces of HTML that several views show."""

from collections.abc import Iterable, Mapping
from typing import Any

from artifactflow_nb.text.markdown import escape, speak
from artifactflow_nb.widgets import labels

PARAM_CHARS = 600


def mark(status: str) -> str:
    """A status as a sign with a name, readable without colour."""
    name, sign = labels.MARK_NAMES[status], labels.MARKS[status]
    return f'<span class="af-mark af-{status}" role="img" aria-label="{name}">{sign}</span>'


def params_html(params: Mapping[str, Any], *, without: Iterable[str] = ()) -> str:
    """Parameters as a list of names and values, long ones cut short, without those that are None: they are left out."""
    hidden = set(without)
    rows = [
        f"<dt>{escape(name)}</dt><dd>{speak(_shortened(labels.value_text(value)))}</dd>"
        for name, value in params.items()
        if name not in hidden and value is not None
    ]
    return f'<dl class="af-params">{"".join(rows)}</dl>' if rows else ""


def scrolling(html: str, css: str, name: str) -> str:
    """A box that scrolls where its content is too large, which the keyboard reaches; `name` tells what is in it."""
    return f'<div class="{css}" tabindex="0" role="group" aria-label="{escape(name)}">{html}</div>'


def _shortened(text: str) -> str:
    return text if len(text) <= PARAM_CHARS else f"{text[:PARAM_CHARS]} … ({len(text):,} characters)"
