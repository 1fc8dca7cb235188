"""The files of the page at `/artifactflow`."""

from functools import cache
from importlib.resources import files

from artifactflow_nb.engine.settings import Language
from artifactflow_nb.server.api import Answer
from artifactflow_nb.widgets.page import assets

_STATIC = files("artifactflow_nb.server") / "static"


@cache
def page_file(name: str, language: Language) -> Answer | None:
    """A file of the page by its name, empty for the page itself; None for another name.

    Args:
        name: The name.
        language: The language of the views.
    """
    if name == "":
        return Answer(200, (_STATIC / "index.html").read_bytes(), "text/html; charset=utf-8")
    if name == "page.css":
        css = assets.all_styles() + assets.stylesheet() + (_STATIC / "page.css").read_text(encoding="utf-8")
        return Answer(200, css.encode(), "text/css; charset=utf-8")
    if name == "page.js":
        return Answer(200, (_STATIC / name).read_bytes(), "text/javascript; charset=utf-8")
    if name == "panel.js":
        return Answer(200, assets.script(language).encode(), "text/javascript; charset=utf-8")
    return None
