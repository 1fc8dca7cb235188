"""Reviews by LangChain's middleware and deepagents, LangGraph's tutorial, and answers with which a node fails."""

from typing import Any

import pytest
from conftest import OpenEngine, OpenWorkbench
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from support.graphs import ScriptedChat, ai_message, react_agent

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.widgets.run.saved import saved_run

ALL = ["approve", "edit", "reject", "respond"]
SENDING = (("send", {"to": "Ada"}), ("send", {"to": "Bob"}))


def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


def look(word: str) -> str:
    """Look a word up."""
    return f"{word}: nothing"


def reviewed_agent(*calls: Any, allowed: Any = True, **options: Any) -> tuple[Any, ScriptedChat]:
    """An agent whose calls of `send` are reviewed, and the model of the agent."""
    model = ScriptedChat(script=[ai_message("", *(calls or SENDING[:1])), ai_message("Done.")])
    rule = allowed if allowed is True else {"allowed_decisions": allowed}
    middleware = HumanInTheLoopMiddleware(interrupt_on={"send": rule}, **options)
    return create_agent(model, [send, look], middleware=[middleware], name="postman"), model


def tool_messages(model: ScriptedChat) -> list[str]:
    """The results of tools in the last prompt of a model."""
    return [str(message.content) for message in model.requests[-1] if message.type == "tool"]


async def wait_at_graph(engine: Engine, graph: Any, **options: Any) -> Any:
    engine.flows.register("mine", af.adapt(graph, **options))
    return await engine.controller.execute("Go.", flow="mine")


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize(
    ("decision", "result"),
    [
        (Decision(approved=True), "sent to Ada"),
        (Decision(approved=True, params={"to": "Eve"}), "sent to Eve"),
        (Decision(approved=False, instruction="Not now."), "rejected the tool call for `send` with reason: Not now."),
        (Decision(approved=False), "The tool was not executed."),
        (Decision(approved=False, instruction="It is sent.", replaces_call=True), "It is sent."),
    ],
)
async def test_review_gets_the_decision(open_engine: OpenEngine, mode: Any, decision: Decision, result: str) -> None:
    """Calls are approved, edited, denied and instructed, in both modes of the middleware."""
    engine, (graph, model) = await open_engine(), reviewed_agent(interrupt_mode=mode)
    run = await wait_at_graph(engine, graph)
    [request] = run.pending
    assert (request.agent, request.tool, dict(request.params)) == ("postman", "send", {"to": "Ada"})
    assert (request.title, request.message) == ("Run send: Ada", "Tool execution requires approval")
    done = await engine.controller.resume(run.thread_id, decisions={request.id: decision})
    assert (done.status, done.response) == ("completed", "Done.")
    assert result in tool_messages(model)[0]


async def test_review_names_the_agent_that_wrote_the_call(open_engine: OpenEngine) -> None:
    """The request has the name of the agent that wrote the call, not the name of the middleware's node."""
    middleware = HumanInTheLoopMiddleware(interrupt_on={"send": True})
    model = ScriptedChat(script=[ai_message("", *SENDING[:1]), ai_message("Done.")])
    engine = await open_engine()
    run = await wait_at_graph(engine, create_agent(model, [send], middleware=[middleware]))
    agents = await engine.database.read(lambda db: db.execute("SELECT agent_name FROM llm_calls").fetchall())
    assert [request.agent for request in run.pending] == [row["agent_name"] for row in agents] == ["model"]


async def test_calls_of_one_review_are_requests_with_one_answer(open_engine: OpenEngine) -> None:
    """The graph continues when all requests are decided; calls without a review are not requests."""
    engine, (graph, model) = await open_engine(), reviewed_agent(*SENDING, ("look", {"word": "ink"}))
    run = await wait_at_graph(engine, graph)
    by_title = {request.title: request.id for request in run.pending}
    assert list(by_title) == ["Run send: Ada", "Run send: Bob"]
    first = await engine.controller.resume(run.thread_id, decisions={by_title["Run send: Bob"]: False})
    assert (first.status, [request.title for request in first.pending]) == ("waiting", ["Run send: Ada"])
    done = await engine.controller.resume(run.thread_id, decisions={by_title["Run send: Ada"]: True})
    assert done.status == "completed"
    sql = "SELECT approval FROM tool_calls ORDER BY position"
    approvals = await engine.database.read(lambda db: db.execute(sql).fetchall())
    assert [row["approval"] for row in approvals] == ["approved", "denied", "not_needed"]
    results = tool_messages(model)
    assert any("sent to Ada" in text for text in results)
    assert any("rejected the tool call for `send`" in text for text in results)
    assert any("ink: nothing" in text for text in results)


