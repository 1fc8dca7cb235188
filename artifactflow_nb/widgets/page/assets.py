"""JavaScript and CSS of the views.

The files are concatenated here because a widget's script cannot import another script. The texts of the scripts, in
the language of the view, precede the files.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files

from artifactflow_nb.core.language import Language, catalogue
from artifactflow_nb.core.text.content_style import all_content_style
from artifactflow_nb.core.text.panels import BASE_STYLE, stylesheet

_STATIC = files("artifactflow_nb.widgets") / "static"
# In load order: later scripts use the definitions of earlier scripts.
_SCRIPTS = (
    *("texts", "host", "focus", "pointer", "tree", "reading", "follow", "clocks", "code", "place", "field", "choices"),
    *("items", "composer", "form", "preview", "approval", "question", "approval_group", "notices", "attention"),
    *("effects", "output", "drafts", "branches", "fit", "board", "mount", "actions", "ended_runs", "panel", "widget"),
)

_KEY_CHARS = 12
_COMMENT = re.compile(r"/\*.*?\*/\n?", re.DOTALL)


def _read_scripts(names: Iterable[str]) -> str:
    return "\n".join((_STATIC / f"{name}.js").read_text(encoding="utf-8") for name in names)


@cache
def script(language: Language, importer: str = "", style: str = "") -> str:
    """Return the JavaScript module of every panel, with translations for the texts of the script `importer`, if any.

    `style` is CSS that the module adds to the pages and shadow roots of its panels.
    """
    scripts = _read_scripts(_SCRIPTS)
    texts = {
        text: translation
        for text, translation in catalogue(language).items()
        if (quoted := json.dumps(text, ensure_ascii=False)) in scripts or quoted in importer
    }
    values = json.dumps(texts, ensure_ascii=False)
    constants = f"UI_LANGUAGE = {json.dumps(language)}, UI_TEXTS = {values}, UI_STYLE = {json.dumps(style)}"
    return f"const {constants};\n{scripts}"


@cache
def page_script(language: Language) -> Mapping[str, str]:
    """Return the message with the module of all widgets and their styles."""
    return {"type": "script", "script": script(language, style=all_styles())}


@cache
def loader(language: Language) -> str:
    """Return the JavaScript module of a widget, which loads the module that all widgets of a page share."""
    code = re.sub(r"\n\s*", "\n", _COMMENT.sub("", _read_scripts(("loader",))))
    key = sha256(page_script(language)["script"].encode()).hexdigest()[:_KEY_CHARS]
    return f'const KEY = "{key}";\n{code}'


@cache
def all_styles() -> str:
    """Return the CSS of all views, for a live page."""
    names = sorted(entry.name for entry in _STATIC.iterdir() if entry.name.endswith(".css"))
    return stylesheet(*(name for name in names if name != BASE_STYLE)) + all_content_style()
