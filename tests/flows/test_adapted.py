"""Graphs of users as flows: the work of graphs is published, stored and counted like the work of built-in agents."""

import asyncio
import json
import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from conftest import OpenEngine, OpenWorkbench
from langchain_core.callbacks import adispatch_custom_event
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from support.graphs import ScriptedChat, ai_message, react_agent

import artifactflow_nb as af
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.plugins.graphs.adapt import AdaptedGraph
from artifactflow_nb.widgets.run.saved import saved_run
from artifactflow_nb.widgets.run.transcript import RunTranscript


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Words(TypedDict, total=False):
    text: str
    words: Annotated[list[str], operator.add]


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def fail(a: int) -> str:
    """Fail."""
    raise ValueError(f"no {a}")


def adding_agent() -> Any:
    return react_agent(
        [ai_message("Let me add.", ("add", {"a": 1, "b": 2})), ai_message("It is 3.", tokens=(50, 6))], add
    )


async def run(engine: Engine, graph: Any, question: str = "What is 1 + 2?", **arguments: Any) -> Any:
    """Run a graph and return the result."""
    adapted = graph if isinstance(graph, AdaptedGraph) else af.adapt(graph)
    engine.flows.register("mine", adapted)
    return await engine.controller.execute(question, flow="mine", **arguments)


async def events_of(engine: Engine, run_id: str) -> list[StreamEvent]:
    return await engine.runs.events(run_id)


async def rows(engine: Engine, columns: str, table: str = "llm_calls") -> list[tuple[Any, ...]]:
    """Return these columns of a table, in the order of insertion."""
    sql = f"SELECT {columns} FROM {table} ORDER BY rowid"  # noqa: S608 - words of the tests
    return await engine.database.read(lambda db: [tuple(row) for row in db.execute(sql)])


async def test_prebuilt_agent_has_events_and_rows_like_built_in_agents(open_engine: OpenEngine) -> None:
    """LangGraph's prebuilt agent has events of turns and tools, and rows with tokens, nodes and results."""
    engine = await open_engine()
    result = await run(engine, adding_agent())
    assert (result.status, result.response) == ("completed", "It is 3.")
    events = [(event.type.value, event.agent, event.tool) for event in await events_of(engine, result.run_id)]
    turn = [("agent_start", "agent", None), ("llm_complete", "agent", None), ("agent_complete", "agent", None)]
    tool = [("tool_start", "agent", "add"), ("tool_complete", "agent", "add")]
    assert events[1:-1] == [*turn, *tool, *turn]
    assert await rows(engine, "input_tokens, request_model, finish_reason, ttft_ms >= 0, cassette") == [
        (30, "scripted-chat", "tool_calls", 1, "off"),
        (50, "scripted-chat", "stop", 1, "off"),
    ]
    assert await rows(engine, "agent_name, result, approval, status", "tool_calls") == [
        ("agent", "3", "not_needed", "finished")
    ]
    assert result.metrics.total_tokens == 90


async def test_replies_of_a_graph_are_streamed(open_engine: OpenEngine) -> None:
    """Text and call arguments are published as they arrive."""
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(adding_agent()))
    events = [event async for event in engine.controller.stream_execute("1 + 2?", flow="mine")]
    chunks = [event for event in events if event.type.value == "llm_chunk"]
    answer = [event.data["delta"] for event in chunks if event.data["kind"] == "answer"]
    assert answer == ["Let ", "me ", "add. ", "It ", "is ", "3. "]
    assert [(event.tool, event.data["delta"]) for event in chunks if event.data["kind"] == "call"] == [
        ("add", '{"a": 1, "b": 2}')
    ]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


def routed_graph(script: list[Any]) -> Any:
    """Two nodes with a conditional edge: the editor runs only if the text of the writer requires it."""
    model = ScriptedChat(script=script)

    async def writer(state: Chat) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def editor(state: Chat) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(Chat)
    graph.add_node("writer", writer)
    graph.add_node("editor", editor)
    graph.add_edge(START, "writer")
    graph.add_conditional_edges("writer", lambda state: "editor" if "rough" in state["messages"][-1].content else END)
    return graph.compile()


