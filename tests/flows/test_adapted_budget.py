"""An adapted graph makes no model call beyond its run's budget, and every call has a row."""

import asyncio
import operator
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any, TypedDict

import pytest
from conftest import OpenEngine
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy
from support.graphs import ScriptedChat, ai_message, prebuilt, react_agent

import artifactflow_nb as af
from artifactflow_nb.engine.engine import Engine

ASKS = {"tokens": 20, "when_spent": "ask"}


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Words(TypedDict, total=False):
    words: Annotated[list[str], operator.add]


class Paced(ScriptedChat):
    """A chat model with a pause before its reply, in a thread or on the loop."""

    pause_s: float = 0.0

    def _stream(self, messages: Any, *more: Any, **options: Any) -> Iterator[Any]:
        for n, chunk in enumerate(super()._stream(messages, *more, **options)):
            time.sleep(0 if n else self.pause_s)
            yield chunk

    async def _astream(self, messages: Any, *_more: Any, **_options: Any) -> Any:
        for n, chunk in enumerate(super()._stream(messages)):
            await asyncio.sleep(0 if n else self.pause_s)
            yield chunk


async def run(engine: Engine, graph: Any, **options: Any) -> Any:
    """Run a graph and return the result."""
    engine.flows.register("mine", af.adapt(graph))
    return await engine.controller.execute("Go.", flow="mine", **options)


async def rows(engine: Engine, columns: str, table: str = "llm_calls") -> list[tuple[Any, ...]]:
    """Return these columns of a table, in the order of insertion."""
    sql = f"SELECT {columns} FROM {table} ORDER BY rowid"  # noqa: S608 - words of the tests
    return await engine.database.read(lambda db: [tuple(row) for row in db.execute(sql)])


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def adding_agent() -> Any:
    return react_agent(
        [ai_message("Let me add.", ("add", {"a": 1, "b": 2})), ai_message("It is 3.", tokens=(50, 6))], add
    )


def asker(model: Any, mode: str) -> Any:
    """A node that calls a model: in a thread, awaited on the loop, or blocking the loop."""

    def threaded(state: Chat) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    async def awaited(state: Chat) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def blocking(state: Chat) -> dict[str, Any]:
        return threaded(state)

    return {"threaded": threaded, "awaited": awaited, "blocking": blocking}[mode]


def chain(*nodes: Any) -> Any:
    """A graph of these nodes, one after the other."""
    graph = StateGraph(Chat)
    for n, node in enumerate(nodes):
        graph.add_node(f"n{n}", node)
        graph.add_edge(f"n{n - 1}" if n else START, f"n{n}")
    return graph.compile()


async def test_a_budget_stops_a_graph_before_its_next_model_call(open_engine: OpenEngine) -> None:
    """A graph that has spent its budget makes no further model call."""
    engine = await open_engine()
    result = await run(engine, adding_agent(), budget={"tokens": 20})
    assert (result.status, result.error_type) == ("failed", "BudgetExceeded")
    assert len(await rows(engine, "call_id")) == 1


async def test_graph_continues_after_budget_approval(open_engine: OpenEngine) -> None:
    """With `when_spent='ask'` the run waits; after the approval it continues without repeating finished work."""
    done: list[int] = []

    def once(a: int) -> str:
        """Do it."""
        done.append(a)
        return "done"

    engine = await open_engine()
    graph = react_agent([ai_message("", ("once", {"a": 1})), ai_message("Done."), ai_message("Done.")], once)
    waiting = await run(engine, graph, budget={"tokens": 20, "when_spent": "ask"})
    assert (waiting.status, waiting.pending[0].kind) == ("waiting", "budget")
    result = await engine.controller.resume(waiting.thread_id, approved=True)
    assert (result.response, done) == ("Done.", [1])


async def test_cost_limit_needs_prices_of_the_graphs_models_only(open_engine: OpenEngine) -> None:
    """A run over its cost limit continues after approval if the graph's model has a price."""
    price = {"scripted-chat": {"input": 2.0, "output": 10.0}}
    engine = await open_engine(settings={"prices": price})
    agent = react_agent(
        [ai_message("", ("add", {"a": 1, "b": 2})), ai_message("It is 3."), ai_message("It is 3.")], add
    )
    waiting = await run(engine, agent, budget={"usd": 1e-6, "when_spent": "ask"})
    result = await engine.controller.resume(waiting.thread_id, approved=True)
    assert (result.status, result.response) == ("completed", "It is 3.")