async def test_edited_call_gets_the_result_of_its_edit(open_engine: OpenEngine) -> None:
    """The row has the call that the model wrote, and the result of the edited call; the rejected call has failed."""
    engine, (graph, _) = await open_engine(), reviewed_agent(*SENDING)
    run = await wait_at_graph(engine, graph)
    edit, deny = Decision(approved=True, params={"to": "Eve"}), Decision(approved=False)
    decisions = {request.id: each for request, each in zip(run.pending, (edit, deny), strict=True)}
    await engine.controller.resume(run.thread_id, decisions=decisions)
    sql = "SELECT success, result, error_message, approval FROM tool_calls ORDER BY position"
    rows = await engine.database.read(lambda db: db.execute(sql).fetchall())
    assert [row["success"] for row in rows] == [1, 0]
    assert [row["approval"] for row in rows] == ["edited", "denied"]
    assert "sent to Eve" in rows[0]["result"]


async def test_decision_that_the_review_forbids_is_refused(open_engine: OpenEngine) -> None:
    """The error lists the possible outcomes, and nothing is decided."""
    engine, (graph, _) = await open_engine(), reviewed_agent(allowed=["approve", "respond"])
    run = await wait_at_graph(engine, graph)
    [request] = run.pending
    assert request.allowed == ("approved", "instructed")
    for decision in (Decision(approved=False), Decision(approved=True, params={"to": "Eve"})):
        with pytest.raises(af.errors.UsageError, match="'Run send: Ada' cannot be .* It can be approved or instructed"):
            await engine.controller.resume(run.thread_id, decisions={request.id: decision})
    assert (await engine.controller.resume(run.thread_id, approved=True)).response == "Done."


async def test_person_is_asked_if_the_review_forbids_the_verdict_of_the_policy(open_engine: OpenEngine) -> None:
    """The policy approves all calls, but this call can only be answered by a person."""
    engine, (graph, model) = await open_engine(approvals="approve"), reviewed_agent(allowed=["respond"])
    run = await wait_at_graph(engine, graph)
    answer = Decision(approved=False, instruction="By hand.", replaces_call=True)
    done = await engine.controller.resume(run.thread_id, decisions={run.pending[0].id: answer})
    assert (done.status, tool_messages(model)) == ("completed", ["By hand."])


async def test_review_continues_in_another_engine(open_engine: OpenEngine) -> None:
    """The decisions are in the store; one decision is from the first engine."""
    engine, (graph, _) = await open_engine(), reviewed_agent(*SENDING)
    run = await wait_at_graph(engine, graph)
    await engine.controller.resume(run.thread_id, decisions={run.pending[0].id: True})
    await engine.aclose()
    other, (graph, model) = await open_engine(), reviewed_agent(*SENDING)
    model.requests.append([])  # its first reply is in the checkpoint
    other.flows.register("mine", af.adapt(graph))
    done = await other.controller.resume(run.thread_id, approved=False)
    assert (done.status, len(tool_messages(model))) == ("completed", 2)


async def test_own_resume_function_gets_the_whole_review(open_engine: OpenEngine) -> None:
    """A graph that was adapted with `resume=` has one request for all calls, as before."""
    engine, (graph, _) = await open_engine(), reviewed_agent(*SENDING)
    run = await wait_at_graph(engine, graph, resume=lambda _decision: {"decisions": [{"type": "approve"}] * 2})
    [request] = run.pending
    assert set(request.params) == {"action_requests", "review_configs"}
    assert (await engine.controller.resume(run.thread_id, approved=True)).response == "Done."


async def test_deep_agent_asks_before_its_tools(open_engine: OpenEngine) -> None:
    """`interrupt_on` works for the lead and for a sub-agent; the request names the agent."""
    sub = ScriptedChat(script=[ai_message("", ("send", {"to": "Eve"})), ai_message("Sub done.")])
    task = {"description": "Write to Eve.", "subagent_type": "clerk"}
    script = [ai_message("", ("send", {"to": "Ada"})), ai_message("", ("task", task)), ai_message("Done.")]
    clerk = {"name": "clerk", "description": "Writes.", "system_prompt": "Write.", "model": sub, "tools": [send]}
    graph = create_deep_agent(
        ScriptedChat(script=script), [send], subagents=[clerk], interrupt_on={"send": True}, name="chief"
    )
    engine = await open_engine()
    run = await wait_at_graph(engine, graph)
    assert [(request.agent, request.title) for request in run.pending] == [("chief", "Run send: Ada")]
    run = await engine.controller.resume(run.thread_id, approved=True)
    assert [(request.agent, request.title) for request in run.pending] == [("clerk", "Run send: Eve")]
    run = await engine.controller.resume(run.thread_id, approved=True)
    assert (run.status, run.response) == ("completed", "Done.")
    assert "sent to Eve" in str(sub.requests[-1][-1].content)


