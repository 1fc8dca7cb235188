"""Opens, starts, drives, resumes and ends runs; the only room that wires the rooms below.

`af.engine` is the workbench for programs without a notebook; the names below are loaded on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artifactflow_nb.core.events import ExecutionMetrics, StreamEvent, StreamEventType
    from artifactflow_nb.engine.controller import ExecutionController, RunResult
    from artifactflow_nb.engine.engine import Engine
    from artifactflow_nb.flows.research.spec import ExtendableGraph
    from artifactflow_nb.flows.state import ExecutionPhase
    from artifactflow_nb.flows.turn import ContextManager
    from artifactflow_nb.store.artifacts import ArtifactManager
    from artifactflow_nb.store.conversations import ConversationManager

__all__ = [
    "ArtifactManager",
    "ContextManager",
    "ConversationManager",
    "Engine",
    "ExecutionController",
    "ExecutionMetrics",
    "ExecutionPhase",
    "ExtendableGraph",
    "RunResult",
    "StreamEvent",
    "StreamEventType",
]

_NAMES = {
    "core.events": "ExecutionMetrics StreamEvent StreamEventType",
    "engine.controller": "ExecutionController RunResult",
    "engine.engine": "Engine",
    "flows.research.spec": "ExtendableGraph",
    "flows.state": "ExecutionPhase",
    "flows.turn": "ContextManager",
    "store.artifacts": "ArtifactManager",
    "store.conversations": "ConversationManager",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # a checker that saw this function would accept every name

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"artifactflow_nb.{_MODULES[name]}"), name)
