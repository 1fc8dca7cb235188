"""JavaScript and CSS of the views.

The files are concatenated here because a widget's script cannot import another one.
"""

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from artifactflow_nb.core.text.content_style import all_content_style

_STATIC = files("artifactflow_nb.widgets") / "static"
# In load order: later scripts use what earlier ones define.
_SCRIPTS = (
    *("focus.js", "tree.js", "follow.js", "clocks.js", "code.js", "place.js", "field.js", "choices.js", "items.js"),
    *("composer.js", "form.js", "preview.js", "approval.js", "question.js", "approval_group.js", "attention.js"),
    *("effects.js", "output.js", "drafts.js", "branches.js", "fit.js", "board.js", "mount.js", "panel.js"),
)
_BASE_STYLE = "view.css"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RULE = re.compile(r"\s*([^{}]+?)\s*(\{(?:[^{}]|\{[^{}]*\})*\})")
"""A rule, or an at-rule with the rules in it."""
_SPACE = re.compile(r"\s*([{};,])\s*|(?<=[a-z]:)\s+")
_CLASS = re.compile(r"\.(af-[\w-]+)")
_SCOPE = ".af-run.af-run"
_LINE_BREAK = re.compile(r"\s*\n\s*")


def _read_static(names: Iterable[str]) -> str:
    return "\n".join((_STATIC / name).read_text(encoding="utf-8") for name in names)


@cache
def script() -> str:
    """JavaScript module that every panel runs."""
    return _read_static(_SCRIPTS)


@cache
def ended_runs_script() -> str:
    """JavaScript module for the buttons of ended runs."""
    return _read_static(("tree.js", "field.js", "effects.js", "ended_runs.js"))


@cache
def all_styles() -> str:
    """CSS of all views, for a live page."""
    names = sorted(entry.name for entry in _STATIC.iterdir() if entry.name.endswith(".css"))
    return stylesheet(*(name for name in names if name != _BASE_STYLE)) + all_content_style()


@cache
def stylesheet(*names: str) -> str:
    """CSS for a saved output: the shared style, then the named files; every rule is scoped to `.af-run`.

    The result is one line without comments. Every saved output contains it, and a blank line would end the HTML block
    when a notebook is converted to Markdown.
    """
    return _LINE_BREAK.sub(" ", _COMMENT.sub("", _read_static((_BASE_STYLE, *names)))).strip()


def shorten(css: str) -> str:
    """Omit the spaces of CSS that have no meaning."""
    return _SPACE.sub(r"\1", css).strip()


def used_style(css: str, markup: str) -> str:
    """The rules of CSS for elements that a markup has; consecutive rules of the scope are nested in one rule for it."""
    classes = frozenset(name for names in re.findall(r'class="([^"]*)"', markup) for name in names.split())
    pieces: list[str] = []
    is_nested = False
    for selectors, body in _RULE.findall(css):
        matching = [part for part in selectors.split(", ") if classes.issuperset(_CLASS.findall(part))]
        if not matching or ("[lang" in selectors and 'lang="zh' not in markup):
            continue
        in_scope = all(part.startswith(f"{_SCOPE} ") for part in matching)
        if in_scope != is_nested:
            pieces.append(f"{_SCOPE}{{" if in_scope else "}")
            is_nested = in_scope
        pieces.append(", ".join(part.replace(f"{_SCOPE} ", "& ") if in_scope else part for part in matching) + body)
    return "".join([*pieces, "}" if is_nested else ""])
