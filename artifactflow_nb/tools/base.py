"""A tool is a typed function: its signature is its schema, its manual and its validation at once.

::

    @tool(permission="confirm", category="web")
    async def fetch(ctx: ToolContext, url: Annotated[str, "The address."]) -> str:
        '''Fetch a page. Use it when ...'''
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property, partial
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints, overload

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from artifactflow_nb.errors import ArtifactFlowError, Conflict, NotFound, StoreError, ToolError, UsageError
from artifactflow_nb.messages import ToolResult, ToolSpec
from artifactflow_nb.text.cards import Card, Code, Fold, Rows, Shown, Table
from artifactflow_nb.tools.manual import entry_of, placeholder
from artifactflow_nb.tools.threads import in_thread, is_cancelled
from artifactflow_nb.xml_calls import format_call

T = TypeVar("T")

MAX_RESULT_CHARS = 20_000
"""How much of a tool's result a model is shown unless the tool says else."""


class ToolPermission(StrEnum):
    """Whether a person has to agree before a tool runs."""

    AUTO = "auto"
    CONFIRM = "confirm"


@dataclass(frozen=True, slots=True)
class ToolContext(Shown):
    """Where a call happens, and the services that it may use.

    Attributes:
        run_id: The run.
        conversation_id: The conversation, which is the scope of artifacts.
        message_id: The message that the run answers.
        agent: The agent that called.
        tool_call_id: The call: a repeated call with the same id must not have a second effect.
        services: Services by class, as the engine wired them; read with `service`.
        notify: Tells the run's subscribers what changed: event type and payload.
        now: When the call began, aware, in UTC: a tool that takes the time from here can be replayed.
    """

    run_id: str
    conversation_id: str
    message_id: str
    agent: str
    tool_call_id: str
    services: Mapping[type, Any] = field(default_factory=dict, repr=False)
    notify: Callable[[str, Mapping[str, Any]], None] = field(default=lambda _type, _data: None, repr=False)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def service(self, kind: type[T]) -> T:
        """The service of this class; `ToolError` if the engine was wired without it."""
        try:
            found: T = self.services[kind]
        except KeyError:
            raise ToolError(f"This workbench has no {kind.__name__}; the tool cannot run here.") from None
        return found

    def _card(self) -> Card:
        ids = ("run_id", "conversation_id", "message_id", "tool_call_id")
        services = ", ".join(kind.__name__ for kind in self.services)
        rows: Rows = [*((name, Code(getattr(self, name))) for name in ids), ("services", services)]
        return Card("Tool context", f"of a call by {self.agent}", rows)


Handler = Callable[..., Awaitable["str | ToolResult"] | str | ToolResult]
PermissionRule = Callable[[ToolContext, BaseModel], Awaitable[ToolPermission]]
Preview = Callable[[ToolContext, BaseModel], Awaitable[str] | str]
IsNote = Callable[[BaseModel], bool]


