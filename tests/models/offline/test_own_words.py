"""Questions in a person's own words about reference, prose, tables and Chinese texts."""

import sys
from pathlib import Path

import pytest
import yaml
from support.offline_grades import MODULES, Grades, answer_and_quotes, grade, write_library

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.store.database import Database

HERE = Path(__file__).parent / "own_words"


async def grade_set(name: str, folder: Path) -> Grades:
    """Grade a set of questions, those of each corpus in a search of that corpus alone."""
    database = Database(folder / "store.db")
    await database.open()
    sources = SourceManager(database, SystemClock())
    total = Grades(0, 0, 0, ())
    for corpus, entries in yaml.safe_load((HERE / f"{name}.yaml").read_text(encoding="utf-8")).items():
        if corpus == "reference":
            scope = [(await sources.add_python_reference()).source_id]
        elif corpus in MODULES:
            write_library(folder / "library", MODULES[corpus])
            library = await sources.add_folder(folder / "library")
            scope = [(await sources.add_python_reference()).source_id, *library.scope]
        else:
            scope = list((await sources.add_folder(HERE / corpus)).scope)
        total += await grade(sources, scope, entries["questions"], entries["absent"])
    await database.close()
    return total


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the texts are those of Python 3.11's documentation")
@pytest.mark.parametrize(
    ("name", "cited", "quoted", "silent"),
    [
        ("tuned", 15, 17, 19),
        ("held_out", 14, 12, 9),
        ("modules", 8, 9, 8),
        ("reference", 31, 23, 25),
        ("unseen", 26, 23, 19),
        ("fresh", 58, 58, 45),
        ("paraphrased", 12, 9, 28),
    ],
)
async def test_questions_in_own_words_are_answered_or_declined(
    tmp_path: Path, name: str, cited: int, quoted: int, silent: int
) -> None:
    """Enough questions get the fact from the right section, and enough questions on absent subjects are declined."""
    grades = await grade_set(name, tmp_path)
    reached = (grades.cited, grades.quoted, grades.silent)
    assert all(n >= least for n, least in zip(reached, (cited, quoted, silent), strict=True)), (reached, grades.misses)


@pytest.fixture
async def library(tmp_path: Path):
    """Sources with the docstrings of modules and the language reference; the scopes of both."""
    database = Database(tmp_path / "store.db")
    await database.open()
    sources = SourceManager(database, SystemClock())
    write_library(tmp_path / "library")
    folder = await sources.add_folder(tmp_path / "library")
    reference = [(await sources.add_python_reference()).source_id]
    yield sources, {"reference": reference, "both": [*reference, *folder.scope]}
    await database.close()


@pytest.mark.parametrize(
    ("scope", "question", "address", "fact"),
    [
        ("both", "What does asyncio.wait_for do when the timeout expires?", "#asyncio.wait_for", "cancels the task"),
        ("both", "functools.lru_cache with unhashable arguments", "#functools.lru_cache", "arguments"),
    ],
)
async def test_section_on_a_name_in_the_question_ranks_first(
    library, scope: str, question: str, address: str, fact: str
) -> None:
    """The words of a dotted name lead to its own section."""
    sources, scopes = library
    cited, quotes = await answer_and_quotes(sources, scopes[scope], question)
    assert address in (cited or "")
    assert any(fact in quote for quote in quotes)
