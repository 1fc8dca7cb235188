"""Tools: typed functions whose signature is the JSON schema, the manual and the validation of a call.

::

    @tool(permission="confirm", category="web")
    async def fetch(ctx: ToolContext, url: Annotated[str, "The address."]) -> str:
        '''Fetch a page. Use it when ...'''
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property, partial
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints, overload

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.messages import ToolProtocol, ToolResult, ToolSpec
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.core.toolcalls.xml import format_call
from artifactflow_nb.errors import ArtifactFlowError, Conflict, NotFound, StoreError, ToolError, UsageError, brief
from artifactflow_nb.store.encoding import storable_json
from artifactflow_nb.tools.manual import placeholder, tool_entry
from artifactflow_nb.tools.threads import is_task_cancelled, run_in_thread


class ToolParams(BaseModel):
    """Base class of the parameters of tools that are not functions."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class ObjectParam(BaseModel):
    """Base class of object parameters; also accepts JSON text, which the text protocol sends."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _parse_json(cls, value: Any) -> Any:
        if isinstance(value, str) and value.lstrip().startswith("{"):
            with suppress(ValueError):  # the validation that follows reports the text
                return orjson.loads(value)
        return value


T = TypeVar("T")

MAX_RESULT_CHARS = 20_000
"""Default limit of a tool result in a prompt, in characters."""


class ToolPermission(StrEnum):
    """Whether a person must agree before a tool runs."""

    AUTO = "auto"
    CONFIRM = "confirm"


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Identity of a tool call and the services that the tool may use.

    Attributes:
        run_id: Id of the run.
        conversation_id: Id of the conversation, which is the scope of artifacts.
        message_id: Id of the message that the run answers.
        agent: Name of the calling agent.
        tool_call_id: Id of the call. A tool must not have a second effect if it is called again with the same id.
        services: Services by class, as the engine wired them; read them with `service`.
        notify: Publishes an event (type and payload) to the subscribers of the run.
        ask: Asks the person with the given fields of an `ApprovalRequest`, and returns the `Decision`. The run may wait
            meanwhile; the wait is not part of `timeout_s`. Only for tools of MCP servers; `ToolError` for other tools.
        now: Start of the call, aware, in UTC. A tool can be replayed if it uses this time instead of the system time.
        tool_protocol: Protocol of the calling agent, `xml` or `native`.
    """

    run_id: str
    conversation_id: str
    message_id: str
    agent: str
    tool_call_id: str
    services: Mapping[type, Any] = field(default_factory=dict, repr=False)
    notify: Callable[[str, Mapping[str, Any]], None] = field(default=lambda _type, _data: None, repr=False)
    ask: "AskPerson" = field(default=lambda **_fields: _ask_nobody(), repr=False)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    tool_protocol: ToolProtocol = "xml"

    def service(self, kind: type[T]) -> T:
        """Return the service of this class; `ToolError` if the engine was wired without this service."""
        try:
            service: T = self.services[kind]
        except KeyError:
            raise ToolError(
                f"This workbench has no {kind.__name__}; the tool cannot run here. Do not call it again."
            ) from None
        return service


AskPerson = Callable[..., Awaitable[Decision]]


async def _ask_nobody() -> Decision:
    raise ToolError("Nobody can be asked during this call. Continue without an answer.")


def unlimited(limit: asyncio.Timeout, ask: AskPerson) -> AskPerson:
    """Return a function that asks the person, and lifts the limit while the person decides."""

    async def wait(**fields: Any) -> Decision:
        loop, until = asyncio.get_running_loop(), limit.when()
        left = None if until is None else until - loop.time()
        limit.reschedule(None)
        try:
            return await ask(**fields)
        finally:
            with suppress(RuntimeError):  # the call has ended
                limit.reschedule(None if left is None else loop.time() + left)

    return wait


