"""The tools that delegate to other agents or runs; such a call lasts as long as the delegated work.

The table is here, and not in the tools, because metrics, charts and verification read stored rows without loading the
flows and their tools, which takes a second. A test compares it with the tools of the built-in flows.
"""

from collections.abc import Mapping

from artifactflow_nb.core.document.project import (
    EVALUATE_TOOL,
    GENERATE_TOOL,
    GRADE_FIELD_TOOL,
    MODIFY_TOOL,
    OUTLINE_TOOL,
    RESEARCH_TOOL,
)
from artifactflow_nb.core.plan import PLAN_CREATE_TOOL

DELEGATING_TOOLS: Mapping[str, str | None] = {
    "call_subagent": "agent_name",
    PLAN_CREATE_TOOL: "title",
    RESEARCH_TOOL: "query",
    GENERATE_TOOL: None,
    MODIFY_TOOL: None,
    OUTLINE_TOOL: None,
    EVALUATE_TOOL: None,
    GRADE_FIELD_TOOL: None,
}
"""Delegating tools by name, each with the parameter that labels the delegated work in a timeline.

None for a tool that the timeline draws like a tool that works by itself.
"""
