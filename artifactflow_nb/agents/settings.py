"""Configuration of agents and flows without code: a file or a mapping overrides the packaged values.

::

    file or mapping   {"executor": {"max_steps": 4}}
    packaged          {"executor": {"max_steps": 8, "tools": ["core", "mcp"], ...}, "agent": ..., ...}
    in force          {"executor": {"max_steps": 4, "tools": ["core", "mcp"], ...}, "agent": ..., ...}

The file or mapping comes from an argument, AF_GRAPH_CONFIG or `artifactflow.toml`; see `Settings`.
"""

import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from artifactflow_nb.core.local_files import absolute_path, read_bytes, reason, shown_path
from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, CardTable, Code, Details
from artifactflow_nb.core.text.format import count, did_you_mean, first_lines
from artifactflow_nb.core.text.yaml_text import load_yaml
from artifactflow_nb.errors import UsageError, brief

PACKAGED = "packaged"

_LARGEST = 2**63 - 1  # the store holds whole numbers of 64 bits


Enabled = Annotated[bool, Field(description="true or false")]
PositiveInteger = Annotated[int, Field(ge=1, le=_LARGEST, description="a whole number from 1")]
NonNegativeInteger = Annotated[int, Field(ge=0, le=_LARGEST, description="a whole number from 0")]
NonEmptyName = Annotated[str, Field(min_length=1)]
ToolNames = Annotated[
    tuple[NonEmptyName, ...],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
    Field(description="a list of `all`, categories and names of tools"),
]
ModelName = Annotated[
    NonEmptyName | None, Field(description="a model's name at the endpoint, or null for the configured one")
]
OptionalTemperature = Annotated[
    Annotated[float, Field(ge=0, le=2)] | None,
    Field(description="a number from 0 to 2, or null for the endpoint's own"),
]

ReasoningEffort = Annotated[
    NonEmptyName | None, Field(description="a text such as `low` or `high`, or null for the endpoint's own")
]
ExtraBody = Annotated[dict[str, Any], Field(description="fields of a request by name, such as `top_p: 0.9`")]


