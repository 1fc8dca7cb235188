"""A run shown in pages: the stream of patches, with a page that is a few lines of Python."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from support.pages import place_nodes
from support.played_runs import PlayedRun, Script, research

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.errors import StoreError
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import SavedOutput
from artifactflow_nb.widgets.page.stream import PATCH_INTERVAL_S, PageStream, SavedState
from artifactflow_nb.widgets.run.view import RunView

KEEP_DELAY_S, ALONE_AFTER_S = 0.2, 0.5


class Page:
    """Keeps a tree as the real page does; a `deaf` page loses all messages."""

    def __init__(self, run: PlayedRun) -> None:
        self.view = RunView(run)
        self.stream = self.view.screen = PageStream(
            self.view, self.receive, self.save, self.leave, save_delay_s=KEEP_DELAY_S, disconnect_after_s=ALONE_AFTER_S
        )
        self.sent: list[Mapping[str, Any]] = []
        self.saved_outputs: list[SavedOutput] = []
        self.html: dict[str, str] = {}
        self.parents: dict[str, str] = {}
        self.announced = ""
        self.ended = False
        self.seq = -1
        self.deaf = False
        self.closed = 0

    def leave(self) -> None:
        self.closed += 1

    def save(self, saved_output: SavedOutput, n: int, is_last: bool) -> SavedState:
        self.saved_outputs.append(saved_output)
        return SavedState(n, saved_output, is_last)

    async def press(self, act: str, **args: Any) -> Mapping[str, Any]:
        """Send a press to the kernel and return its answer; earlier patches are applied."""
        self.stream.receive({"type": "act", "id": 1, "page": "p", "act": act, "args": args})
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self.sent[-1]

    def take(self, event: StreamEvent) -> None:
        self.view.apply(event)

    def play(self, events: Iterable[StreamEvent], *, flush_every: int = 1) -> None:
        """Apply the events, and flush a patch after every `flush_every` events and at the end."""
        for i, event in enumerate(events):
            self.take(event)
            if i % flush_every == 0:
                self.stream.flush()
        self.stream.flush()

    @property
    def n_bytes(self) -> int:
        return sum(len(json.dumps(message)) for message in self.sent)

    def receive(self, message: Mapping[str, Any]) -> None:
        self.sent.append(message)
        if self.deaf or message["type"] not in {"snapshot", "patch"}:
            return
        if message["type"] == "patch" and message["seq"] != self.seq + 1:
            self.stream.receive({"type": "hello"})
            return
        if message["type"] == "snapshot":
            self.html, self.parents = {}, {}
        self.seq = message["seq"]
        self.announced = message.get("announce", self.announced)
        self.ended = message.get("ended", self.ended)
        self._apply(message.get("tree", {}))

    def _apply(self, tree: Mapping[str, Any]) -> None:
        for key, parent, *_ in tree.get("shape", ()):
            assert parent == "" or parent in self.parents
            self.parents[key] = parent
        for key, keep, add in tree.get("text", ()):
            old = self.html.get(key, "").encode("utf-16-le")[: 2 * keep].decode("utf-16-le")
            self.html[key] = old + add
        for key in tree.get("gone", ()):
            del self.parents[key]
            self.html.pop(key, None)

    def assert_shows(self) -> None:
        placed = list(place_nodes(self.view.nodes()))
        assert {placement.node.key: placement.parent for placement in placed} == self.parents
        assert {placement.node.key: placement.node.html for placement in placed} == {
            key: self.html.get(key, "") for key in self.parents
        }


def answer(script: Script, text: str) -> list[StreamEvent]:
    script.add("agent_start", job_id="main", step=1, instruction="", model="m")
    script.say(text, text, call="llm-1")
    return script.events


async def test_patches_reproduce_state(finished: PlayedRun) -> None:
    """After each patch the page equals a fresh snapshot."""
    page = Page(finished)
    page.stream.receive({"type": "hello"})
    for event in finished.events:
        page.take(event)
        page.stream.flush()
        page.assert_shows()
    assert page.ended


async def test_page_with_missing_patch_requests_snapshot(finished: PlayedRun) -> None:
    """A gap in the numbers makes the page say hello, and the snapshot repairs the tree."""
    page = Page(finished)
    page.stream.receive({"type": "hello"})
    for i, event in enumerate(finished.events):
        page.deaf = 20 <= i < 40
        page.take(event)
        page.stream.flush()
    page.assert_shows()


async def test_page_with_delayed_hello_receives_snapshots(finished: PlayedRun) -> None:
    """The kernel sends whole snapshots until the page says hello."""
    page = Page(finished)
    page.play(finished.events)
    assert {message["type"] for message in page.sent} == {"snapshot", "saved"}
    page.assert_shows()


async def test_patches_of_long_answer_are_small(script: Script) -> None:
    """An answer of 5,000 chunks, with a patch for each fourth, sends less than 10 times its text, not 600 times."""
    text = "".join(f"Sentence number {i} of the answer. " + ("\n\n" if i % 20 == 19 else "") for i in range(1000))
    run = PlayedRun(answer(script, text))
    page = Page(run)
    page.stream.receive({"type": "hello"})
    page.play(run.events, flush_every=4)
    page.assert_shows()
    assert len(run.events) > 5000
    assert page.n_bytes < 10 * len(text)


async def test_patches_of_long_line_are_small(script: Script) -> None:
    """Patches are small also for a text without a line break, and inside one long code block."""
    for text in ("word " * 7000, "```python\n" + "x = 1  # code\n" * 2500):
        run = PlayedRun(answer(Script(), text))
        page = Page(run)
        page.stream.receive({"type": "hello"})
        page.play(run.events, flush_every=4)
        page.assert_shows()
        assert page.n_bytes < 10 * len(text)


async def test_patches_are_coalesced(script: Script) -> None:
    """A burst of events makes one patch, not a patch for each event."""
    run = PlayedRun(answer(script, "word " * 200))
    page = Page(run)
    page.stream.receive({"type": "hello"})
    for event in run.events:
        page.take(event)
    await asyncio.sleep(3 * PATCH_INTERVAL_S)
    assert [message["type"] for message in page.sent if message["type"] != "saved"] == ["snapshot", "patch"]
    page.assert_shows()


async def test_characters_outside_basic_plane_arrive(script: Script) -> None:
    """Characters that count as two in a page do not shift the position at which text is appended."""
    run = PlayedRun(answer(script, "Rockets 🚀🚀 and 漢字 " * 40))
    page = Page(run)
    page.stream.receive({"type": "hello"})
    page.play(run.events)
    page.assert_shows()


async def test_text_moves_to_work_when_turn_calls_tool(script: Script) -> None:
    """The element of a text moves from the answer to the work when its turn calls a tool."""
    run = PlayedRun(research(script).events)
    run.artifacts["research_report", 1] = ""
    page = Page(run)
    page.stream.receive({"type": "hello"})
    parent_keys = []
    for event in run.events:
        page.take(event)
        page.stream.flush()
        parent_keys.append(page.parents.get("llm-1-0"))
    assert list(dict.fromkeys(parent_keys)) == [None, "answer", "work"]


async def test_clicks_reach_run(waiting: PlayedRun) -> None:
    """Approve, Deny with a note and Stop each make one call of the run; other messages make no call."""
    page = Page(waiting)
    for event in waiting.events:
        page.take(event)
    await page.press("decide", request="req-1", choice="approve", note="", scope="run")
    await page.press("decide", request="req-1", choice="deny", note=" not now ", scope="once")
    await page.press("unheard_of")
    page.stream.receive({"type": "act", "act": "stop"})
    page.stream.receive({"type": "unheard of"})
    assert waiting.decisions == [("req-1", Decision(True, scope="run")), ("req-1", Decision(False, "not now"))]
    assert not waiting.cancelled
    await page.press("stop")
    assert waiting.cancelled


async def test_error_is_sent_to_control(waiting: PlayedRun) -> None:
    """The page receives the reason why a press failed."""
    page = Page(waiting)
    result = await page.press("decide", choice="approve")
    assert (result["type"], result["id"], result["failed"]) == ("result", 1, True)
    assert "request" in result["message"]
    assert not (await page.press("stop"))["failed"]


async def test_open_request_has_form_and_announcement(waiting: PlayedRun) -> None:
    """The card carries the request and the tool's name, and a screen reader is told."""
    page = Page(waiting)
    for event in waiting.events:
        page.take(event)
    page.stream.receive({"type": "hello"})
    shapes = {shape[0]: shape for shape in page.sent[-1]["tree"]["shape"]}
    assert {"request": "req-1", "subject": "write artifact"}.items() <= shapes["approval-req-1"][-1].items()
    assert page.announced == "Your approval is needed: Write “Report”."


