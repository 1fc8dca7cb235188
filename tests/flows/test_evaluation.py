"""Evaluations: each block is judged by each dimension in a job of its own, and the grades are versions of artifacts."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenWorkbench
from flows.test_compose import prompts
from flows.test_personas import told
from hostile import HOSTILE
from scripts import call, who_asks

import artifactflow_nb as af
from artifactflow_nb.evaluations import (
    DIMENSIONS,
    GRADES,
    Dimension,
    Grade,
    checked_quotes,
    known_dimensions,
    load_dimensions,
    packaged_dimensions,
)
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.project import Project
from artifactflow_nb.store.artifacts import USER, Authorship

TEXTS = {"Text": "X is a letter.\nIt is the 24th.", "More": "X is also a cross."}


def grade(score: Any = 7, *evidence: str, advice: str = "Say more.") -> str:
    return call("grade", score=score, evidence=list(evidence or ("X is",)), advice=advice)


def evaluate(*names: str, **more: Any) -> str:
    return call("run_evaluation", target_fields=list(names), **more)


class Graders(ScriptedModel):
    """Composers say their turns; each grader gives a grade that tells its block, once `together` of them are at it."""

    def __init__(self, *composer: str, graders: Any = None, together: int = 1) -> None:
        self._composer = iter(composer)
        self._graders = graders
        self._barrier = threading.Barrier(together)
        super().__init__(self._say)

    def _say(self, request: ModelRequest) -> str:
        if who_asks(request) == "composer":
            return next(self._composer)
        n = sum(message.role == "assistant" for message in request.messages)
        if self._graders is not None:
            return str(self._graders[min(n, len(self._graders) - 1)])
        return [grade(7 if request.messages[1].content.startswith('Judge the block "Text"') else 4), "So it is."][
            min(n, 1)
        ]

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if who_asks(request) == "grader" and self._barrier.parties > 1:
            await asyncio.to_thread(self._barrier.wait, 20)
        async for event in super().stream(request):
            yield event


def judged(workbench: OpenWorkbench, model: ScriptedModel, **more: Any) -> tuple[af.Workbench, Project]:
    """A workbench with a project of two blocks that have texts, and one that has none."""
    wb = workbench(model=model, interactive=False, **more)
    project = wb.project("Essay", template="paper")
    for name, text in TEXTS.items():
        project.add(name, text, prompt=f"All about {name}.")
    project.add("Empty")
    return wb, project


def test_blocks_are_judged_by_dimensions_at_the_same_time(workbench: OpenWorkbench) -> None:
    """All graders are asked before any of them answers; the composer is told each score, and each has a row."""
    asked = evaluate("Text", "More", eval_dimensions=["clarity", "evidence"])
    wb, project = judged(workbench, Graders(asked, "Good.", together=4))
    assert wb.ask("How good is it?", project=project).wait().response == "Good."
    frame = wb.evaluations_df(project)
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
    """Graders who are asked later end sooner."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if who_asks(request) == "grader":
            told = request.messages[1].content
            await asyncio.sleep(0.1 * (told.startswith('Judge the block "Text"') * 2 + ("by: clarity." in told)))
        async for event in super().stream(request):
            yield event


def test_grades_stand_in_the_order_in_which_they_were_asked_for(workbench: OpenWorkbench) -> None:
    """Whichever grader ends first: the frame, and what is drawn of it, come out the same each time."""
    asked = evaluate("Text", "More", eval_dimensions=["clarity", "evidence"])
    wb, project = judged(workbench, LastFirst(asked, "Good."))
    wb.ask("How good is it?", project=project).wait()
    frame = wb.evaluations_df(project)
    assert not frame["created_at"].is_monotonic_increasing
    pairs = list(zip(frame["block"], frame["dimension"], strict=True))
    assert pairs == [("Text", "clarity"), ("Text", "evidence"), ("More", "clarity"), ("More", "evidence")]


def test_grades_are_those_of_the_active_branch(workbench: OpenWorkbench) -> None:
    """What another branch was judged there is asked for by `all_branches`, or by its run; a switch turns it round."""
    asked = evaluate("Text", eval_dimensions=["clarity"])
    wb, project = judged(workbench, Graders(asked, "Good.", asked, "Good, too.", "Nothing to judge."))
    first = wb.ask("How good is it?", project=project).wait()
    second = wb.regenerate(first).wait()
    assert wb.evaluations_df(project)["run_id"].tolist() == [second.run_id]
    assert wb.evaluations_df(project, run=first)["run_id"].tolist() == [first.run_id]
    every = wb.evaluations_df(all_branches=True)
    assert every["run_id"].tolist() == [first.run_id, second.run_id]
    assert every["is_active"].tolist() == [False, True]
    wb.ask("And now?", project=project, parent_message_id=first.message_id).wait()
    assert wb.evaluations_df(project)["run_id"].tolist() == [first.run_id]
    assert wb.query("SELECT is_active FROM evaluations ORDER BY created_at")["is_active"].tolist() == [True, False]


