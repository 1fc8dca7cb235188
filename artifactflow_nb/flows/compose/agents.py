"""The agents of the compose flow, and the model of those that need no language model."""

import json
from collections.abc import AsyncIterator

from artifactflow_nb.agents.base import AgentConfig, BaseAgent, PromptContext
from artifactflow_nb.core.document.project import EVALUATE_TOOL, GENERATE_TOOL, RESEARCH_TOOL
from artifactflow_nb.core.messages import COMPUTED_PROVIDER, ToolProtocol, Usage
from artifactflow_nb.core.text.cards import Card
from artifactflow_nb.flows.compose.prompts import project_sections
from artifactflow_nb.models.base import (
    LocalModel,
    ModelContext,
    ModelDelta,
    ModelEvent,
    ModelReply,
    ModelRequest,
    model_card,
)


class OrderedWriterModel(LocalModel):
    """A model that makes the next calls of its request's context, or replies with the context's message."""

    provider = COMPUTED_PROVIDER
    tool_protocols: tuple[ToolProtocol, ...] = ("native",)
    default_model = "in-order"

    def __repr__(self) -> str:
        return "OrderedWriterModel()"

    def _card(self) -> Card:
        return model_card(self, answers="with the calls that come next; no language model is used")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the next calls, which a concluding turn must not make, and the message."""
        context = request.context or ModelContext("", "", next_message="There is nothing to do.")
        calls = context.next_calls if request.tool_choice == "auto" else ()
        if context.next_message:
            yield ModelDelta(context.next_message)
        for call in calls:
            yield ModelDelta(json.dumps(dict(call.params), ensure_ascii=False), "call", call.name)
        reason = "tool_calls" if calls else "stop"
        yield ModelReply(context.next_message, Usage(0, 0), reason, self.default_model, calls)


COMPOSER = AgentConfig(
    name="composer",
    description="Discusses the document with the person, and has its blocks arranged, written and changed.",
    required_tools=(
        *("query_field", "read_field", "update_field", "manage_architecture", "advance_to_phase"),
        *("generate_field_content", "modify_field", "generate_outline", "run_research", "manage_persona"),
        *("manage_skill", "run_evaluation"),
    ),
    temperature=0.7,
    max_tool_rounds=12,
)

WRITER = AgentConfig(
    name="writer",
    description="Writes one block of a document.",
    required_tools=("query_field", "read_field", "web_search", "web_fetch"),
    temperature=0.7,
    max_tool_rounds=5,
)

EDITOR = AgentConfig(
    name="editor",
    description="Proposes edits of one block of a document.",
    required_tools=("query_field", "read_field"),
    temperature=0.3,
    max_tool_rounds=4,
)

OUTLINER = AgentConfig(
    name="outliner",
    description="Proposes the structure of a document.",
    required_tools=("query_field", "read_field"),
    temperature=0.5,
    max_tool_rounds=4,
)

GENERATOR = AgentConfig(
    name="generator",
    description="Has the blocks of a document written in dependency order; it uses no language model.",
    required_tools=(GENERATE_TOOL, RESEARCH_TOOL, EVALUATE_TOOL),
    model=OrderedWriterModel(),
    temperature=None,
    max_tool_rounds=10_000,
)

GRADER = AgentConfig(
    name="grader",
    description="Grades one block of a document by one dimension.",
    required_tools=("query_field", "read_field"),
    temperature=0.0,
    max_tool_rounds=3,
)

EVALUATOR = AgentConfig(
    name="evaluator",
    description="Has blocks of a document graded; it uses no language model.",
    model=OrderedWriterModel(),
    temperature=None,
    max_tool_rounds=2,
)


class ComposerAgent(BaseAgent):
    """The agent whose prompt contains the current project, with what changes most at the end."""

    def build_current_context(self, context: PromptContext) -> str:
        """The sections of the project, then the date."""
        sections = [] if context.project is None else project_sections(context.project)
        return "\n\n".join([*sections, f"<system_time>{context.now:%Y-%m-%d} (UTC)</system_time>"])


class GeneratorAgent(BaseAgent):
    """An agent that uses no language model: its prompt contains its next calls."""

    def build_current_context(self, context: PromptContext) -> str:
        """The next calls, or the result of all, for a reader; the model gets them as values."""
        if context.next_calls is None:
            return ""
        values = {"calls": context.next_calls.calls, "words": context.next_calls.message}
        return f"<now>\n{json.dumps(values, ensure_ascii=False)}\n</now>"
