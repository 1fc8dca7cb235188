"""Runs of a user's graph are recorded, and played without executing the graph."""

import asyncio
import operator
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.callbacks import adispatch_custom_event
from langchain_core.messages import AnyMessage
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from recording.busy_graph import BUSY, busy
from recording.killed_recording import click_through
from support.forked_python import fast_python
from support.graphs import ScriptedChat, ai_message, react_agent
from support.mcp_config import until
from support.recorded_scenes import Scene, Setup, Stage, open_scene, play_both

import artifactflow_nb as af
from artifactflow_nb.errors import CassetteMiss
from artifactflow_nb.recording.cassette import Cassette


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class AnswersState(TypedDict, total=False):
    messages: list[Any]
    answers: Annotated[list[str], operator.add]


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def with_own_agent(*script: Any, tools: Any = (), **decider: Any) -> Setup:
    """Register LangGraph's prebuilt agent with a scripted model, which raises in a replay."""

    def setup(wb: af.Workbench) -> None:
        is_played = wb.settings.cassette_mode == "replay"
        turns = [RuntimeError("the model was asked")] * 9 if is_played else script
        wb.register_flow("mine", af.adapt(react_agent(turns, *tools), **decider))

    return setup


def ask_for_a_sum(stage: Stage) -> Any:
    return stage.ask("What is 1 + 2?", flow="mine").wait().response


def test_graph_is_played_byte_for_byte(tmp_path: Path) -> None:
    """Events, chunks, rows, frames and outputs are equal; the model is not called."""
    script = [ai_message("Let me add.", ("add", {"a": 1, "b": 2})), ai_message("It is 3.", tokens=(50, 6))]
    assert play_both(tmp_path, ask_for_a_sum, "", setup=with_own_agent(*script, tools=[add]), times=2) == "It is 3."


def sending() -> Any:
    """An agent with a tool that asks twice and returns the answers."""

    def send(to: str) -> str:
        """Send a letter."""
        first = interrupt({"question": "Sure?", "to": to})
        return f"{to}: {first}, {interrupt('Really?')}"

    return with_own_agent(ai_message("", ("send", {"to": "Ada"})), ai_message("Sent."), tools=[send])


@pytest.mark.parametrize("decider", ["click", "code"])
def test_interrupts_get_their_recorded_decisions(tmp_path: Path, decider: str) -> None:
    """The replay repeats clicks, and code repeats decisions of code; both have the recorded effect."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("Send.", flow="mine").wait()
        decide = stage.click if decider == "click" else stage.code
        for answer in ({"params": {"to": "Bob"}}, {"approved": False, "instruction": "Later.", "replaces_call": True}):
            if stage.is_played and decider == "click":
                break
            decide(run, **answer)
            run.wait()
        return run.response, stage.wb.query("SELECT result FROM main.tool_calls").result.tolist()

    assert play_both(tmp_path, scene, "", setup=sending())[1] == ["Ada: {'to': 'Bob'}, Later."]


def two_interrupts(*values: Any) -> Any:
    """Parallel nodes that interrupt, and return the received answers."""
    graph = StateGraph(AnswersState)
    for n, value in enumerate(values):

        def node(_state: AnswersState, value: Any = value) -> dict[str, Any]:
            return {"answers": [f"{value}: {interrupt(value)}"]}

        graph.add_node(f"asks_{n}", node)
        graph.add_edge(START, f"asks_{n}")
    return graph.compile()


def with_graph(make: Callable[[bool], Any], **decider: Any) -> Setup:
    """Register the graph of a recording, in the workbench that records or plays."""

    def setup(wb: af.Workbench) -> None:
        wb.register_flow("mine", af.adapt(make(wb.settings.cassette_mode == "replay"), **decider))

    return setup


def replies_of(state: Any) -> str:
    return ", ".join(sorted(state["answers"]))


def never(_state: Any) -> Any:
    raise RuntimeError("the graph ran")


@pytest.mark.parametrize("first", [0, 1])
def test_concurrent_interrupts_are_decided_in_order(tmp_path: Path, first: int) -> None:
    """Two requests are open at once, and the run waits between their decisions."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("Ask.", flow="mine").wait()
        stage.code(run, first)
        run.wait()
        assert run.status == "waiting"
        stage.code(run, 0, approved=False)
        return run.wait().response

    setup = with_graph(lambda _played: two_interrupts("One?", "Two?"), answer=replies_of)
    assert play_both(tmp_path, scene, "", setup=setup) == ["One?: True, Two?: False", "One?: False, Two?: True"][first]


