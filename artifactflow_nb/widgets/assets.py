"""The scripts and styles of the views: plain files, joined here, because a widget's script cannot import another."""

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

_STATIC = files("artifactflow_nb.widgets") / "static"
_SCRIPTS = (
    *("tree.js", "follow.js", "clocks.js", "code.js", "place.js", "field.js", "items.js", "form.js", "ask.js"),
    *("effects.js", "face.js", "drafts.js", "branches.js", "board.js", "mount.js", "panel.js"),
)
_BASE_STYLE = "view.css"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_BREAK = re.compile(r"\s*\n\s*")


def _joined(names: Iterable[str]) -> str:
    return "\n".join((_STATIC / name).read_text(encoding="utf-8") for name in names)


@cache
def script() -> str:
    """The one script that every panel runs."""
    return _joined(_SCRIPTS)


@cache
def all_styles() -> str:
    """The styles of all views, for a live page."""
    names = sorted(entry.name for entry in _STATIC.iterdir() if entry.name.endswith(".css"))
    return stylesheet(*(name for name in names if name != _BASE_STYLE))


@cache
def stylesheet(*names: str) -> str:
    """What a face needs: the style that all views share, and the named files beside it.

    Every rule is within `.af-run`. It is one line without comments: it stands in every face, and a blank line would
    end the HTML where a notebook is converted to Markdown.
    """
    return _BREAK.sub(" ", _COMMENT.sub("", _joined((_BASE_STYLE, *names)))).strip()