def test_a_grader_sees_what_it_needs(workbench: OpenWorkbench) -> None:
    """The dimension's prompt, what the block shall say, what it rests on, for whom it is, and its text."""
    wb, project = judged(workbench, Graders(evaluate("More", eval_dimensions=["evidence"]), "Good."))
    project["More"].set(depends_on=["Text"])
    project.personas.add("Ann", "A nurse.")
    wb.ask("How good is it?", project=project).wait()
    task = prompts(wb, "You judge one block")[0]
    for part in ("Go through the claims", "All about More.", TEXTS["Text"], TEXTS["More"], "Ann: A nurse."):
        assert part in task
    assert "Judge as this reader would" not in task


def test_each_run_adds_a_version_with_the_version_that_was_judged(workbench: OpenWorkbench) -> None:
    """Judged again, also to the same score, there is a further row; the old one keeps its text's version."""
    wb, project = judged(workbench, Graders())
    for _ in range(2):
        run = project.evaluate(["Text"], ["clarity"]).wait()
        assert run.status == "completed"
        project["Text"].write("X is another text.")
    frame = wb.evaluations_df("Essay")
    assert list(frame["artifact_id"]) == ["grade_text_clarity"] * 2
    assert list(frame["version"]) == [1, 2]
    assert list(frame["block_version"]) == [1, 2]
    assert len(wb.evaluations_df(run=run)) == 1


def test_a_person_has_a_project_judged(workbench: OpenWorkbench) -> None:
    """`project.evaluate()` takes all texts by all dimensions; its answer is the scores; nothing else is asked."""
    wb, project = judged(workbench, Graders())
    run = project.evaluate().wait()
    assert run.status == "completed"
    assert "- Text, clarity: 7 of 10. Say more." in str(run.response)
    assert len(wb.evaluations_df(project)) == 2 * len(packaged_dimensions())
    for wrong in (
        lambda: project.evaluate(["Empty"]),
        lambda: project.evaluate(["Nowhere"]),
        lambda: project.evaluate(dimensions=["beauty"]),
        lambda: project.evaluate(persona="Nobody"),
    ):
        with pytest.raises(af.UsageError):
            wrong()
    assert len(wb.runs()) == 1


def test_a_text_is_judged_from_the_view_of_a_persona(workbench: OpenWorkbench) -> None:
    """The grader judges as that reader; such grades are told from others."""
    wb, project = judged(workbench, Graders())
    project.personas.add("Ann", "A nurse.").add("Bob", "A clerk.")
    project.evaluate(["Text"], ["clarity"]).wait()
    project.evaluate(["Text"], ["clarity"], persona="ann").wait()
    assert wb.evaluations_df(project)["persona"].astype("string").fillna("").tolist() == ["", "Ann"]
    task = prompts(wb, "You judge one block")[-1]
    assert "Judge as this reader would:\nAnn: A nurse." in task
    assert "Bob" not in task


def test_evidence_that_does_not_stand_in_the_text_is_refused(workbench: OpenWorkbench) -> None:
    """The grader is told, and may correct it; the grade that holds is the one that could be kept."""
    graders = [grade(9, "Y is a letter."), grade(3, "X is a letter. It is"), "So it is."]
    wb, project = judged(workbench, Graders(graders=graders))
    project.evaluate(["Text"], ["clarity"]).wait()
    assert any("'Y is a letter.' does not stand in the text" in error for error in told(wb))
    assert wb.evaluations_df(project)["score"].tolist() == [3]


@pytest.mark.parametrize(
    "wrong", [grade(11), grade(0), grade("7/10"), call("grade", score=5, evidence=[]), "It is good."]
)
def test_what_is_no_grade_is_not_kept(workbench: OpenWorkbench, wrong: str) -> None:
    """A score beyond the scale, one without evidence, or none: nothing is stored, and the answer says so."""
    wb, project = judged(workbench, Graders(graders=[wrong, "It is good."]))
    run = project.evaluate(["Text"], ["clarity"]).wait()
    assert "Not judged: Text, clarity: no grade. It is good." in str(run.response)
    assert len(wb.evaluations_df(project)) == 0
    assert not wb.tool_calls_df(run).set_index("tool_name")["success"]["run_evaluation"]


@pytest.mark.parametrize("is_held", [True, False])
def test_one_block_can_be_judged_by_one_dimension(workbench: OpenWorkbench, is_held: bool) -> None:
    """A name or a handle alone is meant as a list of one."""
    wb, project = judged(workbench, Graders())
    project.evaluate(project["Text"] if is_held else "Text", "clarity").wait()
    assert wb.evaluations_df(project)[["block", "dimension"]].to_numpy().tolist() == [["Text", "clarity"]]


def test_a_block_that_is_gone_is_not_judged(workbench: OpenWorkbench) -> None:
    """An empty name and the handle of a deleted block are refused before a run is begun."""
    wb, project = judged(workbench, Graders())
    held = project["Text"]
    held.delete()
    for block in ("", held):
        with pytest.raises(af.UsageError, match="There is no block .* to judge. There are: More, Empty."):
            project.evaluate(block)
    assert len(wb.runs()) == 0


