"""Graphs of a user's own as flows: what they do is told, stored and counted like what our agents do."""

import asyncio
import json
import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from conftest import OpenEngine, OpenWorkbench
from graphs import ScriptedChat, react_agent, said
from langchain_core.callbacks import adispatch_custom_event
from langchain_core.messages import AnyMessage
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

import artifactflow_nb as af
from artifactflow_nb.engine import Engine
from artifactflow_nb.events import StreamEvent
from artifactflow_nb.flows.adapted import AdaptedGraph
from artifactflow_nb.widgets.frozen import frozen_bundle
from artifactflow_nb.widgets.transcript import Transcript


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
    return react_agent([said("Let me add.", ("add", {"a": 1, "b": 2})), said("It is 3.", tokens=(50, 6))], add)


async def run(engine: Engine, graph: Any, question: str = "What is 1 + 2?", **how: Any) -> Any:
    """Ask a graph and wait: what came of it."""
    adapted = graph if isinstance(graph, AdaptedGraph) else af.adapt(graph)
    engine.flows.register("mine", adapted)
    return await engine.controller.execute(question, flow="mine", **how)


async def events_of(engine: Engine, run_id: str) -> list[StreamEvent]:
    return await engine.runs.events(run_id)


async def rows(engine: Engine, columns: str, table: str = "llm_calls") -> list[tuple[Any, ...]]:
    """These columns of a table, in the order in which its rows came."""
    sql = f"SELECT {columns} FROM {table} ORDER BY rowid"  # noqa: S608 - words of the tests
    return await engine.database.read(lambda db: [tuple(row) for row in db.execute(sql)])


async def test_a_prebuilt_agent_answers_with_events_and_rows_like_ours(open_engine: OpenEngine) -> None:
    """LangGraph's prebuilt agent gives the events of turns and tools, and rows with its tokens, nodes and results."""
    engine = await open_engine()
    result = await run(engine, adding_agent())
    assert (result.status, result.response) == ("completed", "It is 3.")
    told = [(event.type.value, event.agent, event.tool) for event in await events_of(engine, result.run_id)]
    turn = [("agent_start", "agent", None), ("llm_complete", "agent", None), ("agent_complete", "agent", None)]
    tool = [("tool_start", "agent", "add"), ("tool_complete", "agent", "add")]
    assert told[1:-1] == [*turn, *tool, *turn]
    assert await rows(engine, "input_tokens, request_model, finish_reason, ttft_ms >= 0, cassette") == [
        (30, "scripted-chat", "tool_calls", 1, "off"),
        (50, "scripted-chat", "stop", 1, "off"),
    ]
    assert await rows(engine, "agent_name, result, approval, status", "tool_calls") == [
        ("agent", "3", "not_needed", "finished")
    ]
    assert result.metrics.total_tokens == 90


async def test_what_a_graph_says_streams_in_pieces(open_engine: OpenEngine) -> None:
    """The words of a reply, and the arguments of its calls, are told while they arrive."""
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(adding_agent()))
    told = [event async for event in engine.controller.stream_execute("1 + 2?", flow="mine")]
    chunks = [event for event in told if event.type.value == "llm_chunk"]
    answer = [event.data["delta"] for event in chunks if event.data["kind"] == "answer"]
    assert answer == ["Let ", "me ", "add. ", "It ", "is ", "3. "]
    assert [(event.tool, event.data["delta"]) for event in chunks if event.data["kind"] == "call"] == [
        ("add", '{"a": 1, "b": 2}')
    ]
    assert [event.seq for event in told] == list(range(1, len(told) + 1))


def routed(script: list[Any]) -> Any:
    """Two nodes and an edge that depends: the editor comes only if the writer's words say so."""
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
    [([said("A rough text."), said("A text.")], ["writer", "editor"]), ([said("A text.")], ["writer"])],
)
async def test_a_graph_by_hand_goes_the_way_of_its_edges(
    open_engine: OpenEngine, script: list[Any], agents: list[str]
) -> None:
    """The nodes of a graph are its agents, those that run in a thread too, and the last AI message is the answer."""
    engine = await open_engine()
    result = await run(engine, routed(script))
    assert result.response == "A text."
    assert await rows(engine, "agent_name") == [(agent,) for agent in agents]


async def test_without_figures_of_the_model_tokens_are_estimated(open_engine: OpenEngine) -> None:
    """A model that gives no usage has its tokens estimated, and marked so."""
    engine = await open_engine()
    await run(engine, routed([said("A text.", tokens=None)]))
    assert await rows(engine, "tokens_estimated, output_tokens") == [(1, 2)]


