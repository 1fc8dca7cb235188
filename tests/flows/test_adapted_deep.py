"""Deep agents and swarms: names, plans, files, the state for the next question; answers of graphs without messages."""

import warnings
from pathlib import Path
from typing import Any, TypedDict

import pytest
from conftest import OpenWorkbench
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain.agents.structured_output import ToolStrategy
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from langgraph_supervisor import create_supervisor
from langgraph_swarm import create_handoff_tool, create_swarm
from pydantic import BaseModel
from support.graphs import ScriptedChat, ai_message

import artifactflow_nb as af
from artifactflow_nb.widgets.run.saved import saved_run

TASK = ("task", {"description": "Look it up.", "subagent_type": "researcher"})


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write_file", {"file_path": path, "content": content}


def todos(*statuses: str) -> tuple[str, dict[str, Any]]:
    titles = ("Read", "Write", "Check")
    return "write_todos", {
        "todos": [{"content": title, "status": status} for title, status in zip(titles, statuses, strict=False)]
    }


def deep_agent(*script: Any, name: str | None = None, sub: Any = (), **options: Any) -> tuple[Any, ScriptedChat]:
    """A deep agent with a sub-agent, and the lead's model."""
    model = ScriptedChat(script=list(script))
    researcher = {"name": "researcher", "description": "Looks up.", "system_prompt": "Look.", "tools": []}
    subagents = [{**researcher, "model": ScriptedChat(script=list(sub))}]
    return create_deep_agent(model, [], subagents=subagents, name=name, **options), model


@pytest.mark.parametrize(("name", "lead"), [("chief", "chief"), (None, "mine")])
def test_deep_agent_and_its_subagents_have_their_names(workbench: OpenWorkbench, name: str | None, lead: str) -> None:
    """A lead without a name has the name of the flow; the sub-agent works in the job of the call."""
    wb = workbench(interactive=False)
    graph, _ = deep_agent(ai_message("", TASK), ai_message("Done."), name=name, sub=[ai_message("Found.")])
    run = wb.ask("Go.", flow=af.adapt(graph, name="mine")).wait()
    calls = wb.llm_calls_df(run).sort_values("started_at")
    assert (run.response, list(calls.agent_name)) == ("Done.", [lead, "researcher", lead])
    assert wb.tool_calls_df(run).agent_name.tolist() == [lead]


