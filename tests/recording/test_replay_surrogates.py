"""Half surrogate pairs, which UTF-8 cannot encode, are replayed as recorded."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.recorded_scenes import WAIT_S, Stage, play_both
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall, Usage
from artifactflow_nb.errors import ModelRejected
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.models.scripted import ScriptedModel

HALF = "a\ud800b\udfffc \ud83d"


def with_tools(wb: af.Workbench) -> None:
    @af.tool()
    async def odd(_ctx: af.ToolContext, word: str = "") -> af.ToolResult:
        """Give half a pair."""
        return af.ToolResult(success=True, data=f"{word} {HALF}", metadata={f"k{HALF}": [HALF]})

    @af.tool()
    async def fail(_ctx: af.ToolContext) -> str:
        """Fail with half a pair."""
        raise af.errors.ToolError(f"No {HALF}")

    @af.tool(permission="confirm", preview=lambda _ctx, _args: f"Preview {HALF}")
    async def confirm(_ctx: af.ToolContext, word: str = "") -> str:
        """Ask first."""
        return f"confirmed {word}"

    for entry in (odd, fail, confirm):
        wb.tool(entry)


def with_odd_agent(wb: af.Workbench) -> None:
    wb.register_agent(af.AgentConfig(name="odd_agent", description=f"Odd {HALF}", prompt="search_agent"))


def asks(stage: Stage) -> None:
    run = stage.ask(f"What? {HALF}").wait(WAIT_S)
    assert run.status in {"completed", "failed"}, run.error


def approves(stage: Stage) -> None:
    run = stage.ask().wait(WAIT_S)
    run.approve(note=f"Yes {HALF}", params={"word": f"w{HALF}"}).wait(WAIT_S)


def denies(stage: Stage) -> None:
    run = stage.ask().wait(WAIT_S)
    run.deny(f"No {HALF}").wait(WAIT_S)


SCENES: dict[str, tuple[Any, Any]] = {
    "reply": (asks, [f"Hi {HALF}"]),
    "reply in single characters": (asks, ScriptedModel([f"\ud83d\ude00 {HALF}"], chunk_chars=1)),
    "reasoning": (asks, [ModelReply(HALF, Usage(1, 1), f"stop {HALF}", f"model {HALF}", (), f"Think {HALF}")]),
    "tool result": (asks, [ToolCall("odd", {"word": HALF}), "Done."]),
    "tool error": (asks, [ToolCall("fail", {}), "Done."]),
    "unknown tool": (asks, [ToolCall(f"n{HALF}", {f"k{HALF}": HALF}), "Done."]),
    "artifact": (asks, [call("create_artifact", id=f"a{HALF}", title=HALF, content=HALF), "Done."]),
    "model error": (asks, [ModelRejected(f"No {HALF}", partial=HALF)]),
    "approval": (approves, [ToolCall("confirm", {"word": HALF}), "Done."]),
    "denial": (denies, [ToolCall("confirm", {"word": HALF}), "Done."]),
}


@pytest.mark.parametrize("name", list(SCENES))
def test_half_surrogate_pairs_replay_as_recorded(tmp_path: Path, name: str) -> None:
    """Rows, frames, events and the saved output are the same, and the model is not asked."""
    scene, turns = SCENES[name]
    protocol = "xml" if name == "artifact" else "native"
    play_both(tmp_path, scene, turns, setup=with_tools, tool_protocol=protocol)


def test_half_surrogate_pairs_in_prompts_replay_as_recorded(tmp_path: Path) -> None:
    """The surrogates come from the description of a user's agent, which is part of the lead's prompt."""
    play_both(tmp_path, asks, ["Hi."], setup=with_odd_agent)


@pytest.mark.skipif(sys.platform != "linux", reason="Other systems do not let such names be.")
def test_file_names_that_are_not_utf8_replay_as_recorded(tmp_path: Path) -> None:
    """Python reads the bytes of such names as half surrogate pairs."""
    folder = tmp_path / "notes"
    folder.mkdir()
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9\xff.md")).write_text("# Cats\n\nCats purr because they can.")

    def scene(stage: Stage) -> None:
        if not stage.is_played:
            stage.wb.sources.add(folder)
        assert stage.ask("Why do cats purr?").wait(WAIT_S).status == "completed"

    play_both(tmp_path, scene, [call("web_search", query="cats purr"), "Done."])


def test_half_surrogate_pairs_are_verified_as_the_same(tmp_path: Path) -> None:
    """Chunks of replies are compared, too."""
    model = ScriptedModel([call("odd", word=HALF), f"Done {HALF}"])
    with af.Workbench(model=model, data_dir=tmp_path / "data", interactive=False) as wb:
        with_tools(wb)
        path = wb.ask(f"Odd? {HALF}").wait(WAIT_S).seal(tmp_path / "run.afrun")
    with af.open_run(path) as opened:
        assert opened.verify().differences == ()
