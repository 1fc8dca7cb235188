"""JavaScript and CSS of the views.

The files are concatenated here because a widget's script cannot import another one. Their texts, in the language of the
view, precede them.
"""

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from artifactflow_nb.core.language import Language, texts_in
from artifactflow_nb.core.text.content_style import all_content_style
from artifactflow_nb.core.text.panels import BASE_STYLE, stylesheet

_STATIC = files("artifactflow_nb.widgets") / "static"
# In load order: later scripts use what earlier ones define.
_SCRIPTS = (
    *("texts.js", "focus.js", "tree.js", "follow.js", "clocks.js", "code.js", "place.js", "field.js", "choices.js"),
    *("items.js", "composer.js", "form.js", "preview.js", "approval.js", "question.js", "approval_group.js"),
    *("notices.js", "attention.js"),
    *("effects.js", "output.js", "drafts.js", "branches.js", "fit.js", "board.js", "mount.js", "panel.js"),
)


def _read_static(names: Iterable[str]) -> str:
    return "\n".join((_STATIC / name).read_text(encoding="utf-8") for name in names)


@cache
def script(language: Language) -> str:
    """JavaScript module that every panel runs."""
    return _page_texts(language) + _read_static(_SCRIPTS)


@cache
def ended_runs_script(language: Language) -> str:
    """JavaScript module for the buttons of ended runs."""
    return _page_texts(language) + _read_static(("texts.js", "tree.js", "field.js", "effects.js", "ended_runs.js"))


def _page_texts(language: Language) -> str:
    return f"const UI_TEXTS = {json.dumps(dict(texts_in(language).page), ensure_ascii=False)};\n"


@cache
def all_styles() -> str:
    """CSS of all views, for a live page."""
    names = sorted(entry.name for entry in _STATIC.iterdir() if entry.name.endswith(".css"))
    return stylesheet(*(name for name in names if name != BASE_STYLE)) + all_content_style()