def test_agents_of_a_supervisor_have_their_names(workbench: OpenWorkbench) -> None:
    """The calls of a `create_agent` agent have the name of the agent, not the name of the node."""
    helper = create_agent(ScriptedChat(script=[ai_message("Helped.")]), [], name="helper")
    lead = ScriptedChat(script=[ai_message("", ("transfer_to_helper", {})), ai_message("Done.")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses an agent of LangGraph that has moved to LangChain
        graph = create_supervisor([helper], model=lead).compile()
    wb = workbench(interactive=False)
    run = wb.ask("Go.", flow=af.adapt(graph, name="mine")).wait()
    assert run.response == "Done."
    assert "helper" in set(wb.llm_calls_df(run).agent_name)


def planning_agent(*script: Any) -> Any:
    return create_agent(ScriptedChat(script=list(script)), [], middleware=[TodoListMiddleware()], name="planner")


def test_todos_are_a_plan(workbench: OpenWorkbench) -> None:
    """Steps get the statuses of the to-dos; a new list replaces the steps."""
    script = [
        ai_message("", todos("in_progress", "pending")),
        ai_message("", todos("completed", "in_progress")),
        ai_message("", todos("completed", "completed", "pending")),
        ai_message("Done."),
    ]
    wb = workbench(interactive=False)
    run = wb.ask("Go.", flow=af.adapt(planning_agent(*script), name="mine")).wait()
    steps = wb.plan_steps_df(run)
    assert steps[["title", "status", "attempts"]].to_numpy().tolist() == [
        ["Read", "completed", 1],
        ["Write", "completed", 1],
        ["Check", "pending", 0],
    ]
    assert steps.agent_name.dropna().tolist() == ["planner"] * 2
    assert steps.plan_id.nunique() == 1
    page = saved_run(run._client)["text/html"]
    assert "To-dos" in page
    assert "2 of 3 steps" in page
    assert wb.tool_calls_df(run).success.tolist() == [True] * 3
    sealed = af.open_run(run.seal(Path(wb.settings.data_dir) / "run.afrun"))
    assert len(sealed.plan_steps_df()) == 3


def test_plan_continues_in_another_workbench(workbench: OpenWorkbench) -> None:
    """To-dos after a pause belong to the plan from before the pause."""

    def ask() -> str:
        """Ask the person."""
        return str(interrupt("Go on?"))

    def build(*script: Any) -> Any:
        model = ScriptedChat(script=list(script))
        return af.adapt(create_agent(model, [ask], middleware=[TodoListMiddleware()], name="planner"), name="mine")

    wb = workbench(interactive=False)
    run_id = wb.ask("Go.", flow=build(ai_message("", todos("in_progress")), ai_message("", ("ask", {})))).wait().run_id
    wb.close()
    new = workbench(interactive=False)
    new.register_flow("mine", build(ai_message("", todos("completed")), ai_message("Done.")))
    assert new.run(run_id).approve().wait().response == "Done."
    assert new.plan_steps_df()[["title", "status"]].to_numpy().tolist() == [["Read", "completed"]]


def test_files_of_a_deep_agent_are_artifacts(workbench: OpenWorkbench) -> None:
    """Each change is a version by the agent that wrote it."""
    edit = "edit_file", {"file_path": "/out/report.md", "old_string": "Old", "new_string": "New"}
    graph, _ = deep_agent(
        ai_message("", TASK),
        ai_message("", write("/out/report.md", "# Old")),
        ai_message("", edit),
        ai_message("Done."),
        name="chief",
        sub=[ai_message("", write("/notes.txt", "Found it.")), ai_message("Found.")],
    )
    wb = workbench(interactive=False)
    run = wb.ask("Go.", flow=af.adapt(graph, name="mine")).wait()
    assert run.artifacts["out/report.md"].content == "# New"
    assert run.artifacts["notes.txt"].content == "Found it."
    versions = wb.artifacts_df(run).sort_values(["artifact_id", "version"])
    assert versions[["artifact_id", "version", "created_by", "content_type"]].to_numpy().tolist() == [
        ["notes.txt", 1, "researcher", "text/plain"],
        ["out/report.md", 1, "chief", "text/markdown"],
        ["out/report.md", 2, "chief", "text/markdown"],
    ]
    assert [event.type.value for event in run.events].count("artifact_changed") == 3


def test_follow_up_has_the_files_of_the_turn_before(workbench: OpenWorkbench) -> None:
    """The files have the edits of the person, on each branch, and in another workbench."""
    read = "read_file", {"file_path": "/report.md"}
    wb = workbench(interactive=False)
    graph, _ = deep_agent(ai_message("", write("/report.md", "# Red")), ai_message("Written."))
    first = wb.ask("Write.", flow=af.adapt(graph, name="mine")).wait()
    wb.close()
    wb = workbench(interactive=False)
    for text in ("# Red", "# Blue"):
        graph, model = deep_agent(ai_message("", read), ai_message("Read."))
        wb.register_flow("mine", af.adapt(graph))
        wb.ask("Read.", conversation_id=first.conversation_id, flow="mine", parent_message_id=first.message_id).wait()
        assert text in str(model.requests[-1][-1].content)
        wb.run(first.run_id).artifacts["report.md"].edit("# Blue")


def swarm() -> tuple[Any, ScriptedChat, ScriptedChat]:
    alice = ScriptedChat(script=[ai_message("", ("transfer_to_bob", {})), ai_message("I am Alice.")])
    bob = ScriptedChat(script=[ai_message("I am Bob."), ai_message("Still Bob.")])
    agents = [
        create_agent(alice, [create_handoff_tool(agent_name="Bob")], name="Alice"),
        create_agent(bob, [create_handoff_tool(agent_name="Alice")], name="Bob"),
    ]
    return create_swarm(agents, default_active_agent="Alice").compile(), alice, bob


def test_follow_up_continues_with_the_active_agent_of_a_swarm(workbench: OpenWorkbench) -> None:
    """The agent that took over the last turn answers; a new conversation starts with the default agent."""
    wb = workbench(interactive=False)
    graph, alice, bob = swarm()
    first = wb.ask("Bob, please.", flow=af.adapt(graph, name="mine")).wait()
    second = wb.ask("Who are you?", conversation_id=first, flow="mine").wait()
    assert (first.response, second.response) == ("I am Bob.", "Still Bob.")
    assert (len(alice.requests), len(bob.requests)) == (1, 2)
    assert set(wb.llm_calls_df(second).agent_name) == {"Bob"}
    assert wb.ask("Who are you?", flow="mine").wait().response == "I am Alice."


def test_state_for_the_next_question_is_recorded(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """After a replay, a new question continues with the state of the recorded run."""
    cassette = tmp_path / "c.jsonl"
    wb = workbench(interactive=False, record=cassette)
    wb.ask("Bob, please.", flow=af.adapt(swarm()[0], name="mine")).wait()
    wb.close()
    wb = workbench(interactive=False, replay=cassette, mode="auto", data_dir=tmp_path / "played")
    graph, alice, _ = swarm()
    first = wb.ask("Bob, please.", flow=af.adapt(graph, name="mine")).wait()
    wb.ask("Who are you?", conversation_id=first, flow="mine").wait()
    assert alice.requests == []


# --- answers ----------------------------------------------------------------------------------------------------------


class Fields(TypedDict, total=False):
    question: str
    topic: str
    report: str
    score: int
    found: Any


def writing_graph(**fields: Any) -> Any:
    graph = StateGraph(Fields).add_node("write", lambda _state: fields).add_edge(START, "write")
    return graph.compile()


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"report": "It is 3.", "topic": "Sums"}, "It is 3."),
        ({"topic": "Sums"}, "Sums"),
        ({"score": 3}, '```json\n{\n  "question": "1 + 2?",\n  "score": 3\n}\n```'),
        (
            {"score": 3, "found": Path("sums")},
            '```json\n{\n  "question": "1 + 2?",\n  "score": 3,\n  "found": "sums"\n}\n```',
        ),
    ],
)
def test_answer_of_a_graph_without_messages(workbench: OpenWorkbench, fields: Any, answer: str) -> None:
    """The answer is a field with a usual name, or the only new text, or the whole state."""
    adapted = af.adapt(writing_graph(**fields), input=lambda question, _history: {"question": question})
    run = workbench(interactive=False).ask("1 + 2?", flow=adapted).wait()
    assert (run.status, run.response) == ("completed", answer)