def test_decisions_of_a_policy_are_played(tmp_path: Path) -> None:
    """The policy of the replaying workbench does not matter."""
    setup = with_graph(lambda _played: two_interrupts("One?", "Two?"), answer=replies_of)
    response = play_both(tmp_path, ask_for_a_sum, "", setup=setup, only_recorded={"approvals": "approve"})
    assert response == "One?: True, Two?: True"


def slowly(name: str, *script: Any) -> ScriptedChat:
    class Uneven(ScriptedChat):
        async def _astream(self, messages: Any, *_more: Any, **_options: Any) -> Any:
            for chunk in self._stream(messages):
                await asyncio.sleep(0.001 * (len(name) + len(str(chunk.message.content)) % 3))
                yield chunk

    return Uneven(script=list(script))


def wide(played: bool) -> Any:
    """Three nodes at once; each node asks a model twice, and one node asks a helper within a tool."""
    if played:
        graph = StateGraph(Chat)
        for name in ("left", "mid/dle", "right"):
            graph.add_node(name, never)
            graph.add_edge(START, name)
        return graph.compile()
    helper = react_agent([ai_message("Helped a bit.")])

    async def ask_helper(question: str) -> str:
        """Ask the helper."""
        done = await helper.ainvoke({"messages": [("user", question)]})
        return str(done["messages"][-1].content)

    graph = StateGraph(Chat)
    for name in ("left", "mid/dle", "right"):
        script = (
            [ai_message("", ("ask_helper", {"question": "1+1"})), ai_message("2.")]
            if name == "mid/dle"
            else [ai_message("One of it."), ai_message("Two of it.")]
        )
        model = slowly(name, *script)

        async def node(state: Chat, model: Any = model) -> dict[str, Any]:
            reply = await model.ainvoke(state["messages"])
            for call in reply.tool_calls:
                await tool(ask_helper).ainvoke(call)
            return {"messages": [reply, await model.ainvoke([("user", "again")])]}

        graph.add_node(name, node)
        graph.add_edge(START, name)
    return graph.compile()


def test_parallel_nodes_are_played_in_their_recorded_order(tmp_path: Path) -> None:
    """Chunks of parallel replies have the recorded numbers and times."""
    play_both(tmp_path, ask_for_a_sum, "", setup=with_graph(wide))


def one_node(work: Callable[[Chat], Any]) -> Any:
    graph = StateGraph(Chat)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    return graph.compile()


def test_calls_outside_of_tools_and_models_are_played(tmp_path: Path) -> None:
    """Such calls are reports of nodes, and tools that a node calls without a model."""
    inner = ScriptedChat(script=[ai_message("Inner."), ai_message("Inner again.")])

    @tool
    async def look(word: str) -> str:
        """Look a word up."""
        return str((await inner.ainvoke(word)).content)

    async def work(_state: Chat) -> dict[str, Any]:
        step = {"plan_id": "p", "step_id": "s1", "title": "Look"}
        get_stream_writer()({"type": "plan_created", "plan_id": "p", "title": "T", "steps": []})
        get_stream_writer()({"type": "step_start", **step})
        found = await asyncio.gather(look.ainvoke({"word": "a"}), look.ainvoke({"word": "b"}))
        await adispatch_custom_event("step_complete", {**step, "status": "completed", "result": "Seen."})
        return {"messages": [("ai", ", ".join(sorted(found)))]}

    def make(played: bool) -> Any:
        return one_node(never if played else work)

    assert play_both(tmp_path, ask_for_a_sum, "", setup=with_graph(make)) == "Inner again. , Inner."


def fail(a: int) -> str:
    """Fail."""
    raise ValueError(f"no {a}")


