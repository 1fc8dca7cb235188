"""What a reader can press: elements that name what they do, which the page tells the kernel when they are pressed.

Only these functions write `data-act`; text of models and of the web is sanitised and cannot.
"""

from typing import Any

import orjson

from artifactflow_nb.text.markdown import escape


def acting(act: str, **args: Any) -> str:
    """The attributes of an element that does `act` with these arguments (JSON values) when it is pressed."""
    return f'data-act="{escape(act)}" data-args="{escape(orjson.dumps(args).decode())}"'


def button(label: str, act: str, *, css: str = "", name: str = "", pressed: bool | None = None, **args: Any) -> str:
    """HTML of a button.

    Args:
        label: What stands on it; plain text.
        act: What it does: `act_<act>` of the view.
        css: Class names beside `af-button`.
        name: What a screen reader calls it, where that is more than the label; also shown as its tooltip.
        pressed: For one of several to choose from: whether it is the chosen one.
        args: The arguments of the act.
    """
    named = f' aria-label="{escape(name)}" title="{escape(name)}"' if name else ""
    chosen = "" if pressed is None else f' aria-pressed="{str(pressed).lower()}"'
    classes = f"af-button {css}".strip()
    return f'<button type="button" class="{classes}"{named}{chosen} {acting(act, **args)}>{escape(label)}</button>'