@pytest.mark.parametrize(
    ("script", "agents"),
    [
        ([ai_message("A rough text."), ai_message("A text.")], ["writer", "editor"]),
        ([ai_message("A text.")], ["writer"]),
    ],
)
async def test_nodes_are_the_agents_of_a_graph(open_engine: OpenEngine, script: list[Any], agents: list[str]) -> None:
    """Nodes that run in a thread are agents too; the last AI message is the answer."""
    engine = await open_engine()
    result = await run(engine, routed_graph(script))
    assert result.response == "A text."
    assert await rows(engine, "agent_name") == [(agent,) for agent in agents]


async def test_missing_usage_is_estimated(open_engine: OpenEngine) -> None:
    """A model without usage metadata has estimated tokens, marked as such."""
    engine = await open_engine()
    await run(engine, routed_graph([ai_message("A text.", tokens=None)]))
    assert await rows(engine, "tokens_estimated, output_tokens") == [(1, 2)]


async def test_failing_tool_is_a_failed_call(open_engine: OpenEngine) -> None:
    """The row of the call has the error; the run continues if the graph does."""
    from langgraph.prebuilt import ToolNode

    engine = await open_engine()
    script = [ai_message("", ("fail", {"a": 1})), ai_message("It failed.")]
    agent = react_agent(script, ToolNode([fail], handle_tool_errors=True))
    result = await run(engine, agent)
    assert result.status == "completed"
    assert await rows(engine, "success, error_type, error_message", "tool_calls") == [
        (0, "ValueError", "ValueError: no 1")
    ]


MEDIA_BASE64 = "QUJD" * 1000

MEDIA = [
    ({"type": "image", "base64": MEDIA_BASE64, "mime_type": "image/png"}, "image, image/png"),
    ({"type": "image", "source_type": "base64", "data": MEDIA_BASE64, "mime_type": "image/png"}, "image, image/png"),
    (
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": MEDIA_BASE64}},
        "image, image/gif",
    ),
    ({"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{MEDIA_BASE64}"}}, "image_url, image/jpeg"),
    ({"type": "image_url", "image_url": f"data:image/jpeg;base64,{MEDIA_BASE64}"}, "image_url, image/jpeg"),
    ({"type": "file", "file": {"file_data": f"data:application/pdf;base64,{MEDIA_BASE64}"}}, "file, application/pdf"),
]


@pytest.mark.parametrize(("block", "description"), MEDIA, ids=lambda entry: entry if isinstance(entry, str) else None)
async def test_media_in_tool_results_are_described_not_stored(
    open_engine: OpenEngine, block: dict[str, Any], description: str
) -> None:
    """The row has the type and size of pictures and files, in each provider's format."""

    def draw(subject: str) -> list[dict[str, Any]]:
        """Draw."""
        return [{"type": "text", "text": f"A {subject}:"}, block]

    engine = await open_engine()
    await run(engine, react_agent([ai_message("", ("draw", {"subject": "cat"})), ai_message("Drawn.")], draw))
    expected = f"A cat:\n\n[{description}, 3,000 bytes; it cannot be shown here]"
    assert await rows(engine, "result", "tool_calls") == [(expected,)]


@pytest.mark.parametrize(
    "value",
    [
        [{"title": "T", "url": "https://e.org/"}, {"data": "x"}],
        [{"type": "image", "file_id": "f1"}],
        [{"type": "image_url", "image_url": {"url": "https://e.org/a.png"}}],
        {"n": 1},
        [1, 2],
    ],
)
async def test_structured_tool_results_are_stored_as_json(open_engine: OpenEngine, value: Any) -> None:
    """Lists and mappings are stored unchanged, also with the URL of a picture."""

    def find(subject: str) -> Any:
        """Find."""
        return value

    engine = await open_engine()
    await run(engine, react_agent([ai_message("", ("find", {"subject": "cat"})), ai_message("Found.")], find))
    [(stored,)] = await rows(engine, "result", "tool_calls")
    assert json.loads(stored) == value


async def test_failing_node_is_named_in_the_error(open_engine: OpenEngine) -> None:
    """The run fails, and its open model call is stored as failed."""
    engine = await open_engine()
    result = await run(engine, routed_graph([ai_message("A rough text."), RuntimeError("the endpoint is gone")]))
    assert (result.status, result.error_type) == ("failed", "RunFailed")
    assert result.error_message == "The graph failed in editor: RuntimeError: the endpoint is gone"
    assert await rows(engine, "error_type") == [(None,), ("RuntimeError",)]
    terminal = [event for event in await events_of(engine, result.run_id) if event.is_terminal]
    assert [event.type.value for event in terminal] == ["error"]