async def test_ping_without_page_times_out(waiting: PlayedRun) -> None:
    """Without a page the ping fails after its timeout."""
    assert not await Page(waiting).stream.answers_ping(0.05)


async def test_page_that_connects_late_answers_ping(waiting: PlayedRun) -> None:
    """The ping is repeated, so a view that is just being shown counts."""
    page = Page(waiting)
    asyncio.get_running_loop().call_later(0.02, page.stream.receive, {"type": "pong"})
    assert await page.stream.answers_ping(1.0)


async def test_last_patch_and_last_output_are_sent_once(finished: PlayedRun) -> None:
    """After the terminal event the page gets the last patch, and then the last output is saved."""
    page = Page(finished)
    page.stream.receive({"type": "hello"})
    for event in [*finished.events, finished.events[-1]]:
        page.take(event)
    assert [message["type"] for message in page.sent] == ["snapshot", "patch", "saved"]
    assert page.sent[-1]["last"]
    assert len(page.saved_outputs) == 1


async def test_page_can_request_saved_output(finished: PlayedRun) -> None:
    """A page gets the saved output on request, and no message before the first save."""
    page = Page(finished)
    page.stream.receive({"type": "output", "page": "p"})
    assert page.sent == []
    for event in finished.events:
        page.take(event)
    page.stream.receive({"type": "output", "page": "p"})
    assert page.sent[-1] == {"type": "output", "page": "p", "data": page.saved_outputs[-1]}