def test_failed_tool_is_played_as_failed(tmp_path: Path) -> None:
    """A graph that ended with the tool's error ends with the same error."""
    script = [ai_message("", ("fail", {"a": 1})), ai_message("It failed.")]
    from langgraph.prebuilt import ToolNode

    handled = ToolNode([fail], handle_tool_errors=True)
    (tmp_path / "handled").mkdir()
    assert (
        play_both(tmp_path / "handled", ask_for_a_sum, "", setup=with_own_agent(*script, tools=[handled]))
        == "It failed."
    )
    bare = ToolNode([fail], handle_tool_errors=False)
    play_both(tmp_path, ends_with("ValueError: no 1"), "", setup=with_own_agent(*script, tools=[bare]))


def test_call_of_an_unknown_tool_is_played(tmp_path: Path) -> None:
    """The reply also had a call of a known tool, which ran."""
    script = [ai_message("", ("nope", {"a": 1}), ("add", {"a": 1, "b": 2})), ai_message("It is 3.")]

    def scene(stage: Stage) -> Any:
        return ask_for_a_sum(stage), stage.wb.query("SELECT status, success FROM main.tool_calls").to_numpy().tolist()

    assert play_both(tmp_path, scene, "", setup=with_own_agent(*script, tools=[add]))[1] == [
        ["finished", 0],
        ["finished", 1],
    ]


def ends_with(error: str) -> Scene:
    """A run that ends in this error."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("Do it.", flow="mine").wait()
        assert run.status == "failed"
        assert error in str(run.error)

    return scene


@pytest.mark.parametrize("n_failures", [1, 3])
def test_failed_model_is_played_as_failed(tmp_path: Path, n_failures: int) -> None:
    """A repeated call is a retry; after the last retry the run ends with the same error."""
    model = ScriptedChat(script=[*[RuntimeError("busy")] * n_failures, ai_message("A text.")])

    async def work(state: Chat) -> dict[str, Any]:
        again = model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
        return {"messages": [await again.ainvoke(state["messages"])]}

    def make(played: bool) -> Any:
        return one_node(never if played else work)

    scene = ask_for_a_sum if n_failures == 1 else ends_with("busy")
    play_both(tmp_path, scene, "", setup=with_graph(make))


@pytest.mark.parametrize("when_spent", ["stop", "ask"])
def test_spent_budget_is_played(tmp_path: Path, when_spent: str) -> None:
    """The run ends at its budget, or asks and continues."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("1 + 2?", flow="mine", budget={"tokens": 20, "when_spent": when_spent}).wait()
        if when_spent == "ask":
            assert [request.kind for request in run.pending] == ["budget"]
            stage.code(run)
        return run.wait().status

    script = [ai_message("", ("add", {"a": 1, "b": 2})), ai_message("It is 3."), ai_message("It is 3.")]
    status = play_both(tmp_path, scene, "", setup=with_own_agent(*script, tools=[add]))
    assert status == {"stop": "failed", "ask": "completed"}[when_spent]


def greedy(played: bool) -> Any:
    """Two parallel nodes that call models repeatedly; one node calls slowly in a thread."""
    quick, slow = (
        slowly("", *[ai_message(f"{n} of it.") for n in range(9)]),
        ScriptedChat(script=[ai_message("So.")] * 9),
    )

    async def ask(_state: Chat) -> dict[str, Any]:
        return {"messages": [await quick.ainvoke("a") for _ in range(3)]}

    def ask_slowly(_state: Chat) -> dict[str, Any]:
        time.sleep(0.005)
        return {"messages": [slow.invoke("b") for _ in range(3)]}

    graph = StateGraph(Chat)
    for name, node in (("quick", ask), ("slow", ask_slowly)):
        graph.add_node(name, never if played else node)
        graph.add_edge(START, name)
    return graph.compile()


