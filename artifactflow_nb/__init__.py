"""ArtifactFlow NB: a research workbench that lives in the notebook.

wb = af.Workbench()                   # without an endpoint, the offline model quotes your sources
wb.add_sources("folder")              # your documents
run = wb.ask("What do they say?")     # returns at once; `run` at the end of a cell shows the work live
run.wait().response                   # the answer; run.artifacts has the report
wb.chat()                             # a panel to ask in; `wb?` and `run?` say what else there is
"""

# Names are loaded on first use, so that `import artifactflow_nb` is fast. A public name is in three places, as a test
# checks: in `__all__`, in the imports for type checkers and in the table of names by module.

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artifactflow_nb.agents.base import AgentConfig, BaseAgent
    from artifactflow_nb.agents.reviewer import Reviewer
    from artifactflow_nb.analysis.compare.comparison import compare
    from artifactflow_nb.analysis.frames.cassette import cassette_df
    from artifactflow_nb.analysis.plots import public as plots
    from artifactflow_nb.core.approvals import ApprovalRequest, Decision
    from artifactflow_nb.core.budget import Budget, Price
    from artifactflow_nb.core.events import ExecutionMetrics, StreamEvent, StreamEventType
    from artifactflow_nb.core.messages import ToolCall, ToolResult
    from artifactflow_nb.core.middleware import (
        CallError,
        Middleware,
        ModelCall,
        ModelOutcome,
        ToolInvocation,
        ToolOutcome,
    )
    from artifactflow_nb.engine.controller import ExecutionController
    from artifactflow_nb.engine.engine import Engine
    from artifactflow_nb.engine.folder_file import trust_folder
    from artifactflow_nb.engine.settings import Settings
    from artifactflow_nb.errors import (
        ArtifactFlowError,
        BudgetExceeded,
        CassetteError,
        CassetteMiss,
        Conflict,
        ContextOverflow,
        ModelError,
        ModelRejected,
        ModelUnavailable,
        NotFound,
        RunCancelled,
        RunError,
        RunFailed,
        StoreError,
        ToolError,
        UsageError,
    )
    from artifactflow_nb.flows.research.spec import ExtendableGraph
    from artifactflow_nb.flows.state import ExecutionPhase
    from artifactflow_nb.flows.turn import ContextManager
    from artifactflow_nb.models.offline.model import OfflineModel
    from artifactflow_nb.models.openai.client import OpenAIModel
    from artifactflow_nb.models.scripted import ScriptedModel
    from artifactflow_nb.notebook.run import NoAnswer, Run
    from artifactflow_nb.notebook.sealed_run import open_run
    from artifactflow_nb.notebook.workbench import Workbench
    from artifactflow_nb.plugins.graphs.adapt import adapt
    from artifactflow_nb.recording.cassette import accept_cassette
    from artifactflow_nb.store.artifacts import ArtifactManager
    from artifactflow_nb.store.conversations import ConversationManager
    from artifactflow_nb.tools.base import ToolContext, ToolPermission, tool
    from artifactflow_nb.widgets.debug import DebugMiddleware

__version__ = "0.1.0"

# LangGraph reads this when it is imported: checkpoints load plain JSON types only.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

__all__ = [
    "AgentConfig",
    "ApprovalRequest",
    "ArtifactFlowError",
    "ArtifactManager",
    "BaseAgent",
    "Budget",
    "BudgetExceeded",
    "CallError",
    "CassetteError",
    "CassetteMiss",
    "Conflict",
    "ContextManager",
    "ContextOverflow",
    "ConversationManager",
    "DebugMiddleware",
    "Decision",
    "Engine",
    "ExecutionController",
    "ExecutionMetrics",
    "ExecutionPhase",
    "ExtendableGraph",
    "Middleware",
    "ModelCall",
    "ModelError",
    "ModelOutcome",
    "ModelRejected",
    "ModelUnavailable",
    "NoAnswer",
    "NotFound",
    "OfflineModel",
    "OpenAIModel",
    "Price",
    "Reviewer",
    "Run",
    "RunCancelled",
    "RunError",
    "RunFailed",
    "ScriptedModel",
    "Settings",
    "StoreError",
    "StreamEvent",
    "StreamEventType",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolInvocation",
    "ToolOutcome",
    "ToolPermission",
    "ToolResult",
    "UsageError",
    "Workbench",
    "__version__",
    "accept_cassette",
    "adapt",
    "cassette_df",
    "compare",
    "open_run",
    "plots",
    "tool",
    "trust_folder",
]

_NAMES = {
    "agents.base": "AgentConfig BaseAgent",
    "agents.reviewer": "Reviewer",
    "analysis.compare.comparison": "compare",
    "analysis.frames.cassette": "cassette_df",
    "core.approvals": "ApprovalRequest Decision",
    "core.budget": "Budget Price",
    "core.events": "ExecutionMetrics StreamEvent StreamEventType",
    "core.messages": "ToolCall ToolResult",
    "core.middleware": "CallError Middleware ModelCall ModelOutcome ToolInvocation ToolOutcome",
    "engine.controller": "ExecutionController",
    "engine.engine": "Engine",
    "engine.folder_file": "trust_folder",
    "engine.settings": "Settings",
    "errors": "ArtifactFlowError BudgetExceeded CassetteError CassetteMiss Conflict ContextOverflow ModelError "
    "ModelRejected ModelUnavailable NotFound RunCancelled RunError RunFailed StoreError ToolError UsageError",
    "plugins.graphs.adapt": "adapt",
    "flows.research.spec": "ExtendableGraph",
    "flows.state": "ExecutionPhase",
    "flows.turn": "ContextManager",
    "models.offline.model": "OfflineModel",
    "models.openai.client": "OpenAIModel",
    "models.scripted": "ScriptedModel",
    "notebook.run": "NoAnswer Run",
    "notebook.sealed_run": "open_run",
    "notebook.workbench": "Workbench",
    "recording.cassette": "accept_cassette",
    "store.artifacts": "ArtifactManager",
    "store.conversations": "ConversationManager",
    "tools.base": "ToolContext ToolPermission tool",
    "widgets.debug": "DebugMiddleware",
}
_WITHOUT_PLUGINS = ("agents", "core", "engine.settings", "errors", "flows", "models", "store", "tools")
_SUBMODULES = {"plots": "analysis.plots.public"}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # a checker that saw this function would accept every name

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in _SUBMODULES:
            return import_module(f"{__name__}.{_SUBMODULES[name]}")
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if not _MODULES[name].startswith(_WITHOUT_PLUGINS):
            import_module(f"{__name__}.plugins")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """Add `%%ask` and `%af`, with completion; IPython calls this for `%load_ext artifactflow_nb`."""
    from artifactflow_nb.notebook.magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics; IPython calls this for `%unload_ext artifactflow_nb`."""
    from artifactflow_nb.notebook.magics import unload

    unload(shell)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Return the extension for Jupyter Server, which looks this function up by its name."""
    return [{"module": "artifactflow_nb.server.jupyter"}]
