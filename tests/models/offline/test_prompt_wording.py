"""The wording of prompts is not an interface: with other prompts the offline model does the same."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from models.offline.test_blocks import open_workbench

import artifactflow_nb as af
from artifactflow_nb.agents import prompts
from artifactflow_nb.agents.base import BaseAgent
from artifactflow_nb.agents.lead import LeadAgent
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.flows.plan import spec as plan_spec
from artifactflow_nb.flows.plan.agents import plan_result
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.plugins.projects import agents as compose_agents
from artifactflow_nb.plugins.projects import texts as compose_texts

QUESTION = "How are backups checked? Who repairs the roof? What does the rain gauge do in frost?"
OTHER_WORDS = "Fais ton travail."


def research(wb: af.Workbench) -> list[str]:
    """Ask two questions; the second refers to the first and rewrites the report."""
    first = wb.ask("How are temperature probes calibrated?").wait(60)
    second = wb.ask("And when is one of them sent back?", conversation_id=first.conversation_id).wait(60)
    reports = [run.artifacts["research_report"].content for run in (first, second)]
    return [str(first.response), str(second.response), *reports, second.artifacts["task_plan"].content]


def plan(wb: af.Workbench) -> list[str]:
    """Run a plan with a step that fails, and a second plan in the same conversation."""
    first = wb.ask(QUESTION, flow="plan").wait(60)
    second = wb.ask("What does the anemometer do?", flow="plan", conversation_id=first.conversation_id).wait(60)
    plans = [run.artifacts["task_plan"].content for run in (first, second)]
    texts = [str(run.response) for run in (first, second)]
    return [*texts, *[text.partition('"steps"')[2] for text in plans], second.artifacts["research_report"].content]


def compose(wb: af.Workbench) -> list[str]:
    """Blocks that are researched and written, and a request in the conversation of the project."""
    project = wb.projects.start("Handbook", template="paper")
    project.add("Facts", phase="literature", prompt="What does the rain gauge do in frost?", auto_generate=True)
    project.add("Kept", prompt="How long is data kept?", depends_on=["Facts"], auto_generate=True)
    project.add("Summary", depends_on=["Facts"], auto_generate=True)
    responses = [str(project.generate().wait(60).response)]
    responses.append(str(project.ask("Make it nicer.").wait(60).response))
    return [*responses, *(block.content for block in project.blocks)]


def other_prompts(folder: Path) -> Path:
    """A folder in which each prompt file says the same other words."""
    folder.mkdir()
    for file in Path(prompts.__file__).parent.glob("*.md"):
        (folder / file.name).write_text(f"{OTHER_WORDS}\n", encoding="utf-8")
    return folder


def say_it_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the parts of prompts that code writes: tasks of jobs, contexts, and the report of a plan."""

    def other_result(*args: Any) -> ToolResult:
        result = plan_result(*args)
        return replace(
            result, data=OTHER_WORDS if result.success else "", error=None if result.success else OTHER_WORDS
        )

    monkeypatch.setattr(plan_spec, "plan_result", other_result)
    for module, names in (
        (plan_spec, ["step_task", "replanner_task", "summary_task"]),
        (compose_texts, ["writer_task"]),
    ):
        for name in names:
            monkeypatch.setattr(module, name, lambda *_args: OTHER_WORDS)
    for agent in (BaseAgent, LeadAgent, compose_agents.ComposerAgent):
        monkeypatch.setattr(agent, "build_current_context", lambda _self, _context: OTHER_WORDS)


class ListeningModel(OfflineModel):
    """The offline model, which notes the system prompts that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.system_prompts: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.system_prompts.append(request.messages[0].content)
        async for event in super().stream(request):
            yield event


@pytest.mark.parametrize("flow", [research, plan, compose])
def test_other_wording_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flow: Callable[[af.Workbench], list[str]]
) -> None:
    """Responses, texts and tool calls are the same with other prompt files, tasks, contexts and reports."""

    def outcome(name: str, **options: Any) -> tuple[list[str], list[tuple[Any, ...]], set[str]]:
        model = ListeningModel()
        (tmp_path / name).mkdir()
        with open_workbench(tmp_path / name, model=model, approvals="approve", **options) as wb:
            texts, calls = flow(wb), wb.tool_calls_df()[["agent_name", "tool_name", "success"]]
        lines = {line for prompt in model.system_prompts for line in prompt.splitlines() if line}
        return texts, sorted(calls.itertuples(index=False, name=None)), lines

    texts, calls, lines = outcome("usual")
    say_it_otherwise(monkeypatch)
    other_texts, other_calls, other_lines = outcome("other", prompts=other_prompts(tmp_path / "prompts"))
    assert len(lines) > 10
    assert other_lines == {OTHER_WORDS}
    assert (other_texts, other_calls) == (texts, calls)
    assert any("> " in text for text in texts)
