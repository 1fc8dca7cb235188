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
        ("tuned", 21, 24, 18),
        ("held_out", 17, 16, 7),
        ("modules", 9, 8, 7),
        ("reference", 43, 37, 24),
        ("unseen", 28, 28, 17),
        ("fresh", 76, 72, 44),
        ("paraphrased", 16, 13, 25),
    ],
)
async def test_questions_in_own_words_are_answered_or_declined(
    tmp_path: Path, name: str, cited: int, quoted: int, silent: int
) -> None:
    """Check how many questions are answered from the right section with the fact, and how many absent ones declined."""
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
        ("reference", "When does finally run?", "reference#try", "finally"),
        ("both", "When does finally run?", "reference#try", "finally"),
        ("both", "What is str.join?", "reference#string-methods", "concatenation of the strings"),
        ("both", "What does asyncio.wait_for do when the timeout expires?", "#asyncio.wait_for", "cancels the task"),
        ("both", "functools.lru_cache with unhashable arguments", "#functools.lru_cache", "arguments"),
    ],
)
async def test_section_on_a_name_in_the_question_ranks_first(
    library, scope: str, question: str, address: str, fact: str
) -> None:
    """An adverb before the verb can be a name, and a dotted name counts more than its last part."""
    sources, scopes = library
    cited, quotes = await answer_and_quotes(sources, scopes[scope], question)
    assert address in (cited or "")
    assert any(fact in quote for quote in quotes)
