"""ArtifactFlow NB: a research workbench that lives in the notebook.

wb = af.Workbench()                   # without an endpoint, the offline model quotes your sources
wb.sources.add("folder")              # your documents
run = wb.ask("What do they say?")     # returns at once; `run` at the end of a cell shows the work live
run.wait().response                   # the answer; run.artifacts has the report
wb.chat()                             # a panel to ask in; `wb?` and `run?` list all methods
"""

# Names are loaded on first use, so that `import artifactflow_nb` is fast. A public name is in three places, as a test
# checks: in `__all__`, in the imports for type checkers and in the table of names by module.

import os
from typing import TYPE_CHECKING, Any

from artifactflow_nb import plugins

if TYPE_CHECKING:
    from artifactflow_nb import engine, errors, testing
    from artifactflow_nb.agents.base import AgentConfig
    from artifactflow_nb.agents.reviewer import Reviewer
    from artifactflow_nb.analysis.compare.comparison import compare
    from artifactflow_nb.analysis.frames.cassette import cassette_df
    from artifactflow_nb.analysis.plots import public as plots
    from artifactflow_nb.core.approvals import Decision
    from artifactflow_nb.core.budget import Budget, Price
    from artifactflow_nb.core.messages import ToolCall, ToolResult
    from artifactflow_nb.engine.settings import Settings, trust_folder
    from artifactflow_nb.models.offline.model import OfflineModel
    from artifactflow_nb.models.openai.client import OpenAIModel
    from artifactflow_nb.models.scripted import ScriptedModel
    from artifactflow_nb.notebook.run import NoAnswer, Run
    from artifactflow_nb.notebook.sealed_run import open_run
    from artifactflow_nb.notebook.workbench import Workbench
    from artifactflow_nb.plugins import *  # noqa: F403 - the names that plugins add
    from artifactflow_nb.plugins import extend
    from artifactflow_nb.recording.cassette import accept_cassette
    from artifactflow_nb.tools.base import ToolContext, tool
    from artifactflow_nb.widgets.debug import DebugMiddleware

__version__ = "0.1.0"

# LangGraph reads this variable during its import: checkpoints then load plain JSON types only.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

__all__ = [
    "AgentConfig",
    "Budget",
    "DebugMiddleware",
    "Decision",
    "NoAnswer",
    "OfflineModel",
    "OpenAIModel",
    "Price",
    "Reviewer",
    "Run",
    "ScriptedModel",
    "Settings",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "Workbench",
    "__version__",
    "accept_cassette",
    "cassette_df",
    "compare",
    "engine",
    "errors",
    "extend",
    "open_run",
    "plots",
    "testing",
    "tool",
    "trust_folder",
]
__all__ += plugins.__all__

_NAMES = {
    "agents.base": "AgentConfig",
    "agents.reviewer": "Reviewer",
    "analysis.compare.comparison": "compare",
    "analysis.frames.cassette": "cassette_df",
    "core.approvals": "Decision",
    "core.budget": "Budget Price",
    "core.messages": "ToolCall ToolResult",
    "engine.settings": "Settings trust_folder",
    "models.offline.model": "OfflineModel",
    "models.openai.client": "OpenAIModel",
    "models.scripted": "ScriptedModel",
    "notebook.run": "NoAnswer Run",
    "notebook.sealed_run": "open_run",
    "notebook.workbench": "Workbench",
    "recording.cassette": "accept_cassette",
    "tools.base": "ToolContext tool",
    "widgets.debug": "DebugMiddleware",
}
_SUBMODULES = {
    "engine": "engine",
    "errors": "errors",
    "extend": "plugins.extend",
    "plots": "analysis.plots.public",
    "testing": "testing",
}
_MOVED = {
    "engine": "ArtifactManager ContextManager ConversationManager Engine ExecutionController ExecutionMetrics "
    "ExecutionPhase ExtendableGraph StreamEvent StreamEventType",
    "errors": "ArtifactFlowError BudgetExceeded CassetteError CassetteMiss Conflict ContextOverflow ModelError "
    "ModelRejected ModelUnavailable NotFound RunCancelled RunError RunFailed StoreError ToolError UsageError",
    "extend": "ApprovalRequest BaseAgent CallError Middleware ModelCall ModelOutcome ToolInvocation ToolOutcome "
    "ToolPermission",
}
"""Names that have moved to another module; the names work here, with a warning, until the release 0.3."""

_WITH_PLUGINS = ("analysis", "notebook", "plugins.studies", "recording", "widgets")
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()} | plugins.PUBLIC_NAMES

if not TYPE_CHECKING:  # a checker that saw this function would accept every name

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        module_path = _SUBMODULES.get(name) or _MODULES.get(name, "")
        moved_to = next((module for module, names in _MOVED.items() if name in names.split()), None)
        if moved_to is not None:
            from warnings import warn

            warn(f"af.{name} is called af.{moved_to}.{name} now.", DeprecationWarning, stacklevel=2)
            return getattr(__getattr__(moved_to), name)
        if not module_path:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if module_path.startswith(_WITH_PLUGINS):
            import_module(f"{__name__}.plugins.built_in")
        module = import_module(f"{__name__}.{module_path}")
        value = globals()[name] = module if name in _SUBMODULES else getattr(module, name, module)
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
    """Return the extension for Jupyter Server, which looks up this function by name."""
    return [{"module": "artifactflow_nb.server.jupyter"}]