async def test_approval_of_a_tool_that_pauses_is_stored(open_engine: OpenEngine) -> None:
    """The call of a sub-agent was approved before the sub-agent asked for a decision of its own."""
    sub = ScriptedChat(script=[ai_message("", ("send", {"to": "Eve"})), ai_message("Sub done.")])
    task = {"description": "Write to Eve.", "subagent_type": "clerk"}
    clerk = {"name": "clerk", "description": "Writes.", "system_prompt": "Write.", "model": sub, "tools": [send]}
    lead = ScriptedChat(script=[ai_message("", ("task", task)), ai_message("Done.")])
    graph = create_deep_agent(lead, [], subagents=[clerk], interrupt_on={"send": True, "task": True}, name="chief")
    engine = await open_engine()
    run = await wait_at_graph(engine, graph)
    for title in ("Run task: Write to Eve.", "Run send: Eve"):
        assert [request.title for request in run.pending] == [title]
        run = await engine.controller.resume(run.thread_id, approved=True)
    sql = "SELECT tool_name, approval FROM tool_calls ORDER BY rowid"
    calls = await engine.database.read(lambda db: [tuple(row) for row in db.execute(sql)])
    assert calls == [("task", "approved"), ("send", "approved")]


# --- LangGraph's tutorial, and answers with which a node fails --------------------------------------------------------


def human_assistance(query: str) -> str:
    """Request assistance from a human, as in LangGraph's tutorial."""
    human_response = interrupt({"query": query})
    return human_response["data"]


@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        (Decision(approved=False, instruction="Use LangGraph.", replaces_call=True), "Use LangGraph."),
        (Decision(approved=True, params={"data": "Use LangGraph."}), "Use LangGraph."),
        (Decision(approved=True), "Approved."),
        (Decision(approved=False, instruction="No time."), "No time."),
    ],
)
async def test_tutorial_of_langgraph_gets_its_answer(open_engine: OpenEngine, decision: Decision, answer: str) -> None:
    """`interrupt({"query": ...})` returns `{"data": ...}`, and the card has a field for the data."""
    script = [ai_message("", ("human_assistance", {"query": "How do I build an agent?"})), ai_message("Thanks.")]
    engine, graph = await open_engine(), react_agent(script, human_assistance)
    run = await wait_at_graph(engine, graph)
    [request] = run.pending
    assert (request.title, dict(request.params)) == ("How do I build an agent?", {"data": ""})
    done = await engine.controller.resume(run.thread_id, decisions={request.id: decision})
    assert (done.status, done.response) == ("completed", "Thanks.")
    sql = "SELECT result FROM tool_calls"
    assert await engine.database.read(lambda db: db.execute(sql).fetchone()[0]) == answer


