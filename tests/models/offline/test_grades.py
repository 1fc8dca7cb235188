"""Grades of the offline model on the language reference and on small folders about other subjects."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.offline_grades import answer_and_quotes

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.store.database import Database

HERE = Path(__file__).parent
REFERENCE = yaml.safe_load((HERE / "questions.yaml").read_text(encoding="utf-8"))
CONSTRUCTS = yaml.safe_load((HERE / "constructs.yaml").read_text(encoding="utf-8"))
FOLDERS = yaml.safe_load((HERE / "folders.yaml").read_text(encoding="utf-8"))
CHINESE = yaml.safe_load((HERE / "chinese.yaml").read_text(encoding="utf-8"))


@pytest.fixture
async def sources(tmp_path: Path):
    database = Database(tmp_path / "store.db")
    await database.open()
    yield SourceManager(database, SystemClock())
    await database.close()


async def answered(sources: SourceManager, scope: list[str], question: str) -> str | None:
    """The address cited first, or None without an answer; checks that every quote is in its source."""
    return (await answer_and_quotes(sources, scope, question))[0]


async def test_the_reference_is_cited_where_it_answers(sources: SourceManager):
    """At least 23 of 30 questions on the language reference are answered from an expected topic first, all verbatim."""
    assert len(REFERENCE["questions"]) == 30
    assert await graded(sources, REFERENCE["questions"]) >= 23


async def test_constructs_of_the_language_are_recognised(sources: SourceManager):
    """At least 41 of 60 questions on single constructs are answered from an expected topic; some are stop words."""
    assert len(CONSTRUCTS["questions"]) == 60
    assert await graded(sources, CONSTRUCTS["questions"]) >= 41


async def graded(sources: SourceManager, entries: list[dict[str, Any]]) -> int:
    scope = [(await sources.add_python_reference()).source_id]
    addresses = [await answered(sources, scope, entry["question"]) for entry in entries]
    cited = [(address or "").partition("#")[2] for address in addresses]
    return sum(topic in entry["topics"] for topic, entry in zip(cited, entries, strict=True))


async def test_absent_subjects_are_reported_as_absent(sources: SourceManager):
    """A question that the language reference does not cover is answered without any citation."""
    scope = [(await sources.add_python_reference()).source_id]
    for question in [*REFERENCE["absent"], *CONSTRUCTS["absent"]]:
        assert await answered(sources, scope, question) is None, question


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder["name"])
async def test_a_folder_is_cited_where_it_answers(sources: SourceManager, tmp_path: Path, folder: dict[str, Any]):
    """In a small folder all but two questions are answered from the right section, and absent subjects are not."""
    root = tmp_path / folder["name"]
    for name, text in folder["files"].items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    scope = list((await sources.add_folder(root)).source_ids)
    right = 0
    for entry in folder["questions"]:
        address = await answered(sources, scope, entry["question"])
        right += address is not None and entry["expect"] in address
    assert right >= len(folder["questions"]) - 2
    for question in folder["absent"]:
        assert await answered(sources, scope, question) is None, question


@pytest.mark.parametrize("with_the_reference", [False, True], ids=["alone", "beside the reference"])
async def test_a_chinese_folder_is_cited_where_it_answers(sources: SourceManager, with_the_reference: bool):
    """27 of 30 Chinese questions are answered with the expected fact and section; absent subjects are not."""
    scope = list((await sources.add_folder(HERE / "chinese")).source_ids)
    if with_the_reference:  # in many sources words occur together by chance, so an answer needs more evidence
        scope.append((await sources.add_python_reference()).source_id)
    entries = [*CHINESE["seen"], *CHINESE["held_out"]]
    assert len(entries) == 30
    right = 0
    for entry in entries:
        address, quotes = await answer_and_quotes(sources, scope, entry["question"])
        right += entry["expect"] in (address or "") and any(entry["fact"] in quote for quote in quotes)
    assert right >= 27
    for question in [*CHINESE["absent_seen"], *CHINESE["absent_held_out"]]:
        assert await answered(sources, scope, question) is None, question
