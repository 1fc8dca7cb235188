"""The streams of the documented sequences, byte for byte but for times; `AF_GOLDEN=write` writes the files again."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from server.conftest import Serve
from support.gated_model import GatedModel
from support.http_server import Client
from support.replies import call, delegate, in_request_protocol, report, requesting_agent

from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.testing import FakeClock, FakeIds

GOLDEN = Path(__file__).parent / "golden"

_TIMES = re.compile(r'("(?:timestamp|started_at|completed_at|called_at)":")[^"]*"')
_FIGURES = re.compile(r'("(?:\w+_(?:ms|tokens)|chars)":)[\d.e-]+')
"""Durations, and the lengths of prompts in tokens and characters, which depend on their wording."""


class Scene:
    """A server whose model waits until a reader is connected; ids repeat exactly."""

    def __init__(self, serve: Serve, turns: Any) -> None:
        self.model = GatedModel(in_request_protocol(turns), chunk_chars=40)
        fakes = {"clock": FakeClock(), "ids": FakeIds()}
        self.client: Client = serve(model=self.model, tool_protocol="native", options=fakes)

    def read(self, thread_id: str, **params: Any) -> str:
        """Connect, let the model answer, and read to the end."""
        text, path = "", f"/stream/{thread_id}"
        with self.client.http.stream("GET", path, params=params) as answer:
            for part in answer.iter_text():
                self.model.gate.set()
                text += part
        self.model.gate.clear()
        return _FIGURES.sub(r"\g<1>0", _TIMES.sub(r'\1..."', text))

    def ask(self, content: str, **body: Any) -> tuple[dict[str, Any], str]:
        run = self.client.ask(content, **body)
        return run, self.read(run["thread_id"])

    def last_id(self, text: str) -> int:
        return int(re.findall(r"^id: (\d+)$", text, re.MULTILINE)[-1])


def question(serve: Serve) -> str:
    return Scene(serve, ["A ferry leaves at nine; the next one leaves at noon."]).ask("When does the ferry leave?")[1]


def delegation(serve: Serve) -> str:
    def turn(request: ModelRequest) -> str:
        if requesting_agent(request) != "lead":
            return "It leaves at nine."
        return "At nine." if "It leaves at nine." in request.messages[-1].content else delegate("search_agent", "Look.")

    return Scene(serve, turn).ask("When does the ferry leave?")[1]


def waiting(serve: Serve, answer: str = "Changed.") -> tuple[Scene, dict[str, Any], str]:
    rewrite = call("rewrite_artifact", id="research_report", content="Another.")
    scene = Scene(serve, [report(), "Written.", rewrite, answer])
    first, _ = scene.ask("Write.")
    run, text = scene.ask("Change it.", conversation_id=first["conversation_id"])
    return scene, run, text


def interrupt(serve: Serve) -> str:
    return waiting(serve)[2]


def decided(serve: Serve, *, approved: bool) -> str:
    scene, run, text = waiting(serve, "Changed." if approved else "Not changed.")
    answer = scene.client.post(
        f"/chat/{run['conversation_id']}/resume",
        thread_id=run["thread_id"],
        message_id=run["message_id"],
        approved=approved,
    )
    assert answer.status_code == 202
    rest = scene.read(run["thread_id"], **{"from": scene.last_id(text)})
    return re.sub(r"http:\w+", "http:ana", rest)


def resume_approved(serve: Serve) -> str:
    return decided(serve, approved=True)


def resume_denied(serve: Serve) -> str:
    return decided(serve, approved=False)


def failure(serve: Serve) -> str:
    return Scene(serve, [RuntimeError("The model is out of order.")]).ask("When does the ferry leave?")[1]


def cancel(serve: Serve) -> str:
    scene = Scene(serve, ["never"])
    run = scene.client.ask("When does the ferry leave?")
    with scene.client.http.stream("GET", f"/stream/{run['thread_id']}") as answer:
        text = ""
        for part in answer.iter_text():
            if not text:
                scene.client.post(f"/runs/{run['thread_id']}/cancel")
            text += part
    return _FIGURES.sub(r"\g<1>0", _TIMES.sub(r'\1..."', text))


def second_turn(serve: Serve) -> str:
    scene = Scene(serve, ["At nine.", "At noon."])
    first, _ = scene.ask("When does the ferry leave?")
    return scene.ask("And the next one?", conversation_id=first["conversation_id"])[1]


def branch(serve: Serve) -> str:
    scene = Scene(serve, ["At nine.", "At ten."])
    first, _ = scene.ask("When does the ferry leave?")
    again = scene.client.post(f"/chat/{first['conversation_id']}/retry", content="When does the bus leave?")
    assert again.status_code == 202
    text = scene.read(again.json()["thread_id"])
    messages = scene.client.get(f"/chat/{first['conversation_id']}").json()["messages"]
    assert [message["parent_id"] for message in messages] == [None, None]
    return text


SCENES: tuple[Callable[[Serve], str], ...] = (
    *(question, delegation, interrupt, resume_approved, resume_denied),
    *(failure, cancel, second_turn, branch),
)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_stream_is_that_of_the_golden_file(serve: Serve, scene: Callable[[Serve], str]) -> None:
    path, text = GOLDEN / f"{scene.__name__}.sse", scene(serve)
    if os.environ.get("AF_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_golden_files_are_those_of_the_scenes() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {scene.__name__ for scene in SCENES}
