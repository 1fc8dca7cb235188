"""Questions of several parts: each is answered from the sources, or not at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import artifactflow_nb as af
from artifactflow_nb.models.offline.questions import split_question

HANDBOOK = Path(__file__).parents[3] / "data" / "handbook"
BACKUPS, RESCUE = "A backup counts only after a restore has been tried", "calls the mountain rescue"
NESTS, UNITS = "Heron nests are not approached between March and July", "Never convert units in a raw file"


@pytest.fixture(scope="module")
def wb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[af.Workbench]:
    folder = tmp_path_factory.mktemp("parts")
    with af.Workbench(data_dir=folder / "data", approvals="approve") as workbench:
        workbench.sources.add(HANDBOOK)
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
def test_question_is_split_between_questions(question: str, parts: list[str] | None) -> None:
    """A text is split between two questions, not between two words of one question."""
    assert split_question(question) == (parts or [question])


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
def test_every_answerable_part_is_answered(wb: af.Workbench, question: str, quoted: list[str], flow: str) -> None:
    """Each part gets its best sentences, in the answer too; a part without an answer gets no sentence."""
    answer = wb.ask(question, flow=flow).wait().response
    assert all(quote in answer for quote in quoted)
    assert ("> " in answer) == bool(quoted)