def test_what_cannot_be_judged_is_told_to_the_composer(workbench: OpenWorkbench) -> None:
    """A block without a text, an unknown one, an unknown dimension and persona, and too much at once."""
    turns = [
        evaluate("Empty"),
        evaluate("Nowhere"),
        evaluate("Text", eval_dimensions=["beauty"]),
        evaluate("Text", persona="Nobody"),
        call("run_evaluation", target_fields=[]),
        "Done.",
    ]
    wb, project = judged(workbench, Graders(*turns))
    assert wb.ask("Judge.", project=project).wait().status == "completed"
    no_text, no_block, no_dimension, no_persona, nothing = told(wb)
    assert "There is no text to judge yet: Empty." in no_text
    assert "There is no block 'Nowhere'" in no_block
    assert "There is no dimension 'beauty'" in no_dimension
    assert "There is no persona 'Nobody'" in no_persona
    assert "Name at least one block that has a text." in nothing


def test_a_project_has_dimensions_of_its_own(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A file adds dimensions and takes the place of packaged ones; their prompts reach the graders."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "clarity: {description: Ours., prompt: Count the words.}\ntone: {description: T., prompt: Hear it.}\n"
    )
    wb, project = judged(workbench, Graders())
    names = [one.name for one in project.dimensions.load(mine)]
    assert names == [*(one.name for one in packaged_dimensions()), "tone"]
    project.evaluate(["Text"], ["clarity", "tone"]).wait()
    asked = {"Count the words." in prompt for prompt in prompts(wb, "You judge one block")}
    assert asked == {True, False}
    assert project.dimensions.remove("clarity")[0].prompt == packaged_dimensions()[0].prompt


@pytest.mark.parametrize(
    "text",
    ["", "- a", "clarity: x", "clarity: {description: x}", "a: {description: x, prompt: ''}", "a: [", "[" * 3000],
)
def test_what_is_no_set_of_dimensions_is_refused(tmp_path: Path, text: str) -> None:
    """The error names the file."""
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(af.UsageError, match=r"mine\.yaml|dimension 'a'"):
        load_dimensions(path)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_words_of_a_grade_are_stored_as_they_are(text: str) -> None:
    """Whatever a grader says and quotes, its artifact gives it back, and a quote has to stand in the text."""
    found = Grade("text", 1, "clarity", "", 5, checked_quotes(f"Before {text} behind", [f"Before {text}"]), text)
    assert GRADES.read(GRADES.write(found)) == found
    one = Dimension("x", "X.", f"x{text}")
    assert DIMENSIONS.read(DIMENSIONS.write(one)) == one
    with pytest.raises(af.UsageError, match="does not stand in the text"):
        checked_quotes(text, [f"{text} and more"])


def test_a_grade_that_somebody_wrote_over_is_passed_over(workbench: OpenWorkbench) -> None:
    """What is no grade any more has no row, and the next evaluation still has one."""
    wb, project = judged(workbench, Graders())
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
    assert wb.evaluations_df(project)["score"].tolist() == [7]
    assert known_dimensions(()) == packaged_dimensions()


def test_many_grades_are_told_in_short(workbench: OpenWorkbench) -> None:
    """200 grades with long advice come to a line each, and all of the advice is in the frame; more are refused."""
    wb, project = judged(workbench, Graders(graders=[grade(5, "X is", advice="Better. " * 400), "So it is."]))
    for n in range(38):
        project.add(f"Part {n}", "X is a part.")
    run = project.evaluate().wait()
    lines = str(run.response).splitlines()
    assert (run.status, len(lines)) == ("completed", 200)
    assert max(map(len, lines)) <= 102
    assert set(wb.evaluations_df(project)["advice"]) == {("Better. " * 400).strip()}
    project.add("One more", "X is a part.")
    assert "are more than 200 grades" in str(project.evaluate().wait().response)


def test_graders_that_wait_for_a_person_go_on_in_another_kernel(workbench: OpenWorkbench) -> None:
    """Two grades that have to be agreed to wait; agreed to in another process, nothing is judged twice."""
    asked = evaluate("Text", "More", eval_dimensions=["clarity"])
    wb, project = judged(workbench, Graders(asked), approvals={"grade": "ask"})
    run = wb.ask("How good is it?", project=project).wait()
    assert (run.status, len(run.pending), len(wb.evaluations_df(project))) == ("waiting", 2, 0)
    wb.close()
    wb = workbench(model=Graders("Good."), interactive=False, approvals={"grade": "ask"})
    again = wb.runs()[0]
    first, second = again.pending
    again.approve(first.id, params={"score": 2, "evidence": ["X is"], "advice": "Less."})
    again.approve(second.id).wait()
    assert (again.status, again.response) == ("completed", "Good.")
    frame = wb.evaluations_df("Essay")
    assert sorted(frame["score"].tolist()) in ([2, 4], [2, 7])
    assert list(wb.tool_calls_df()["tool_name"]).count("grade") == 2
