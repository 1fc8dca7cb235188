"""Tools as typed functions."""

import asyncio
import threading
from dataclasses import replace
from typing import Annotated

import pytest
from pydantic import BaseModel

from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.toolcalls.xml import parse_reply
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.tools.base import ToolContext, ToolPermission, tool
from artifactflow_nb.tools.manual import tool_manual
from artifactflow_nb.tools.registry import ToolRegistry

CTX = ToolContext("run-1", "conv-1", "msg-1", "lead_agent", "tool-1")


@tool()
async def measure(
    ctx: ToolContext,
    name: Annotated[str, "What to measure."],
    times: Annotated[int, "How often."] = 1,
    places: Annotated[list[str], "Where."] = [],  # noqa: B006 - the schema shows it; nobody changes it
    exact: bool = False,
) -> str:
    """Measure something."""
    return f"{name!r} {times!r} {places!r} {exact!r}"


async def test_values_are_converted_by_their_declared_type() -> None:
    """Texts become the declared types, and a declared text is unchanged."""
    result = await measure.run(CTX, {"name": " 2024 ", "times": "3", "places": "here", "exact": "true"})
    assert result == ToolResult(success=True, data="' 2024 ' 3 ['here'] True")


async def test_empty_list_in_the_text_protocol() -> None:
    """A list without items is an empty list, not a list with an empty text."""
    result = await measure.run(CTX, {"name": "x", "places": ""})
    assert result.data == "'x' 1 [] False"


@pytest.mark.parametrize(
    ("written", "places"),
    [('["a", "b"]', ["a", "b"]), (" []", []), ("[a, b]", ["[a, b]"]), ("a, b", ["a, b"])],
)
async def test_list_as_json_text_is_parsed(written: str, places: list[str]) -> None:
    """Any other text is the only element of the list, commas included."""
    result = await measure.run(CTX, {"name": "x", "places": written})
    assert result.data == f"'x' 1 {places} False"


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({}, "the parameter 'name' is missing"),
        ({"name": "x", "times": "often"}, "'times' is 'often'"),
        ({"name": "x", "colour": "red"}, "it has no parameter 'colour'"),
    ],
)
async def test_invalid_parameters_are_reported_with_an_example(params: dict[str, str], problem: str) -> None:
    """The error names the parameter and its value, and shows a valid call."""
    result = await measure.run(CTX, params)
    assert not result.success
    assert problem in (result.error or "")
    assert "<tool_call><name>measure</name>" in (result.error or "")


async def test_exception_of_a_tool_becomes_a_failed_result() -> None:
    """The text of a tool error is the message, any other exception adds its type; the run continues."""

    @tool()
    async def fail(ctx: ToolContext, kind: str) -> str:
        """Fail."""
        raise ToolError("Use another kind.") if kind == "known" else ZeroDivisionError("by zero")

    known, unknown = await fail.run(CTX, {"kind": "known"}), await fail.run(CTX, {"kind": "unknown"})
    assert (known.error, known.metadata["error_type"]) == ("Use another kind.", "ToolError")
    assert unknown.error == "fail failed: ZeroDivisionError: by zero"


async def test_plain_function_is_a_tool() -> None:
    """The function runs in a thread."""

    @tool()
    def double(ctx: ToolContext, n: int) -> str:
        """Double a number."""
        return str(n * 2)

    assert (await double.run(CTX, {"n": "21"})).data == "42"


def test_example_in_the_manual_is_a_valid_call() -> None:
    """The manual has the description, each parameter, and an example that the parser reads."""
    text = tool_manual((measure,))
    example = parse_reply(text).calls
    assert "Measure something." in text
    assert "- times (integer, optional, default 1): How often." in text
    assert "- name (string, required): What to measure." in text
    assert [(call.name, list(call.params)) for call in example] == [("measure", ["name", "times", "places", "exact"])]


def test_schema_comes_from_the_signature() -> None:
    """Parameters without a default are required; the annotations have the descriptions."""
    schema = measure.spec.parameters
    assert schema["required"] == ["name"]
    assert schema["properties"]["times"] == {"default": 1, "description": "How often.", "type": "integer"}


def test_tool_without_docstring_or_types_is_rejected() -> None:
    """The model gets the docstring and the types, so a tool needs both."""
    with pytest.raises(UsageError, match="no docstring"):

        @tool()
        async def silent(ctx: ToolContext) -> str:
            return ""

    with pytest.raises(UsageError, match="'value' of the tool 'untyped' has no type"):

        @tool()
        async def untyped(ctx: ToolContext, value) -> str:  # type: ignore[no-untyped-def]
            """Take anything."""
            return str(value)