async def test_cost_limit_without_price_fails_the_run(open_engine: OpenEngine) -> None:
    """A limit in dollars for a model without a price would never be reached."""
    engine = await open_engine()
    result = await run(engine, adding_agent(), budget={"usd": 1.0})
    assert result.status == "failed"
    assert "no price for the model 'scripted-chat-1'" in result.error_message


EVERY_WAY = pytest.mark.parametrize("mode", ["threaded", "awaited", "blocking"])


@EVERY_WAY
@pytest.mark.parametrize("pause_s", [0.0, 0.1])
@pytest.mark.parametrize("when_spent", ["stop", "ask"])
async def test_no_model_call_starts_beyond_the_budget(
    open_engine: OpenEngine, mode: str, pause_s: float, when_spent: str
) -> None:
    """However a model is called, the next call is not made, and the code after the next call does not run."""
    model, done = Paced(script=[ai_message("One."), ai_message("Two.")], pause_s=pause_s), []

    def effect(_state: Chat) -> dict[str, Any]:
        done.append("effect")
        return {}

    engine = await open_engine()
    graph = chain(asker(model, mode), asker(model, mode), effect)
    result = await run(engine, graph, budget={"tokens": 20, "when_spent": when_spent})
    await asyncio.sleep(2 * pause_s)
    assert result.status == ("waiting" if when_spent == "ask" else "failed")
    assert (len(model.requests), len(await rows(engine, "call_id")), done) == (1, 1, [])
    if when_spent == "ask":
        result = await engine.controller.resume(result.thread_id, approved=True)
        assert (result.response, len(model.requests), done) == ("Two.", 2, ["effect"])
        assert await rows(engine, "agent_name, error_type") == [("n0", None), ("n1", None)]


@EVERY_WAY
async def test_every_call_of_parallel_nodes_has_a_row(open_engine: OpenEngine, mode: str) -> None:
    """Nodes that call their models repeatedly and concurrently have a row for each call, complete or not."""
    models = [Paced(script=[ai_message(f"{n}.") for n in range(9)], pause_s=pause_s) for pause_s in (0.0, 0.05)]
    graph = StateGraph(Chat)
    for n, model in enumerate(models):
        ask = asker(model, mode)

        async def thrice(state: Chat, ask: Any = ask) -> dict[str, Any]:
            return dict([await ask(state) for _ in range(3)][-1])

        def threaded(state: Chat, ask: Any = ask) -> dict[str, Any]:
            return dict([ask(state) for _ in range(3)][-1])

        graph.add_node(f"n{n}", threaded if mode == "threaded" else thrice)
        graph.add_edge(START, f"n{n}")
    engine = await open_engine()
    waiting = await run(engine, graph.compile(), budget={"tokens": 60, "when_spent": "ask"})
    await asyncio.sleep(0.2)
    assert (waiting.status, len(waiting.pending)) == ("waiting", 1)
    assert len(await rows(engine, "call_id")) == sum(len(model.requests) for model in models) < 6
    assert sum(tokens or 0 for (tokens,) in await rows(engine, "input_tokens + output_tokens")) >= 60


@EVERY_WAY
@pytest.mark.parametrize("when_spent", ["stop", "ask"])
async def test_model_call_within_a_tool_is_stopped_at_the_budget(
    open_engine: OpenEngine, mode: str, when_spent: str
) -> None:
    """The tool is stopped although its node handles tool errors; after approval it starts again."""
    inner = Paced(script=[ai_message("Two.")])

    def think(about: str) -> str:
        """Think."""
        return str(inner.invoke(about).content)

    async def athink(about: str) -> str:
        """Think."""
        return str((await inner.ainvoke(about)).content) if mode == "awaited" else think(about)

    tool: Callable[..., Any] = think if mode == "threaded" else athink
    model = Paced(script=[ai_message("", (tool.__name__, {"about": "1+1"})), ai_message("It is two.")])
    engine = await open_engine()
    graph = prebuilt(model, ToolNode([tool], handle_tool_errors=True))
    result = await run(engine, graph, budget={"tokens": 20, "when_spent": when_spent})
    assert (len(model.requests), len(inner.requests), len(await rows(engine, "call_id"))) == (1, 0, 1)
    if when_spent == "ask":
        result = await engine.controller.resume(result.thread_id, approved=True)
        result = await engine.controller.resume(result.thread_id, approved=True)
        assert (result.response, len(model.requests), len(inner.requests)) == ("It is two.", 2, 1)
        assert await rows(engine, "status, success", "tool_calls") == [("finished", 1)]
    assert result.status == ("completed" if when_spent == "ask" else "failed")