async def test_a_failing_tool_is_a_failed_call_that_the_graph_may_handle(open_engine: OpenEngine) -> None:
    """A tool that raises is a failed row with its error; where the graph goes on, the run does."""
    from langgraph.prebuilt import ToolNode

    engine = await open_engine()
    script = [said("", ("fail", {"a": 1})), said("It failed.")]
    agent = react_agent(script, ToolNode([fail], handle_tool_errors=True))
    result = await run(engine, agent)
    assert result.status == "completed"
    assert await rows(engine, "success, error_type, error_message", "tool_calls") == [
        (0, "ValueError", "ValueError: no 1")
    ]


HELD = "QUJD" * 1000

MEDIA = [
    ({"type": "image", "base64": HELD, "mime_type": "image/png"}, "image, image/png"),
    ({"type": "image", "source_type": "base64", "data": HELD, "mime_type": "image/png"}, "image, image/png"),
    ({"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": HELD}}, "image, image/gif"),
    ({"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{HELD}"}}, "image_url, image/jpeg"),
    ({"type": "image_url", "image_url": f"data:image/jpeg;base64,{HELD}"}, "image_url, image/jpeg"),
    ({"type": "file", "file": {"file_data": f"data:application/pdf;base64,{HELD}"}}, "file, application/pdf"),
]


@pytest.mark.parametrize(("block", "told"), MEDIA, ids=lambda one: one if isinstance(one, str) else None)
async def test_a_picture_that_a_tool_gives_is_told_and_not_stored(
    open_engine: OpenEngine, block: dict[str, Any], told: str
) -> None:
    """Of a tool's pictures and files, however a model's maker writes them, the row says what and how much."""

    def draw(what: str) -> list[dict[str, Any]]:
        """Draw."""
        return [{"type": "text", "text": f"A {what}:"}, block]

    engine = await open_engine()
    await run(engine, react_agent([said("", ("draw", {"what": "cat"})), said("Drawn.")], draw))
    shown = f"A cat:\n\n[{told}, 3,000 bytes; it cannot be shown here]"
    assert await rows(engine, "result", "tool_calls") == [(shown,)]


@pytest.mark.parametrize(
    "given",
    [
        [{"title": "T", "url": "https://e.org/"}, {"data": "x"}],
        [{"type": "image", "file_id": "f1"}],
        [{"type": "image_url", "image_url": {"url": "https://e.org/a.png"}}],
        {"n": 1},
        [1, 2],
    ],
)
async def test_what_else_a_tool_gives_is_stored_as_json(open_engine: OpenEngine, given: Any) -> None:
    """Lists and mappings are stored as they are, also where they name a picture that lies elsewhere."""

    def find(what: str) -> Any:
        """Find."""
        return given

    engine = await open_engine()
    await run(engine, react_agent([said("", ("find", {"what": "cat"})), said("Found.")], find))
    [(stored,)] = await rows(engine, "result", "tool_calls")
    assert json.loads(stored) == given


async def test_a_failing_node_fails_the_run_and_is_named(open_engine: OpenEngine) -> None:
    """An exception in a node ends the run with an error that names the node; the cut call is stored as failed."""
    engine = await open_engine()
    result = await run(engine, routed([said("A rough text."), RuntimeError("the endpoint is gone")]))
    assert (result.status, result.error_type) == ("failed", "RunFailed")
    assert result.error_message == "The graph failed in editor: RuntimeError: the endpoint is gone"
    assert await rows(engine, "error_type") == [(None,), ("RuntimeError",)]
    terminal = [event for event in await events_of(engine, result.run_id) if event.is_terminal]
    assert [event.type.value for event in terminal] == ["error"]


async def test_a_model_call_that_the_graph_repeats_is_told_as_a_retry(open_engine: OpenEngine) -> None:
    """Where a graph tries a failed model call again, the failed one is a row and its text is void."""
    model = ScriptedChat(script=[RuntimeError("busy"), said("A text.")])
    graph = StateGraph(Chat)

    async def writer(state: Chat) -> dict[str, Any]:
        again = model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
        return {"messages": [await again.ainvoke(state["messages"])]}

    graph.add_node("writer", writer)
    graph.add_edge(START, "writer")
    engine = await open_engine()
    result = await run(engine, graph.compile())
    assert result.response == "A text."
    assert await rows(engine, "step, error_type") == [(1, "RuntimeError"), (2, None)]
    assert "retry" in [event.type.value for event in await events_of(engine, result.run_id)]