async def test_permission_may_be_a_rule() -> None:
    """A rule decides by the call."""

    async def rule(ctx: ToolContext, args: object) -> ToolPermission:
        return ToolPermission.CONFIRM if getattr(args, "n", 0) > 3 else ToolPermission.AUTO

    @tool(permission=rule)
    async def take(ctx: ToolContext, n: int) -> str:
        """Take some."""
        return str(n)

    permissions = [await take.permission_for(CTX, take.bind({"n": n})) for n in (1, 5)]
    assert permissions == [ToolPermission.AUTO, ToolPermission.CONFIRM]


def test_registry_protects_built_in_names() -> None:
    """Built-in names are reserved, other tools can be replaced, and an unknown name lists the known names."""
    registry = ToolRegistry([measure])
    registry.register(measure)
    with pytest.raises(UsageError, match="'measure' is built in"):
        registry.register(replace(measure, description="Another."))
    for description in ("First.", "Second."):
        registry.register(replace(measure, name="taken", description=description))
    assert [entry.description for entry in registry.select(["taken"])] == ["Second."]
    with pytest.raises(UsageError, match="no tool 'weigh' and .* Tools: measure, taken; categories: all"):
        registry.select(["weigh"])
    with pytest.raises(ToolError, match="Did you mean measure?"):
        registry.find("mesure", ["measure"])
    with pytest.raises(ToolError, match="no tool 'measure'"):
        registry.find("measure", [])


@pytest.mark.parametrize("kind", ["exit", "interrupt", "stop", "cancelled", "timeout"])
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
async def test_no_exception_of_a_tool_ends_the_run(kind: str, plain: bool) -> None:
    """Only the call fails if a tool exits, interrupts, stops an iteration or cancels itself."""
    error = {
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "stop": StopIteration(),
        "cancelled": asyncio.CancelledError(),
        "timeout": TimeoutError("the socket"),
    }[kind]

    def fail(ctx: ToolContext) -> str:
        """Fail."""
        raise error

    async def fail_async(ctx: ToolContext) -> str:
        """Fail."""
        raise error

    result = await tool(fail if plain else fail_async).run(CTX, {})
    assert not result.success
    assert "took longer" not in (result.error or "")


@pytest.mark.parametrize(
    ("outcome", "data"),
    [({"a": 1}, "{'a': 1}"), (7, "7"), ("half \ud800 pair", "half ? pair"), (ToolResult(True, "x\ud800"), "x?")],
)
async def test_results_become_storable_texts(outcome: object, data: str) -> None:
    """Other values become texts, and lone surrogates are replaced."""

    @tool
    async def give(ctx: ToolContext) -> str:
        """Give something."""
        return outcome  # type: ignore[return-value]

    assert (await give.run(CTX, {})).data == data


async def test_timed_out_plain_function_may_still_run() -> None:
    """A thread cannot be stopped, and the message says so."""
    go = threading.Event()

    @tool(timeout_s=0.05)
    def slow(ctx: ToolContext) -> str:
        """Wait."""
        go.wait(5)
        return "late"

    result = await slow.run(CTX, {})
    go.set()
    assert result.error == "slow took longer than 0.05 s and may still be running."


@pytest.mark.parametrize("kind", ["no context", "star", "permission"])
def test_invalid_tool_is_rejected(kind: str) -> None:
    """The error names the missing part."""

    def without(text: str) -> str:
        """Say."""
        return text

    def star(ctx: ToolContext, *texts: str) -> str:
        """Say."""
        return "".join(texts)

    def good(ctx: ToolContext) -> str:
        """Say."""
        return ""

    words = {"no context": "must be its context", "star": r"takes \*texts", "permission": "permission is 'ask'"}[kind]
    with pytest.raises(UsageError, match=words):
        tool(permission="ask" if kind == "permission" else "auto")(
            {"no context": without, "star": star, "permission": good}[kind]
        )


async def test_preview_may_be_a_plain_function_or_a_coroutine() -> None:
    """If it fails, the request shows the error, and the person decides."""

    async def later(_ctx: ToolContext, args: BaseModel) -> str:
        return f"later {args.model_dump()['name']}"

    def broken(_ctx: ToolContext, _args: BaseModel) -> str:
        raise ValueError("no idea")

    args = measure.bind({"name": "x"})
    previews = [
        await replace(measure, preview=preview).render_preview(CTX, args, lambda text: text)
        for preview in (None, lambda *_: "now", later, broken)
    ]
    assert previews == ["", "now", "later x", "(The preview failed: ValueError: no idea)"]
