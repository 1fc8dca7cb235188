"""Names of the tools that delegate to other agents or runs; such a call lasts as long as the delegated work."""

from artifactflow_nb.core.document.project import (
    EVALUATE_TOOL,
    GENERATE_TOOL,
    GRADE_FIELD_TOOL,
    MODIFY_TOOL,
    OUTLINE_TOOL,
    RESEARCH_TOOL,
)
from artifactflow_nb.core.plan import PLAN_CREATE_TOOL

DELEGATING_TOOLS = (
    "call_subagent",
    PLAN_CREATE_TOOL,
    GENERATE_TOOL,
    MODIFY_TOOL,
    OUTLINE_TOOL,
    EVALUATE_TOOL,
    GRADE_FIELD_TOOL,
    RESEARCH_TOOL,
)
"""Names of the delegating tools."""
