"""The table of delegating tools."""

from artifactflow_nb.core.plan import DELEGATING_TOOLS
from artifactflow_nb.engine.flow_registry import BUILT_IN_FLOWS
from artifactflow_nb.plugins.projects import PROJECTS
from artifactflow_nb.plugins.projects.spec import COMPOSE_FLOW
from artifactflow_nb.tools.lead import call_subagent

TOOLS = {
    tool.name: tool for flow in (*BUILT_IN_FLOWS.values(), COMPOSE_FLOW) for tool in (call_subagent, *flow.all_tools)
}


def test_table_has_every_tool_that_a_flow_carries_out() -> None:
    """The flow carries out a tool without a handler, so the tool needs an entry."""
    assert set(DELEGATING_TOOLS) == {tool.name for tool in TOOLS.values() if tool.handler is None}


def test_label_is_a_parameter_of_the_tool() -> None:
    """A timeline labels a delegation with one of the parameters that its tool declares."""
    labels = {name: parameter for name, parameter in DELEGATING_TOOLS.items() if parameter is not None}
    assert labels
    assert all(parameter in TOOLS[name].params.model_fields for name, parameter in labels.items())


def test_all_tools_of_projects_return_texts_of_models() -> None:
    """The result of a tool that returns a model's text proves nothing about a source."""
    assert PROJECTS.model_text_tools == {tool.name for tool in COMPOSE_FLOW.all_tools}
