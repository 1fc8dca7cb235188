"""Agents: their prompts, and how their replies are parsed."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from artifactflow_nb.agents.base import AgentConfig, BaseAgent, PromptContext
from artifactflow_nb.agents.lead import LeadAgent
from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.core.messages import Usage
from artifactflow_nb.core.toolcalls.xml import format_call
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flows.research.spec import CRAWL, LEAD, SEARCH
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.artifacts import ARTIFACT_TOOLS
from artifactflow_nb.tools.lead import call_subagent

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def lead(prompts: Path | None = None) -> LeadAgent:
    agent = LeadAgent(LEAD, (*ARTIFACT_TOOLS, call_subagent), ScriptedModel([]), PromptLibrary(prompts))
    agent.register_subagent(SEARCH)
    return agent


def test_sections_of_the_leads_prompt_are_in_order() -> None:
    """Changing sections come last, so that a provider can cache the others."""
    context = PromptContext(NOW, artifacts=[("report", "Report", 3)], task_plan="- [ ] look", feedback="Shorter.")
    prompt = lead().build_complete_system_prompt(context)
    sections = [
        "<agent_role>",
        "<execution_flow>",
        "<task_planning_strategy>",
        "<artifact_management>",
        "<available_subagents>",
        "### create_artifact",
        "<system_time>",
        "<current_context>",
    ]
    places = [prompt.index(section) for section in sections]
    assert places == sorted(places)
    assert all(text in prompt for text in ("- report (version 3): Report", "- [ ] look", "Shorter.", "search_agent"))


def test_prompt_has_the_date_without_the_time() -> None:
    """Hours, minutes and seconds would defeat a prompt cache."""
    prompt = lead().build_complete_system_prompt(PromptContext(NOW))
    assert "2026-03-04" in prompt
    assert "05:06" not in prompt


def test_prompt_before_the_context_is_constant() -> None:
    """Two turns with different contexts share everything up to the context."""
    empty = lead().build_complete_system_prompt(PromptContext(NOW))
    full = lead().build_complete_system_prompt(PromptContext(NOW, artifacts=[("a", "A", 1)]))
    assert empty.split("<current_context>")[0] == full.split("<current_context>")[0]


def test_registered_agent_is_in_the_leads_prompt() -> None:
    """The prompt has the agent's name, description and capabilities; a duplicate name is rejected."""
    agent = lead()
    agent.register_subagent(AgentConfig("math_agent", "Computes.", capabilities=("Adds and multiplies.",)))
    prompt = agent.build_system_prompt(PromptContext(NOW))
    assert "math_agent: Computes.\n- Adds and multiplies." in prompt
    with pytest.raises(UsageError, match="'math_agent' is registered already"):
        agent.register_subagent(AgentConfig("math_agent", "Again."))


def test_subagent_sees_the_plan() -> None:
    """The prompt of a job contains the task plan."""
    agent = BaseAgent(SEARCH, (), ScriptedModel([]), PromptLibrary())
    assert "- [ ] look" in agent.build_complete_system_prompt(PromptContext(NOW, task_plan="- [ ] look"))


def test_prompts_can_be_overridden_by_files(tmp_path: Path) -> None:
    """A file with the agent's name replaces the packaged prompt; other prompts stay."""
    (tmp_path / "lead_agent.md").write_text("You are terse. $subagents and $unknown", encoding="utf-8")
    prompt = lead(tmp_path).build_system_prompt(PromptContext(NOW))
    assert prompt.startswith("You are terse. search_agent:")
    assert "$unknown" in prompt
    assert "reading agent" in PromptLibrary(tmp_path).render("crawl_agent", max_tool_rounds="2")


def test_missing_prompt_folder_is_an_error(tmp_path: Path) -> None:
    """The error names the folder; an unknown prompt is named too."""
    with pytest.raises(UsageError, match="missing' is not a folder"):
        PromptLibrary(tmp_path / "missing")
    with pytest.raises(UsageError, match="no prompt 'poet'"):
        PromptLibrary().render("poet")


def test_reply_is_parsed_into_text_calls_and_routing() -> None:
    """Calls become routing entries in order, and the text is the rest."""
    text = (
        "I look."
        + format_call("call_subagent", {"agent_name": "search_agent", "instruction": "find"})
        + format_call("read_artifact", {"id": "report"})
    )
    response = lead().read(ModelReply(text, Usage(1, 2), "stop", "m", reasoning="hm"))
    assert (response.content, response.reasoning_content) == ("I look.", "hm")
    assert list(response.routing) == [
        {"type": "subagent", "target": "search_agent", "instruction": "find"},
        {"type": "tool_call", "tool_name": "read_artifact", "params": {"id": "report"}},
    ]


def test_response_has_earlier_calls() -> None:
    """The response has the earlier calls of the job as read from the store."""
    before = {"tool_name": "read_artifact", "params": {"id": "report"}, "success": True, "result": "Text."}
    response = lead().read(ModelReply("Done.", Usage(1, 2), "stop", "m"), interactions=[before])
    assert response.tool_interactions == (before,)


def test_concluding_reply_has_no_calls() -> None:
    """Calls in a concluding turn are not routed."""
    reply = ModelReply("Over." + format_call("read_artifact", {"id": "report"}), Usage(1, 2), "stop", "m")
    response = lead().read(reply, conclude=True)
    assert (response.content, response.tool_calls, response.routing) == ("Over.", (), ())


def test_capabilities_of_the_crawl_agent_require_a_source() -> None:
    """The capabilities tell the lead that an instruction must name a source."""
    assert "specific URL or source" in " ".join(CRAWL.capabilities)
