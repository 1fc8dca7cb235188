"""Automatic writing of blocks: in dependency order, in parallel where possible, with pauses for reviews."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest
from conftest import OpenWorkbench
from flows.test_compose import BlockedModel, results
from support.charts import drawn_texts

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.handle import Project


def name_of(request: ModelRequest) -> str:
    """The block in a writer's task."""
    return request.messages[1].content.split('"')[1]


class Writer(ScriptedModel):
    """Writes the block's name and its dependencies, after a delay or after `all_at_once` calls have begun."""

    def __init__(self, takes_s: Mapping[str, float] | None = None, all_at_once: int = 1) -> None:
        super().__init__(lambda request: f"{name_of(request)} from {'+'.join(_texts(request)) or 'nothing'}")
        self._takes_s, self._all_at_once = takes_s or {}, all_at_once
        self._all_began = asyncio.Event()
        self.at_once = self.most_at_once = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            await asyncio.sleep(self._takes_s.get(name_of(request), 0))
            if self.at_once >= self._all_at_once:
                self._all_began.set()
            await self._all_began.wait()
            async for event in super().stream(request):
                yield event
        finally:
            self.at_once -= 1


def _texts(request: ModelRequest) -> list[str]:
    task = request.messages[1].content
    return [part.split('"')[0] for part in task.split('<block name="')[1:]]


def project_of(workbench: OpenWorkbench, writer: ScriptedModel, **blocks: list[str]) -> tuple[af.Workbench, Project]:
    """A project of blocks with `auto_generate`, each with its dependencies."""
    wb = workbench(agent_models={"writer": writer}, interactive=False)
    project = wb.projects.start("Essay", template="paper")
    for name, needs in blocks.items():
        project.add(name, depends_on=needs, auto_generate=True)
    return wb, project


def test_blocks_are_written_in_dependency_order(workbench: OpenWorkbench) -> None:
    """A diamond of dependencies is written in one run, and no block is stale at the end."""
    writer = Writer()
    _, project = project_of(workbench, writer, A=[], B=["A"], C=["A"], D=["B", "C"])
    run = project.generate().wait()
    assert (run.status, run.response) == ("completed", "Written: A, B, C, D.")
    assert [block.content for block in project.blocks] == ["A from nothing", "B from A", "C from A", "D from B+C"]
    assert {block.status for block in project.blocks} == {"completed"}
    assert list(project.stale) == []


@pytest.mark.usefixtures("figures")
def test_agents_without_a_language_model_are_listed_without_a_model(workbench: OpenWorkbench) -> None:
    """The generator computes its calls, so no list names a model for it."""
    wb, project = project_of(workbench, Writer(), A=[])
    run = project.generate().wait()
    calls = wb.llm_calls_df(run).set_index("agent_name")
    assert calls.loc["generator", "request_model"].isna().all()
    assert calls.loc["generator", "response_model"].isna().all()
    assert wb.runs_df(run, columns="models")["models"].tolist() == ["scripted"]
    assert {turn.model for turn in run.metrics.agent_executions} == {"", "scripted"}
    plot = af.plots.cost(wb.llm_calls_df(run))
    texts = [
        *wb.models(ask_endpoint=False),
        wb._repr_html_(),
        *drawn_texts(plot),
        repr(run.metrics),
        run.metrics._repr_html_(),
    ]
    texts += [*wb.events_df(run)["data_json"], run.steps._repr_html_()]
    texts += wb.timeline(run).saved_output().values()
    assert "listed the next calls" in run.steps._repr_html_()
    assert [text for text in texts if "in-order" in text] == []


def test_block_does_not_wait_for_unrelated_blocks(workbench: OpenWorkbench) -> None:
    """A chain continues while an independent block is still being written."""
    writer = Writer({"Slow": 3.0})
    wb, project = project_of(workbench, writer, Slow=[], A=[], B=["A"], C=["B"])
    project.generate().wait()
    written = wb.artifacts_df().query("created_by == 'writer'").sort_values("created_at")
    assert list(written["title"]) == ["A", "B", "C", "Slow"]


def test_review_holds_up_dependents_only(workbench: OpenWorkbench) -> None:
    """Other blocks are written while a draft waits; after the approval its dependents are written."""
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


