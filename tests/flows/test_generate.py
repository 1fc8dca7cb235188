"""Blocks that write themselves: in their order, at the same time where they can, with a stop for a review."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from conftest import OpenWorkbench
from flows.test_compose import Held, results

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.project import Project


def name_of(request: ModelRequest) -> str:
    """The block that a writer is asked for."""
    return request.messages[1].content.split('"')[1]


class Writer(ScriptedModel):
    """Writes the block's name and what it rests on, after a while."""

    def __init__(self, takes_s: Any = 0.0) -> None:
        super().__init__(lambda request: f"{name_of(request)} from {'+'.join(_texts(request)) or 'nothing'}")
        self._takes_s = takes_s
        self.at_once = self.most_at_once = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            await asyncio.sleep(
                self._takes_s.get(name_of(request), 0) if isinstance(self._takes_s, dict) else self._takes_s
            )
            async for event in super().stream(request):
                yield event
        finally:
            self.at_once -= 1


def _texts(request: ModelRequest) -> list[str]:
    asked = request.messages[1].content
    return [part.split('"')[0] for part in asked.split('<block name="')[1:]]


def project_of(workbench: OpenWorkbench, writer: ScriptedModel, **blocks: list[str]) -> tuple[af.Workbench, Project]:
    """A project of blocks that write themselves, each with what it depends on."""
    wb = workbench(agent_models={"writer": writer}, interactive=False)
    project = wb.project("Essay", template="paper")
    for name, needs in blocks.items():
        project.add(name, depends_on=needs, auto_generate=True)
    return wb, project


def test_blocks_are_written_each_after_what_it_rests_on(workbench: OpenWorkbench) -> None:
    """A diamond is written in its order, in one go, and nothing is stale in the end."""
    writer = Writer()
    _, project = project_of(workbench, writer, A=[], B=["A"], C=["A"], D=["B", "C"])
    run = project.generate().wait()
    assert (run.status, run.response) == ("completed", "Written: A, B, C, D.")
    assert [block.content for block in project.blocks] == ["A from nothing", "B from A", "C from A", "D from B+C"]
    assert {block.status for block in project.blocks} == {"completed"}
    assert list(project.stale) == []


def test_a_block_does_not_wait_for_what_it_does_not_rest_on(workbench: OpenWorkbench) -> None:
    """A chain goes on while a block beside it is still at work."""
    writer = Writer({"Slow": 3.0})
    wb, project = project_of(workbench, writer, Slow=[], A=[], B=["A"], C=["B"])
    project.generate().wait()
    written = wb.artifacts_df().query("created_by == 'writer'").sort_values("created_at")
    assert list(written["title"]) == ["A", "B", "C", "Slow"]


def test_a_reviewed_block_stops_what_rests_on_it(workbench: OpenWorkbench) -> None:
    """The draft waits for the person while others are written; agreed to, what rests on it is written."""
    writer = Writer()
    _, project = project_of(workbench, writer, A=[], B=["A"], C=[])
    project["A"].set(need_review=True)
    run = project.generate().wait()
    [request] = run.pending
    assert (run.status, request.title, request.preview) == (
        "waiting",
        "generator wants to have a text reviewed: A",
        "A from nothing",
    )
    assert [(b.name, b.status) for b in project.blocks] == [("A", "draft"), ("B", "empty"), ("C", "completed")]
    run.approve().wait()
    assert (run.status, run.response) == ("completed", "Written: A, B, C.")
    assert [name_of(request) for request in writer.requests] == ["A", "C", "B"]


def test_what_the_person_says_to_a_draft_is_written_anew(workbench: OpenWorkbench) -> None:
    """Denied with words, the block is written once more with them, and put before the person again."""
    writer = Writer()
    _, project = project_of(workbench, writer, A=[])
    project["A"].set(need_review=True)
    run = project.generate().wait()
    run.deny("Shorter.").wait()
    assert "How: Shorter." in writer.requests[1].messages[1].content
    run.approve().wait()
    assert (run.status, project["A"].status) == ("completed", "completed")


