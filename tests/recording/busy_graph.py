"""A graph that uses every feature of graphs, several at once, with random delays."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, TypedDict

from langchain_core.callbacks import adispatch_custom_event
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from support.graphs import ScriptedChat, ai_message, prebuilt

import artifactflow_nb as af
from artifactflow_nb.plugins.graphs.adapt import AdaptedGraph

BUSY = "busy"
LONGEST_S = 0.003
DONE = ai_message("The team is done. " * 5)


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Answering(ScriptedChat):
    """Streams the answers of a function word by word, and breaks off with the probability `breaks`."""

    answer: Any
    chance: Any
    breaks: float = 0.0

    async def _astream(self, messages: list[BaseMessage], *_more: Any, **_options: Any) -> AsyncIterator[Any]:
        model = ScriptedChat(script=[self.answer(messages)])
        breaks_off = self.chance.random() < self.breaks
        for chunk in model._stream(messages):
            await asyncio.sleep(self.chance.random() * LONGEST_S)
            yield chunk
            if breaks_off:
                raise ConnectionError("It broke.")


def n_answers(messages: list[BaseMessage]) -> int:
    return sum(message.type == "ai" for message in messages)


class Busy:
    """The parts of the graph; in a playback, calls of the models raise an error."""

    def __init__(self, seed: int, *, is_played: bool) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a seed repeats the same numbers
        self.is_played = is_played

    def model(self, answer: Callable[[list[BaseMessage]], AIMessage], breaks: float = 0.0) -> Answering:
        reply = refused if self.is_played else answer
        return Answering(script=[], answer=reply, chance=self.chance, breaks=breaks)

    async def a_while(self) -> None:
        await asyncio.sleep(self.chance.random() * LONGEST_S)

    @property
    def look(self) -> Any:
        @tool
        async def look(word: str) -> str:
            """Look a word up."""
            await self.a_while()
            return f"{word} is found. " * 30

        return look

    @property
    def put(self) -> Any:
        @tool
        async def put(word: str) -> str:
            """Put a word somewhere, if somebody says so, twice."""
            first = interrupt({"question": f"Put {word}?", "word": word})
            await self.a_while()
            return f"{first} {interrupt('Really?')}"

        return put

    @property
    def ask_helper(self) -> Any:
        helper = prebuilt(self.model(helping), [self.look])

        @tool
        async def ask_helper(word: str) -> str:
            """Ask the helper."""
            done = await helper.ainvoke({"messages": [("user", word)]})
            return str(done["messages"][-1].content)

        return ask_helper

    async def plan(self, _state: Chat) -> dict[str, Any]:
        get_stream_writer()({"type": "plan_created", "plan_id": "p", "title": "All", "steps": []})
        return {"messages": [await self.model(lambda _messages: ai_message("A plan.")).ainvoke("Plan.")]}

    async def reporter(self, _state: Chat) -> dict[str, Any]:
        step = {"plan_id": "p", "step_id": "s", "title": "Try"}
        often = self.model(lambda _messages: ai_message("Often tried."), breaks=0.3).with_retry(
            stop_after_attempt=9, wait_exponential_jitter=False, exponential_jitter_params={"initial": 0.0}
        )
        await adispatch_custom_event("step_start", step)
        found = await asyncio.gather(often.ainvoke("One."), often.ainvoke("Two."), self.look.ainvoke({"word": "x"}))
        await adispatch_custom_event("step_complete", {**step, "status": "completed", "result": str(len(found))})
        return {}


def refused(_messages: list[BaseMessage]) -> AIMessage:
    raise AssertionError("the graph runs")


def helping(messages: list[BaseMessage]) -> AIMessage:
    word = str(messages[0].content)
    return (
        ai_message("", ("look", {"word": word}), ("look", {"word": word * 2}))
        if n_answers(messages) == 0
        else ai_message(word)
    )


def working(messages: list[BaseMessage]) -> AIMessage:
    helps = [("ask_helper", {"word": word}) for word in "ac"]
    turns = [ai_message("Let us see. ", *helps, ("put", {"word": "b"})), ai_message("", ("put", {"word": "d"})), DONE]
    return turns[min(n_answers(messages) - 1, 2)]  # without the plan's turn


async def asker(_state: Chat) -> dict[str, Any]:
    return {"messages": [("ai", f"{interrupt('First?')} {interrupt('Second?')}")]}


def busy(seed: int, *, is_played: bool = False) -> AdaptedGraph:
    """The graph: a plan, then in parallel a team of agents, a reporter and a node that asks a person, then the end."""
    parts = Busy(seed, is_played=is_played)
    graph = StateGraph(Chat)
    graph.add_node("plan", parts.plan)
    graph.add_node("team", prebuilt(parts.model(working), [parts.ask_helper, parts.put]))
    graph.add_node("reporter", parts.reporter)
    graph.add_node("asker", asker)
    graph.add_node("write", lambda state: {"messages": [("ai", f"All of it: {len(state['messages'])}")]})
    graph.add_edge(START, "plan")
    for name in ("team", "reporter", "asker"):
        graph.add_edge("plan", name)
    graph.add_edge(["team", "reporter", "asker"], "write")
    graph.add_edge("write", END)
    return af.adapt(graph.compile(), name=BUSY)