def together() -> Any:
    """Two nodes whose models answer at the same time, and each after the other has begun."""
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
        model = Meeting(script=[said(f"From {name}.")])

        async def node(state: Chat, model: Any = model) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        graph.add_node(name, node)
        graph.add_edge(START, name)
    return graph.compile()


async def test_calls_at_the_same_time_are_told_apart(open_engine: OpenEngine) -> None:
    """Two nodes whose models answer at the same time have jobs of their own, and both are stored."""
    engine = await open_engine()
    assert (await run(engine, together())).status == "completed"
    assert sorted(await rows(engine, "job_id, agent_name")) == [("main", "left"), ("main~right", "right")]


async def test_an_agent_within_a_tool_works_in_the_job_of_that_tool(open_engine: OpenEngine) -> None:
    """A tool that asks another agent is a job, as what our lead delegates is."""
    helper = react_agent([said("Two.")])

    async def ask_helper(question: str) -> str:
        """Ask the helper."""
        done = await helper.ainvoke({"messages": [("user", question)]})
        return str(done["messages"][-1].content)

    engine = await open_engine()
    result = await run(engine, react_agent([said("", ("ask_helper", {"question": "1+1"})), said("2.")], ask_helper))
    [(tool,)] = await rows(engine, "tool_call_id", "tool_calls")
    assert result.response == "2."
    assert await rows(engine, "job_id") == [("main",), (tool,), ("main",)]


async def test_a_graph_without_messages_says_what_its_answer_is(open_engine: OpenEngine) -> None:
    """With `input` and `answer` any state will do; without an answer the error says what there is."""
    graph = StateGraph(Words)
    graph.add_node("split", lambda state: {"words": state["text"].split()})
    graph.add_edge(START, "split")
    compiled = graph.compile()
    engine = await open_engine()
    wanted = af.adapt(
        compiled, input=lambda text, _history: {"text": text}, answer=lambda state: ", ".join(state["words"])
    )
    assert (await run(engine, wanted, "a b")).response == "a, b"
    result = await run(engine, af.adapt(compiled, input=lambda text, _history: {"text": text}), "a b")
    assert result.status == "failed"
    assert "It gave: text, words" in result.error_message


async def test_a_graph_of_functions_answers_with_its_text(open_engine: OpenEngine) -> None:
    """What `@entrypoint` made is a graph too; text that it returns is the answer."""

    @entrypoint()
    async def shout(text: str) -> str:
        return text.upper()

    engine = await open_engine()
    assert (await run(engine, af.adapt(shout, input=lambda text, _history: text), "hello")).response == "HELLO"


async def test_nodes_report_steps_through_the_stream_writer(
    open_engine: OpenEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """What nodes report as a step or a plan is passed on; what is incomplete, or ours to say, is not."""

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
    told = await events_of(engine, result.run_id)
    assert sorted(event.type.value for event in told) == ["complete", "metadata", "step_complete", "step_start"]
    step = next(event for event in told if event.type.value == "step_complete")
    assert (step.agent, step.data["job_id"], step.data["result"]) == ("work", "main", "Seen.")
    assert "it has no plan_id" in caplog.text


async def test_a_cancelled_graph_is_stopped_and_its_text_kept(open_engine: OpenEngine) -> None:
    """Cancelling stops the nodes at work, keeps the text that had arrived, and stores the cut call as cancelled."""
    stopped = asyncio.Event()

    class Slow(ScriptedChat):
        async def _astream(self, messages: Any, *more: Any, **options: Any) -> Any:
            yield next(self._stream(messages))
            try:
                await asyncio.sleep(60)
            finally:
                stopped.set()

    graph = StateGraph(Chat)
    model = Slow(script=[said("Half an answer.")])

    async def writer(state: Chat) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph.add_node("writer", writer)
    graph.add_edge(START, "writer")
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(graph.compile()))
    begun = await engine.controller.begin("Write.", flow="mine")
    half = asyncio.Event()
    await engine.controller.subscribe(begun.run_id, lambda event: half.set() if event.type == "llm_chunk" else None)
    task = await engine.controller.start(begun)
    await half.wait()
    await engine.controller.cancel(begun.run_id)
    await task
    result = await engine.controller.result(begun.run_id)
    assert (result.status, stopped.is_set()) == ("cancelled", True)
    assert await rows(engine, "error_type, content") == [("RunCancelled", "Half ")]
    last = (await events_of(engine, begun.run_id))[-1]
    assert last.data["partial"] == "Half"


