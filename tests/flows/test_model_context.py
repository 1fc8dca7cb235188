"""The values behind a prompt, which a request carries for models that compute their replies."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import artifactflow_nb as af
from artifactflow_nb.core.messages import Message
from artifactflow_nb.models.base import ModelContext, ModelEvent, ModelRequest
from artifactflow_nb.models.offline.model import OfflineModel

HANDBOOK = Path(__file__).parents[2] / "data" / "handbook"
QUESTION = "How often is a restore tried?"


class ListeningModel(OfflineModel):
    """The offline model; it stores the contexts of its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.contexts: list[ModelContext] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        assert request.context is not None
        self.contexts.append(request.context)
        async for event in super().stream(request):
            yield event


@pytest.fixture
def model() -> ListeningModel:
    return ListeningModel()


def open_workbench(folder: Path, model: ListeningModel, approvals: str = "approve", **options: Any) -> af.Workbench:
    wb = af.Workbench(model=model, data_dir=folder / "data", approvals=approvals, interactive=False, **options)
    wb.sources.add(HANDBOOK)
    return wb


def test_context_is_not_compared_or_displayed() -> None:
    """Requests that differ in their contexts are equal, and the repr does not contain the context."""
    request = ModelRequest((Message("user", QUESTION),))
    other = replace(request, context=ModelContext(QUESTION, QUESTION))
    assert other == request
    assert repr(other) == repr(request)


def test_research_context_has_question_calls_and_artifacts(tmp_path: Path, model: ListeningModel) -> None:
    """A sub-agent has its instruction; the lead of a second question has the first question and its report."""
    with open_workbench(tmp_path, model) as wb:
        first = wb.ask(QUESTION).wait(60)
        assert len({context.instruction for context in model.contexts}) == 3
        assert {context.question for context in model.contexts} == {QUESTION}
        names = [call.name for call, _ in model.contexts[-1].calls]
        assert names == ["create_artifact", "call_subagent", "call_subagent", "create_artifact", "rewrite_artifact"]
        assert all(result.success for _, result in model.contexts[-1].calls)
        assert model.contexts[-1].artifact_ids == {"task_plan", "research_report"}
        model.contexts.clear()
        wb.ask("And why?", conversation_id=first.conversation_id).wait(60)
    assert model.contexts[0].earlier_question == QUESTION
    assert "research_report" in model.contexts[0].artifact_ids
    assert model.contexts[0].calls == ()


def test_plan_jobs_have_the_plan(tmp_path: Path, model: ListeningModel) -> None:
    """Each job has the plan in which that job is the open job; the agent has the finished plan."""
    with open_workbench(tmp_path, model) as wb:
        wb.ask("Who won the football world cup in 1954?", flow="plan").wait(60)
    first, *jobs, last = model.contexts
    assert first.plan is None
    kinds = [context.plan.open_job.kind for context in jobs if context.plan and context.plan.open_job]
    assert list(dict.fromkeys(kinds)) == ["execute", "replan", "summarize"]
    assert len(kinds) == len(jobs)
    replans = [context.choices for context, kind in zip(jobs, kinds, strict=True) if kind == "replan"]
    assert {"retry", "finish"} <= set(replans[0])
    assert last.plan is not None
    assert last.plan.open_job is None


def test_refused_plan_is_not_in_the_context(tmp_path: Path, model: ListeningModel) -> None:
    """The context has the call with its error, and no plan."""
    options = {"graph_config": {"approval": {"enabled": True}}, "approvals": "deny"}
    with af.Workbench(model=model, data_dir=tmp_path / "data", interactive=False, **options) as wb:
        wb.ask(QUESTION, flow="plan").wait(60)
    assert model.contexts[-1].plan is None
    assert [(call.name, result.success) for call, result in model.contexts[-1].calls] == [("plan_create", False)]


def test_compose_context_has_the_task(tmp_path: Path, model: ListeningModel) -> None:
    """The writer has the text with the wish that the person approved; the editor has the way to edit by hand."""
    write = af.ToolCall("generate_field_content", {"field_name": "Text", "style_hint": "in two sentences"})
    change = af.ToolCall("modify_field", {"field_name": "Text", "modification_instruction": "be brief"})
    scripts = {"composer": af.ScriptedModel([write, "Written.", change, "Changed."])}
    with open_workbench(tmp_path, model, "ask", agent_models=scripts) as wb:
        project = wb.projects.start("Handbook", template="paper")
        project.add("Text", "Written by hand.")
        run = project.ask("Write Text.").wait(60)
        run.approve(params={"field_name": "Text", "style_hint": "in one sentence"}).wait(60)
        task = next(context.task for context in model.contexts if context.task)
        assert (task.name, task.wish) == ("Text", "in one sentence")
        assert "Text" in task.by_hand
        model.contexts.clear()
        project.ask("Shorten Text.").wait(60)
    assert "Text" in next(context.task.by_hand for context in model.contexts if context.task)