async def test_waiting_run_is_saved(waiting: PlayedRun) -> None:
    """While a run waits, the saved notebook says so, and how to decide; many events cause one save."""
    page = Page(waiting)
    for event in waiting.events:
        page.take(event)
    await asyncio.sleep(KEEP_DELAY_S + 0.1)
    assert len(page.saved_outputs) == 1
    assert "wb.pending()" in page.saved_outputs[0]["text/html"]
    assert "Approve</button>" not in page.saved_outputs[0]["text/html"]


async def test_unchanged_output_is_saved_once(waiting: PlayedRun) -> None:
    """An unchanged saved output is not written again, because the page would redraw it while somebody reads."""
    page = Page(waiting)
    for event in waiting.events:
        page.take(event)
    await asyncio.sleep(KEEP_DELAY_S + 0.1)
    page.stream.save_soon()
    await asyncio.sleep(KEEP_DELAY_S + 0.1)
    assert len(page.saved_outputs) == 1


async def test_saving_is_deferred_during_composition(waiting: PlayedRun) -> None:
    """The output is not saved while a reader composes a word, and is saved afterwards."""
    page = Page(waiting)
    page.stream.receive({"type": "hold", "page": "p", "on": True})
    for event in waiting.events:
        page.take(event)
    await asyncio.sleep(3 * KEEP_DELAY_S)
    assert page.saved_outputs == []
    page.stream.receive({"type": "hold", "page": "p", "on": False})
    await asyncio.sleep(2 * KEEP_DELAY_S + 0.1)
    assert len(page.saved_outputs) == 1