@dataclass(frozen=True, repr=False)
class Tool(Shown):
    """A tool as the engine holds it; made by `tool`, seldom by hand.

    Attributes:
        name: The name to call it by.
        description: What it does and when to use it, for the model.
        params: A pydantic model of the parameters.
        handler: The function; None for a tool that the flow itself carries out.
        permission: A fixed permission, or a rule that looks at the call.
        category: `core` for what is built in, `mcp` for what an MCP server has, else what its author says.
        idempotent: Whether it may be run again when nobody knows if it had finished.
        timeout_s: Seconds after which it is stopped.
        max_result_chars: How much of its result the model is shown; a longer one is cut in its middle, and kept whole.
        preview: What a person should see of a call before deciding, as Markdown; None for the bare parameters.
        is_note: Says of a call whether it only touches the agent's own notes; those are never put before a person.
        runs_in_replay: Whether it runs again when a run is replayed, because what it does is kept in the store, as with
            artifacts. Of any other tool the recorded result is taken.
        asks_as: The kind of the request to the person.
        wants_to: What the request says that the agent wants to do; empty for `run` and the tool's name.
        stands_alone: Whether its call must be the only one of a reply.
        is_last_word: Whether it may be called once more when the rounds of tool calls are used up.
    """

    name: str
    description: str
    params: type[BaseModel]
    handler: Handler | None
    permission: ToolPermission | PermissionRule = ToolPermission.AUTO
    category: str = "user"
    idempotent: bool = False
    timeout_s: float = 60.0
    max_result_chars: int = MAX_RESULT_CHARS
    preview: Preview | None = None
    is_note: IsNote = lambda _args: False
    runs_in_replay: bool = False
    asks_as: Literal["tool", "plan", "edit"] = "tool"
    wants_to: str = ""
    stands_alone: bool = False
    is_last_word: bool = False

    @cached_property
    def spec(self) -> ToolSpec:
        """Name, description and JSON schema; made once, as every agent and every engine asks for it several times."""
        schema = self.params.model_json_schema()
        schema.pop("title", None)
        for prop in schema.get("properties", {}).values():
            prop.pop("title", None)
        return ToolSpec(self.name, self.description, schema)

    @cached_property
    def manual(self) -> str:
        """What a model reads of it where calls are written in the text; made once, as `spec` is."""
        return entry_of(self)

    def bind(self, params: Mapping[str, Any]) -> BaseModel:
        """The parameters, validated; `ToolError` names each one that does not fit and shows how to call."""
        try:
            return self.params.model_validate(self._shape(params))
        except ValidationError as error:
            problems = "; ".join(_problem(detail) for detail in error.errors(include_url=False))
            message = f"{self.name} was not run: {problems}. Call it as {self.example()}"
            raise ToolError(message, problem=f"{problems}.") from None

    def _shape(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Fit values of the text protocol to the declared types: a single value, or none, where a list is asked for."""
        fields = {field.alias or name: field for name, field in self.params.model_fields.items()}
        return {
            name: _listed(value) if name in fields and _is_list(fields[name].annotation) else value
            for name, value in params.items()
        }

    def example(self) -> str:
        """A call of this tool in the text protocol, with the kind of each value in its place."""
        schema = self.spec.parameters
        properties = schema.get("properties", {})
        return format_call(self.name, {name: placeholder(prop, schema) for name, prop in properties.items()})

    def __repr__(self) -> str:
        return f"Tool({self.signature}, permission={self._permission_told!r}, category={self.category!r})"

    @property
    def signature(self) -> str:
        """How it is called, as Python writes it: `search(query: str, limit: int = 5)`."""
        properties = self.spec.parameters.get("properties", {})
        fields = {field.alias or name: field for name, field in self.params.model_fields.items()}
        told = [_parameter(name, field, properties.get(name, {})) for name, field in fields.items()]
        return f"{self.name}({', '.join(told)})"

    @property
    def _permission_told(self) -> str:
        return self.permission.value if isinstance(self.permission, ToolPermission) else "depends on the call"

    def _card(self) -> Card:
        properties = self.spec.parameters.get("properties", {})
        params = [(Code(name), prop.get("description", "")) for name, prop in properties.items()]
        rows: Rows = [
            ("does", self.description),
            ("permission", self._permission_told),
            ("category", self.category),
            ("stopped after", f"{self.timeout_s:g} s"),
        ]
        folds = [Fold("Parameters", Table(("name", "meaning"), params), is_open=True)] if params else []
        return Card("Tool", self.signature, rows, [*folds, Fold("What the model reads", Code(self.manual))])

    async def permission_for(self, ctx: ToolContext, args: BaseModel) -> ToolPermission:
        """The permission that this call needs."""
        if isinstance(self.permission, ToolPermission):
            return self.permission
        return await self.permission(ctx, args)

    async def preview_of(self, ctx: ToolContext, args: BaseModel, mask: Callable[[str], str]) -> str:
        """What a person should see of this call before deciding; what its preview raised, masked, if it failed."""
        if self.preview is None:
            return ""
        try:
            shown = self.preview(ctx, args)
            return _text(await shown if inspect.isawaitable(shown) else shown)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - the person decides without it
            return _text(mask(f"(The preview failed: {type(error).__name__}: {error})"))

    async def run(self, ctx: ToolContext, params: Mapping[str, Any]) -> ToolResult:
        """Validate and run. What goes wrong is a result that tells the model.

        Errors: `StoreError` if the store itself fails; cancellation.
        """
        limit = asyncio.timeout(self.timeout_s)
        try:
            args = self.bind(params)
            async with limit:
                return _normal(await self._invoke(ctx, args))
        except StoreError as error:
            if not isinstance(error, NotFound | Conflict):  # the store fails: that is told to the person, not the model
                raise
            return _failed(str(error), type(error).__name__)
        except ArtifactFlowError as error:
            return _failed(str(error), type(error).__name__)
        except BaseException as error:  # a tool may raise anything, an exit too: the model is told, the run goes on
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            if limit.expired():
                return _failed(self._too_late(), "TimeoutError")
            return _failed(f"{self.name} failed: {type(error).__name__}: {error}", type(error).__name__)

    async def _invoke(self, ctx: ToolContext, args: BaseModel) -> Any:
        if self.handler is None:
            raise ToolError(f"{self.name} is carried out by the flow and cannot be run here.")
        values = {**(args.model_extra or {}), **{name: getattr(args, name) for name in type(args).model_fields}}
        if inspect.iscoroutinefunction(self.handler):
            return await self.handler(ctx, **values)
        return await in_thread(partial(self.handler, ctx, **values), f"tool-{self.name}")

    def _too_late(self) -> str:
        stopped = "and was stopped" if inspect.iscoroutinefunction(self.handler) else "and may still be at work"
        return f"{self.name} took longer than {self.timeout_s:g} s {stopped}."


@overload
def tool(handler: Handler, /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    permission: ToolPermission | str | PermissionRule = ToolPermission.AUTO,
    category: str = "user",
    idempotent: bool = False,
    timeout_s: float = 60.0,
    max_result_chars: int = MAX_RESULT_CHARS,
    preview: Preview | None = None,
    is_note: IsNote = lambda _args: False,
    runs_in_replay: bool = False,
) -> Callable[[Handler], Tool]: ...


def tool(
    handler: Handler | None = None,
    /,
    *,
    name: str | None = None,
    permission: ToolPermission | str | PermissionRule = ToolPermission.AUTO,
    category: str = "user",
    idempotent: bool = False,
    timeout_s: float = 60.0,
    max_result_chars: int = MAX_RESULT_CHARS,
    preview: Preview | None = None,
    is_note: IsNote = lambda _args: False,
    runs_in_replay: bool = False,
) -> Tool | Callable[[Handler], Tool]:
    """Make a tool of a typed function with a docstring; its first parameter is the `ToolContext`.

    Parameters are described by `Annotated[type, "description"]`. The function returns a text or a `ToolResult`, and
    raises `ToolError` for what the model should be told. Plain functions run in a thread.

    Errors: `UsageError` for a function without docstring, types or context, or an unknown permission.
    """
    rule = _permission(permission) if isinstance(permission, str) else permission

    def make(handler: Handler) -> Tool:
        tool_name = name or str(getattr(handler, "__name__", "tool"))
        description = inspect.getdoc(handler)
        if not description:
            raise UsageError(f"The tool {tool_name!r} has no docstring: it is what tells the model when to use it.")
        params = _params_model(tool_name, handler)
        return Tool(
            tool_name,
            description,
            params,
            handler,
            rule,
            category,
            idempotent=idempotent,
            timeout_s=timeout_s,
            max_result_chars=max_result_chars,
            preview=preview,
            is_note=is_note,
            runs_in_replay=runs_in_replay,
        )

    return make if handler is None else make(handler)


def stand_in(name: str, permission: ToolPermission) -> Tool:
    """A tool of this name that takes anything and is never run: for a replay where the tool itself is not at hand."""
    params = create_model(f"{name}_params", __config__=ConfigDict(extra="allow"))
    return Tool(name, "Not at hand: what it gave is taken from the recording.", params, None, permission)


def _permission(name: str) -> ToolPermission:
    try:
        return ToolPermission(name)
    except ValueError:
        allowed = ", ".join(repr(known.value) for known in ToolPermission)
        raise UsageError(f"permission is {name!r}; it must be one of {allowed}, or a rule.") from None


def _params_model(tool_name: str, handler: Handler) -> type[BaseModel]:
    hints = get_type_hints(handler, include_extras=True)
    fields: dict[str, Any] = {}
    parameters = list(inspect.signature(handler).parameters.values())
    if not parameters or hints.get(parameters[0].name) is not ToolContext:
        raise UsageError(f"The first parameter of the tool {tool_name!r} must be its context: `ctx: ToolContext`.")
    for parameter in parameters[1:]:
        if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            raise UsageError(f"The tool {tool_name!r} takes {parameter}: name each parameter, the model is told them.")
        if parameter.name not in hints:
            raise UsageError(f"The parameter {parameter.name!r} of the tool {tool_name!r} has no type.")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (_described(hints[parameter.name]), default)
    return create_model(f"{tool_name}_params", __config__=ConfigDict(extra="forbid"), **fields)


def _described(hint: Any) -> Any:
    """`Annotated[type, "text"]` with the text made a description of the schema."""
    if get_origin(hint) is not Annotated:
        return hint
    base, *notes = get_args(hint)
    return Annotated[base, *(Field(description=note) if isinstance(note, str) else note for note in notes)]


def _listed(value: Any) -> Any:
    """The value as a list: a text that is a JSON list is that list, any other text is its one element."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        with suppress(ValueError):
            return orjson.loads(value)
    return [value] if value else []


def _is_list(annotation: Any) -> bool:
    """Whether a list may be given, `list[str] | None` included."""
    kinds = (annotation, *get_args(annotation))
    return any(kind is list or get_origin(kind) is list for kind in kinds)


def _problem(detail: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in detail["loc"]) or "parameters"
    if detail["type"] == "missing":
        return f"the parameter {where!r} is missing"
    if detail["type"] == "extra_forbidden":
        return f"it has no parameter {where!r}"
    return f"{where!r} is {str(detail['input'])[:80]!r}: {detail['msg'].lower()}"


def _parameter(name: str, declared: FieldInfo, prop: Mapping[str, Any]) -> str:
    kind = inspect.formatannotation(declared.annotation).replace("typing.", "")
    default = repr(prop["default"]) if "default" in prop else "..."
    return f"{name}: {kind}" if declared.is_required() else f"{name}: {kind} = {default}"


def _normal(outcome: Any) -> ToolResult:
    """What a tool gave as a result whose texts can be stored and shown."""
    if not isinstance(outcome, ToolResult):
        return ToolResult(success=True, data=_text(outcome))
    error = None if outcome.success else _text(outcome.error or "The tool failed without saying why.")
    return ToolResult(outcome.success, _text(outcome.data), error, outcome.metadata)


def _text(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode()


def _failed(message: str, error_type: str) -> ToolResult:
    return ToolResult(success=False, error=_text(message), metadata={"error_type": error_type})
