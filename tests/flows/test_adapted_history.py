"""The input of an adapted graph: the question and the conversation of its branch."""

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from conftest import OpenEngine, OpenWorkbench
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from support.graphs import ScriptedChat, ai_message, prebuilt

import artifactflow_nb as af
from artifactflow_nb.plugins.graphs.adapt import History


class State(TypedDict, total=False):
    messages: list[Any]
    answers: Annotated[list[str], operator.add]


def sent_messages(model: ScriptedChat) -> list[list[tuple[str, str]]]:
    """Return the messages of each call of a model."""
    return [[(message.type, str(message.content)) for message in messages] for messages in model.requests]


def chat_graph(*answers: str) -> tuple[Any, ScriptedChat]:
    model = ScriptedChat(script=[ai_message(answer) for answer in answers])
    return af.adapt(prebuilt(model, []), name="mine"), model


def test_follow_up_gets_the_conversation(workbench: OpenWorkbench) -> None:
    """Earlier questions and answers come before the question, oldest first."""
    graph, model = chat_graph("Hello Ann.", "Ann.", "Still Ann.")
    wb = workbench(interactive=False)
    run = wb.ask("I am Ann.", flow=graph).wait()
    for question in ("Who am I?", "And now?"):
        run = wb.ask(question, conversation_id=run, flow="mine").wait()
    first = ("human", "I am Ann.")
    second = [first, ("ai", "Hello Ann."), ("human", "Who am I?")]
    assert sent_messages(model) == [[first], second, [*second, ("ai", "Ann."), ("human", "And now?")]]


def test_each_branch_has_its_own_conversation(workbench: OpenWorkbench) -> None:
    """A regenerated or edited question gets the messages before the question, a follow-up only its own branch."""
    graph, model = chat_graph("Hello Ann.", "Ann.", "Ann again.", "Hello Bob.", "Bob.")
    wb = workbench(interactive=False)
    first = wb.ask("I am Ann.", flow=graph).wait()
    second = wb.ask("Who am I?", conversation_id=first, flow="mine").wait()
    wb.conversation(second).regenerate().wait()
    edited = wb.conversation(first).edit("I am Bob.").wait()
    wb.ask("Who am I?", conversation_id=first, parent_message_id=edited.message_id, flow="mine").wait()
    ann = [("human", "I am Ann."), ("ai", "Hello Ann."), ("human", "Who am I?")]
    bob = [("human", "I am Bob."), ("ai", "Hello Bob."), ("human", "Who am I?")]
    assert sent_messages(model) == [ann[:1], ann, ann, bob[:1], bob]


def test_resumed_graph_does_not_get_its_input_again(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """After a pause the graph continues from its checkpoint, in a new workbench too."""
    from langgraph.types import interrupt

    def note(state: State) -> dict[str, Any]:
        return {"answers": [text for _, text in state["messages"]]}

    def ask(state: State) -> dict[str, Any]:
        return {"answers": [str(interrupt("Go on?"))]}

    def asking_graph() -> Any:
        built = StateGraph(State)
        built.add_node("note", note)
        built.add_node("ask", ask)
        built.add_edge(START, "note")
        built.add_edge("note", "ask")
        return af.adapt(built.compile(), name="asks", answer=lambda state: ", ".join(state["answers"]))

    wb = workbench(interactive=False, data_dir=tmp_path / "one")
    graph, _ = chat_graph("Hello.")
    second = wb.ask("Go.", conversation_id=wb.ask("I am Ann.", flow=graph).wait(), flow=asking_graph()).wait()
    wb.close()
    other = workbench(interactive=False, data_dir=tmp_path / "one")
    other.register_flow("asks", asking_graph())
    assert other.run(second.run_id).approve().wait().response == "I am Ann., Hello., Go., True"


async def test_input_function_gets_question_and_history(open_engine: OpenEngine) -> None:
    """The history is a list of plain pairs, empty at first."""

    @entrypoint()
    async def count(pair: tuple[str, History]) -> str:
        question, history = pair
        return f"{question} after {history}"

    engine = await open_engine()
    engine.flows.register("mine", af.adapt(count, input=lambda question, history: (question, history)))
    first = await engine.controller.execute("One?", flow="mine")
    assert first.response == "One? after []"
    second = await engine.controller.execute("Two?", flow="mine", conversation_id=first.conversation_id)
    assert second.response == "Two? after [('user', 'One?'), ('assistant', 'One? after []')]"


def no_question() -> Any:
    return {}


@pytest.mark.parametrize("input_function", [lambda question: question, no_question, str, dict, "question"])
def test_input_without_two_arguments_is_rejected(input_function: Any) -> None:
    """The error shows how to write an input function."""
    with pytest.raises(af.errors.UsageError, match=r"two arguments(?s:.*)input=lambda question, history: "):
        af.adapt(prebuilt(ScriptedChat(script=[]), []), input=input_function)


def test_failing_input_function_fails_the_run_with_its_name(workbench: OpenWorkbench) -> None:

    def failing_input(question: str, history: History) -> Any:
        raise KeyError(history[0] if history else question)

    wb = workbench(interactive=False)
    graph = af.adapt(prebuilt(ScriptedChat(script=[]), []), name="mine", input=failing_input)
    message = "The input= function of the graph 'mine' failed for the question 'Why?': KeyError: 'Why?'"
    run = wb.ask("Why?", flow=graph).wait()
    assert (run.status, run.error) == ("failed", message)
