"""How agents and flows work, without code: the packaged `graph_config.yaml`, and over it a file or mapping of a user's.

::

    given     {"executor": {"max_steps": 4}}
    packaged  {"executor": {"max_steps": 8, "tools": ["core", "mcp"], ...}, "agent": ..., ...}
    in force  {"executor": {"max_steps": 4, "tools": ["core", "mcp"], ...}, "agent": ..., ...}

What is given comes from the first place that has it: argument, AF_GRAPH_CONFIG, `artifactflow.toml`; see `Settings`.
"""

from collections.abc import Hashable, Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError

from artifactflow_nb.errors import UsageError
from artifactflow_nb.text.cards import Card, Code, Fold, Rows, Shown, Table
from artifactflow_nb.text.figures import count

FILE = "graph_config.yaml"
PACKAGED = "packaged"

_VALUE_CHARS = 80


def _listed(value: Any) -> Any:
    """A list as a tuple, which cannot be changed; anything else as it is, to be refused."""
    return tuple(value) if isinstance(value, list) else value


Enabled = Annotated[bool, Field(description="true or false")]
AtLeastOne = Annotated[int, Field(ge=1, description="a whole number from 1")]
Times = Annotated[int, Field(ge=0, description="a whole number from 0")]
Name = Annotated[str, Field(min_length=1)]
Tools = Annotated[
    tuple[Name, ...], BeforeValidator(_listed), Field(description="a list of `all`, categories and names of tools")
]
ModelName = Annotated[Name | None, Field(description="a model's name at the endpoint, or null for the configured one")]
Degree = Annotated[float, Field(ge=0, le=2)]
Temperature = Annotated[Degree | None, Field(description="a number from 0 to 2, or null for the endpoint's own")]


class _Values(BaseModel):
    """Values as they are written: nothing unknown, and nothing made into another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class AskedNode(_Values):
    """A node that asks a model.

    Attributes:
        model: The model's name at the endpoint; None for the configured one.
        temperature: Sampling temperature; None for the endpoint's own.
    """

    model: ModelName
    temperature: Temperature


class AgentNode(AskedNode):
    """An agent: a model in a loop with tools.

    Attributes:
        max_iterations: How many rounds of tool calls it has before it must conclude.
        tools: What it is offered: `all`, categories and names; see `select_tools`.
    """

    max_iterations: AtLeastOne
    tools: Tools


class PlannerNode(_Values):
    """Whether the agent of the plan flow can make plans."""

    enabled: Enabled


class ApprovalNode(_Values):
    """Whether a person is asked before a plan is carried out; `confirm`: if it may use a tool that always asks."""

    enabled: Annotated[bool | Literal["confirm"], Field(description="true, false or 'confirm'")]


class ExecutorNode(AgentNode):
    """What carries out a step.

    Attributes:
        max_steps: How many steps of a plan are carried out, each attempt counted.
    """

    max_steps: AtLeastOne


class ReplannerNode(AskedNode):
    """What decides after a step.

    Attributes:
        enabled: Whether it is asked; otherwise a plan goes on until a step fails.
        skip_on_success: Whether it is asked only where a step did not succeed.
        max_revisions: How often a plan may be revised.
        max_retries: How often a step may be tried again.
        max_plans: How many plans a turn may have.
    """

    enabled: Enabled
    skip_on_success: Enabled
    max_revisions: Times
    max_retries: Times
    max_plans: AtLeastOne


class SummarizerNode(AskedNode):
    """What sums up a plan that is over; otherwise the agent answers from the plan."""

    enabled: Enabled


class GraphSettings(_Values):
    """What holds for a graph as a whole.

    Attributes:
        recursion_limit: How many jobs work on the plans of a turn: attempts at steps, looks of the replanner and
            summaries.
    """

    recursion_limit: AtLeastOne


class GraphConfig(Shown, _Values):
    """What is configured for every node of every flow; made by `GraphConfig.load`.

    Attributes:
        lead_agent: The agent of the research flow that coordinates.
        search_agent: Its agent that searches.
        crawl_agent: Its agent that reads.
        agent: The agent of the plan flow that talks with the person.
        planner: Whether that agent can make plans.
        approval: Whether a person is asked before a plan is carried out.
        executor: What carries out a step.
        replanner: What decides after a step.
        summarizer: What sums up a plan that is over.
        composer: The agent of the compose flow that talks with the person.
        writer: Its agent that writes a block.
        editor: Its agent that edits one.
        outliner: Its agent that proposes a structure.
        grader: Its agent that judges a block.
        settings: What holds for a graph as a whole.
    """

    lead_agent: AgentNode
    search_agent: AgentNode
    crawl_agent: AgentNode
    agent: AgentNode
    planner: PlannerNode
    approval: ApprovalNode
    executor: ExecutorNode
    replanner: ReplannerNode
    summarizer: SummarizerNode
    composer: AgentNode
    writer: AgentNode
    editor: AgentNode
    outliner: AgentNode
    grader: AgentNode
    settings: GraphSettings
    _source: str = PrivateAttr(default=PACKAGED)

    @classmethod
    def load(cls, source: str | Path | Mapping[str, Any] | None = None) -> Self:
        """The packaged configuration with what a user gives over it.

        Args:
            source: The path of a YAML file, or a mapping of what it would hold; None for the packaged values alone.

        Errors: `UsageError` names each key that is not known and each value that cannot be, with its path, what it is
            and what is allowed; for a file that cannot be read, why not and in which line.
        """
        told = PACKAGED if source is None else "a mapping" if isinstance(source, Mapping) else str(source)
        given = {} if source is None else source if isinstance(source, Mapping) else _read(Path(source).expanduser())
        where = "graph_config" if isinstance(source, Mapping) else told
        try:
            loaded = cls.model_validate(_merged(_packaged(), given))
        except ValidationError as error:
            details = {detail["loc"][:2]: detail for detail in reversed(error.errors(include_url=False))}
            problems = [_problem(detail) for detail in reversed(details.values())]
            raise UsageError("\n".join(f"{where}: {problem}" for problem in problems)) from None
        loaded._source = told  # noqa: SLF001 - it is of this class; what a file says must not name it
        return loaded

    @property
    def source(self) -> str:
        """Where it comes from: `packaged`, the path of a file, or `a mapping`."""
        return self._source

    @cached_property
    def changed(self) -> dict[str, dict[str, Any]]:
        """What is not as packaged, as plain JSON that `load` takes: what a run keeps of it."""
        found = {
            node: {name: value for name, value in values.items() if value != _packaged()[node][name]}
            for node, values in self.model_dump(mode="json").items()
        }
        return {node: values for node, values in found.items() if values}

    def __repr__(self) -> str:
        changed = ", ".join(f"{path}={value!r}" for path, value in flat(self.changed))
        return f"GraphConfig({self.source}{': ' if changed else ''}{changed})"

    __str__ = __repr__

    def _card(self) -> Card:
        changed, packaged = dict(flat(self.changed)), dict(flat(_packaged()))
        rows: Rows = [("from", Code(self.source)), ("changed", count(len(changed), "value") if changed else "nothing")]
        values = [
            (Code(path), Code(_said(changed.get(path, value))), Code(_said(value)) if path in changed else "")
            for path, value in packaged.items()
        ]
        table = Table(("value", "is", "packaged as"), values)
        return Card("Graph configuration", "", rows, [Fold("All values", table, is_open=True)])


def flat(nodes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The values of nodes by their dotted paths."""
    return ((f"{node}.{name}", value) for node, values in nodes.items() for name, value in values.items())