def catching_node(kind: str, model: Any) -> Any:
    """A node that catches every error of its model and calls the model again."""
    repeated = RunnableLambda(lambda _input: model.invoke("again"))
    hardened = {
        "with_retry": lambda: model.with_retry(wait_exponential_jitter=False),
        "with_fallbacks": lambda: model.with_fallbacks(
            [repeated, RunnableLambda(lambda _input: ai_message("Fallen back."))]
        ),
    }

    def node(state: Chat) -> dict[str, Any]:
        if kind in hardened:
            return {"messages": [hardened[kind]().invoke(state["messages"])]}
        try:
            return {"messages": [model.invoke(state["messages"])]}
        except Exception:  # noqa: BLE001 - that is what it tries
            return {"messages": [ai_message("Swallowed.")]}
        except BaseException:
            if kind == "except":
                raise
            return {"messages": [ai_message("Swallowed all.")]}

    return node


@pytest.mark.parametrize("kind", ["except", "bare_except", "with_retry", "with_fallbacks"])
async def test_error_handlers_of_a_graph_do_not_bypass_the_budget(open_engine: OpenEngine, kind: str) -> None:
    """However a graph handles errors of its models, its run ends, and nothing else starts."""
    model, done = Paced(script=[ai_message("One.")] * 9), []

    def effect(_state: Chat) -> dict[str, Any]:
        done.append("effect")
        return {}

    engine = await open_engine()
    result = await run(
        engine, chain(asker(model, "threaded"), catching_node(kind, model), effect), budget={"tokens": 20}
    )
    assert (result.status, result.error_type) == ("failed", "BudgetExceeded")
    assert (len(model.requests), len(await rows(engine, "call_id")), done) == (1, 1, [])


async def test_retry_policy_does_not_repeat_a_refused_call(open_engine: OpenEngine) -> None:
    """The node does not start again."""
    model, starts = Paced(script=[ai_message("One.")] * 9), []

    async def node(state: Chat) -> dict[str, Any]:
        starts.append("node")
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(Chat)
    graph.add_node("one", asker(model, "awaited"))
    graph.add_node("two", node, retry_policy=RetryPolicy(max_attempts=3, retry_on=lambda _error: True))
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    result = await run(await open_engine(), graph.compile(), budget={"tokens": 20})
    assert (result.error_type, len(model.requests), starts) == ("BudgetExceeded", 1, ["node"])


async def test_proposed_extension_covers_the_repeated_node(open_engine: OpenEngine) -> None:
    """A node starts again after the approval; the proposed limit has room for its earlier calls."""
    model = Paced(script=[ai_message(f"{n}.") for n in range(9)])

    async def node(state: Chat) -> dict[str, Any]:
        for _ in range(2):
            reply = await model.ainvoke(state["messages"])
        return {"messages": [reply]}

    engine = await open_engine()
    waiting = await run(engine, chain(node), budget=ASKS)
    assert waiting.pending[0].params == {"tokens": 34 + 34 + 20}
    result = await engine.controller.resume(waiting.thread_id, approved=True)
    assert (result.status, len(model.requests), len(await rows(engine, "call_id"))) == ("completed", 3, 3)


async def test_policy_may_approve_the_budget(open_engine: OpenEngine) -> None:
    """The run continues without waiting, and finished work is not repeated."""
    engine = await open_engine(approvals={"budget": "approve"})
    model = Paced(script=[ai_message("One."), ai_message("Two.")])
    result = await run(engine, chain(asker(model, "threaded"), asker(model, "awaited")), budget=ASKS)
    assert (result.response, len(model.requests), len(await rows(engine, "call_id"))) == ("Two.", 2, 2)