@pytest.mark.parametrize("when_spent", ["stop", "ask"])
def test_calls_that_a_budget_stopped_are_played(tmp_path: Path, when_spent: str) -> None:
    """Parallel nodes stop at a budget, and start again if the budget is raised: all calls are played."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("More?", flow="mine", budget={"tokens": 100, "when_spent": when_spent}).wait()
        while run.pending:
            stage.code(run)
            run.wait()
        return run.status

    status = play_both(tmp_path, scene, "", setup=with_graph(greedy))
    assert status == {"stop": "failed", "ask": "completed"}[when_spent]


def cancel(stage: Stage, run: af.Run, decider: str) -> None:
    controller = stage.wb._thread.engine.controller
    stage.wb._thread.call(controller.cancel(run.run_id, by_code=decider == "code"))


def halting(played: bool) -> Any:
    """A graph that never ends: two models hang after one word."""

    class Slow(ScriptedChat):
        async def _astream(self, messages: Any, *_more: Any, **_options: Any) -> Any:
            yield next(self._stream(messages))
            await asyncio.sleep(60)

    graph = StateGraph(Chat)
    for name in ("left", "right"):
        model = Slow(script=[ai_message(f"Half of {name}.")])

        async def node(state: Chat, model: Any = model) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        graph.add_node(name, never if played else node)
        graph.add_edge(START, name)
    return graph.compile()


@pytest.mark.parametrize("decider", ["click", "code"])
def test_cancelled_running_graph_ends_by_itself(tmp_path: Path, decider: str) -> None:
    """The chunks up to the cancellation are played."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("Write.", flow="mine")
        if decider == "code" or not stage.is_played:
            until(lambda: sum(event.type == "llm_chunk" for event in stage.events[0]) == 2)
            cancel(stage, run, decider)
        run.wait()
        return run.status

    assert play_both(tmp_path, scene, "", setup=with_graph(halting)) == "cancelled"


