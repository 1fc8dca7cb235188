"""Secrets in exceptions of users' code are masked in rows, events, prompts and views."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest
from conftest import OpenEngine
from support.graphs import ai_message, react_agent
from support.model_turns import KEY
from support.replies import by_agent, call, decide, plan

import artifactflow_nb as af
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.errors import ArtifactFlowError, ModelError, ToolError, redacted
from artifactflow_nb.models.base import ModelEvent, ModelRequest, RetryNotice
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import ToolContext, ToolPermission, tool

ERROR_TEXT = f"401: the key {KEY} is not valid."


class Spelled(Exception):
    """An exception with a text that has more than the arguments."""

    def __str__(self) -> str:
        return f"With {KEY}."


def everything(engine: Engine) -> str:
    """All text in the store."""
    with closing(sqlite3.connect(engine.folder / STORE_FILE)) as db:
        return "\n".join(db.iterdump())


async def open_debugged(open_engine: OpenEngine, model: Any, **options: Any) -> tuple[Engine, af.DebugMiddleware]:
    debug = af.DebugMiddleware()
    settings = {"api_key": KEY, "model": "m", **options.pop("settings", {})}
    engine = await open_engine(model=model, middleware=[debug], settings=settings, **options)
    return engine, debug


def assert_no_key(engine: Engine, debug: af.DebugMiddleware) -> None:
    model: Any = engine.model
    prompts = [message.content for request in model.requests for message in request.messages]
    card = debug._card()
    for text in (everything(engine), *prompts, card.plain(), card.html()):
        assert KEY not in text
    assert "401: the key [secret] is not valid." in everything(engine)


@pytest.mark.parametrize("error", [ModelError(ERROR_TEXT), RuntimeError(ERROR_TEXT)])
async def test_model_error_in_a_step_is_masked(open_engine: OpenEngine, error: Exception) -> None:
    """Replanner, agent and person get the failure of a step without the key."""
    script = by_agent(
        agent=[plan("One", "Two"), "Done."], executor=[error], replanner=[decide("finish"), "So."], summarizer=["Sum."]
    )
    engine, debug = await open_debugged(open_engine, ScriptedModel(script))
    result = await engine.controller.execute("What?", flow="plan")
    assert result.response == "Done."
    assert_no_key(engine, debug)


@pytest.mark.parametrize("error", [ModelError(ERROR_TEXT), RuntimeError(ERROR_TEXT)])
async def test_error_of_a_failed_run_is_masked(open_engine: OpenEngine, error: Exception) -> None:
    """The run's error has the model's message without the key."""
    engine, debug = await open_debugged(open_engine, ScriptedModel([error]))
    result = await engine.controller.execute("What?")
    assert (result.status, result.error_type) == ("failed", type(error).__name__)
    assert "the key [secret] is not valid" in str(result.error_message)
    assert_no_key(engine, debug)


async def test_errors_of_an_adapted_graph_are_masked(open_engine: OpenEngine) -> None:
    """Errors of the graph's tool and model are stored and published without the key."""
    from langgraph.prebuilt import ToolNode

    def lookup(word: str) -> str:
        """Look a word up."""
        raise RuntimeError(ERROR_TEXT)

    for script in ([ai_message("", ("lookup", {"word": "x"}))], [RuntimeError(ERROR_TEXT)]):
        engine = await open_engine(settings={"api_key": KEY, "model": "m"})
        engine.flows.register("mine", af.adapt(react_agent(script, ToolNode([lookup], handle_tool_errors=False))))
        result = await engine.controller.execute("What?", flow="mine")
        assert result.status == "failed"
        assert KEY not in everything(engine)
        assert everything(engine).count("the key [secret] is not valid") > 1


class Tired(ScriptedModel):
    """A model that reports a failed attempt before its turn."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield RetryNotice(1, 0.0, ERROR_TEXT)
        async for event in super().stream(request):
            yield event


async def test_reason_of_a_retry_is_masked(open_engine: OpenEngine) -> None:
    """The reason of a retry has no key."""
    engine, debug = await open_debugged(open_engine, Tired(["Yes."]))
    assert (await engine.controller.execute("What?")).response == "Yes."
    assert_no_key(engine, debug)


@pytest.mark.parametrize("error", [RuntimeError(ERROR_TEXT), ToolError(ERROR_TEXT)])
async def test_tool_error_is_masked(open_engine: OpenEngine, error: Exception) -> None:
    """Agent and person get the tool's error without the key."""

    @tool
    def ask_far(ctx: ToolContext) -> str:
        """Ask."""
        raise error

    engine, debug = await open_debugged(open_engine, ScriptedModel([call("ask_far"), "Done."]))
    engine.register_tool(ask_far)
    assert (await engine.controller.execute("What?")).response == "Done."
    assert_no_key(engine, debug)


def _preview(_ctx: ToolContext, _args: Any) -> str:
    raise RuntimeError(ERROR_TEXT)


async def _rule(_ctx: ToolContext, _args: Any) -> ToolPermission:
    raise RuntimeError(ERROR_TEXT)


def _policy(_request: af.extend.ApprovalRequest) -> str:
    raise RuntimeError(ERROR_TEXT)


@pytest.mark.parametrize(
    ("preview", "permission", "approvals"),
    [(_preview, "confirm", "approve"), (None, _rule, "ask"), (None, "confirm", _policy)],
    ids=["preview", "permission", "policy"],
)
async def test_errors_before_a_call_are_masked(
    open_engine: OpenEngine, preview: Any, permission: Any, approvals: Any
) -> None:
    """Errors of a preview, a permission rule and a policy have no key."""

    @tool(permission=permission, preview=preview)
    def ask_far(ctx: ToolContext) -> str:
        """Ask."""
        return "asked"

    engine, debug = await open_debugged(open_engine, ScriptedModel([call("ask_far"), "Done."]), approvals=approvals)
    engine.register_tool(ask_far)
    await engine.controller.execute("What?")
    assert_no_key(engine, debug)


async def test_passages_in_tool_errors_are_not_masked(open_engine: OpenEngine) -> None:
    """The model must be able to copy the quoted passages exactly."""
    turns = [
        call("create_artifact", id="notes", title="Notes", content="password: hunter2-hunter2\n"),
        call("update_artifact", id="notes", old="password:hunter2-hunter2", new="x"),
        "Done.",
    ]
    engine, _ = await open_debugged(open_engine, ScriptedModel(turns))
    await engine.controller.execute("What?")
    model: Any = engine.model
    assert "password: hunter2-hunter2" in model.requests[-1].messages[-1].content


def test_unchangeable_error_is_replaced() -> None:
    """An error that computes its text is replaced with the same type and text; errors without a secret stay."""

    def mask(text: str) -> str:
        return text.replace(KEY, "[secret]")

    assert (str(redacted(Spelled(), mask)), type(redacted(Spelled(), mask))) == (
        "Spelled: With [secret].",
        ArtifactFlowError,
    )
    plain, key = ValueError("No.", 3), KeyError(ERROR_TEXT)
    assert redacted(plain, mask) is plain
    assert redacted(key, mask) is key
    assert KEY not in str(key)