@pytest.mark.parametrize(("limit", "status"), [(None, "completed"), (9, "failed")])
async def test_a_graph_takes_as_many_steps_as_it_may(open_engine: OpenEngine, limit: int | None, status: str) -> None:
    """The limit of steps is LangGraph's, or that of the graph itself."""
    script = [said("", ("add", {"a": n, "b": n})) for n in range(30)]
    agent = react_agent([*script, said("Added.")], add)
    result = await run(await open_engine(), agent if limit is None else agent.with_config(recursion_limit=limit))
    assert (result.status, result.error_type) == (status, "GraphRecursionError" if limit else None)


async def test_prices_hold_for_the_models_of_a_graph(open_engine: OpenEngine) -> None:
    """A call costs what its model costs, by the name under which it is asked."""
    price = {"scripted-chat": {"input": 2.0, "output": 10.0}}
    engine = await open_engine(settings={"prices": price})
    result = await run(engine, adding_agent())
    assert [cost for (cost,) in await rows(engine, "cost_usd")] == pytest.approx([100e-6, 160e-6])
    assert result.status == "completed"


def test_what_is_no_graph_is_refused(workbench: OpenWorkbench) -> None:
    """Only a compiled graph can be adapted, built-in names stay, and a model cannot be chosen for a graph."""
    with pytest.raises(af.UsageError, match=r"Pass graph.compile\(\)"):
        af.adapt(StateGraph(Chat))
    with pytest.raises(af.UsageError, match="no compiled LangGraph graph"):
        af.adapt(add)
    wb = workbench()
    with pytest.raises(af.UsageError, match="cannot be named 'research'"):
        wb.register_flow("research", af.adapt(adding_agent()))
    with pytest.raises(af.UsageError, match=r"af.adapt\(graph\)"):
        wb.register_flow("mine", adding_agent())
    with pytest.raises(af.UsageError, match="models of its own"):
        wb.ask("1 + 2?", flow=af.adapt(adding_agent()), model="other")


def test_a_workbench_asks_a_graph_and_shows_it(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A graph is asked by itself or by name; its run is in the frames, in the views and in a sealed file."""
    wb = workbench(interactive=False)
    asked = wb.ask("1 + 2?", flow=af.adapt(adding_agent(), name="adder")).wait()
    assert (asked.status, asked.response) == ("completed", "It is 3.")
    wb.register_flow("routed", af.adapt(routed([said("A text.")])))
    assert wb.ask("Write.", flow="routed").wait().response == "A text."
    assert set(wb.runs_df().flow) == {"adder", "routed"}
    assert "It is 3." in frozen_bundle(asked.port)["text/html"]
    sealed = af.open_run(asked.seal(tmp_path / "run.afrun"))
    assert len(sealed.llm_calls_df()) == 2
    assert sealed.response == "It is 3."


async def test_views_show_nodes_that_work_at_the_same_time(open_engine: OpenEngine) -> None:
    """What is said at the same time is kept apart while it arrives, and all of it is shown."""
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(together()))
    shown = Transcript("Both?")
    async for event in engine.controller.stream_execute("Both?", flow="mine"):
        shown.apply(event)
    assert sorted(turn.reply.prose.text.strip() for turn in shown.lead.turns) == ["From left.", "From right."]
    assert (len(shown.jobs), shown.totals.n_llm_calls) == (1, 2)


def test_a_graph_cannot_be_forked(workbench: OpenWorkbench) -> None:
    """A fork at a step is refused with the reason: nobody but the graph knows what follows from another one."""
    run = workbench(interactive=False).ask("1 + 2?", flow=af.adapt(adding_agent(), name="adder")).wait()
    with pytest.raises(af.UsageError, match="'adder' is a graph of your own, which cannot be forked"):
        run.fork(step=1, prompt="3 + 4?")


def test_runs_of_a_graph_are_compared_and_asked_again(workbench: OpenWorkbench) -> None:
    """A run of a graph can be asked once more, beside itself, and the two compared."""
    wb = workbench(interactive=False)
    first = wb.ask("Write.", flow=af.adapt(routed([said("A text.")]), name="writing")).wait()
    wb.register_flow("writing", af.adapt(routed([said("Another text.")])))
    second = wb.regenerate(first).wait()
    assert second.response == "Another text."
    assert "Another" in repr(af.compare(first, second)._repr_html_())
