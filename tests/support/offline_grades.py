"""Grades of the offline model's answers to sets of questions."""

import importlib
import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.offline_loop import Drive

from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.models.offline.report import PHRASES
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.sources.retrieval.sentences import collapse_whitespace

ABSENT = re.compile("|".join(re.escape(phrases["absent"]) for phrases in PHRASES.values()))
SOURCE = re.compile(r"^(\d+)\. .* — (local:\S+)$", re.MULTILINE)
QUOTE = re.compile(r"^> (.*) \[(\d+)\]$", re.MULTILINE)

MODULES = {
    "python": """
argparse asyncio bisect calendar collections configparser contextlib copy csv dataclasses datetime difflib fnmatch
fractions functools getpass glob gzip heapq itertools json logging logging.handlers math os.path pathlib pdb pickle
pprint queue random sched secrets shelve shutil smtplib socket sqlite3 statistics string subprocess tempfile textwrap
threading timeit traceback unittest uuid webbrowser zipfile
""".split(),  # noqa: SIM905 - a list of words reads best as a text
    "modules": """
abc array ast base64 binascii bz2 cmd codecs concurrent.futures contextvars curses.textpad decimal dis doctest
email.message enum filecmp fileinput ftplib getopt gettext graphlib hashlib hmac html http.cookies http.server imaplib
inspect ipaddress linecache locale logging.config lzma mimetypes multiprocessing.pool netrc numbers operator optparse
pkgutil plistlib poplib pstats re reprlib select selectors shlex signal ssl stat struct sysconfig tarfile time tokenize
trace tracemalloc types urllib.parse urllib.request venv warnings weakref xml.etree.ElementTree zipapp zlib zoneinfo
""".split(),  # noqa: SIM905 - the same
}
"""Modules of the standard library by the name of their set of questions."""


@dataclass(frozen=True)
class Grades:
    """Number of questions that were answered well.

    Attributes:
        cited: Questions whose first citation is right.
        quoted: Questions with a right fact in a quote.
        silent: Absent questions without an answer.
        misses: A line for each other question.
    """

    cited: int
    quoted: int
    silent: int
    misses: tuple[str, ...]

    def __add__(self, other: "Grades") -> "Grades":
        return Grades(
            self.cited + other.cited,
            self.quoted + other.quoted,
            self.silent + other.silent,
            (*self.misses, *other.misses),
        )


async def answer_and_quotes(sources: SourceManager, scope: list[str], question: str) -> tuple[str | None, list[str]]:
    """The address cited first and the sentences that the answer quotes; checks that every quote is in its source."""
    drive = Drive(OfflineModel(), sources, scope)
    answer = await drive.ask(question)
    assert drive.rounds <= 12
    for text in (answer, drive.artifacts["research_report"]):
        cited = dict(SOURCE.findall(text))
        quotes = QUOTE.findall(text)
        assert bool(quotes) == bool(cited) == (ABSENT.search(text) is None), text
        for sentence, number in quotes:
            section = await sources.read(cited[number])
            assert sentence in collapse_whitespace(section.text), (question, sentence)
    first = SOURCE.search(answer)
    return (first[2] if first else None), [sentence for sentence, _ in QUOTE.findall(answer)]


async def grade(
    sources: SourceManager, scope: list[str], questions: Iterable[Mapping[str, Any]], absent: Iterable[str]
) -> Grades:
    """Ask the questions and grade the answers."""
    cited = quoted = silent = 0
    misses = []
    for entry in questions:
        address, quotes = await answer_and_quotes(sources, scope, entry["question"])
        is_cited = any(part in (address or "") for part in entry["expect"])
        is_quoted = any(fact in quote for fact in entry["facts"] for quote in quotes)
        cited, quoted = cited + is_cited, quoted + is_quoted
        if not (is_cited and is_quoted):
            misses.append(f"{'' if is_cited else 'CITED '}{'' if is_quoted else 'FACT '}{entry['question']} {address}")
            misses += [f"      {quote[:150]}" for quote in quotes]
    for question in absent:
        address, quotes = await answer_and_quotes(sources, scope, question)
        silent += address is None
        if address:
            misses += [f"ABSENT {question} {address}", *(f"      {quote[:150]}" for quote in quotes[:2])]
    return Grades(cited, quoted, silent, tuple(misses))


def write_library(folder: Path, modules: Iterable[str] = MODULES["python"]) -> None:
    """Write the docstrings of modules of the standard library as Markdown, a file for each module."""
    folder.mkdir()
    for name in modules:
        module = importlib.import_module(name)
        parts = [f"# {name}", inspect.getdoc(module) or ""]
        for key, member in sorted(vars(module).items()):
            is_own = (getattr(member, "__module__", None) or name).partition(".")[0].lstrip("_") == name.partition(".")[
                0
            ]
            if key.startswith("_") or not is_own or not (inspect.isclass(member) or callable(member)):
                continue
            parts += _entry(f"{name}.{key}", member)
            for method, function in sorted(vars(member).items()) if inspect.isclass(member) else ():
                if not method.startswith("_") and callable(function):
                    parts += _entry(f"{name}.{key}.{method}", function)
        (folder / f"{name}.md").write_text("\n\n".join(parts), encoding="utf-8")


def _entry(name: str, member: object) -> list[str]:
    text = inspect.getdoc(member)
    return [f"## {name}", text] if text else []