def test_a_draft_that_is_denied_without_a_word_is_left(workbench: OpenWorkbench) -> None:
    """The draft stays a draft, and the answer says what was not written, and why."""
    _, project = project_of(workbench, Writer(), A=[], B=["A"])
    project["A"].set(need_review=True)
    run = project.generate().wait().deny().wait()
    assert "- A: its draft was not agreed to" in run.response
    assert "- B: it rests on what is not ready: A (to be reviewed)" in run.response
    assert project["A"].status == "draft"


def test_a_person_can_change_a_draft_when_they_agree(workbench: OpenWorkbench) -> None:
    """With another text in its place, that is what others are written from, and the person has written it."""
    _, project = project_of(workbench, Writer(), A=[], B=["A"])
    project["A"].set(need_review=True)
    run = project.generate().wait()
    run.approve(params={"field_name": "A", "content": "By hand."}).wait()
    assert (project["A"].content, project["A"].writer, project["B"].is_stale) == ("By hand.", "user", False)


def test_a_block_that_cannot_be_written_holds_up_only_what_rests_on_it(workbench: OpenWorkbench) -> None:
    """A writer that fails is told in the answer; the others are written."""
    writer = ScriptedModel(lambda request: RuntimeError("no") if name_of(request) == "A" else name_of(request))
    _, project = project_of(workbench, writer, A=[], B=["A"], C=[])
    run = project.generate().wait()
    assert run.status == "completed"
    assert run.response.startswith("Written: C.")
    assert [(b.name, b.status) for b in project.blocks] == [("A", "empty"), ("B", "empty"), ("C", "completed")]


def test_what_waits_goes_on_in_another_kernel(workbench: OpenWorkbench) -> None:
    """A run that waits for a review is decided in a new workbench, which writes the rest and nothing twice."""
    wb, project = project_of(workbench, Writer(), A=[], B=["A"], C=[])
    project["A"].set(need_review=True)
    run_id = project.generate().wait().run_id
    wb.close()
    writer = Writer()
    wb = workbench(agent_models={"writer": writer}, interactive=False)
    run = wb.run(run_id).approve().wait()
    assert (run.status, [name_of(request) for request in writer.requests]) == ("completed", ["B"])
    assert results(wb).count(("generate_field_content", True)) == 3


def test_stale_blocks_are_refreshed_in_their_order(workbench: OpenWorkbench) -> None:
    """What rests on a changed text is written anew from it, also at second hand; what does not, is left alone."""
    writer = Writer()
    _, project = project_of(workbench, writer, A=[], B=["A"], C=["B"], D=[])
    project.generate().wait()
    project["A"].write("Another A.")
    assert [block.name for block in project.stale] == ["B", "C"]
    run = project.refresh().wait()
    assert (run.question, run.response) == ("Write anew: B, C.", "Written: B, C.")
    assert [name_of(request) for request in writer.requests] == ["A", "D", "B", "C", "B", "C"]
    assert list(project.stale) == []
    with pytest.raises(af.UsageError, match="no block is stale"):
        project.refresh()


def test_independent_blocks_are_written_all_at_once(workbench: OpenWorkbench) -> None:
    """Nothing of the workbench keeps the model from being asked for all of them at the same time."""
    writer = Writer(2.0)
    _, project = project_of(workbench, writer, **{f"B{n}": [] for n in range(20)})
    began = time.perf_counter()
    project.generate().wait()
    assert writer.most_at_once == 20
    assert time.perf_counter() - began < 20


def test_a_run_that_writes_can_be_cancelled(workbench: OpenWorkbench) -> None:
    """What was written stays, what was at work is empty, and no block is left between the two."""
    writer = Held(["Never."])
    _, project = project_of(workbench, writer, A=[], B=["A"])
    run = project.generate()
    assert writer.asked.wait(20)
    run.cancel().wait()
    writer.goes_on.set()
    assert run.status == "cancelled"
    assert [(b.name, b.status) for b in project.blocks] == [("A", "empty"), ("B", "empty")]


def test_blocks_are_written_whatever_they_are_called(workbench: OpenWorkbench) -> None:
    """A name that holds what would be a mention in a message names nothing else in the work of a run."""
    _, project = project_of(workbench, Writer(), **{"Contact @work": [], "Use @skill:none": []})
    assert project.generate().wait().response == "Written: Contact @work, Use @skill:none."