async def test_denied_budget_ends_the_graph(open_engine: OpenEngine) -> None:
    """After a denial the graph does not run again."""
    model, starts = Paced(script=[ai_message("One."), ai_message("Two.")]), []

    def node(state: Chat) -> dict[str, Any]:
        starts.append("node")
        return {"messages": [model.invoke(state["messages"])]}

    engine = await open_engine()
    waiting = await run(engine, chain(asker(model, "awaited"), node), budget=ASKS)
    result = await engine.controller.resume(waiting.thread_id, approved=False)
    assert (result.error_type, len(model.requests), starts) == ("BudgetExceeded", 1, ["node"])


async def test_unpriced_reply_stops_further_calls(open_engine: OpenEngine) -> None:
    """With a limit in dollars the first reply of an unpriced model is the last."""
    engine, model = await open_engine(), Paced(script=[ai_message("One."), ai_message("Two.")])
    result = await run(engine, chain(asker(model, "threaded"), asker(model, "threaded")), budget={"usd": 1.0})
    assert (result.error_type, len(model.requests)) == ("UsageError", 1)
    assert "'scripted-chat-1' of n0" in result.error_message


@EVERY_WAY
async def test_text_completion_model_is_counted(open_engine: OpenEngine, mode: str) -> None:
    """LangChain's older models have rows and a budget as well."""
    model, requests = FakeListLLM(responses=["one two three four"]), []

    def note(state: Words) -> Any:
        requests.append(state)
        return state

    def threaded(state: Words) -> dict[str, Any]:
        return {"words": [model.invoke(note(state) and "Say something.")]}

    async def awaited(state: Words) -> dict[str, Any]:
        return {"words": [await model.ainvoke(note(state) and "Say something.")]}

    async def blocking(state: Words) -> dict[str, Any]:
        return threaded(state)

    node = {"threaded": threaded, "awaited": awaited, "blocking": blocking}[mode]
    graph = StateGraph(Words)
    graph.add_node("one", node)
    graph.add_node("two", node)
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    engine = await open_engine()
    adapted = af.adapt(graph.compile(), input=lambda text, _history: {"words": [text]}, answer=lambda s: s["words"][-1])
    engine.flows.register("mine", adapted)
    result = await engine.controller.execute("Go.", flow="mine", budget={"tokens": 5})
    assert (result.error_type, len(requests)) == ("BudgetExceeded", 2)
    assert await rows(engine, "agent_name, content") == [("one", "one two three four")]
    result = await engine.controller.execute("Go.", flow="mine")
    assert result.response == "one two three four"
    assert len(await rows(engine, "agent_name, content")) == 3


async def test_abandoned_reply_has_a_row(open_engine: OpenEngine) -> None:
    """If a node stops reading a reply, the call has a row without a reply, and the run continues."""
    model, streams = Paced(script=[ai_message("One two three."), ai_message("Done.")]), []

    async def node(state: Chat) -> dict[str, Any]:
        streams.append(model.astream(state["messages"]))
        await anext(streams[0])
        return {"messages": [await model.ainvoke("again")]}

    engine = await open_engine()
    assert (await run(engine, chain(node))).response == "Done."
    assert sorted(await rows(engine, "content, error_type")) == [("Done. ", None), ("One ", "GeneratorExit")]
    await streams[0].aclose()


async def test_failed_text_completion_has_a_row(open_engine: OpenEngine) -> None:
    """The error is stored although no event reports it, and the graph continues."""

    class Failing(FakeListLLM):
        async def _acall(self, *_more: Any, **_options: Any) -> str:
            raise ValueError("busy")

    async def node(_state: Chat) -> dict[str, Any]:
        with suppress(ValueError):
            await Failing(responses=[]).ainvoke("Say something.")
        return {"messages": [("ai", "Done.")]}

    engine = await open_engine()
    assert (await run(engine, chain(node))).response == "Done."
    assert await rows(engine, "error_type, error_message") == [("ValueError", "busy")]
