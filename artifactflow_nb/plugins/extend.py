"""`af.extend`: what plugins, flows, agents, tools, middleware and panels of your own are made of.

CONTRIBUTING.md has an example of each.
"""

from artifactflow_nb.agents.base import AgentConfig as AgentConfig
from artifactflow_nb.agents.base import BaseAgent as BaseAgent
from artifactflow_nb.core.approvals import ApprovalRequest as ApprovalRequest
from artifactflow_nb.core.messages import ToolResult as ToolResult
from artifactflow_nb.core.middleware import CallError as CallError
from artifactflow_nb.core.middleware import Middleware as Middleware
from artifactflow_nb.core.middleware import ModelCall as ModelCall
from artifactflow_nb.core.middleware import ModelOutcome as ModelOutcome
from artifactflow_nb.core.middleware import ToolInvocation as ToolInvocation
from artifactflow_nb.core.middleware import ToolOutcome as ToolOutcome
from artifactflow_nb.core.text.cards import CardTable as CardTable
from artifactflow_nb.engine.plugin import Plugin as Plugin
from artifactflow_nb.flows.base import FlowAgent as FlowAgent
from artifactflow_nb.flows.base import FlowSpec as FlowSpec
from artifactflow_nb.flows.loop import job_loop as job_loop
from artifactflow_nb.store.encoding import insert as insert
from artifactflow_nb.store.frames import IDS as IDS
from artifactflow_nb.store.frames import TEXT as TEXT
from artifactflow_nb.store.frames import Frame as Frame
from artifactflow_nb.store.frames import list_condition as list_condition
from artifactflow_nb.store.frames import stored_columns as stored_columns
from artifactflow_nb.store.schema import Table as Table
from artifactflow_nb.tools.base import ToolContext as ToolContext
from artifactflow_nb.tools.base import ToolPermission as ToolPermission
from artifactflow_nb.tools.base import tool as tool
from artifactflow_nb.widgets.page.nodes import Node as Node
from artifactflow_nb.widgets.page.view import View as View
from artifactflow_nb.widgets.run.polled_view import PolledView as PolledView
