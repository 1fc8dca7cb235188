"""An agent that delegates to other agents."""

from collections.abc import Sequence

from artifactflow_nb.agents.base import AgentConfig, BaseAgent, PromptContext
from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.base import Model
from artifactflow_nb.tools.base import Tool

_CLARIFY_RULES = {
    "never": (
        "If a question has\n   several meanings with different answers, choose the likeliest one and state it as an "
        "assumption in the answer."
    ),
    "auto": (
        "If a question has\n   several meanings that need different research, ask the person once with ask_person, "
        "before any search, with\n   the likeliest meanings as choices. Otherwise choose the likeliest meaning and "
        "state it as an assumption in the\n   answer."
    ),
    "always": (
        "Before any\n   research, ask the person once with ask_person for what the question leaves open, such as its "
        "meaning, its\n   scope or its period, with the likeliest answers as choices."
    ),
}
"""Handling of ambiguous questions in the prompt, by `PromptContext.clarify`."""


class LeadAgent(BaseAgent):
    """An agent that answers the person and can delegate to others."""

    tells_outcome = True

    def __init__(
        self,
        config: AgentConfig,
        tools: Sequence[Tool] = (),
        model: Model | None = None,
        prompts: PromptLibrary | None = None,
    ) -> None:
        super().__init__(config, tools, model, prompts)
        self._subagents: dict[str, AgentConfig] = {}

    @property
    def subagents(self) -> tuple[AgentConfig, ...]:
        """The agents to which the lead can delegate, in the order of their registration."""
        return tuple(self._subagents.values())

    def register_subagent(self, config: AgentConfig) -> None:
        """Allow delegation to an agent; `UsageError` if the name is in use."""
        if config.name in self._subagents or config.name == self.config.name:
            raise UsageError(f"An agent {config.name!r} is registered already; choose another name.")
        self._subagents[config.name] = config

    def placeholders(self, context: PromptContext) -> dict[str, str]:
        """Return the placeholders of every agent, `subagents` (their descriptions) and `ambiguity` (when to ask)."""
        descriptions = [
            "\n".join([f"{config.name}: {config.description}", *(f"- {line}" for line in config.capabilities)]).strip()
            for config in self.subagents
        ]
        rules = _CLARIFY_RULES[context.clarify]
        return {**super().placeholders(context), "subagents": "\n\n".join(descriptions), "ambiguity": rules}

    def build_current_context(self, context: PromptContext) -> str:
        """Build the part that changes: the day, the scope of searches, artifacts, plan and feedback of this turn."""
        lines = [f"- {name} (version {version}): {title}" for name, title, version in context.artifacts]
        sections = [
            context.introduction,
            "<current_context>",
            "Artifacts of this conversation:\n" + ("\n".join(lines) or "none yet"),
        ]
        if context.task_plan:
            sections.append(f"The plan of this turn (task_plan):\n{context.task_plan}")
        if context.feedback:
            sections.append(f"The person says:\n{context.feedback}")
        return "\n\n".join([*sections, "</current_context>"])
