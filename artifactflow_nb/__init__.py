"""ArtifactFlow NB: a research workbench that lives in the notebook.

Names are loaded on first use, so that `import artifactflow_nb` costs next to nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Workbench": "workbench",
    "Run": "run",
    "Engine": "engine",
    "adapt": "flows.adapted",
    "accept_cassette": "recordings.cassette_file",
    "cassette_df": "frames.cassette",
    "compare": "comparing.comparison",
    "open_run": "opened",
    "Settings": "settings",
    "plot_timeline": "plots.timeline",
    "plot_tokens": "plots.tokens",
    "plot_latency": "plots.latency",
    "plot_cost": "plots.cost",
    "plot_evaluations": "plots.evaluations",
    "AgentConfig": "agents.base",
    "ToolContext": "tools.base",
    "ToolPermission": "tools.base",
    "ToolCall": "messages",
    "ToolResult": "messages",
    "tool": "tools.base",
    "ApprovalRequest": "approvals",
    "Decision": "approvals",
    "DebugMiddleware": "widgets.debug",
    "Middleware": "middleware",
    "ModelCall": "middleware",
    "ModelOutcome": "middleware",
    "ToolInvocation": "middleware",
    "ToolOutcome": "middleware",
    "CallError": "middleware",
    "Budget": "budget",
    "Price": "budget",
    "OfflineModel": "models.offline",
    "OpenAIModel": "models.openai",
    "ScriptedModel": "models.scripted",
    "StreamEvent": "events",
    "StreamEventType": "events",
    "ArtifactFlowError": "errors",
    "UsageError": "errors",
    "ModelError": "errors",
    "ModelUnavailable": "errors",
    "ModelRejected": "errors",
    "ContextOverflow": "errors",
    "ToolError": "errors",
    "RunError": "errors",
    "RunFailed": "errors",
    "BudgetExceeded": "errors",
    "RunCancelled": "errors",
    "StoreError": "errors",
    "NotFound": "errors",
    "Conflict": "errors",
    "CassetteMiss": "errors",
    "CassetteError": "errors",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 - the names of the table are strings


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext artifactflow_nb` calls: adds `%%ask` and `%af`, with completion."""
    from artifactflow_nb.magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext artifactflow_nb` calls: takes both away again."""
    from artifactflow_nb.magics import unload

    unload(shell)
