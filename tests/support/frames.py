"""The frames of the package, and the functions that load and describe them, under one name."""

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
    all_frames,
)
from artifactflow_nb.analysis.frames.query import query
from artifactflow_nb.analysis.frames.reading import describe_columns, load_frame
from artifactflow_nb.analysis.frames.runs import RUNS
from artifactflow_nb.store.frames import Column, Frame

__all__ = [
    "APPROVALS",
    "ARTIFACTS",
    "EVENTS",
    "FRAMES",
    "LLM_CALLS",
    "MESSAGES",
    "PLAN_STEPS",
    "RUNS",
    "SOURCES",
    "TOOL_CALLS",
    "Column",
    "Frame",
    "all_frames",
    "describe_columns",
    "load_frame",
    "query",
]