@pytest.mark.parametrize("decider", ["click", "code"])
def test_cancelled_waiting_graph_is_replayed(tmp_path: Path, decider: str) -> None:
    """A replay repeats a cancellation by a click; code must repeat a cancellation by code."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("Ask.", flow="mine").wait()
        stage.code(run, 0)
        run.wait()
        if decider == "code" or not stage.is_played:
            cancel(stage, run, decider)
        return run.wait().status

    setup = with_graph(lambda _played: two_interrupts("One?", "Two?"), answer=replies_of)
    assert play_both(tmp_path, scene, "", setup=setup) == "cancelled"


def test_follow_up_and_repeated_question_of_a_graph_are_played(tmp_path: Path) -> None:

    def scene(stage: Stage) -> Any:
        first = stage.ask("1 + 2?", flow="mine").wait()
        second = stage.ask("1 + 2?", flow="mine", conversation_id=first.conversation_id).wait()
        return first.response, second.response

    messages = iter([ai_message("Three."), ai_message("Still three.")])

    def make(played: bool) -> Any:
        return one_node(never if played else lambda _state: {"messages": [next(messages)]})

    assert play_both(tmp_path, scene, "", setup=with_graph(make)) == ("Three.", "Still three.")


def record(folder: Path, *setups: Setup, question: str = "Ask.") -> Path:
    """Record a run of the graph of each setup, in this order; return the cassette."""
    cassette = folder / "c.jsonl"
    for setup in setups:
        with open_scene(folder, record=cassette, setup=setup) as wb:
            wb.ask(question, flow="mine").wait()
    return cassette


def test_another_graph_is_a_miss(tmp_path: Path) -> None:
    """The error lists the differences of nodes, edges or input, and how to record again."""
    cassette = record(tmp_path, with_own_agent(ai_message("It is 3."), tools=[add]))
    graph = one_node(never)
    with (
        open_scene(tmp_path, replay=cassette, setup=with_graph(lambda _played: graph)) as wb,
        pytest.raises(
            CassetteMiss,
            match=r"the flow 'mine'(?s:.*)nodes: agent is missing now(?s:.*)nodes: work is new(?s:.*)mode=.auto",
        ),
    ):
        wb.ask("Ask.", flow="mine")
    with (
        open_scene(tmp_path, replay=cassette, setup=with_own_agent(tools=[add, fail])) as wb,
        pytest.raises(CassetteMiss, match=r"has changed since the recording(?s:.*)tools: fail is new"),
    ):
        wb.ask("Ask.", flow="mine")
    with (
        open_scene(tmp_path, replay=cassette, setup=with_own_agent(tools=[add])) as wb,
        pytest.raises(CassetteMiss, match="The nearest question is"),
    ):
        wb.ask("Tell.", flow="mine")


def test_another_decision_on_a_graph_is_a_miss_in_every_mode(tmp_path: Path) -> None:
    """A graph cannot continue live from the middle."""
    setup = with_graph(lambda _played: two_interrupts("One?"), answer=replies_of)
    cassette = tmp_path / "c.jsonl"
    with open_scene(tmp_path, record=cassette, setup=setup) as wb:
        wb.ask("Ask.", flow="mine").wait().approve().wait()
    for mode in ("replay", "auto"):
        with open_scene(tmp_path, replay=cassette, mode=mode, setup=setup) as wb:
            run = wb.ask("Ask.", flow="mine").wait()
            with pytest.raises(CassetteMiss, match="recorded: approved for once, now: denied") as miss:
                run.deny()
            assert "record again with mode=" in str(miss.value)
            assert 'mode="auto"' not in str(miss.value)
            assert run.approve().wait().response == "One?: True"


def test_auto_plays_recorded_runs_and_records_new_runs(tmp_path: Path) -> None:
    """A recorded run costs nothing; a new run calls the model and is recorded, too."""
    cassette = record(tmp_path, with_own_agent(ai_message("Old.")))
    changed = with_own_agent(ai_message("New."), ai_message("More."), tools=[add])
    for answer, question in (("New.", "Ask."), ("New.", "Ask."), ("More.", "Ask more.")):
        with open_scene(tmp_path, replay=cassette, mode="auto", setup=changed) as wb:
            if question == "Ask more.":
                wb.ask("Ask.", flow="mine").wait()
                wb.register_flow("mine", af.adapt(react_agent([ai_message("More.")], add)))
            assert wb.ask(question, flow="mine").wait().response == answer
    with open_scene(tmp_path, replay=cassette, setup=with_own_agent(tools=[add])) as wb:
        assert [wb.ask(question, flow="mine").wait().response for question in ("Ask.", "Ask more.")] == [
            "New.",
            "More.",
        ]
    assert len(Cassette.open(cassette).heads) == 2


def test_recording_of_a_waiting_graph_ends_at_its_pause(tmp_path: Path) -> None:
    """A decision is a miss; with `auto` the run is executed again."""
    setup = with_graph(lambda _played: two_interrupts("One?"), answer=replies_of)
    cassette = record(tmp_path, setup)
    with open_scene(tmp_path, replay=cassette, setup=setup) as wb:
        run = wb.ask("Ask.", flow="mine").wait()
        assert run.status == "waiting"
        with pytest.raises(CassetteMiss, match="recorded: nothing was decided"):
            run.approve()
    with open_scene(tmp_path, replay=cassette, mode="auto", setup=setup) as wb:
        assert wb.ask("Ask.", flow="mine").wait().approve().wait().response == "One?: True"
    with open_scene(tmp_path, replay=cassette, setup=setup) as wb:
        assert wb.ask("Ask.", flow="mine").wait().approve().wait().response == "One?: True"


def test_sealed_run_of_a_graph_needs_no_graph(tmp_path: Path) -> None:
    """Events, calls and decisions are equal."""
    with open_scene(tmp_path, data_dir=tmp_path / "data", setup=sending()) as wb:
        run = wb.ask("Send.", flow="mine").wait().approve().wait().deny().wait()
        path = run.seal(tmp_path / "run.afrun")
    sealed = af.open_run(path)
    found = sealed.verify()
    assert (found.is_same, found.differences, found.prompts) == (True, (), ())
    assert (sealed.response, len(sealed.approvals_df())) == ("Sent.", 2)


def test_secrets_in_a_graph_are_masked_in_the_cassette(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secrets are in the question, a report, a request and an answer."""
    key = "sk-proj-4f8a91c2e7b34d0f9a6c"
    monkeypatch.setenv("OTHER_API_KEY", key)

    async def work(_state: Chat) -> dict[str, Any]:
        get_stream_writer()({"type": "plan_created", "plan_id": "p", "title": key, "steps": []})
        interrupt({"question": f"With {key}?", "key": key})
        return {"messages": [("ai", f"Used {key}.")]}

    def scene(stage: Stage) -> Any:
        run = stage.ask(f"Use {key}.", flow="mine").wait()
        stage.code(run)
        return run.wait().status

    setup = with_graph(lambda played: one_node(never if played else work))
    cassette = tmp_path / "c.jsonl"
    with open_scene(tmp_path, record=cassette, setup=setup) as wb:
        assert scene(Stage(wb, is_played=False)) == "completed"
    assert key not in cassette.read_text()
    for known in (True, False):
        if not known:
            monkeypatch.delenv("OTHER_API_KEY")
        with open_scene(tmp_path, replay=cassette, setup=setup) as wb:
            assert scene(Stage(wb, is_played=True)) == "completed"


