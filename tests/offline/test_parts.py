"""Questions that ask several things: each of them is answered, or none is made up."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import artifactflow_nb as af
from artifactflow_nb.models.offline_parts import parts_of

HANDBOOK = Path(__file__).parents[2] / "data" / "handbook"
BACKUPS, RESCUE = "A backup counts only after a restore has been tried", "calls the mountain rescue"
NESTS, UNITS = "Heron nests are not approached between March and July", "Never convert units in a raw file"


@pytest.fixture(scope="module")
def wb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[af.Workbench]:
    folder = tmp_path_factory.mktemp("parts")
    with af.Workbench(data_dir=folder / "data", approvals="approve") as workbench:
        workbench.add_sources(HANDBOOK)
        yield workbench


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("How are backups checked, and who may read them?", ["How are backups checked", "who may read them?"]),
        ("What is it? And why?", ["What is it?", "why?"]),
        ("What is raised, and when?", ["What is raised", "when?"]),
        ("备份如何检查，谁可以读原始数据？", ["备份如何检查", "谁可以读原始数据？"]),
        ("How do I unpack, sort and print a list?", None),
        ("What is known and unknown?", None),
        ("", None),
    ],
)
def test_a_question_is_told_apart_where_something_else_is_asked(question: str, parts: list[str] | None) -> None:
    """Between two questions, not between two words of one."""
    assert parts_of(question) == (parts or [question])


@pytest.mark.parametrize("flow", ["research", "plan"])
@pytest.mark.parametrize(
    ("question", "quoted"),
    [
        ("How are backups checked, and who calls the mountain rescue?", [BACKUPS, RESCUE]),
        ("Who calls the mountain rescue? How are backups checked?", [BACKUPS, RESCUE]),
        ("How are backups checked, and who may read the raw data?", [BACKUPS, "Raw files are kept"]),
        ("What is the unit of wind, and when are heron nests approached?", [UNITS, NESTS]),
        ("How does one cook rice, and how are backups checked?", [BACKUPS]),
        ("Who won the cup, and what is the capital of France?", []),
    ],
)
def test_every_part_is_answered_that_the_sources_answer(
    wb: af.Workbench, question: str, quoted: list[str], flow: str
) -> None:
    """With its best sentences, in the answer too; nothing stands in the place of a part that they do not answer."""
    answer = wb.ask(question, flow=flow).wait().response
    assert all(quote in answer for quote in quoted)
    assert ("> " in answer) == bool(quoted)


def test_a_permission_is_no_question_about_an_audience(wb: af.Workbench) -> None:
    """Who may read something is answered by any sentence, not only by those that speak of people."""
    answer = wb.ask("Who may read the raw data?").wait().response
    assert "Raw files are kept for ever" in answer or "Requests for raw files go to the data steward" in answer
    readers = wb.ask("Who reads the raw data?").wait().response
    assert "Raw files are kept for ever" not in readers