def mapping_graph(**compiled: Any) -> Any:
    """A graph that needs a mapping as the answer."""

    def name(_state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", interrupt({"question": "Is it right?", "name": "Ada"})["name"])]}

    return StateGraph(MessagesState).add_node("name", name).add_edge(START, "name").compile(**compiled)


@pytest.mark.parametrize("compiled", [{}, {"checkpointer": InMemorySaver()}], ids=["stored here", "own checkpointer"])
async def test_failing_answer_is_asked_again(open_engine: OpenEngine, compiled: Any) -> None:
    """The next request has the error; the run waits, and the next answer can be right."""
    engine = await open_engine()
    run = await wait_at_graph(engine, mapping_graph(**compiled))
    again = await engine.controller.resume(run.thread_id, approved=True)
    assert again.status == "waiting"
    [request] = again.pending
    assert request.id != run.pending[0].id
    assert "failed with the last answer: TypeError: 'bool' object is not subscriptable" in request.message
    edited = Decision(approved=True, params={"name": "Eve"})
    done = await engine.controller.resume(run.thread_id, decisions={request.id: edited})
    assert (done.status, done.response) == ("completed", "Eve")


async def test_failing_answer_is_asked_again_by_the_same_agent(open_engine: OpenEngine) -> None:
    """The second request names the node of a subgraph, or the tool, as the first request does."""
    team = StateGraph(MessagesState).add_node("team", mapping_graph()).add_edge(START, "team").compile()

    def choose(_n: int = 0) -> str:
        """Choose."""
        return interrupt("Which one?").upper()

    for graph in (team, react_agent([ai_message("", ("choose", {})), ai_message("Chosen.")], choose)):
        engine = await open_engine()
        run = await wait_at_graph(engine, graph)
        again = await engine.controller.resume(run.thread_id, approved=True)
        first, second = run.pending[0], again.pending[0]
        assert (second.agent, second.tool) == (first.agent, first.tool)


async def test_failing_answer_is_asked_again_in_another_engine(open_engine: OpenEngine) -> None:
    """The second question survives the process, like the first."""
    engine = await open_engine()
    run = await wait_at_graph(engine, mapping_graph())
    await engine.controller.resume(run.thread_id, approved=True)
    await engine.aclose()
    other = await open_engine()
    other.flows.register("mine", af.adapt(mapping_graph()))
    again = await other.controller.resume(run.thread_id, approved=False)
    assert [request.message.partition("\n")[0] for request in again.pending] == [
        "The graph failed with the last answer: TypeError: 'bool' object is not subscriptable"
    ]
    edited = Decision(approved=True, params={"name": "Eve"})
    done = await other.controller.resume(run.thread_id, decisions={again.pending[0].id: edited})
    assert done.response == "Eve"


async def test_tool_that_fails_with_an_answer_is_one_call(open_engine: OpenEngine) -> None:
    """The tool starts once and ends once, with the result of the second answer."""

    def choose(_n: int = 0) -> str:
        """Choose."""
        return interrupt("Which one?").upper()

    script = [ai_message("", ("choose", {})), ai_message("Chosen.")]
    engine, graph = await open_engine(), react_agent(script, choose)
    run = await wait_at_graph(engine, graph)
    again = await engine.controller.resume(run.thread_id, approved=True)
    assert "'bool' object has no attribute 'upper'" in again.pending[0].message
    answer = Decision(approved=False, instruction="red", replaces_call=True)
    done = await engine.controller.resume(run.thread_id, decisions={again.pending[0].id: answer})
    assert (done.status, done.response) == ("completed", "Chosen.")
    types = [event.type.value for event in await engine.runs.events(run.run_id)]
    assert (types.count("tool_start"), types.count("tool_complete")) == (1, 1)
    sql = "SELECT result FROM tool_calls"
    assert await engine.database.read(lambda db: db.execute(sql).fetchone()[0]) == "RED"


async def test_failing_answer_of_a_policy_fails_the_run(open_engine: OpenEngine) -> None:
    """The policy would give the same answer again."""
    engine = await open_engine(approvals="approve")
    run = await wait_at_graph(engine, mapping_graph())
    assert (run.status, run.error_message) == (
        "failed",
        "The graph failed in name: TypeError: 'bool' object is not subscriptable",
    )


async def test_failing_answer_for_the_whole_run_is_asked_again(open_engine: OpenEngine) -> None:
    """An approval for all calls does not answer the second question."""
    engine = await open_engine()
    run = await wait_at_graph(engine, mapping_graph())
    approved = {run.pending[0].id: Decision(approved=True, scope="run")}
    again = await engine.controller.resume(run.thread_id, decisions=approved)
    assert (again.status, len(again.pending)) == ("waiting", 1)


async def test_failure_after_the_answer_fails_the_run(open_engine: OpenEngine) -> None:
    """The node that fails is a later node, which did not get the answer."""

    def ask(_state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", str(interrupt("Go on?")))]}

    def fail(_state: MessagesState) -> dict[str, Any]:
        raise ValueError("nothing to do with it")

    graph = StateGraph(MessagesState).add_node("ask", ask).add_node("fail", fail)
    graph.add_edge(START, "ask").add_edge("ask", "fail")
    engine = await open_engine()
    run = await wait_at_graph(engine, graph.compile())
    done = await engine.controller.resume(run.thread_id, approved=True)
    assert (done.status, done.error_message) == (
        "failed",
        "The graph failed in fail: ValueError: nothing to do with it",
    )


def test_cards_of_a_review_offer_only_possible_decisions(workbench: OpenWorkbench) -> None:
    """The request lists the possible outcomes, `run.deny` is refused, and the saved output shows the arguments."""
    wb = workbench(interactive=False)
    graph, _ = reviewed_agent(*SENDING, allowed=["approve", "edit"])
    run = wb.ask("Go.", flow=af.adapt(graph, name="mine")).wait()
    assert len(run.pending) == 2
    with pytest.raises(af.errors.UsageError, match="cannot be denied"):
        run.deny("", run.pending[0].id)
    assert "Bob" in saved_run(run._client)["text/html"]
    for request in run.pending:
        run.approve(request.id)
    assert run.wait().response == "Done."


# --- other documented forms ------------------------------------------------------------------------------------------


def inbox_request(**config: bool) -> dict[str, Any]:
    """A request in the form of Agent Inbox."""
    action = {"action": "send", "args": {"to": "Ada"}}
    return {"action_request": action, "config": config, "description": "Please look at this letter."}


EVERYTHING = {"allow_accept": True, "allow_edit": True, "allow_respond": True, "allow_ignore": True}


def echo_graph(value: Any) -> Any:
    """A graph that interrupts with a value and answers with the value that it gets."""
    graph = StateGraph(MessagesState)
    graph.add_node("ask", lambda _state: {"messages": [("ai", repr(interrupt(value)))]})
    graph.add_edge(START, "ask")
    return graph.compile()


@pytest.mark.parametrize("as_list", [True, False])
@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        (Decision(approved=True), {"type": "accept", "args": None}),
        (Decision(approved=False), {"type": "ignore", "args": None}),
        (
            Decision(approved=True, params={"to": "Eve"}),
            {"type": "edit", "args": {"action": "send", "args": {"to": "Eve"}}},
        ),
        (
            Decision(approved=False, instruction="Write to Bob.", replaces_call=True),
            {"type": "response", "args": "Write to Bob."},
        ),
    ],
)
async def test_request_of_agent_inbox_gets_its_answer(
    open_engine: OpenEngine, decision: Decision, answer: Any, as_list: bool
) -> None:
    engine = await open_engine()
    value = inbox_request(**EVERYTHING)
    result = await wait_at_graph(engine, echo_graph([value] if as_list else value))
    [request] = result.pending
    assert (request.title, request.tool, dict(request.params)) == ("Run send: Ada", "send", {"to": "Ada"})
    assert request.message == "Please look at this letter."
    done = await engine.controller.resume(result.thread_id, decisions={request.id: decision})
    assert done.response == repr([answer])