Handler = Callable[..., Awaitable["str | ToolResult"] | str | ToolResult]
PermissionRule = Callable[[ToolContext, BaseModel], Awaitable[ToolPermission]]
Preview = Callable[[ToolContext, BaseModel], Awaitable[str] | str]
NotePredicate = Callable[[BaseModel], bool]


@dataclass(frozen=True, repr=False)
class Tool:
    """A tool that agents can call. Usually created by the `tool` decorator.

    Attributes:
        name: The name in calls.
        description: Purpose and use, for the model.
        params: Pydantic model of the parameters.
        handler: The function; None if the flow itself executes the calls.
        permission: A fixed permission, or a rule that decides for each call. A rule may raise a `ToolError` for a call
            that would fail with the same error; then nobody is asked.
        category: A name by which an agent can be configured to have the tool. The agents of the plan flow have every
            tool of the category `core`; tools of MCP servers have `mcp`, tools of users have `user` by default.
        idempotent: Whether a call may be repeated when it is unknown whether the first attempt finished.
        timeout_s: Time limit of a call in seconds.
        max_result_chars: Limit of the result in a prompt. The middle of a longer result is omitted there; the store has
            the whole result.
        preview: Renders a call as Markdown for the approval request; None to show the parameters only.
        is_note: True for calls that only change the agent's own notes. Such calls never need an approval.
        uses_store_only: Whether a call reads and writes nothing but the store (artifacts). A cancelled run lets the
            call finish, and a verification executes the call again, whereas other tools return recorded results.
        request_kind: Kind of the approval request.
        request_action: The action that the approval request names, or a function for the action; empty for `run NAME`.
        hosts: Returns the hosts that a call reads from, so that decisions are about hosts; None for other tools.
        is_exclusive: Whether a reply with this call must have no other call.
        is_allowed_after_limit: Whether one more call is allowed after the last round of tool calls.
        suggestions: Known texts of parameters that are lists, by name, also within objects; a person chooses from them.
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
    is_note: NotePredicate = lambda _args: False
    uses_store_only: bool = False
    request_kind: Literal["tool", "plan", "edit", "question"] = "tool"
    request_action: str | Callable[["ToolContext"], str] = ""
    hosts: Callable[[BaseModel], tuple[str, ...]] | None = None
    is_exclusive: bool = False
    is_allowed_after_limit: bool = False
    suggestions: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False, compare=False)

    @cached_property
    def spec(self) -> ToolSpec:
        """Name, description and JSON schema; cached, since agents and engines read it for every request."""
        schema = self.params.model_json_schema()
        schema.pop("title", None)
        for prop in schema.get("properties", {}).values():
            prop.pop("title", None)
        return ToolSpec(self.name, self.description, schema)

    @cached_property
    def manual(self) -> str:
        """Section of the system prompt that describes the tool in the text protocol; cached like `spec`."""
        return tool_entry(self)

    def bind(self, params: Mapping[str, Any], protocol: ToolProtocol = "xml") -> BaseModel:
        """Validate the parameters; `ToolError` names each invalid parameter and shows an example call in `protocol`."""
        values = dict(params)
        for field_name, declared in self.params.model_fields.items():
            name = declared.alias or field_name
            kinds = (declared.annotation, *get_args(declared.annotation))  # of `list[str] | None`, its alternatives
            if isinstance(values.get(name), str) and any(kind is list or get_origin(kind) is list for kind in kinds):
                text = values[name]  # the text is a JSON list, or the only element
                values[name] = [text] if text else []
                if text.lstrip().startswith("["):
                    with suppress(ValueError):
                        values[name] = orjson.loads(text)
        try:
            return self.params.model_validate(values)
        except ValidationError as error:
            problems = []
            for detail in error.errors(include_url=False):
                name = ".".join(str(part) for part in detail["loc"]) or "parameters"
                if detail["type"] == "missing":
                    problems.append(f"the parameter {name!r} is missing")
                elif detail["type"] == "extra_forbidden":
                    problems.append(f"it has no parameter {name!r}")
                else:
                    problems.append(f"{name!r} is {str(detail['input'])[:80]!r}: {detail['msg'].lower()}")
            reason = "; ".join(problems)
            way = "as" if protocol == "xml" else "with"
            message = f"{self.name} was not run: {reason}. Call it {way} {self.example(protocol)}"
            raise ToolError(message, problem=f"{reason}.") from None

    def example(self, protocol: ToolProtocol = "xml") -> str:
        """Return an example call, or its arguments for the native protocol, with the JSON type for each value."""
        schema = self.spec.parameters
        properties = schema.get("properties", {})
        values = {name: placeholder(prop, schema) for name, prop in properties.items()}
        return format_call(self.name, values) if protocol == "xml" else json.dumps(values)

    def __repr__(self) -> str:
        return f"Tool({self.signature}, permission={self._permission_label!r}, category={self.category!r})"

    @property
    def signature(self) -> str:
        """The signature in Python's notation, for example `search(query: str, limit: int = 5)`."""
        properties = self.spec.parameters.get("properties", {})
        parameters = []
        for field_name, declared in self.params.model_fields.items():
            name = declared.alias or field_name
            prop, kind = properties.get(name, {}), inspect.formatannotation(declared.annotation).replace("typing.", "")
            default = repr(prop["default"]) if "default" in prop else "..."
            parameters.append(f"{name}: {kind}" + ("" if declared.is_required() else f" = {default}"))
        return f"{self.name}({', '.join(parameters)})"

    @property
    def _permission_label(self) -> str:
        return self.permission.value if isinstance(self.permission, ToolPermission) else "depends on the call"

    async def permission_for(self, ctx: ToolContext, args: BaseModel) -> ToolPermission:
        """Return the permission that this call needs."""
        if isinstance(self.permission, ToolPermission):
            return self.permission
        return await self.permission(ctx, args)

    async def render_preview(self, ctx: ToolContext, args: BaseModel, redact: Callable[[str], str]) -> str:
        """Render the preview of a call for its approval request, or an empty string.

        If the preview fails, its error, redacted by `redact`, replaces the preview.
        """
        if self.preview is None:
            return ""
        try:
            preview = self.preview(ctx, args)
            return storable_text(str(await preview if inspect.isawaitable(preview) else preview))
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a broken preview must not block the decision
            return storable_text(redact(f"(The preview failed: {type(error).__name__}: {error})"))

    async def run(self, ctx: ToolContext, params: Mapping[str, Any]) -> ToolResult:
        """Validate the parameters and run the tool; a failure becomes a failed result for the model.

        Errors: `StoreError` if the store itself fails; `CancelledError` if the task is cancelled.
        """
        limit = asyncio.timeout(self.timeout_s)
        try:
            args = self.bind(params, ctx.tool_protocol)
            if self.handler is None:
                raise ToolError(f"{self.name} is executed by the flow and cannot be run here.")
            # `model_dump` is not used: the handler gets the validated objects, not dictionaries of their fields.
            values = {**(args.model_extra or {}), **{name: getattr(args, name) for name in type(args).model_fields}}
            async with limit:
                if inspect.iscoroutinefunction(self.handler):
                    result = await self.handler(replace(ctx, ask=unlimited(limit, ctx.ask)), **values)
                else:
                    result = await run_in_thread(partial(self.handler, ctx, **values), f"tool-{self.name}")
            if not isinstance(result, ToolResult):
                return ToolResult(success=True, data=storable_text(str(result)))
            error_text = storable_text(str(result.error or "The tool failed without saying why."))
            metadata, data = storable_json(dict(result.metadata)), storable_text(str(result.data))
            return ToolResult(result.success, data, None if result.success else error_text, metadata)
        except StoreError as error:
            # The model can react to a missing or changed artifact, while a broken store ends the run.
            if not isinstance(error, NotFound | Conflict):
                raise
            return _failed(str(error), type(error).__name__)
        except ArtifactFlowError as error:
            return _failed(str(error), type(error).__name__)
        except BaseException as error:  # also SystemExit: a faulty tool must not end the run
            # A tool may raise CancelledError by itself; only a cancellation of this task may pass.
            if isinstance(error, asyncio.CancelledError) and is_task_cancelled():
                raise
            if limit.expired():
                # A coroutine is cancelled at the limit; the thread of a plain function cannot be stopped.
                is_stopped = inspect.iscoroutinefunction(self.handler)
                consequence = "and was stopped" if is_stopped else "and may still be running"
                message = f"{self.name} took longer than {self.timeout_s:g} s {consequence}."
                return _failed(message, "TimeoutError")
            return _failed(f"{self.name} failed: {type(error).__name__}: {error}", type(error).__name__)


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
    is_note: NotePredicate = lambda _args: False,
    uses_store_only: bool = False,
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
    is_note: NotePredicate = lambda _args: False,
    uses_store_only: bool = False,
) -> Tool | Callable[[Handler], Tool]:
    """Create a tool from a typed function with a docstring; the function's first parameter is the `ToolContext`.

    Parameters are described by `Annotated[type, "description"]`. The function returns a text or a `ToolResult`, and
    raises `ToolError` with a message for the model. Plain functions run in a thread.

    Errors: `UsageError` for a function without docstring, types or context, or an unknown permission.
    """
    if isinstance(permission, str):
        try:
            rule: ToolPermission | PermissionRule = ToolPermission(permission)
        except ValueError:
            allowed = ", ".join(repr(level.value) for level in ToolPermission)
            raise UsageError(f"permission is {permission!r}; it must be one of {allowed}, or a function.") from None
    else:
        rule = permission

    def decorate(handler: Handler) -> Tool:
        tool_name = name or str(getattr(handler, "__name__", "tool"))
        description = inspect.getdoc(handler)
        if not description:
            raise UsageError(
                f"The tool {tool_name!r} has no docstring. Add one: it tells the model when to use the tool."
            )
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
            uses_store_only=uses_store_only,
        )

    return decorate if handler is None else decorate(handler)


