"""Small frames with known figures, frames of executed runs, and the texts of a drawing."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pandas as pd
from support.replies import by_agent, call, decide, delegate, plan, report

import artifactflow_nb as af
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.models.scripted import ScriptedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SVG = "{http://www.w3.org/2000/svg}"
START = pd.Timestamp("2026-01-01T12:00:00Z")
HOSTILE = [
    "</text><script>alert(1)</script>",
    "\" onload='x' & <b>",
    "👩‍👩‍👧‍👦 👍🏽",
    "通义千问-最大的模型",
    "x" * 10_000,
    "]]>\x00\x07\ud800\ufffe\u202e",
    "$x$ |a|b| `c`\n\n# d",
]


def seconds(*values: float | None) -> Any:
    """Times as seconds after `START`."""
    moments = [None if value is None else START + pd.Timedelta(seconds=value) for value in values]
    return pd.array(moments, dtype="datetime64[us, UTC]")


def llm_frame(**columns: Any) -> pd.DataFrame:
    """Two model calls of the lead and one of the search agent; `columns` replaces columns."""
    known = {
        "run_id": ["run-1"] * 3,
        "agent_name": pd.Categorical(["lead_agent", "search_agent", "lead_agent"]),
        "request_model": ["large", "small", "large"],
        "response_model": pd.array(["large-2026", None, "large-2026"], dtype="string"),
        "started_at": seconds(0, 2, 5),
        "llm_duration_ms": pd.array([1500.0, 1000.0, 2500.0], dtype="Float64"),
        "ttft_ms": pd.array([500.0, 250.0, None], dtype="Float64"),
        "input_tokens": pd.array([1000, 300, None], dtype="Int64"),
        "cache_read_tokens": pd.array([400, None, None], dtype="Int64"),
        "output_tokens": pd.array([200, 50, None], dtype="Int64"),
        "reasoning_tokens": pd.array([80, None, None], dtype="Int64"),
        "tokens_estimated": pd.array([False, True, None], dtype="boolean"),
        "cost_usd": pd.array([0.25, None, 0.5], dtype="Float64"),
        "error_type": pd.array([None, None, "ModelUnavailable"], dtype="string"),
        "error_message": pd.array([None, None, "It broke."], dtype="string"),
    }
    return pd.DataFrame({**known, **columns})


def tool_frame(**columns: Any) -> pd.DataFrame:
    """A delegation, a failed search within it, and a call that was denied after a second; `columns` replaces some."""
    known = {
        "run_id": ["run-1"] * 3,
        "agent_name": ["lead_agent", "search_agent", "lead_agent"],
        "tool_name": ["call_subagent", "web_search", "create_artifact"],
        "args_json": ['{"agent_name": "search_agent"}', "{}", "{}"],
        "called_at": seconds(1.5, 3, 9),
        "duration_ms": pd.array([3500.0, 800.0, 0.0], dtype="Float64"),
        "success": pd.array([True, False, False], dtype="boolean"),
        "error_type": pd.array([None, "ToolError", "PermissionDenied"], dtype="string"),
        "error_message": pd.array([None, "No network.", "Permission denied"], dtype="string"),
        "approval": ["not_needed", "not_needed", "denied"],
        "approval_wait_ms": pd.array([None, None, 1000.0], dtype="Float64"),
        "decided_by": pd.array([None, None, "user"], dtype="string"),
    }
    return pd.DataFrame({**known, **columns})


def drawn_texts(axes: "Axes") -> list[str]:
    """All texts of a plot: title, names, values, legend and notes."""
    from matplotlib.text import Text

    return [text.get_text() for text in axes.findobj(Text) if text.get_text() and text.get_visible()]


def xml(svg: str) -> ET.Element:
    """The drawing as XML; an error unless it is well-formed."""
    return ET.fromstring(svg)  # noqa: S314 - our own drawing


def texts(svg: str) -> list[str]:
    """All labels of a drawing."""
    return [node.text or "" for node in xml(svg).iter(f"{SVG}text")]


def tips(svg: str) -> list[str]:
    """The tooltips of the bars and dots."""
    marks = [node for kind in ("rect", "circle") for node in xml(svg).iter(f"{SVG}{kind}")]
    return [node.findtext(f"{SVG}title") or "" for node in marks if len(node)]


@dataclass(frozen=True)
class RunFrames:
    """Events and frames of a run."""

    events: list[StreamEvent]
    llm_calls: pd.DataFrame
    tool_calls: pd.DataFrame
    approvals: pd.DataFrame


def run_plan(folder: Path) -> tuple[RunFrames, pd.DataFrame]:
    """Execute a plan in which one step waits for a person and another fails once; also return its steps."""
    script = by_agent(
        agent=[plan("Find", "Send"), "Done."],
        executor=["Found.", call("report_failure", reason="No."), "It failed.", report(), "Sent."],
        replanner=[decide("retry"), "Once more."],
        summarizer=["Both."],
    )
    model = ScriptedModel(script, delay_s=0.005)
    with af.Workbench(model=model, approvals={"create_artifact": "ask"}, data_dir=folder) as wb:
        run = wb.ask("Look.", flow="plan").wait()
        run.approve()
        run.wait()
        run_frames = RunFrames(list(run.events), wb.llm_calls_df(), wb.tool_calls_df(), wb.approvals_df())
        return run_frames, wb.plan_steps_df()


def run_parallel_jobs(folder: Path) -> RunFrames:
    """Execute a run with parallel jobs, a failing tool, an approved request and a denied one."""
    lead = [
        delegate("search_agent", "here") + delegate("search_agent", "there"),
        call("read_artifact", id="nothing") + report(),
        report("Two", "second"),
        "Done.",
    ]
    search = [call("web_search", query="exit"), call("web_search", query="with"), "Found.", "Found too."]
    model = ScriptedModel(by_agent(lead=lead, search=search), delay_s=0.005)
    with af.Workbench(model=model, approvals={"create_artifact": "ask"}, data_dir=folder) as wb:
        run = wb.ask("Look.").wait()
        run.approve()
        run.wait()
        run.deny()
        run.wait()
        return RunFrames(list(run.events), wb.llm_calls_df(), wb.tool_calls_df(), wb.approvals_df())
