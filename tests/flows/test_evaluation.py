"""Evaluations: each block is graded by each dimension in a job, and grades are versions of artifacts."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenWorkbench
from flows.test_compose import prompts
from flows.test_personas import call_errors
from support.hostile_texts import HOSTILE
from support.replies import call, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.grades import Grade, validate_quotes
from artifactflow_nb.plugins.projects.handle import Project
from artifactflow_nb.plugins.projects.named_texts import (
    Dimension,
    merge_dimensions,
    packaged_dimensions,
    read_named_texts,
)
from artifactflow_nb.store.artifacts import USER, Authorship

TEXTS = {"Text": "X is a letter.\nIt is the 24th.", "More": "X is also a cross."}


def grade(score: Any = 7, *evidence: str, advice: str = "Say more.") -> str:
    return call("grade", score=score, evidence=list(evidence or ("X is",)), advice=advice)


def evaluate(*names: str, **more: Any) -> str:
    return call("run_evaluation", target_fields=list(names), **more)


class Graders(ScriptedModel):
    """Replies with the composer's turns; each grader grades its block once `together` graders are running."""

    def __init__(self, *composer: str, graders: Any = None, together: int = 1) -> None:
        self._composer = iter(composer)
        self._graders = graders
        self._barrier = threading.Barrier(together)
        super().__init__(self._say)

    def _say(self, request: ModelRequest) -> str:
        if requesting_agent(request) == "composer":
            return next(self._composer)
        n = sum(message.role == "assistant" for message in request.messages)
        if self._graders is not None:
            return str(self._graders[min(n, len(self._graders) - 1)])
        return [grade(7 if request.messages[1].content.startswith('Judge the block "Text"') else 4), "So it is."][
            min(n, 1)
        ]

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if requesting_agent(request) == "grader" and self._barrier.parties > 1:
            await asyncio.to_thread(self._barrier.wait, 20)
        async for event in super().stream(request):
            yield event


def open_judged(workbench: OpenWorkbench, model: ScriptedModel, **more: Any) -> tuple[af.Workbench, Project]:
    """A workbench with a project of two blocks with texts and one block without a text."""
    wb = workbench(model=model, interactive=False, **more)
    project = wb.projects.start("Essay", template="paper")
    for name, text in TEXTS.items():
        project.add(name, text, prompt=f"All about {name}.")
    project.add("Empty")
    return wb, project


def test_graders_run_concurrently(workbench: OpenWorkbench) -> None:
    """All graders start before any of them ends; each score has a row, and the composer gets all scores."""
    calls = evaluate("Text", "More", eval_dimensions=["clarity", "evidence"])
    wb, project = open_judged(workbench, Graders(calls, "Good.", together=4))
    assert project.ask("How good is it?").wait().response == "Good."
    frame = wb.projects.evaluations_df(project)
    assert sorted(zip(frame["block"], frame["dimension"], frame["score"], strict=True)) == [
        ("More", "clarity", 4),
        ("More", "evidence", 4),
        ("Text", "clarity", 7),
        ("Text", "evidence", 7),
    ]
    assert set(frame["evidence_json"]) == {'["X is"]'}
    assert set(frame["advice"]) == {"Say more."}
    assert set(frame["grader_model"]) == {"scripted"}
    assert set(frame["block_version"]) == {1}
    assert frame["persona"].isna().all()
    after = prompts(wb, "You write a document together")[1]
    assert "- Text, clarity: 7 of 10. Say more.\n- Text, evidence: 7 of 10. Say more.\n- More, clarity" in after
    assert project["Text"].content == TEXTS["Text"]


