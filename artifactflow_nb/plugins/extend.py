"""`af.extend`: what plugins, flows, agents, tools, middleware and panels of your own are made of.

CONTRIBUTING.md has an example of each.
"""

from artifactflow_nb.agents.base import AgentConfig, BaseAgent
from artifactflow_nb.core.approvals import ApprovalRequest
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.middleware import (
    CallError,
    Middleware,
    ModelCall,
    ModelOutcome,
    ToolInvocation,
    ToolOutcome,
)
from artifactflow_nb.core.text.cards import CardTable
from artifactflow_nb.engine.plugin import Plugin
from artifactflow_nb.flows.base import FlowAgent, FlowSpec
from artifactflow_nb.flows.loop import job_loop
from artifactflow_nb.store.encoding import insert
from artifactflow_nb.store.frames import IDS, TEXT, Frame, list_condition, stored_columns
from artifactflow_nb.store.schema import Table
from artifactflow_nb.tools.base import ToolContext, ToolPermission, tool
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.view import View
from artifactflow_nb.widgets.run.polled_view import PolledView

__all__ = [
    "IDS",
    "TEXT",
    "AgentConfig",
    "ApprovalRequest",
    "BaseAgent",
    "CallError",
    "CardTable",
    "FlowAgent",
    "FlowSpec",
    "Frame",
    "Middleware",
    "ModelCall",
    "ModelOutcome",
    "Node",
    "Plugin",
    "PolledView",
    "Table",
    "ToolContext",
    "ToolInvocation",
    "ToolOutcome",
    "ToolPermission",
    "ToolResult",
    "View",
    "insert",
    "job_loop",
    "list_condition",
    "stored_columns",
    "tool",
]