def placeholder_tool(name: str, permission: ToolPermission) -> Tool:
    """Create a stand-in that accepts any parameters and never runs, for a replay without the original tool."""
    params = create_model(f"{name}_params", __config__=ConfigDict(extra="allow"))
    return Tool(name, "Not available: the recording has its results.", params, None, permission)


def _params_model(tool_name: str, handler: Handler) -> type[BaseModel]:
    """Create the model of a function's parameters; texts in `Annotated[type, "text"]` become descriptions."""
    if not inspect.isroutine(handler):
        raise UsageError(f"{brief(handler)} is not a function. Decorate a typed function with @af.tool.")
    hints = get_type_hints(handler, include_extras=True)
    fields: dict[str, Any] = {}
    parameters = list(inspect.signature(handler).parameters.values())
    if not parameters or hints.get(parameters[0].name) is not ToolContext:
        raise UsageError(f"The first parameter of the tool {tool_name!r} must be its context: `ctx: ToolContext`.")
    for parameter in parameters[1:]:
        if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            raise UsageError(f"The tool {tool_name!r} takes {parameter}. Name each parameter for the model.")
        if parameter.name not in hints:
            raise UsageError(f"The parameter {parameter.name!r} of the tool {tool_name!r} has no type. Annotate it.")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        hint = hints[parameter.name]
        if get_origin(hint) is Annotated:
            base, *notes = get_args(hint)
            hint = Annotated[base, *(Field(description=note) if isinstance(note, str) else note for note in notes)]
        fields[parameter.name] = (hint, default)
    return create_model(f"{tool_name}_params", __config__=ConfigDict(extra="forbid"), **fields)


def _failed(message: str, error_type: str) -> ToolResult:
    return ToolResult(success=False, error=storable_text(message), metadata={"error_type": error_type})