class LastFirst(Graders):
    """Graders: the grader that starts last ends first."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if requesting_agent(request) == "grader":
            task = request.messages[1].content
            await asyncio.sleep(0.1 * (task.startswith('Judge the block "Text"') * 2 + ("by: clarity." in task)))
        async for event in super().stream(request):
            yield event


def test_grade_order_does_not_depend_on_timing(workbench: OpenWorkbench) -> None:
    """The frame and its plots are the same, whichever grader ends first."""
    calls = evaluate("Text", "More", eval_dimensions=["clarity", "evidence"])
    wb, project = open_judged(workbench, LastFirst(calls, "Good."))
    project.ask("How good is it?").wait()
    frame = wb.projects.evaluations_df(project)
    assert not frame["created_at"].is_monotonic_increasing
    pairs = list(zip(frame["block"], frame["dimension"], strict=True))
    assert pairs == [("Text", "clarity"), ("Text", "evidence"), ("More", "clarity"), ("More", "evidence")]


def test_grades_frame_shows_the_active_branch(workbench: OpenWorkbench) -> None:
    """Grades of other branches are selected by `all_branches` or by the run of the grades."""
    calls = evaluate("Text", eval_dimensions=["clarity"])
    wb, project = open_judged(workbench, Graders(calls, "Good.", calls, "Good, too.", "Nothing to judge."))
    first = project.ask("How good is it?").wait()
    second = wb.conversation(first).regenerate().wait()
    assert wb.projects.evaluations_df(project)["run_id"].tolist() == [second.run_id]
    assert wb.projects.evaluations_df(project, run=first)["run_id"].tolist() == [first.run_id]
    every = wb.projects.evaluations_df(all_branches=True)
    assert every["run_id"].tolist() == [first.run_id, second.run_id]
    assert every["is_active"].tolist() == [False, True]
    project.ask("And now?", parent_message_id=first.message_id).wait()
    assert wb.projects.evaluations_df(project)["run_id"].tolist() == [first.run_id]
    assert wb.query("SELECT is_active FROM evaluations ORDER BY created_at")["is_active"].tolist() == [True, False]


def test_grader_task_is_complete(workbench: OpenWorkbench) -> None:
    """The task has the dimension, and the prompt, dependencies, readers and text of the block."""
    wb, project = open_judged(workbench, Graders(evaluate("More", eval_dimensions=["evidence"]), "Good."))
    project["More"].set(depends_on=["Text"])
    project.personas.add("Ann", "A nurse.")
    project.ask("How good is it?").wait()
    task = prompts(wb, "You judge one block")[0]
    for part in ("Check the claims", "All about More.", TEXTS["Text"], TEXTS["More"], "Ann: A nurse."):
        assert part in task
    assert "Judge as this reader would" not in task


def test_each_evaluation_adds_a_grade_version(workbench: OpenWorkbench) -> None:
    """A repeated evaluation adds a row, even for the same score; each row has the graded version of the text."""
    wb, project = open_judged(workbench, Graders())
    for _ in range(2):
        run = project.evaluate(["Text"], ["clarity"]).wait()
        assert run.status == "completed"
        project["Text"].write("X is another text.")
    frame = wb.projects.evaluations_df("Essay")
    assert list(frame["artifact_id"]) == ["grade_text_clarity"] * 2
    assert list(frame["version"]) == [1, 2]
    assert list(frame["block_version"]) == [1, 2]
    assert len(wb.projects.evaluations_df(run=run)) == 1


def test_project_evaluate_grades_all_texts(workbench: OpenWorkbench) -> None:
    """`project.evaluate()` grades every text by every dimension, and its answer is the scores."""
    wb, project = open_judged(workbench, Graders())
    run = project.evaluate().wait()
    assert run.status == "completed"
    assert "- Text, clarity: 7 of 10. Say more." in str(run.response)
    assert len(wb.projects.evaluations_df(project)) == 2 * len(packaged_dimensions())
    for invalid in (
        lambda: project.evaluate(["Empty"]),
        lambda: project.evaluate(["Nowhere"]),
        lambda: project.evaluate(dimensions=["beauty"]),
        lambda: project.evaluate(persona="Nobody"),
    ):
        with pytest.raises(af.errors.UsageError):
            invalid()
    assert len(wb.runs()) == 1


def test_evaluation_from_the_view_of_a_persona(workbench: OpenWorkbench) -> None:
    """The grader takes the persona's view; grades from this view are kept apart."""
    wb, project = open_judged(workbench, Graders())
    project.personas.add("Ann", "A nurse.").add("Bob", "A clerk.")
    project.evaluate(["Text"], ["clarity"]).wait()
    project.evaluate(["Text"], ["clarity"], persona="ann").wait()
    assert wb.projects.evaluations_df(project)["persona"].astype("string").fillna("").tolist() == ["", "Ann"]
    task = prompts(wb, "You judge one block")[-1]
    assert "Judge as this reader would:\nAnn: A nurse." in task
    assert "Bob" not in task


