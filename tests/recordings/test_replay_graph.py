"""Runs of a user's own graph are recorded like others, and played as a whole: the graph does not run again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from graphs import ScriptedChat, react_agent, said
from langgraph.types import interrupt
from recordings.replayed import Setup, Stage, opened, play_both

import artifactflow_nb as af


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
