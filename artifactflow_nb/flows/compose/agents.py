"""The agents of the compose flow."""

import json

from artifactflow_nb.agents.base import AgentConfig, BaseAgent, PromptContext
from artifactflow_nb.core.document.project import EVALUATE_TOOL, GENERATE_TOOL, RESEARCH_TOOL
from artifactflow_nb.flows.compose.ordered_writer import OrderedWriterModel
from artifactflow_nb.flows.compose.prompts import project_sections

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