class ConfigNode(BaseModel):
    """Base of the nodes of a configuration; unknown keys and values of a wrong type are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ModelNode(ConfigNode):
    """Configuration of the model calls of an agent.

    Attributes:
        model: The model's name at the endpoint; None for the configured model.
        temperature: Sampling temperature; None for the endpoint's own.
        reasoning_effort: How long the model thinks; None for the endpoint's own.
        extra_body: Further fields of each request.
    """

    model: ModelName = None
    temperature: OptionalTemperature = None
    reasoning_effort: ReasoningEffort = None
    extra_body: ExtraBody = {}


class AgentNode(ModelNode):
    """Configuration of an agent.

    Attributes:
        max_tool_rounds: Rounds of tool calls after which the agent must answer.
        tools: `all`, categories and names of tools; see `select_tools`.
        prompt: The text of the prompt, or the name of a prompt file; empty for the agent's own.
    """

    max_tool_rounds: PositiveInteger
    tools: ToolNames
    prompt: Annotated[str, Field(description="the text of a prompt, or the name of a prompt file")] = ""


class GraphConfig(CardMixin):
    """Configuration of all agents and flows, a node for each; `wb.graph_config` shows every value.

    A node is an attribute, as in `config.executor.max_steps`. Each agent of a flow has a node:

    - `max_tool_rounds`: rounds of tool calls after which the agent must answer.
    - `tools`: `all`, categories and names of tools, mixed. `core` has the built-in tools, `mcp` the tools of servers;
      your own tools have the category `user` unless they set another category. Only agents that delegate are offered
      `call_subagent`. Tools that belong to one agent of a flow, such as `plan_create`, need no name here.
    - `model`: a model's name at the endpoint, or null for the configured model.
    - `temperature`: from 0 to 2, or null for the endpoint's own. It takes precedence over the setting `temperature`,
      which is for all agents; a packaged value is sent only to models that are known to take a temperature.
    - `reasoning_effort`: how long the model thinks. `extra_body`: further fields of each request.
    - `prompt`: the text of the prompt, or the name of a prompt file; empty for the agent's own.

    The flow `plan` has further nodes:

    - `planner.enabled`: false to let the agent work without plans.
    - `approval.enabled`: true to approve each plan; `confirm` to approve plans with a step that may use a tool
      with the permission `confirm`, or a tool that `approvals` names.
    - `executor.max_steps`: steps of a plan, each attempt counted.
    - `replanner`: `enabled`; `skip_on_success`, to skip the replanner while steps succeed; `max_revisions` of a plan,
      `max_retries` of a step, `max_plans` in a turn.
    - `summarizer.enabled`: false to let the agent write the answer from the plan itself.
    - `settings.recursion_limit`: jobs for the plans of a turn: attempts at steps, replanning and summaries.

    Args:
        packaged: The nodes with their packaged values, by name.
        nodes: The nodes in force.
        source: Origin of the values: `packaged`, the path of a file, or `a mapping`.

    Attributes:
        source: The argument `source`.
        nodes: The argument `nodes`.
        changed: The values that differ from the packaged values, as plain JSON that `load` accepts; stored with runs.
    """

    def __init__(
        self, packaged: Mapping[str, ConfigNode], nodes: Mapping[str, ConfigNode] | None = None, source: str = PACKAGED
    ) -> None:
        self.source = source
        self.nodes = packaged if nodes is None else nodes
        self._packaged = _as_json(packaged)
        self.changed: dict[str, dict[str, Any]] = {}
        for name, node in _as_json(self.nodes).items():
            if changed := {key: value for key, value in node.items() if value != self._packaged[name][key]}:
                self.changed[name] = changed

    @classmethod
    def load(cls, packaged: Mapping[str, ConfigNode], source: str | Path | Mapping[str, Any] | None = None) -> Self:
        """Load a configuration over the packaged values.

        Args:
            packaged: The nodes with their packaged values, by name.
            source: The path of a YAML file, or a mapping like its content; None for the packaged values alone.
                The keys are the nodes; nodes may also be below `graph` and `nodes`, as a mapping or a list with names.

        Errors: `UsageError` names each unknown key and each invalid value, with its path and what is allowed; for a
            file that cannot be read, the reason and the line.
        """
        if source is None:
            return cls(packaged)
        overrides = _nodes_of(source if isinstance(source, Mapping) else _read(absolute_path(source)))
        try:
            model = _model_of(tuple((name, type(node)) for name, node in packaged.items()))
            nodes = dict(model.model_validate(_merged(_as_json(packaged), overrides)))
        except ValidationError as error:
            details = {detail["loc"][:2]: detail for detail in reversed(error.errors(include_url=False))}
            problems = [_problem(packaged, detail) for detail in reversed(details.values())]
            where = "graph_config" if isinstance(source, Mapping) else shown_path(source)
            raise UsageError("\n".join(f"{where}: {problem}" for problem in first_lines(problems))) from None
        return cls(packaged, nodes, "a mapping" if isinstance(source, Mapping) else shown_path(source))

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["nodes"][name]
        except KeyError:
            nodes = ", ".join(self.__dict__.get("nodes", ()))
            raise AttributeError(f"There is no node {name!r} in the graph configuration. Nodes: {nodes}.") from None

    def __repr__(self) -> str:
        changed = ", ".join(f"{path}={value!r}" for path, value in flatten_nodes(self.changed))
        return f"GraphConfig({self.source}{': ' if changed else ''}{changed})"

    __str__ = __repr__

    def _card(self) -> Card:
        changed = dict(flatten_nodes(self.changed))
        rows: CardRows = [
            ("from", Code(self.source)),
            ("changed", count(len(changed), "value") if changed else "nothing"),
        ]
        values = [
            (Code(path), Code(brief(changed.get(path, value))), Code(brief(value)) if path in changed else "")
            for path, value in flatten_nodes(self._packaged)
        ]
        table = CardTable(("value", "is", "packaged as"), values)
        return Card("Graph configuration", "", rows, [Details("All values", table, is_open=True)])


def flatten_nodes(nodes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Map the dotted paths of the values of nodes to the values."""
    return ((f"{node}.{name}", value) for node, values in nodes.items() for name, value in values.items())


