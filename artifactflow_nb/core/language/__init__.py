"""The language of the interface: `translate`, and labels of tools, agents, parameters and statuses.

English text is the key: `zh.json` has a Chinese text for each English text. A text with two translations has a context,
which precedes the key: `block|Approve`. Code of an engine runs in the language of the engine (`EngineThread`); in a
cell, `in_language` chooses the language of an output. Errors are in English, and texts of persons and models are
displayed as they are.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
"""The languages of the interface: English and Chinese."""

EnglishText = str
"""A text that a variable passes to `translate`; the annotation marks literals for the test of the catalogue."""

NAMES: dict[str, dict[str, str]] = json.loads((files(__name__) / "names.json").read_text(encoding="utf-8"))
"""Names for readers, by kind and by the name in code; other names are displayed as words. Plugins add names.

A `sentence` says what will happen after an approval of a tool, an `activity` what an agent does while a tool runs.
"""


def add_names(names: Mapping[str, Mapping[str, EnglishText]]) -> None:
    """Add names for readers, by kind and by the name in code."""
    for kind, texts in names.items():
        NAMES.setdefault(kind, {}).update(texts)


_language: ContextVar[Language] = ContextVar("language", default="en")


def current_language() -> Language:
    """Return the language in which texts are written now."""
    return _language.get()


@contextmanager
def in_language(language: Language) -> Iterator[None]:
    """Write texts in a language within a block, and in tasks and threads that the block starts."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


@cache
def catalogue(language: Language) -> Mapping[str, str]:
    """Return the texts of a language by their English texts; for English the catalogue is empty."""
    texts: dict[str, str] = {}
    if language != "en":
        texts = json.loads((files(__name__) / f"{language}.json").read_text(encoding="utf-8"))
    return texts


def translate(text: EnglishText, /, *, context: str = "", **values: object) -> str:
    """Return a text in the current language with its placeholders filled in; the result is not escaped.

    A text that the catalogue lacks, such as the label of a user's own view, stays English.
    """
    text = catalogue(_language.get()).get(f"{context}|{text}" if context else text, text)
    return text.format(**values) if values else text


def translate_list(names: Iterable[str]) -> str:
    """Join names to a list: `Gauges, Satellites`, `验潮站、卫星`."""
    return translate(", ").join(names)


def tool_label(name: str) -> str:
    """Return the name of a tool for readers."""
    return _label("tool", name)


def parameter_label(name: str) -> str:
    """Return the name of a parameter of a tool for readers."""
    return _label("parameter", name)


def agent_label(name: str) -> str:
    """Return the name of an agent, or of the person, for readers."""
    return _label("agent", name)


def status_label(status: str) -> str:
    """Return the name of a status for readers."""
    return _label("status", status)


def _label(kind: str, name: str) -> str:
    return translate(NAMES[kind].get(name) or name.replace("_", " "), context=kind)