def test_draft_is_rewritten_with_the_persons_instruction(workbench: OpenWorkbench) -> None:
    """A draft that is denied with an instruction is rewritten and submitted again."""
    writer = Writer()
    _, project = project_of(workbench, writer, A=[])
    project["A"].set(need_review=True)
    run = project.generate().wait()
    run.deny("Shorter.").wait()
    assert "Style: Shorter." in writer.requests[1].messages[1].content
    run.approve().wait()
    assert (run.status, project["A"].status) == ("completed", "completed")


def test_draft_denied_without_instruction_stays_a_draft(workbench: OpenWorkbench) -> None:
    """The answer lists the blocks that were not written, with reasons."""
    _, project = project_of(workbench, Writer(), A=[], B=["A"])
    project["A"].set(need_review=True)
    run = project.generate().wait().deny().wait()
    assert "- A: its draft was rejected" in run.response
    assert "- B: its dependencies are not ready: A (to be reviewed)" in run.response
    assert project["A"].status == "draft"


def test_person_can_edit_a_draft_when_approving_it(workbench: OpenWorkbench) -> None:
    """Dependents are written from the person's text, and the person is the author of the text."""
    _, project = project_of(workbench, Writer(), A=[], B=["A"])
    project["A"].set(need_review=True)
    run = project.generate().wait()
    run.approve(params={"field_name": "A", "content": "By hand."}).wait()
    assert (project["A"].content, project["A"].writer, project["B"].is_stale) == ("By hand.", "user", False)


def test_failed_block_holds_up_dependents_only(workbench: OpenWorkbench) -> None:
    """A failed writer is reported in the answer; the other blocks are written."""
    writer = ScriptedModel(lambda request: RuntimeError("no") if name_of(request) == "A" else name_of(request))
    _, project = project_of(workbench, writer, A=[], B=["A"], C=[])
    run = project.generate().wait()
    assert run.status == "completed"
    assert run.response.startswith("Written: C.")
    assert [(b.name, b.status) for b in project.blocks] == [("A", "empty"), ("B", "empty"), ("C", "completed")]


def test_waiting_run_continues_in_another_workbench(workbench: OpenWorkbench) -> None:
    """A new workbench decides on the review, writes the rest, and writes nothing twice."""
    wb, project = project_of(workbench, Writer(), A=[], B=["A"], C=[])
    project["A"].set(need_review=True)
    run_id = project.generate().wait().run_id
    wb.close()
    writer = Writer()
    wb = workbench(agent_models={"writer": writer}, interactive=False)
    run = wb.run(run_id).approve().wait()
    assert (run.status, [name_of(request) for request in writer.requests]) == ("completed", ["B"])
    assert results(wb).count(("generate_field_content", True)) == 3


def test_refresh_rewrites_stale_blocks_in_dependency_order(workbench: OpenWorkbench) -> None:
    """Direct and indirect dependents of a changed text are rewritten; other blocks are not."""
    writer = Writer()
    _, project = project_of(workbench, writer, A=[], B=["A"], C=["B"], D=[])
    project.generate().wait()
    project["A"].write("Another A.")
    assert [block.name for block in project.stale] == ["B", "C"]
    run = project.refresh().wait()
    assert (run.question, run.response) == ("Rewrite: B, C.", "Written: B, C.")
    assert [name_of(request) for request in writer.requests] == ["A", "D", "B", "C", "B", "C"]
    assert list(project.stale) == []
    with pytest.raises(af.errors.UsageError, match="no block is stale"):
        project.refresh()


def test_independent_blocks_are_written_concurrently(workbench: OpenWorkbench) -> None:
    """The model is called for all blocks at the same time."""
    writer = Writer(all_at_once=20)
    _, project = project_of(workbench, writer, **{f"B{n}": [] for n in range(20)})
    project.generate().wait(60)
    assert writer.most_at_once == 20


def test_cancelled_run_keeps_finished_blocks(workbench: OpenWorkbench) -> None:
    """Finished texts stay, blocks in progress stay empty."""
    writer = BlockedModel(["Never."])
    _, project = project_of(workbench, writer, A=[], B=["A"])
    run = project.generate()
    assert writer.called.wait(20)
    run.cancel().wait()
    writer.may_reply.set()
    assert run.status == "cancelled"
    assert [(b.name, b.status) for b in project.blocks] == [("A", "empty"), ("B", "empty")]


def test_block_names_are_no_references_in_a_writing_run(workbench: OpenWorkbench) -> None:
    """A name that looks like a reference has no effect."""
    _, project = project_of(workbench, Writer(), **{"Contact @work": [], "Use @skill:none": []})
    assert project.generate().wait().response == "Written: Contact @work, Use @skill:none."
