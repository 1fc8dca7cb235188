"""Runs of a user's own graph are recorded like others, and played as a whole: the graph does not run again."""

import asyncio
import operator
import random
import subprocess
import sys
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
from support.graphs import ScriptedChat, react_agent, said
from support.mcp_config import until
from support.recorded_scenes import Scene, Setup, Stage, opened, play_both

import artifactflow_nb as af
from artifactflow_nb.errors import CassetteMiss
from artifactflow_nb.recording.cassette import Cassette


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Heard(TypedDict, total=False):
    messages: list[Any]
    heard: Annotated[list[str], operator.add]


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def own(*script: Any, tools: Any = (), **how: Any) -> Setup:
    """Registers LangGraph's prebuilt agent over a script; one that raises whenever it is asked, where it is played."""

    def setup(wb: af.Workbench) -> None:
        is_played = wb.settings.cassette_mode == "replay"
        given = [RuntimeError("the model was asked")] * 9 if is_played else script
        wb.register_flow("mine", af.adapt(react_agent(given, *tools), **how))

    return setup


def asked(stage: Stage) -> Any:
    return stage.ask("What is 1 + 2?", flow="mine").wait().response


def test_a_graph_is_played_to_the_byte(tmp_path: Path) -> None:
    """Events with pieces, rows, frames and what is shown are those of the recorded run; its model is not asked."""
    script = [said("Let me add.", ("add", {"a": 1, "b": 2})), said("It is 3.", tokens=(50, 6))]
    assert play_both(tmp_path, asked, "", setup=own(*script, tools=[add]), times=2) == "It is 3."


def sending() -> Any:
    """A tool that asks twice, and what it gives is what it heard."""

    def send(to: str) -> str:
        """Send a letter."""
        first = interrupt({"question": "Sure?", "to": to})
        return f"{to}: {first}, {interrupt('Really?')}"

    return own(said("", ("send", {"to": "Ada"})), said("Sent."), tools=[send])


@pytest.mark.parametrize("how", ["click", "code"])
def test_interrupts_get_their_recorded_decisions(tmp_path: Path, how: str) -> None:
    """What was clicked is clicked again, what code decides it decides again; and the interrupts get the same."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("Send.", flow="mine").wait()
        decide = stage.click if how == "click" else stage.code
        for answer in ({"params": {"to": "Bob"}}, {"approved": False, "instruction": "Later.", "replaces_call": True}):
            if stage.is_played and how == "click":
                break
            decide(run, **answer)
            run.wait()
        return run.response, stage.wb.query("SELECT result FROM main.tool_calls").result.tolist()

    assert play_both(tmp_path, scene, "", setup=sending())[1] == ["Ada: {'to': 'Bob'}, Later."]


def both(*values: Any) -> Any:
    """Nodes that interrupt at once, and answer with what they heard."""
    graph = StateGraph(Heard)
    for n, value in enumerate(values):

        def node(_state: Heard, value: Any = value) -> dict[str, Any]:
            return {"heard": [f"{value}: {interrupt(value)}"]}

        graph.add_node(f"asks_{n}", node)
        graph.add_edge(START, f"asks_{n}")
    return graph.compile()


def with_graph(make: Callable[[bool], Any], **how: Any) -> Setup:
    """Registers the graph that is made for a recording, or where it is played."""

    def setup(wb: af.Workbench) -> None:
        wb.register_flow("mine", af.adapt(make(wb.settings.cassette_mode == "replay"), **how))

    return setup


def heard(state: Any) -> str:
    return ", ".join(sorted(state["heard"]))


def never(_state: Any) -> Any:
    raise RuntimeError("the graph ran")


@pytest.mark.parametrize("first", [0, 1])
def test_concurrent_interrupts_are_decided_in_order(tmp_path: Path, first: int) -> None:
    """Of two questions that are put at once, each is decided when it was, and the run waits in between."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("Ask.", flow="mine").wait()
        stage.code(run, first)
        run.wait()
        assert run.status == "waiting"
        stage.code(run, 0, approved=False)
        return run.wait().response

    setup = with_graph(lambda _played: both("One?", "Two?"), answer=heard)
    assert play_both(tmp_path, scene, "", setup=setup) == ["One?: True, Two?: False", "One?: False, Two?: True"][first]