async def test_failing_node_is_named_beside_one_that_asks(open_engine: OpenEngine) -> None:
    """The node that asks was interrupted, too, and the interrupt is no failure."""

    async def asks(_state: Words) -> Words:
        return {"words": [interrupt("Which word?")]}

    async def fails(_state: Words) -> Words:
        await asyncio.sleep(0.05)  # the other node ends first
        raise ValueError("no words")

    graph = StateGraph(Words)
    graph.add_node("asks", asks)
    graph.add_node("fails", fails)
    graph.add_edge(START, "asks")
    graph.add_edge(START, "fails")
    result = await run(await open_engine(), af.adapt(graph.compile(), input=lambda _question, _turns: {}))
    assert (result.status, result.error_message) == ("failed", "The graph failed in fails: ValueError: no words")


@pytest.mark.parametrize(
    ("reason", "note"), [("content_filter", "content filter"), ("max_tokens", ""), ("length", "limit")]
)
async def test_answer_that_was_cut_off_says_so(open_engine: OpenEngine, reason: str, note: str) -> None:
    """An incomplete answer has the note of the package's own agents; for other reasons there is no note."""
    reply = AIMessage("It is", response_metadata={"finish_reason": reason})
    graph = StateGraph(Chat).add_node("write", lambda _state: {"messages": [reply]}).add_edge(START, "write")
    result = await run(await open_engine(), graph.compile())
    text, _, end = result.response.partition("\n\n")
    assert text == "It is"
    assert note in end if note else end == ""


async def test_repeated_model_call_is_a_retry(open_engine: OpenEngine) -> None:
    """The failed call has a row, and its text is discarded."""
    model = ScriptedChat(script=[RuntimeError("busy"), ai_message("A text.")])
    graph = StateGraph(Chat)

    async def writer(state: Chat) -> dict[str, Any]:
        repeated = model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
        return {"messages": [await repeated.ainvoke(state["messages"])]}

    graph.add_node("writer", writer)
    graph.add_edge(START, "writer")
    engine = await open_engine()
    result = await run(engine, graph.compile())
    assert result.response == "A text."
    assert await rows(engine, "step, error_type") == [(1, "RuntimeError"), (2, None)]
    assert "retry" in [event.type.value for event in await events_of(engine, result.run_id)]


def concurrent_graph() -> Any:
    """Two nodes whose models reply concurrently, each after the other has started."""
    graph = StateGraph(Chat)
    both = asyncio.Barrier(2)

    class Meeting(ScriptedChat):
        async def _astream(self, messages: Any, *_more: Any, **_options: Any) -> Any:
            chunks = self._stream(messages)
            yield next(chunks)
            await both.wait()
            for chunk in chunks:
                yield chunk

    for name in ("left", "right"):
        model = Meeting(script=[ai_message(f"From {name}.")])

        async def node(state: Chat, model: Any = model) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        graph.add_node(name, node)
        graph.add_edge(START, name)
    return graph.compile()


async def test_parallel_model_calls_have_separate_jobs(open_engine: OpenEngine) -> None:
    """Two nodes with concurrent model calls have jobs of their own, and both calls are stored."""
    engine = await open_engine()
    assert (await run(engine, concurrent_graph())).status == "completed"
    assert sorted(await rows(engine, "job_id, agent_name")) == [("main", "left"), ("main~right", "right")]


async def test_agent_within_a_tool_runs_in_the_tools_job(open_engine: OpenEngine) -> None:
    """A tool that calls another agent is a job, like a delegation."""
    helper = react_agent([ai_message("Two.")])

    async def ask_helper(question: str) -> str:
        """Ask the helper."""
        done = await helper.ainvoke({"messages": [("user", question)]})
        return str(done["messages"][-1].content)

    engine = await open_engine()
    result = await run(
        engine, react_agent([ai_message("", ("ask_helper", {"question": "1+1"})), ai_message("2.")], ask_helper)
    )
    [(tool,)] = await rows(engine, "tool_call_id", "tool_calls")
    assert result.response == "2."
    assert await rows(engine, "job_id") == [("main",), (tool,), ("main",)]


