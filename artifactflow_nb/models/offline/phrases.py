"""The fixed phrases of the offline model in English and Chinese. Everything else that it writes is quoted."""

import json
from collections.abc import Mapping
from importlib.resources import files

from artifactflow_nb.core.text.chinese import is_chinese

PHRASES: Mapping[str, Mapping[str, str]] = json.loads((files(__package__) / "phrases.json").read_text(encoding="utf-8"))
"""The phrases by language and name; the titles of the usual steps are separated by `|`."""


def phrases_for(text: str) -> Mapping[str, str]:
    """Return the phrases in the language of a text."""
    return PHRASES["zh" if is_chinese(text) else "en"]


def plan_steps(phrases: Mapping[str, str]) -> list[str]:
    """Return the titles of the usual steps: search, read, write."""
    return phrases["steps"].split("|")