def test_evidence_must_be_in_the_text(workbench: OpenWorkbench) -> None:
    """The grader gets an error and can correct its grade; the valid grade is stored."""
    graders = [grade(9, "Y is a letter."), grade(3, "X is a letter. It is"), "So it is."]
    wb, project = open_judged(workbench, Graders(graders=graders))
    project.evaluate(["Text"], ["clarity"]).wait()
    assert any("'Y is a letter.' is not in the text" in error for error in call_errors(wb))
    assert wb.projects.evaluations_df(project)["score"].tolist() == [3]


@pytest.mark.parametrize(
    "invalid", [grade(11), grade(0), grade("7/10"), call("grade", score=5, evidence=[]), "It is good."]
)
def test_invalid_grade_is_not_stored(workbench: OpenWorkbench, invalid: str) -> None:
    """A score out of range, missing evidence or a missing grade stores nothing, and the answer says so."""
    wb, project = open_judged(workbench, Graders(graders=[invalid, "It is good."]))
    run = project.evaluate(["Text"], ["clarity"]).wait()
    assert "Not graded: Text, clarity: no grade. It is good." in str(run.response)
    assert len(wb.projects.evaluations_df(project)) == 0
    assert not wb.tool_calls_df(run).set_index("tool_name")["success"]["run_evaluation"]


@pytest.mark.parametrize("by_handle", [True, False])
def test_single_block_and_dimension_are_accepted(workbench: OpenWorkbench, by_handle: bool) -> None:
    """A name or a handle is accepted instead of a list."""
    wb, project = open_judged(workbench, Graders())
    project.evaluate(project["Text"] if by_handle else "Text", "clarity").wait()
    assert wb.projects.evaluations_df(project)[["block", "dimension"]].to_numpy().tolist() == [["Text", "clarity"]]


def test_deleted_block_is_not_evaluated(workbench: OpenWorkbench) -> None:
    """An empty name and the handle of a deleted block are rejected before a run starts."""
    wb, project = open_judged(workbench, Graders())
    deleted = project["Text"]
    deleted.delete()
    for block in ("", deleted):
        with pytest.raises(af.errors.UsageError, match="There is no block ''. There are: More, Empty."):
            project.evaluate(block)
    assert len(wb.runs()) == 0


def test_invalid_evaluation_is_reported_to_the_composer(workbench: OpenWorkbench) -> None:
    """The errors name an empty block, an unknown block, dimension or persona, and too many grades."""
    turns = [
        evaluate("Empty"),
        evaluate("Nowhere"),
        evaluate("Text", eval_dimensions=["beauty"]),
        evaluate("Text", persona="Nobody"),
        call("run_evaluation", target_fields=[]),
        "Done.",
    ]
    wb, project = open_judged(workbench, Graders(*turns))
    assert project.ask("Judge.").wait().status == "completed"
    no_text, no_block, no_dimension, no_persona, nothing = call_errors(wb)
    assert "These blocks have no text to evaluate yet: Empty." in no_text
    assert "There is no block 'Nowhere'" in no_block
    assert "There is no dimension 'beauty'" in no_dimension
    assert "There is no persona 'Nobody'" in no_persona
    assert "Name at least one block that has a text." in nothing