async def test_input_and_answer_adapt_any_state(open_engine: OpenEngine) -> None:
    """Without an answer function, the answer is a text other than the question, else the whole state."""
    graph = StateGraph(Words)
    graph.add_node("split", lambda state: {"words": state["text"].split()})
    graph.add_edge(START, "split")
    compiled = graph.compile()
    engine = await open_engine()
    expected = af.adapt(
        compiled, input=lambda text, _history: {"text": text}, answer=lambda state: ", ".join(state["words"])
    )
    assert (await run(engine, expected, "a b")).response == "a, b"
    result = await run(engine, af.adapt(compiled, input=lambda text, _history: {"text": text}), "a b")
    assert json.loads(result.response.strip("`json\n")) == {"text": "a b", "words": ["a", "b"]}


@pytest.mark.parametrize("output", [AIMessage("Forty-two."), [HumanMessage("What?"), AIMessage("Forty-two.")]])
async def test_entrypoint_that_returns_a_message_answers_with_its_text(open_engine: OpenEngine, output: Any) -> None:
    @entrypoint()
    async def answer(_question: Any) -> Any:
        return output

    engine = await open_engine()
    engine.flows.register("mine", af.adapt(answer))
    assert (await engine.controller.execute("What?", flow="mine")).response == "Forty-two."


async def test_entrypoint_graph_answers_with_its_text(open_engine: OpenEngine) -> None:
    """A text that an `@entrypoint` function returns is the answer."""

    @entrypoint()
    async def shout(text: str) -> str:
        return text.upper()

    engine = await open_engine()
    assert (await run(engine, af.adapt(shout, input=lambda text, _history: text), "hello")).response == "HELLO"


async def test_nodes_can_report_steps_and_plans(open_engine: OpenEngine, caplog: pytest.LogCaptureFixture) -> None:
    """Valid steps and plans are published; invalid steps, invalid plans and other event types are not."""

    async def work(state: Chat) -> dict[str, Any]:
        step = {"plan_id": "p", "step_id": "s1", "title": "Look"}
        get_stream_writer()({"type": "step_start", **step})
        get_stream_writer()({"type": "complete", "success": False})
        get_stream_writer()({"type": "step_start"})
        get_stream_writer()("words")
        await adispatch_custom_event("step_complete", {**step, "status": "completed", "result": "Seen."})
        return {"messages": [("ai", "Done.")]}

    graph = StateGraph(Chat)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    engine = await open_engine()
    result = await run(engine, graph.compile())
    text = await events_of(engine, result.run_id)
    assert sorted(event.type.value for event in text) == ["complete", "metadata", "step_complete", "step_start"]
    step = next(event for event in text if event.type.value == "step_complete")
    assert (step.agent, step.data["job_id"], step.data["result"]) == ("work", "main", "Seen.")
    assert "it has no plan_id" in caplog.text


async def test_cancelling_a_graph_keeps_its_partial_text(open_engine: OpenEngine) -> None:
    """The nodes stop, and the open model call is stored as cancelled with its text."""
    stopped = asyncio.Event()

    class Slow(ScriptedChat):
        async def _astream(self, messages: Any, *more: Any, **options: Any) -> Any:
            yield next(self._stream(messages))
            try:
                await asyncio.sleep(60)
            finally:
                stopped.set()

    graph = StateGraph(Chat)
    model = Slow(script=[ai_message("Half an answer.")])

    async def writer(state: Chat) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph.add_node("writer", writer)
    graph.add_edge(START, "writer")
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(graph.compile()))
    started = await engine.controller.begin("Write.", flow="mine")
    half = asyncio.Event()
    await engine.controller.subscribe(started.run_id, lambda event: half.set() if event.type == "llm_chunk" else None)
    task = await engine.controller.start(started)
    await half.wait()
    await engine.controller.cancel(started.run_id)
    await task
    result = await engine.controller.result(started.run_id)
    assert (result.status, stopped.is_set()) == ("cancelled", True)
    assert await rows(engine, "error_type, content") == [("RunCancelled", "Half ")]
    last = (await events_of(engine, started.run_id))[-1]
    assert last.data["partial"] == "Half"