def test_decisions_of_a_policy_are_played(tmp_path: Path) -> None:
    """A request that a policy settled is settled where it is played, whatever the policy is there."""
    setup = with_graph(lambda _played: both("One?", "Two?"), answer=heard)
    said = play_both(tmp_path, asked, "", setup=setup, only_recorded={"approvals": "approve"})
    assert said == "One?: True, Two?: True"


def slowly(name: str, *script: Any) -> ScriptedChat:
    class Uneven(ScriptedChat):
        async def _astream(self, messages: Any, *_more: Any, **_options: Any) -> Any:
            for chunk in self._stream(messages):
                await asyncio.sleep(0.001 * (len(name) + len(str(chunk.message.content)) % 3))
                yield chunk

    return Uneven(script=list(script))


def wide(played: bool) -> Any:
    """Three nodes at once; each asks its model twice, and one of them a helper within a tool."""
    if played:
        graph = StateGraph(Chat)
        for name in ("left", "mid/dle", "right"):
            graph.add_node(name, never)
            graph.add_edge(START, name)
        return graph.compile()
    helper = react_agent([said("Helped a bit.")])

    async def ask_helper(question: str) -> str:
        """Ask the helper."""
        done = await helper.ainvoke({"messages": [("user", question)]})
        return str(done["messages"][-1].content)

    graph = StateGraph(Chat)
    for name in ("left", "mid/dle", "right"):
        script = (
            [said("", ("ask_helper", {"question": "1+1"})), said("2.")]
            if name == "mid/dle"
            else [said("One of it."), said("Two of it.")]
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
    """Pieces of several replies at once have the numbers and times that they had, in jobs of any name."""
    play_both(tmp_path, asked, "", setup=with_graph(wide))


def one_node(work: Callable[[Chat], Any]) -> Any:
    graph = StateGraph(Chat)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    return graph.compile()


def test_calls_outside_of_tools_and_models_are_played(tmp_path: Path) -> None:
    """Reports of nodes, and tools that a node calls without a model, with models in them, come again."""
    inner = ScriptedChat(script=[said("Inner."), said("Inner again.")])

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

    assert play_both(tmp_path, asked, "", setup=with_graph(make)) == "Inner again. , Inner."


def fail(a: int) -> str:
    """Fail."""
    raise ValueError(f"no {a}")


def test_a_failed_tool_is_played_as_failed(tmp_path: Path) -> None:
    """A tool that raised has its error; a graph that ended with it ends with the same error."""
    script = [said("", ("fail", {"a": 1})), said("It failed.")]
    from langgraph.prebuilt import ToolNode

    handled = ToolNode([fail], handle_tool_errors=True)
    (tmp_path / "handled").mkdir()
    assert play_both(tmp_path / "handled", asked, "", setup=own(*script, tools=[handled])) == "It failed."
    bare = ToolNode([fail], handle_tool_errors=False)
    play_both(tmp_path, ended("ValueError: no 1"), "", setup=own(*script, tools=[bare]))


def test_answer_without_a_model_is_played(tmp_path: Path) -> None:
    """A call of a tool that there is not ends as it did, beside one that ran."""
    script = [said("", ("nope", {"a": 1}), ("add", {"a": 1, "b": 2})), said("It is 3.")]

    def scene(stage: Stage) -> Any:
        return asked(stage), stage.wb.query("SELECT status, success FROM main.tool_calls").to_numpy().tolist()

    assert play_both(tmp_path, scene, "", setup=own(*script, tools=[add]))[1] == [["finished", 0], ["finished", 1]]


def ended(error: str) -> Scene:
    """A run that ends in this error."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("Do it.", flow="mine").wait()
        assert run.status == "failed"
        assert error in str(run.error)

    return scene


@pytest.mark.parametrize("n_failures", [1, 3])
def test_a_model_that_failed_is_played_as_failed(tmp_path: Path, n_failures: int) -> None:
    """A call that the graph made again is told as a retry; where it gave up, the run ends with the same error."""
    model = ScriptedChat(script=[*[RuntimeError("busy")] * n_failures, said("A text.")])

    async def work(state: Chat) -> dict[str, Any]:
        again = model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
        return {"messages": [await again.ainvoke(state["messages"])]}

    def make(played: bool) -> Any:
        return one_node(never if played else work)

    scene = asked if n_failures == 1 else ended("busy")
    play_both(tmp_path, scene, "", setup=with_graph(make))


@pytest.mark.parametrize("when_spent", ["stop", "ask"])
def test_a_spent_budget_is_played(tmp_path: Path, when_spent: str) -> None:
    """A run that its budget stopped ends so; one that was let go on is asked again, and goes on."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("1 + 2?", flow="mine", budget={"tokens": 20, "when_spent": when_spent}).wait()
        if when_spent == "ask":
            assert [request.kind for request in run.pending] == ["budget"]
            stage.code(run)
        return run.wait().status

    script = [said("", ("add", {"a": 1, "b": 2})), said("It is 3."), said("It is 3.")]
    status = play_both(tmp_path, scene, "", setup=own(*script, tools=[add]))
    assert status == {"stop": "failed", "ask": "completed"}[when_spent]


def greedy(played: bool) -> Any:
    """Two nodes at once that ask their models again and again, one of them in a thread and slowly."""
    quick, slow = slowly("", *[said(f"{n} of it.") for n in range(9)]), ScriptedChat(script=[said("So.")] * 9)

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
    """Nodes that work at the same time are stopped at a budget, and begin anew if they may: all calls come again."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("More?", flow="mine", budget={"tokens": 100, "when_spent": when_spent}).wait()
        while run.pending:
            stage.code(run)
            run.wait()
        return run.status

    status = play_both(tmp_path, scene, "", setup=with_graph(greedy))
    assert status == {"stop": "failed", "ask": "completed"}[when_spent]


def cancel(stage: Stage, run: af.Run, how: str) -> None:
    controller = stage.wb._thread.engine.controller
    stage.wb._thread.call(controller.cancel(run.run_id, by_code=how == "code"))


def halting(played: bool) -> Any:
    """A graph that never comes to its end: two models stand still after a word."""

    class Slow(ScriptedChat):
        async def _astream(self, messages: Any, *_more: Any, **_options: Any) -> Any:
            yield next(self._stream(messages))
            await asyncio.sleep(60)

    graph = StateGraph(Chat)
    for name in ("left", "right"):
        model = Slow(script=[said(f"Half of {name}.")])

        async def node(state: Chat, model: Any = model) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        graph.add_node(name, never if played else node)
        graph.add_edge(START, name)
    return graph.compile()


@pytest.mark.parametrize("how", ["click", "code"])
def test_a_run_that_was_cancelled_while_running_ends_by_itself(tmp_path: Path, how: str) -> None:
    """What had arrived when it was cancelled is kept, and told as it was."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("Write.", flow="mine")
        if how == "code" or not stage.is_played:
            until(lambda: sum(event.type == "llm_chunk" for event in stage.heard[0]) == 2)
            cancel(stage, run, how)
        run.wait()
        return run.status

    assert play_both(tmp_path, scene, "", setup=with_graph(halting)) == "cancelled"


@pytest.mark.parametrize("how", ["click", "code"])
def test_a_run_that_was_cancelled_while_waiting_is_replayed(tmp_path: Path, how: str) -> None:
    """A click that cancelled it comes by itself; code that did has to do so again."""

    def scene(stage: Stage) -> Any:
        run = stage.ask("Ask.", flow="mine").wait()
        stage.code(run, 0)
        run.wait()
        if how == "code" or not stage.is_played:
            cancel(stage, run, how)
        return run.wait().status

    setup = with_graph(lambda _played: both("One?", "Two?"), answer=heard)
    assert play_both(tmp_path, scene, "", setup=setup) == "cancelled"


def test_follow_up_of_a_graph_is_played(tmp_path: Path) -> None:
    """Runs of one conversation, and of the same question, are each played as themselves."""

    def scene(stage: Stage) -> Any:
        first = stage.ask("1 + 2?", flow="mine").wait()
        second = stage.ask("1 + 2?", flow="mine", conversation_id=first.conversation_id).wait()
        return first.response, second.response

    made = iter([said("Three."), said("Still three.")])

    def make(played: bool) -> Any:
        return one_node(never if played else lambda _state: {"messages": [next(made)]})

    assert play_both(tmp_path, scene, "", setup=with_graph(make)) == ("Three.", "Still three.")


def record(folder: Path, *setups: Setup, question: str = "Ask.") -> Path:
    """A cassette with a run of the last of these graphs, or of each that is registered anew."""
    cassette = folder / "c.jsonl"
    for setup in setups:
        with opened(folder, record=cassette, setup=setup) as wb:
            wb.ask(question, flow="mine").wait()
    return cassette


def test_another_graph_is_a_miss(tmp_path: Path) -> None:
    """A replay of a graph with other nodes, edges or input says what differs, and how to record it."""
    cassette = record(tmp_path, own(said("It is 3."), tools=[add]))
    one = one_node(never)
    with (
        opened(tmp_path, replay=cassette, setup=with_graph(lambda _played: one)) as wb,
        pytest.raises(
            CassetteMiss,
            match=r"the flow 'mine'(?s:.*)nodes: agent is missing now(?s:.*)nodes: work is new(?s:.*)mode=.auto",
        ),
    ):
        wb.ask("Ask.", flow="mine")
    with (
        opened(tmp_path, replay=cassette, setup=own(tools=[add, fail])) as wb,
        pytest.raises(CassetteMiss, match=r"not as it was recorded(?s:.*)tools: fail is new"),
    ):
        wb.ask("Ask.", flow="mine")
    with (
        opened(tmp_path, replay=cassette, setup=own(tools=[add])) as wb,
        pytest.raises(CassetteMiss, match="Nearest is"),
    ):
        wb.ask("Tell.", flow="mine")


def test_another_decision_is_a_miss(tmp_path: Path) -> None:
    """A decision that differs from the recorded one is refused in every mode: the graph cannot go another way."""
    setup = with_graph(lambda _played: both("One?"), answer=heard)
    cassette = tmp_path / "c.jsonl"
    with opened(tmp_path, record=cassette, setup=setup) as wb:
        wb.ask("Ask.", flow="mine").wait().approve().wait()
    for mode in ("replay", "auto"):
        with opened(tmp_path, replay=cassette, mode=mode, setup=setup) as wb:
            run = wb.ask("Ask.", flow="mine").wait()
            with pytest.raises(CassetteMiss, match="recorded: approved for once, now: denied"):
                run.deny()
            assert run.approve().wait().response == "One?: True"


def test_auto_plays_recorded_runs_and_records_new_ones(tmp_path: Path) -> None:
    """With `mode="auto"` a graph runs where it changed or was never asked, and takes the place of its recording."""
    cassette = record(tmp_path, own(said("Old.")))
    changed = own(said("New."), said("More."), tools=[add])
    for answer, question in (("New.", "Ask."), ("New.", "Ask."), ("More.", "Ask more.")):
        with opened(tmp_path, replay=cassette, mode="auto", setup=changed) as wb:
            if question == "Ask more.":
                wb.ask("Ask.", flow="mine").wait()
                wb.register_flow("mine", af.adapt(react_agent([said("More.")], add)))
            assert wb.ask(question, flow="mine").wait().response == answer
    with opened(tmp_path, replay=cassette, setup=own(tools=[add])) as wb:
        assert [wb.ask(question, flow="mine").wait().response for question in ("Ask.", "Ask more.")] == [
            "New.",
            "More.",
        ]
    assert len(Cassette.open(cassette).heads) == 2


def test_a_recording_that_waits_ends_there(tmp_path: Path) -> None:
    """It is played until it waits, and a decision leads to what was not recorded; `auto` makes it anew."""
    setup = with_graph(lambda _played: both("One?"), answer=heard)
    cassette = record(tmp_path, setup)
    with opened(tmp_path, replay=cassette, setup=setup) as wb:
        run = wb.ask("Ask.", flow="mine").wait()
        assert run.status == "waiting"
        with pytest.raises(CassetteMiss, match="recorded: nothing was decided"):
            run.approve()
    with opened(tmp_path, replay=cassette, mode="auto", setup=setup) as wb:
        assert wb.ask("Ask.", flow="mine").wait().approve().wait().response == "One?: True"
    with opened(tmp_path, replay=cassette, setup=setup) as wb:
        assert wb.ask("Ask.", flow="mine").wait().approve().wait().response == "One?: True"


def test_a_sealed_run_is_played_without_its_graph(tmp_path: Path) -> None:
    """A sealed file has all that a replay needs: events, calls and decisions come out the same."""
    with opened(tmp_path, data_dir=tmp_path / "data", setup=sending()) as wb:
        run = wb.ask("Send.", flow="mine").wait().approve().wait().deny().wait()
        path = run.seal(tmp_path / "run.afrun")
    sealed = af.open_run(path)
    found = sealed.verify()
    assert (found.is_same, found.differences, found.prompts) == (True, (), ())
    assert (sealed.response, len(sealed.approvals_df())) == ("Sent.", 2)


def test_secrets_are_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the question, nor what a node reports, asks or says, brings a key into the cassette."""
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
    with opened(tmp_path, record=cassette, setup=setup) as wb:
        assert scene(Stage(wb, is_played=False)) == "completed"
    assert key not in cassette.read_text()
    for known in (True, False):
        if not known:
            monkeypatch.delenv("OTHER_API_KEY")
        with opened(tmp_path, replay=cassette, setup=setup) as wb:
            assert scene(Stage(wb, is_played=True)) == "completed"


ELSEWHERE = """
import sys
sys.path[:0] = [sys.argv[1]]
from recording.busy_graph import BUSY, busy
from support.recorded_scenes import opened
from pathlib import Path
folder = Path(sys.argv[2])
with opened(folder, replay=folder / "c.jsonl", setup=lambda wb: wb.register_flow(BUSY, busy(7, is_played=True))) as wb:
    run = wb.ask("What?", flow=BUSY).wait()
    while run.pending:
        run.approve(run.pending[0].id).wait()
    (folder / "told").write_text(wb.events_df().to_csv() + run._repr_html_())
"""


def test_a_graph_is_played_in_a_fresh_process(tmp_path: Path) -> None:
    """Elsewhere, with a graph whose models raise when they are asked, all of it is told to the byte."""
    cassette = tmp_path / "c.jsonl"
    with opened(tmp_path, record=cassette, setup=lambda wb: wb.register_flow(BUSY, busy(7))) as wb:
        run = wb.ask("What?", flow=BUSY).wait()
        while run.pending:
            run.approve(run.pending[0].id).wait()
        told = wb.events_df().to_csv() + run._repr_html_()
    code = [sys.executable, "-c", ELSEWHERE, str(Path(__file__).parents[1]), str(tmp_path)]
    subprocess.run(code, check=True, timeout=120)
    assert (tmp_path / "told").read_text() == told


@pytest.mark.parametrize("seed", range(4))
def test_a_busy_graph_is_cancelled_at_any_moment(tmp_path: Path, seed: int) -> None:
    """Whatever it was at when a click ended it: all that was told is stored, recorded, and comes again."""
    part = random.Random(seed).uniform(0.05, 0.7)  # noqa: S311 - nothing secret is drawn
    with opened(tmp_path, data_dir=tmp_path / "whole", setup=lambda wb: wb.register_flow(BUSY, busy(seed))) as wb:
        whole = Stage(wb, is_played=False)
        click_through(whole.ask("What?", flow=BUSY))
        n_told = int(len(whole.heard[0]) * part)

    def scene(stage: Stage) -> Any:
        run = stage.ask("What?", flow=BUSY)
        if not stage.is_played:
            click_through(run, enough=lambda: len(stage.heard[0]) >= n_told)
            cancel(stage, run, "click")
        return run.wait().status

    def setup(wb: af.Workbench) -> None:
        wb.register_flow(BUSY, busy(seed, is_played=wb.settings.cassette_mode == "replay"))

    assert play_both(tmp_path, scene, "", setup=setup) == "cancelled"


def test_played_graph_does_not_continue_in_another_workbench(tmp_path: Path) -> None:
    """A replay that waits in a store of its own is not taken up by a workbench without the cassette: the graph ran."""
    setup = with_graph(lambda _played: both("One?"), answer=heard)
    cassette, data = record(tmp_path, setup), tmp_path / "played"
    with opened(tmp_path, replay=cassette, data_dir=data, setup=setup) as wb:
        run_id = wb.ask("Ask.", flow="mine").wait().run_id
    with (
        opened(tmp_path, data_dir=data, setup=setup) as wb,
        pytest.raises(af.UsageError, match="was played from a cassette by another workbench"),
    ):
        wb.run(run_id).approve()
