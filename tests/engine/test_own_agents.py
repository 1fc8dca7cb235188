"""Agents of a user without files: a prompt as text, and classes that extend `af.extend.BaseAgent`."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.replies import delegate

import artifactflow_nb as af
from artifactflow_nb.agents.base import PromptContext
from artifactflow_nb.core.messages import Message
from artifactflow_nb.engine.flow_registry import load_graph_config
from artifactflow_nb.models.base import ModelEvent

ROLE = "You name the weakest sentence of a text. You have $max_tool_rounds rounds."


class Critic(af.extend.BaseAgent):
    """An agent with its own prompt, model calls and answers."""

    def __init__(self, mood: str = "kind") -> None:
        super().__init__(af.AgentConfig("critic", "Judges texts.", required_tools=("web_search",)))
        self.mood = mood
        self.n_turns: list[int] = []

    def build_system_prompt(self, context: PromptContext) -> str:
        """A prompt without a file and without a date."""
        return f"You judge in a {self.mood} way."

    async def stream(self, messages: Sequence[Message], **options: Any) -> AsyncIterator[ModelEvent]:
        """Count the turns."""
        self.n_turns.append(len(messages))
        async for event in super().stream(messages, **options):
            yield event

    def format_final_response(self, content: str) -> str:
        """Sign the answer."""
        return f"{super().format_final_response(content)} ({self.mood})"


def script(answer: str = "The second one. ") -> Any:
    """The lead delegates, the critic answers, the lead repeats the answer."""
    return [delegate("critic", "Judge this."), answer, "Done."]


def prompts_of(wb: af.Workbench) -> list[str]:
    return [request.messages[0].content for request in wb._thread.engine.model.requests]


def test_prompt_of_an_agent_is_a_text_without_a_file(workbench: Any) -> None:
    """Placeholders are filled in, and the manifest has the prompt under the agent's name."""
    wb = workbench(script())
    wb.register_agent(af.AgentConfig("critic", "Judges texts.", prompt=ROLE, max_tool_rounds=2))
    run = wb.ask("What is weak?").wait(10)
    assert run.status == "completed"
    assert prompts_of(wb)[1].startswith("You name the weakest sentence of a text. You have 2 rounds.")
    assert "critic" in run.manifest["prompts"]
    assert run.manifest["agents"]["critic"]["prompt"] == "critic"


@pytest.mark.parametrize("prompt", ["Sei kurz.", "你是一位评论家，请说明问题。", "One line\nand another"])
def test_prompt_text_is_distinguished_from_a_file_name(workbench: Any, prompt: str) -> None:
    """A name has neither spaces nor punctuation; an unknown name is an error that mentions both ways."""
    wb = workbench(script())
    wb.register_agent(af.AgentConfig("critic", "Judges.", prompt=prompt))
    with pytest.raises(af.errors.UsageError, match=r"no prompt 'critc_agent'.*critc_agent\.md.*AgentConfig\(prompt="):
        wb.register_agent(af.AgentConfig("other", "Judges.", prompt="critc_agent"))
    with pytest.raises(af.errors.UsageError, match="no prompt 'Kurz'"):
        wb.register_agent(af.AgentConfig("third", "Judges.", prompt="Kurz"))


def test_lead_delegates_to_an_agent_of_a_user_class(workbench: Any) -> None:
    """The agent uses its own prompt before the tool manual, its model calls, its answers and its named tools."""
    wb = workbench(script())
    critic = Critic("stern")
    wb.register_agent(critic)
    run = wb.ask("What is weak?").wait(10)
    assert run.status == "completed", run.error
    system = prompts_of(wb)[1]
    assert system.startswith("You judge in a stern way.")
    assert "web_search" in system
    assert "system_time" not in system
    assert critic.n_turns == [2]
    assert "The second one. (stern)" in wb._thread.engine.model.requests[2].messages[-1].content
    assert set(wb.llm_calls_df(run)["agent_name"]) == {"lead_agent", "critic"}
    assert "critic: Judges texts." in prompts_of(wb)[0]


def test_registered_class_is_used_with_another_configuration(workbench: Any) -> None:
    """A run that is resumed with its first configuration uses the class too."""
    wb = workbench(script())
    wb.register_agent(Critic)
    registry = wb._thread.engine.agent_registry
    others = registry.agents_of_flow("research", load_graph_config({"search_agent": {"max_tool_rounds": 1}}))
    assert type(others["critic"]) is Critic
    assert others["critic"].tool_names == ("web_search",)
    assert others["critic"] is not registry.agents["critic"]


class NeedsMood(Critic):
    """An agent that cannot be made without an argument."""

    def __init__(self, mood: str) -> None:
        super().__init__(mood)


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (NeedsMood, r"NeedsMood\(\) failed .* Pass an object"),
        (7, "7 is not an agent. Pass an af.AgentConfig, or an object of a class that extends af.extend.BaseAgent"),
        (int, "is not an agent"),
    ],
)
def test_invalid_agent_is_refused_with_advice(workbench: Any, agent: Any, message: str) -> None:
    """The error says what can be passed."""
    with pytest.raises(af.errors.UsageError, match=message):
        workbench(["unused"]).register_agent(agent)


def test_run_with_an_own_agent_is_verified_and_sealed(workbench: Any, tmp_path: Path) -> None:
    """Verification executes the class again with the recorded replies; a sealed run gets the class as an argument."""
    wb = workbench(script())
    wb.register_agent(Critic("stern"))
    run = wb.ask("What is weak?").wait(10)
    assert run.verify().is_same
    with af.open_run(run.seal(tmp_path / "run.afrun")) as sealed:
        assert sealed.verify(agents=[Critic("stern")]).is_same
        assert not sealed.verify(agents=[Critic("kind")]).is_same