@pytest.mark.parametrize(("limit", "status"), [(None, "completed"), (9, "failed")])
async def test_recursion_limit_is_langgraphs_or_the_graphs(
    open_engine: OpenEngine, limit: int | None, status: str
) -> None:
    """The limit of supersteps is LangGraph's default, or the graph's own."""
    script = [ai_message("", ("add", {"a": n, "b": n})) for n in range(30)]
    agent = react_agent([*script, ai_message("Added.")], add)
    result = await run(await open_engine(), agent if limit is None else agent.with_config(recursion_limit=limit))
    assert (result.status, result.error_type) == (status, "GraphRecursionError" if limit else None)


async def test_prices_apply_to_models_of_a_graph(open_engine: OpenEngine) -> None:
    """A call costs what its model costs, by the name in the request."""
    price = {"scripted-chat": {"input": 2.0, "output": 10.0}}
    engine = await open_engine(settings={"prices": price})
    result = await run(engine, adding_agent())
    assert [cost for (cost,) in await rows(engine, "cost_usd")] == pytest.approx([100e-6, 160e-6])
    assert result.status == "completed"


def test_invalid_graph_is_rejected(workbench: OpenWorkbench) -> None:
    """Only a compiled graph can be adapted; built-in names and the choice of a model are rejected."""
    with pytest.raises(af.errors.UsageError, match=r"Pass graph.compile\(\)"):
        af.adapt(StateGraph(Chat))
    with pytest.raises(af.errors.UsageError, match="not a compiled LangGraph graph"):
        af.adapt(add)
    wb = workbench()
    with pytest.raises(af.errors.UsageError, match="cannot be named 'research'"):
        wb.register_flow("research", af.adapt(adding_agent()))
    with pytest.raises(af.errors.UsageError, match=r"af.adapt\(graph\)"):
        wb.register_flow("mine", adding_agent())
    with pytest.raises(af.errors.UsageError, match="its own models"):
        wb.ask("1 + 2?", flow=af.adapt(adding_agent()), model="other")


def test_workbench_asks_a_graph(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A graph is asked as an object or by name; its run is in frames, views and a sealed file."""
    wb = workbench(interactive=False)
    repeated = wb.ask("1 + 2?", flow=af.adapt(adding_agent(), name="adder")).wait()
    assert (repeated.status, repeated.response) == ("completed", "It is 3.")
    wb.register_flow("routed", af.adapt(routed_graph([ai_message("A text.")])))
    assert wb.ask("Write.", flow="routed").wait().response == "A text."
    assert set(wb.runs_df(columns="flow").flow) == {"adder", "routed"}
    assert "It is 3." in saved_run(repeated._client)["text/html"]
    sealed = af.open_run(repeated.seal(tmp_path / "run.afrun"))
    assert len(sealed.llm_calls_df()) == 2
    assert sealed.response == "It is 3."


async def test_views_separate_parallel_nodes(open_engine: OpenEngine) -> None:
    """Concurrent texts are kept apart while the texts arrive, and all texts are shown."""
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(concurrent_graph()))
    transcript = RunTranscript("Both?")
    async for event in engine.controller.stream_execute("Both?", flow="mine"):
        transcript.apply(event)
    assert sorted(turn.reply.prose.text.strip() for turn in transcript.lead_job.turns) == ["From left.", "From right."]
    assert (len(transcript.jobs), transcript.totals.n_llm_calls) == (1, 2)


def test_a_graph_cannot_be_forked(workbench: OpenWorkbench) -> None:
    """A fork at a step is rejected with the reason: the work within the graph's nodes is unknown."""
    run = workbench(interactive=False).ask("1 + 2?", flow=af.adapt(adding_agent(), name="adder")).wait()
    with pytest.raises(af.errors.UsageError, match="'adder' is your own graph, which cannot be forked"):
        run.fork(step=1, prompt="3 + 4?")


def test_run_of_a_graph_can_be_repeated_and_compared(workbench: OpenWorkbench) -> None:
    """A run of a graph can be repeated, and compared with the repetition."""
    wb = workbench(interactive=False)
    first = wb.ask("Write.", flow=af.adapt(routed_graph([ai_message("A text.")]), name="writing")).wait()
    wb.register_flow("writing", af.adapt(routed_graph([ai_message("Another text.")])))
    second = wb.conversation(first).regenerate().wait()
    assert second.response == "Another text."
    assert "Another" in repr(af.compare(first, second)._repr_html_())
