"""The DataFrames: a frame per level, read from stored rows, and SQL over them; pandas is loaded when one is made."""

from artifactflow_nb.frames.blocks import BLOCKS
from artifactflow_nb.frames.catalog import (
    APPROVALS,
    ARTIFACTS,
    EVENTS,
    FRAMES,
    LLM_CALLS,
    MESSAGES,
    SOURCES,
    TOOL_CALLS,
)
from artifactflow_nb.frames.columns import Column, Frame
from artifactflow_nb.frames.evaluations import EVALUATIONS
from artifactflow_nb.frames.plan_steps import PLAN_STEPS
from artifactflow_nb.frames.project_runs import PROJECT_RUNS
from artifactflow_nb.frames.query import query
from artifactflow_nb.frames.reading import describe, load
from artifactflow_nb.frames.runs import RUNS

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
    "describe",
    "load",
    "query",
]