def test_project_dimensions_override_packaged_dimensions(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The files of a folder add dimensions and replace packaged dimensions; graders get the prompts of the files."""
    (tmp_path / "a.md").write_text("---\nname: clarity\ndescription: Ours.\n---\nCount the words.\n")
    (tmp_path / "b.md").write_text("---\nname: tone\ndescription: T.\n---\nHear it.\n")
    wb, project = open_judged(workbench, Graders())
    names = [dimension.name for dimension in project.dimensions.load(tmp_path)]
    assert names == [*(dimension.name for dimension in packaged_dimensions()), "tone"]
    project.evaluate(["Text"], ["clarity", "tone"]).wait()
    requests = {"Count the words." in prompt for prompt in prompts(wb, "You judge one block")}
    assert requests == {True, False}
    (tmp_path / "empty").mkdir()
    with pytest.raises(af.errors.UsageError, match="has no Markdown files. Pass a file, or a folder with files"):
        project.dimensions.load(tmp_path / "empty")
    assert project.dimensions.remove("clarity")[0].prompt == packaged_dimensions()[0].prompt


@pytest.mark.parametrize(
    "text",
    [
        *("", "- a", "---\nname: a\n---\nText.", "---\nname: a\ndescription: x\n---\n", "---\nname: [\n---\nText."),
        f"---\n{'[' * 3000}\n---\nText.",
    ],
)
def test_invalid_dimension_file_is_rejected(tmp_path: Path, text: str) -> None:
    """The error names the file."""
    path = tmp_path / "mine.md"
    path.write_text(text)
    with pytest.raises(af.errors.UsageError, match=r"mine\.md"):
        read_named_texts(path, Dimension)


def test_grade_texts_are_stored_verbatim() -> None:
    """An artifact returns any advice and quotes unchanged, and quotes must be in the text."""
    for text in HOSTILE:
        found = Grade("text", 1, "clarity", "", 5, validate_quotes(f"Before {text} behind", [f"Before {text}"]), text)
        stored = json.loads(found.format())
        assert stored["advice"] == storable_text(text)
        assert stored["evidence"] == [storable_text(f"Before {text}").strip()]
        entry = Dimension("x", "X.", f"x{text}")
        assert Dimension.parse(entry.format()) == entry
        with pytest.raises(af.errors.UsageError, match="is not in the text"):
            validate_quotes(text, [f"{text} and more"])


def test_overwritten_grade_artifact_is_ignored(workbench: OpenWorkbench) -> None:
    """The artifact has no row, and the next evaluation still adds a row."""
    wb, project = open_judged(workbench, Graders())
    project.evaluate(["Text"], ["clarity"]).wait()
    by = project.branch
    wb._thread.call(
        wb._thread.engine.artifacts.revise(
            Authorship(by.conversation_id, by.message_id, USER),
            "grade_text_clarity",
            json.dumps(["x"]),
            update_type="rewrite",
        )
    )
    assert wb.projects.evaluations_df(project)["score"].tolist() == [7]
    assert merge_dimensions(()) == packaged_dimensions()


def test_summary_of_many_grades_is_short(workbench: OpenWorkbench) -> None:
    """200 grades get a line each, and the frame has the whole advice; more than 200 are rejected."""
    wb, project = open_judged(workbench, Graders(graders=[grade(5, "X is", advice="Better. " * 400), "So it is."]))
    for n in range(38):
        project.add(f"Part {n}", "X is a part.")
    run = project.evaluate().wait()
    lines = str(run.response).splitlines()
    assert (run.status, len(lines)) == ("completed", 200)
    assert max(map(len, lines)) <= 102
    assert set(wb.projects.evaluations_df(project)["advice"]) == {("Better. " * 400).strip()}
    project.add("One more", "X is a part.")
    assert "need more than 200 grades" in str(project.evaluate().wait().response)


def test_waiting_graders_continue_in_another_workbench(workbench: OpenWorkbench) -> None:
    """Two grades that need approval are approved in another process, and nothing is graded twice."""
    calls = evaluate("Text", "More", eval_dimensions=["clarity"])
    wb, project = open_judged(workbench, Graders(calls), approvals={"grade": "ask"})
    run = project.ask("How good is it?").wait()
    assert (run.status, len(run.pending), len(wb.projects.evaluations_df(project))) == ("waiting", 2, 0)
    wb.close()
    wb = workbench(model=Graders("Good."), interactive=False, approvals={"grade": "ask"})
    reopened = wb.runs()[0]
    first, second = reopened.pending
    reopened.approve(first.id, params={"score": 2, "evidence": ["X is"], "advice": "Less."})
    reopened.approve(second.id).wait()
    assert (reopened.status, reopened.response) == ("completed", "Good.")
    frame = wb.projects.evaluations_df("Essay")
    assert sorted(frame["score"].tolist()) in ([2, 4], [2, 7])
    assert list(wb.tool_calls_df()["tool_name"]).count("grade") == 2
