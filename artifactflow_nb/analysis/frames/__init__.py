"""DataFrames of stored rows, one per level of detail, and SQL over them; pandas is imported when a frame is loaded."""

from artifactflow_nb.analysis.frames.catalog import (
    APPROVALS,
    ARTIFACTS,
    EVENTS,
    FRAMES,
    LLM_CALLS,
    MESSAGES,
    PLAN_STEPS,
    SOURCES,
    TOOL_CALLS,
)
from artifactflow_nb.analysis.frames.columns import Column, Frame
from artifactflow_nb.analysis.frames.projects import BLOCKS, EVALUATIONS, PROJECT_RUNS
from artifactflow_nb.analysis.frames.query import query
from artifactflow_nb.analysis.frames.reading import describe_columns, load_frame
from artifactflow_nb.analysis.frames.runs import RUNS

__all__ = [
    "APPROVALS",
    "ARTIFACTS",
    "BLOCKS",
    "EVALUATIONS",
    "EVENTS",
    "FRAMES",
    "LLM_CALLS",
    "MESSAGES",
    "PLAN_STEPS",
    "PROJECT_RUNS",
    "RUNS",
    "SOURCES",
    "TOOL_CALLS",
    "Column",
    "Frame",
    "describe_columns",
    "load_frame",
    "query",
]
