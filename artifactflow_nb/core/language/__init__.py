"""`Texts`: the texts of the interface in the language of the setting `language`.

The tables in this folder have the texts, one table for each part of the interface, as pairs in English and Chinese.
A view takes all its texts from one `Texts`, so that it is in one language; the page gets those of its scripts as data.
Texts of persons and models are displayed as they are.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal

from artifactflow_nb.core.language.artifacts import ARTIFACT_TEXTS
from artifactflow_nb.core.language.board import BOARD_TEXTS
from artifactflow_nb.core.language.charts import CHART_TEXTS
from artifactflow_nb.core.language.chat import CHAT_TEXTS
from artifactflow_nb.core.language.errors import ERROR_TEXTS, OTHER_ERRORS
from artifactflow_nb.core.language.names import NAMES
from artifactflow_nb.core.language.page import PAGE_TEXTS
from artifactflow_nb.core.language.requests import REQUEST_TEXTS
from artifactflow_nb.core.language.run import RUN_TEXTS
from artifactflow_nb.core.text.format import capitalized, count, duration

TABLES = (CHAT_TEXTS, BOARD_TEXTS, ARTIFACT_TEXTS, REQUEST_TEXTS, RUN_TEXTS, PAGE_TEXTS, CHART_TEXTS, NAMES)
"""All texts by key, in the order of `LANGUAGES`. Parts in braces are filled in."""

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
"""The languages of the interface: English and Chinese."""

_UNITS = {"ms": "毫秒", "s": "秒", "min": "分", "h": "小时"}
_UNIT = re.compile(r"\b(ms|s|min|h)\b")


class Texts:
    """The texts in one language."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._index = LANGUAGES.index(language)
        self._texts = {key: pair[self._index] for table in TABLES for key, pair in table.items()}

    def __call__(self, key: str, **parts: object) -> str:
        """A text with its parts filled in; unescaped."""
        text = self._texts[key]
        return text.format(**parts) if parts else text

    def count(self, number: int, key: str) -> str:
        """A number with a noun: `2 blocks`, `2 个内容块`."""
        noun = self._texts[key]
        return count(number, noun) if self.language == "en" else f"{number:,} {noun}"

    def listed(self, names: Iterable[str]) -> str:
        """Names in a row: `Gauges, Satellites`, `验潮站、卫星`."""
        return (", " if self.language == "en" else "、").join(names)

    def duration(self, ms: float) -> str:
        """A duration: `12.3 s`, `12.3 秒`."""
        return self.time(duration(ms))

    def time(self, text: str) -> str:
        """A formatted duration in this language."""
        return text if self.language == "en" else _UNIT.sub(lambda unit: _UNITS[unit[0]], text)

    def status(self, status: str) -> str:
        """A status as a label, with a capital letter."""
        return capitalized(self._texts[f"state_{status}"])

    def difference(self, key: str, n: int) -> str:
        """The words of a difference, see `core.text.diff`."""
        noun = {"unchanged": "n_unchanged_lines", "further": "n_further_lines"}.get(key, "n_lines")
        return self(f"diff_{key}", lines=self.count(n, noun))

    def tool(self, name: str) -> str:
        """The display name of a tool; that of a user's own tool is its name as words."""
        return self._texts.get(f"tool_{name}") or name.replace("_", " ")

    def parameter(self, name: str) -> str:
        """The label of a parameter; that of a user's own tool is its name as words."""
        return self._texts.get(f"param_{name}") or name.replace("_", " ")

    def agent(self, name: str) -> str:
        """The display name of an agent, or of the person; that of a user's own agent is its name as words."""
        return self._texts.get(f"agent_{name}") or name.replace("_", " ")

    def error(self, message: str, kind: str) -> str:
        """The message of an error in this language; where there is no translation, one for its kind.

        Args:
            message: The English message.
            kind: Name of the class of the error.
        """
        if self.language == "en" or message.endswith("。"):  # a view wrote it in Chinese
            return message
        known = self.notice(message)
        return known if known != message else OTHER_ERRORS.get(kind, OTHER_ERRORS["ArtifactFlowError"])

    def notice(self, message: str) -> str:
        """An English sentence in this language; as it is where there is no translation."""
        for pattern, translation in ERROR_TEXTS.items() if self.language != "en" else ():
            if match := re.fullmatch(pattern, message):
                return match.expand(translation)
        return message

    @property
    def page(self) -> Mapping[str, str]:
        """The texts of the scripts."""
        return {key: self._texts[key] for key in PAGE_TEXTS}


@cache
def texts_in(language: Language) -> Texts:
    """The texts in a language."""
    return Texts(language)


ENGLISH = texts_in("en")