def _as_json(nodes: Mapping[str, ConfigNode]) -> dict[str, dict[str, Any]]:
    return {name: node.model_dump(mode="json") for name, node in nodes.items()}


@cache
def _model_of(nodes: tuple[tuple[str, type[ConfigNode]], ...]) -> type[ConfigNode]:
    """Create the pydantic model of a whole configuration, with a field for each node."""
    fields: dict[str, Any] = {name: (node, ...) for name, node in nodes}
    return create_model("GraphConfigValues", __base__=ConfigNode, **fields)


def _merged(default: Mapping[str, Any], overrides: Mapping[Any, Any]) -> dict[str, Any]:
    """Merge overrides into the defaults, key by key; an empty node changes nothing."""
    merged = dict(default)
    for key, value in overrides.items():
        name = str(key)
        if name == "max_iterations" and "max_tool_rounds" in default:
            warnings.warn("max_iterations is called max_tool_rounds now.", DeprecationWarning, stacklevel=4)
            name = "max_tool_rounds"
        below = default.get(name)
        if not isinstance(below, Mapping):
            merged[name] = value
        elif value is not None:
            merged[name] = _merged(below, value) if isinstance(value, Mapping) else value
    return merged


def _read(path: Path) -> Mapping[Any, Any]:
    """Read a configuration file; `UsageError` with its path, the line and the reason."""
    where = f"The graph configuration {path}"
    try:
        content = read_bytes(path)
    except OSError as error:
        raise UsageError(f"{where} cannot be read: {reason(error)}") from None
    values = load_yaml(content, where)
    if not isinstance(values, Mapping | None):
        raise UsageError(f"{where} is {brief(values)}; it must hold nodes such as `executor:`.")
    return values or {}


def _nodes_of(values: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Move the nodes below `graph.nodes`, and the siblings of `nodes` such as `settings`, to the top level.

    Errors: `UsageError` if `graph.nodes` is neither a mapping nor a list of named nodes.
    """
    graph = values.get("graph")
    if not isinstance(graph, Mapping):
        return values
    nodes = graph.get("nodes") or {}
    if isinstance(nodes, list) and all(
        isinstance(node, Mapping) and isinstance(node.get("name"), str) for node in nodes
    ):
        nodes = {node["name"]: {key: value for key, value in node.items() if key != "name"} for node in nodes}
    if not isinstance(nodes, Mapping):
        raise UsageError(
            f"graph.nodes is {brief(nodes)}; it must map names to nodes, or be a list of nodes that have a name."
        )
    return {
        **{key: value for key, value in values.items() if key != "graph"},
        **{key: value for key, value in graph.items() if key != "nodes"},
        **nodes,
    }


def _problem(packaged: Mapping[str, ConfigNode], detail: Any) -> str:
    """Describe a validation error: the path, the value, and what is allowed."""
    node, *inside = detail["loc"]
    path = ".".join([node, *inside[:1], *(str(part) for part in inside[1:2] if isinstance(part, int))])
    value, is_unknown = brief(detail["input"]), detail["type"] == "extra_forbidden"
    if is_unknown and not inside:
        hint = did_you_mean(path, packaged)
        return f"there is no {brief(path)} (which is {value}).{hint} Known: {', '.join(packaged)}."
    fields = type(packaged[node]).model_fields
    names = ", ".join(fields)
    if is_unknown:
        return f"there is no {brief(path)} (which is {value}).{did_you_mean(inside[0], fields)} {node} has: {names}."
    if not inside:
        return f"{path} is {value}; it must hold some of: {names}."
    allowed = fields[inside[0]].description
    if isinstance(detail["input"], int) and detail["input"] > _LARGEST:
        allowed = f"{allowed} to {_LARGEST:,}"
    return f"{path} is {value}; it must be {allowed}. {node} has: {names}."
