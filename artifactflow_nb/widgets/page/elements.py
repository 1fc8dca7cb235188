"""HTML elements that several views share: buttons, status marks, parameter lists, scroll boxes.

A button names its action in `data-act`; the page sends that action to the kernel on a click. Only this module writes
`data-act`: the sanitiser removes it from text of models and of the web.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from artifactflow_nb.core.text.markdown import escape, escape_with_language

PARAM_CHARS = 600
_PARAMETER_LABELS = {"urls": "addresses", "url": "address", "focus": "looks for", "query": "searches for"}

STATUS_MARKS = {
    "running": "●",
    "waiting": "?",
    "ok": "✓",
    "completed": "✓",
    "failed": "✕",
    "cancelled": "–",
    "interrupted": "!",
    "deleted": "–",
    "pending": "○",
    "skipped": "–",
}
STATUS_MARK_NAMES = {
    "running": "running",
    "waiting": "waiting for you",
    "ok": "done",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "deleted": "deleted",
    "pending": "pending",
    "skipped": "skipped",
}


def status_mark(status: str) -> str:
    """A symbol with an accessible name, so that the status is readable without colour."""
    name, sign = STATUS_MARK_NAMES[status], STATUS_MARKS[status]
    return f'<span class="af-mark af-{status}" role="img" aria-label="{name}">{sign}</span>'


def params_html(params: Mapping[str, Any], *, without: Iterable[str] = ()) -> str:
    """Definition list of the parameters that are not None, with long values shortened.

    Args:
        params: The parameters, by name.
        without: Names of parameters to omit.
    """
    hidden = set(without)
    rows = [
        f"<dt>{escape(parameter_label(name))}</dt><dd>{escape_with_language(_shorten(value_text(value)))}</dd>"
        for name, value in params.items()
        if name not in hidden and value is not None
    ]
    return f'<dl class="af-params">{"".join(rows)}</dl>' if rows else ""


def parameter_label(name: str) -> str:
    """Name of a parameter in plain words: `agent name` for `agent_name`."""
    return _PARAMETER_LABELS.get(name, name.replace("_", " "))


def scroll_box(html: str, css: str, name: str) -> str:
    """Scrollable box that the keyboard can reach; `name` is its accessible name."""
    return f'<div class="{css}" tabindex="0" role="group" aria-label="{escape(name)}">{html}</div>'


def _shorten(text: str) -> str:
    return text if len(text) <= PARAM_CHARS else f"{text[:PARAM_CHARS]} … ({len(text):,} characters)"


def action_attributes(act: str, **args: Any) -> str:
    """HTML attributes of an element that performs `act` with these arguments (JSON values) on a click."""
    return f'data-act="{escape(act)}" data-args="{escape(orjson.dumps(args).decode())}"'


def button(label: str, act: str, *, css: str = "", name: str = "", pressed: bool | None = None, **args: Any) -> str:
    """HTML of a button.

    Args:
        label: Visible text, unescaped.
        act: Name of the action: the view's method `act_<act>` handles it.
        css: Class names in addition to `af-button`.
        name: Accessible name and tooltip, if they differ from the label.
        pressed: State of a toggle button; None for other buttons.
        args: Arguments of the action.
    """
    aria_label = f' aria-label="{escape(name)}" title="{escape(name)}"' if name else ""
    aria_pressed = "" if pressed is None else f' aria-pressed="{str(pressed).lower()}"'
    attributes = f'class="{f"af-button {css}".strip()}"{aria_label}{aria_pressed} {action_attributes(act, **args)}'
    return f'<button type="button" {attributes}>{escape(label)}</button>'


def value_text(value: Any) -> str:
    """Text of a parameter for a reader: strings unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