ELSEWHERE = """
import sys
sys.path[:0] = [sys.argv[1]]
from recording.busy_graph import BUSY, busy
from support.recorded_scenes import open_scene
from pathlib import Path
folder = Path(sys.argv[2])
def register(wb):
    wb.register_flow(BUSY, busy(7, is_played=True))
with open_scene(folder, replay=folder / "c.jsonl", setup=register) as wb:
    run = wb.ask("What?", flow=BUSY).wait()
    while run.pending:
        run.approve(run.pending[0].id).wait()
    (folder / "output").write_text(wb.events_df().to_csv() + run.response)
"""


def test_graph_is_played_in_another_process(tmp_path: Path) -> None:
    """The models of the graph raise if they are called."""
    cassette = tmp_path / "c.jsonl"
    with open_scene(tmp_path, record=cassette, setup=lambda wb: wb.register_flow(BUSY, busy(7))) as wb:
        run = wb.ask("What?", flow=BUSY).wait()
        while run.pending:
            run.approve(run.pending[0].id).wait()
        output = wb.events_df().to_csv() + run.response
    code = [*fast_python(), "-c", ELSEWHERE, str(Path(__file__).parents[1]), str(tmp_path)]
    subprocess.run(code, check=True, timeout=120)
    assert (tmp_path / "output").read_text() == output


@pytest.mark.parametrize("seed", range(4))
def test_busy_graph_can_be_cancelled_at_any_time(tmp_path: Path, seed: int) -> None:
    """A graph cancelled by clicks at any moment is stored, recorded and replayed with all its events."""
    part = random.Random(seed).uniform(0.05, 0.7)  # noqa: S311 - nothing secret is drawn
    with open_scene(tmp_path, data_dir=tmp_path / "whole", setup=lambda wb: wb.register_flow(BUSY, busy(seed))) as wb:
        whole = Stage(wb, is_played=False)
        click_through(whole.ask("What?", flow=BUSY))
        n_events = int(len(whole.events[0]) * part)

    def scene(stage: Stage) -> Any:
        run = stage.ask("What?", flow=BUSY)
        if not stage.is_played:
            click_through(run, enough=lambda: len(stage.events[0]) >= n_events)
            cancel(stage, run, "click")
        return run.wait().status

    def setup(wb: af.Workbench) -> None:
        wb.register_flow(BUSY, busy(seed, is_played=wb.settings.cassette_mode == "replay"))

    assert play_both(tmp_path, scene, "", setup=setup) == "cancelled"


def test_played_graph_does_not_continue_in_another_workbench(tmp_path: Path) -> None:
    """A waiting replay in a separate store cannot be continued without the cassette."""
    setup = with_graph(lambda _played: two_interrupts("One?"), answer=replies_of)
    cassette, data = record(tmp_path, setup), tmp_path / "played"
    with open_scene(tmp_path, replay=cassette, data_dir=data, setup=setup) as wb:
        run_id = wb.ask("Ask.", flow="mine").wait().run_id
    with (
        open_scene(tmp_path, data_dir=data, setup=setup) as wb,
        pytest.raises(af.errors.UsageError, match="was played from a cassette by another workbench"),
    ):
        wb.run(run_id).approve()