async def test_config_of_agent_inbox_limits_the_choices(open_engine: OpenEngine) -> None:
    result = await wait_at_graph(
        await open_engine(), echo_graph([inbox_request(allow_accept=True, allow_respond=True)])
    )
    assert set(result.pending[0].allowed) == {"approved", "instructed"}


@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        (Decision(approved=True), {"action": "continue"}),
        (Decision(approved=True, params={"to": "Eve"}), {"action": "update", "data": {"to": "Eve"}}),
        (Decision(approved=False, instruction="Not now."), {"action": "feedback", "data": "Not now."}),
        (Decision(approved=False), {"action": "feedback", "data": "Denied."}),
    ],
)
async def test_review_of_a_tool_call_gets_an_action(open_engine: OpenEngine, decision: Decision, answer: Any) -> None:
    """The answer has the form of LangGraph's guide, in which a node reads `review["action"]`."""
    engine = await open_engine()
    call = {"name": "send", "args": {"to": "Ada"}, "id": "1", "type": "tool_call"}
    result = await wait_at_graph(engine, echo_graph({"question": "Is this right?", "tool_call": call}))
    [request] = result.pending
    assert (request.title, request.message, dict(request.params)) == ("Run send: Ada", "Is this right?", {"to": "Ada"})
    done = await engine.controller.resume(result.thread_id, decisions={request.id: decision})
    assert done.response == repr(answer)


@pytest.mark.parametrize(
    ("read", "field"),
    [
        (lambda answer: answer["action"], "action"),
        (lambda answer: answer.get("choice"), "action"),
        (lambda answer: {}["verdict"] if isinstance(answer, bool) else answer["verdict"], "verdict"),
    ],
)
async def test_second_request_says_which_answer_fits(open_engine: OpenEngine, read: Any, field: str) -> None:
    """A node that reads fields of the answer fails on True; the person is asked again, and told what fits."""
    engine = await open_engine()
    graph = StateGraph(MessagesState)
    graph.add_node("ask", lambda _state: {"messages": [("ai", str(read(interrupt("Publish it?"))))]})
    graph.add_edge(START, "ask")
    result = await wait_at_graph(engine, graph.compile())
    again = await engine.controller.resume(result.thread_id, approved=True)
    [request] = again.pending
    assert f'run.approve(params={{"{field}": "..."}})' in request.message
    fitting = Decision(approved=True, params={field: "go", "choice": "go"})
    done = await engine.controller.resume(result.thread_id, decisions={request.id: fitting})
    assert (done.status, done.response) == ("completed", "go")