@cache
def _packaged() -> Mapping[str, Mapping[str, Any]]:
    """What the packaged file says; nobody changes it."""
    packaged: Mapping[str, Mapping[str, Any]] = yaml.safe_load((files(__package__) / FILE).read_text(encoding="utf-8"))
    return packaged


def _merged(default: Mapping[str, Any], given: Mapping[Any, Any]) -> dict[str, Any]:
    """The default with what is given in its place, key by key; a node with nothing under it changes nothing."""
    merged = dict(default)
    for key, value in given.items():
        below = default.get(str(key))
        if not isinstance(below, Mapping):
            merged[str(key)] = value
        elif value is not None:
            merged[str(key)] = _merged(below, value) if isinstance(value, Mapping) else value
    return merged


class _Loader(yaml.SafeLoader):
    """Reads YAML, and refuses a key that stands twice in one mapping: the first would be lost in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen and isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands there twice", key.start_mark
                )
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
        return super().construct_mapping(node, deep)


def _read(path: Path) -> Mapping[Any, Any]:
    """What a file says; `UsageError` with its path, the line and what is wrong there."""
    try:
        found = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a safe loader
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The graph configuration {path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"The graph configuration {path} is no YAML{_line_of(error)}: {_told(error)}") from None
    if not isinstance(found, Mapping | None):
        raise UsageError(f"The graph configuration {path} is {_said(found)}; it must hold nodes such as `executor:`.")
    return found or {}


def _line_of(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"


def _told(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)


def _problem(detail: Any) -> str:
    """What is wrong at a place: what is there, and what is allowed."""
    node, *inside = detail["loc"]
    path = ".".join([node, *inside[:1], *(str(part) for part in inside[1:2] if isinstance(part, int))])
    said, is_unknown = _said(detail["input"]), detail["type"] == "extra_forbidden"
    if is_unknown and not inside:
        return f"there is no {path!r} (which is {said}); known are: {', '.join(_packaged())}."
    known = ", ".join(_packaged()[node])
    if is_unknown:
        return f"there is no {path!r} (which is {said}); {node} has: {known}."
    if not inside:
        return f"{path} is {said}; it must hold some of: {known}."
    fields: Any = GraphConfig.model_fields[node].annotation
    return f"{path} is {said}; it must be {fields.model_fields[inside[0]].description}. {node} has: {known}."


def _said(value: object) -> str:
    told = repr(value)
    return told if len(told) <= _VALUE_CHARS else f"{told[:_VALUE_CHARS]}…"
