"""HTML elements that several views share: buttons, status marks, parameter lists.

A button names its action in `data-act`; the page sends that action to the kernel on a click. Only this module writes
`data-act`: the sanitiser removes it from text of models and of the web.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import orjson

from artifactflow_nb.core.language import EnglishText, parameter_label, status_label, translate
from artifactflow_nb.core.text.cards import Named
from artifactflow_nb.core.text.format import capitalized, format_local_time, translate_count, value_text
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.export.files import EXPORT_FORMATS

PARAM_CHARS = 600

STATUS_MARKS = {
    "running": "●",
    "waiting": "?",
    "ok": "✓",
    "completed": "✓",
    "failed": "✕",
    "cancelled": "–",
    "denied": "–",
    "abandoned": "!",
    "deleted": "–",
    "pending": "○",
    "skipped": "–",
    "warning": "!",
}


def status_mark(status: str) -> str:
    """Build a symbol with an accessible name, so that the status is readable without colour."""
    name, sign = status_label(status), STATUS_MARKS[status]
    return f'<span class="af-mark af-{status}" role="img" aria-label="{name}">{sign}</span>'


def name_html(name: str, label: str) -> str:
    """Render the display name of a tool or an agent, with the tooltip of `Named`, as HTML."""
    return f'<span class="af-name"{Named(label, name).tooltip}>{escape(capitalized(label))}</span>'


def time_html(time: datetime) -> str:
    """Render a time in the zone of the kernel as HTML; a page with scripts shows the time in the reader's zone."""
    return f'<span data-at="{time.timestamp() * 1000:.0f}">{format_local_time(time)}</span>'


def params_html(params: Mapping[str, Any], *, without: Iterable[str] = ()) -> str:
    """Build a definition list of the parameters that are not None, except some names; long values are shortened."""
    hidden = set(without)
    rows = []
    for name, value in params.items():
        if name in hidden or value is None:
            continue
        if len(text := value_text(value)) > PARAM_CHARS:
            size = translate_count(len(text), "character")
            text = translate("{text} … ({characters})", text=text[:PARAM_CHARS], characters=size)
        rows.append(f"<dt>{escape(parameter_label(name))}</dt><dd>{escape_with_language(text)}</dd>")
    return f'<dl class="af-params">{"".join(rows)}</dl>' if rows else ""


def action_attributes(act: str, **args: Any) -> str:
    """Return the HTML attributes of an element that performs `act` with the arguments (JSON values) on a click."""
    return f'data-act="{escape(act)}" data-args="{escape(orjson.dumps(args).decode())}"'


def button(label: str, act: str, *, css: str = "", name: str = "", pressed: bool | None = None, **args: Any) -> str:
    """Render a button as HTML.

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


def format_buttons(act: str, name: EnglishText = "Download {form}: {kind}") -> list[str]:
    """Build a download button for each export format; `name` completes the accessible names."""
    kinds = {form: translate(export_format.label) for form, export_format in EXPORT_FORMATS.items()}
    return [button(form, act, name=translate(name, form=form, kind=kind), form=form) for form, kind in kinds.items()]