async def test_page_learns_number_of_saved_output(waiting: PlayedRun) -> None:
    """A page that opens after an output was saved gets the number of that output with the snapshot."""
    page = Page(waiting)
    for event in waiting.events:
        page.take(event)
    await asyncio.sleep(KEEP_DELAY_S + 0.1)
    page.stream.receive({"type": "hello"})
    assert page.sent[-1]["saved"] == 1


async def test_view_without_pages_is_closed(waiting: PlayedRun) -> None:
    """When a page reports that its output is gone, the view closes unless another page answers."""
    page = Page(waiting)
    await page.stream.open()
    page.stream.receive({"type": "gone"})
    asyncio.get_running_loop().call_later(0.05, page.stream.receive, {"type": "pong"})
    await asyncio.sleep(ALONE_AFTER_S + 0.2)
    assert not page.closed
    page.stream.receive({"type": "gone"})
    await asyncio.sleep(ALONE_AFTER_S + 0.2)
    assert page.closed == 1
    n_sent = len(page.sent)
    page.stream.receive({"type": "hello"})
    page.stream.save_soon()
    page.stream.refresh()
    await asyncio.sleep(KEEP_DELAY_S + 0.1)
    assert len(page.sent) == n_sent
    page.stream.close()
    assert page.closed == 1


class Unshowable(RunView):
    """A view with a fault."""

    def nodes(self) -> tuple[Node, ...]:
        raise ZeroDivisionError

    def saved_output(self) -> SavedOutput:
        raise ZeroDivisionError


async def test_render_error_is_logged_and_not_printed(waiting: PlayedRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A view that fails to render prints no traceback in a cell and still answers a press."""
    page = Page(waiting)
    page.stream = PageStream(Unshowable(waiting), page.receive, page.save, save_delay_s=KEEP_DELAY_S)
    await page.stream.open()
    page.stream.receive({"type": "hello"})
    page.stream.refresh()
    page.stream.save_soon()
    await asyncio.sleep(KEEP_DELAY_S + 0.1)
    assert (await page.press("stop"))["type"] == "result"
    page.stream.finish()
    page.stream.close()
    assert capsys.readouterr().err == ""


async def test_artifacts_with_similar_ids_have_distinct_keys(script: Script) -> None:
    """Artifacts `report` and `report-text` have different element keys."""
    events = answer(script, "Written.")
    for name in ("report", "report-text"):
        script.add("artifact_changed", tool_call_id="t", artifact_id=name, version=1, title=name)
    run = PlayedRun(events)
    run.artifacts |= {("report", 1): "The report.", ("report-text", 1): "The text."}
    page = Page(run)
    for event in run.events:
        page.take(event)
    keys = [placement.node.key for placement in place_nodes(page.view.nodes())]
    assert sorted(keys) == sorted(set(keys))


async def test_store_error_is_displayed_and_retried(finished: PlayedRun) -> None:
    """An unreadable result or artifact shows a note until the store can be read again."""

    class Locked(PlayedRun):
        locked = True

        def tool_result(self, tool_call_id: str) -> str:
            if self.locked:
                raise StoreError("The store <is> locked.")
            return finished.tool_result(tool_call_id)

        def artifact_text(self, artifact_id: str, version: int) -> str:
            if self.locked:
                raise StoreError("The store <is> locked.")
            return finished.artifact_text(artifact_id, version)

    run = Locked(finished.events)
    page = Page(run)
    for event in run.events:
        page.view.transcript.apply(event)
    page.stream.receive({"type": "hello"})
    assert "The store &lt;is&gt; locked." in page.html["arttext-research_report"]
    assert "The store &lt;is&gt; locked." in page.html["tc-2-details"]
    run.locked = False
    page.stream.flush()
    assert "locked" not in "".join(page.html.values())
    assert "five &lt;b&gt;results" in page.html["tc-2-details"]