class Words(TypedDict, total=False):
    words: str


@pytest.mark.parametrize("name", ["question", "topic"])
def test_graph_without_messages_gets_the_question_in_a_field(workbench: OpenWorkbench, name: str) -> None:
    """Without `input=`, the question is in a field with a usual name, also after an earlier answer."""
    schema = TypedDict("schema", {name: str, "report": str})  # type: ignore[misc]
    graph = StateGraph(schema).add_node("write", lambda state: {"report": state[name].upper()})
    adapted, wb = af.adapt(graph.add_edge(START, "write").compile()), workbench(interactive=False)
    first = wb.ask("cats", flow=adapted).wait()
    second = wb.ask("dogs", flow=adapted, conversation_id=first).wait()
    assert (first.response, second.response) == ("CATS", "DOGS")


def test_entrypoint_that_takes_a_text_gets_the_question(workbench: OpenWorkbench) -> None:
    """LangGraph's functional API has no fields."""

    @entrypoint()
    def shout(question: str) -> str:
        return question.upper()

    assert workbench(interactive=False).ask("cats", flow=af.adapt(shout)).wait().response == "CATS"


def test_missing_input_is_reported_with_advice(workbench: OpenWorkbench) -> None:
    """If no field has a usual name, the error of the node names the fields and `input=`."""
    graph = StateGraph(Words).add_node("write", lambda state: {"words": state["words"]}).add_edge(START, "write")
    run = workbench(interactive=False).ask("cats", flow=af.adapt(graph.compile())).wait()
    assert run.status == "failed"
    assert "its input has the fields words" in str(run.error)
    assert "af.adapt, input=lambda question, history:" in str(run.error)


class Sum(BaseModel):
    """The result of a sum."""

    value: int


def test_structured_response_is_shown_with_its_fields(workbench: OpenWorkbench) -> None:
    """An agent with `response_format` and a function that returns a model have no message with an answer."""
    call = ai_message("", ("Sum", {"value": 3}))
    agent = create_agent(ScriptedChat(script=[call]), [], response_format=ToolStrategy(Sum))

    @entrypoint()
    def add(_question: Any) -> Sum:
        return Sum(value=3)

    wb = workbench(interactive=False)
    run = wb.ask("1 + 2?", flow=af.adapt(agent, name="agent")).wait()
    assert run.response == '```json\n{\n  "structured_response": {\n    "value": 3\n  }\n}\n```'
    assert wb.ask("1 + 2?", flow=af.adapt(add, name="add")).wait().response == '```json\n{\n  "value": 3\n}\n```'


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (lambda state: state["reprot"], "The answer= function of the graph failed: KeyError: 'reprot'."),
        (lambda state: state["score"], "The answer= function of the graph returned 3, which is not a text."),
    ],
)
def test_run_does_not_fail_with_its_answer_function(workbench: OpenWorkbench, answer: Any, note: str) -> None:
    """The answer is a guess, with a note below about the failed function."""
    adapted = af.adapt(
        writing_graph(report="It is 3.", score=3),
        input=lambda question, _history: {"question": question},
        answer=answer,
    )
    run = workbench(interactive=False).ask("1 + 2?", flow=adapted).wait()
    assert (run.status, run.response) == ("completed", f"It is 3.\n\n{note}")
