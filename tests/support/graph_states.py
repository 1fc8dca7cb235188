"""Graphs whose state contains more than text, in a module with the same name in every process."""

import enum
from dataclasses import dataclass
from typing import Any

import pandas as pd
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel
from support.graphs import ScriptedChat, ai_message


class Holding(MessagesState):
    value: Any


@dataclass
class Unnamed:
    text: str


def holding(value: Any, **compiled: Any) -> Any:
    """A graph that calls a model, stores a value in its state, interrupts, and answers with the value's type."""
    model = ScriptedChat(script=[ai_message("Well.")])

    def hold(state: Holding) -> dict[str, Any]:
        return {"value": value, "messages": [model.invoke(state["messages"])]}

    def show(state: Holding) -> dict[str, Any]:
        interrupt("Show it?")
        return {"messages": [("ai", f"{type(state['value']).__name__} {state['value'] is value}")]}

    graph = StateGraph(Holding).add_node("hold", hold).add_node("show", show)
    return graph.add_edge(START, "hold").add_edge("hold", "show").compile(**compiled)


def holding_a_table() -> Any:
    return holding(pd.DataFrame({"a": [1, 2]}))


class Mood(enum.Enum):
    GOOD = "good"


class Point(BaseModel):
    x: int


@dataclass
class Draft:
    text: str


class Described(MessagesState):
    mood: Mood
    points: list[Point]
    draft: Draft | None


def describing() -> Any:
    """A graph whose state has objects of custom classes."""

    def begin(state: Described) -> dict[str, Any]:
        return {"mood": Mood.GOOD, "points": [Point(x=1)], "draft": Draft("It")}

    def show(state: Described) -> dict[str, Any]:
        interrupt("Show it?")
        return {"messages": [("ai", repr((state["mood"], state["points"], state["draft"])))]}

    graph = StateGraph(Described).add_node("begin", begin).add_node("show", show)
    return graph.add_edge(START, "begin").add_edge("begin", "show").compile()
