"""4,000 chunks at 100 a second into the chat, in a real JupyterLab: bytes, CPU of the kernel, and what the reader sees.

Streamed three times: while the kernel is free, while a cell computes with pandas, and below 30 long answers; then a
conversation of 1,000 messages is opened. The clocks of page and kernel are the same machine's.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.figures import Figure
from browser.lab import CHROMIUM_ARGS, LabPage, find_chromium, lab_server, watch, write_notebook
from playwright.sync_api import WebSocket, expect, sync_playwright

CHUNKS = 4000
PER_SECOND = 100
MOST_MB = 1.0
MOST_CPU_S = 2.5
LATEST_S = 0.5
LONGEST_TASK_MS = 100
GAP_MS = 100
OPENS_WITHIN_S = 1.0

_TIMEOUT_MS = 120_000
_SAVED_MS = 3000
_SETUP = f"""
import asyncio, time
import artifactflow_nb as af
import numpy as np, pandas as pd

def answer(word):
    piece = "The {{}} sentence of this answer says something, and then it ends. "
    text = ""
    while len(text) < {CHUNKS} * 16 - 40:
        text += "".join(piece.format(i) for i in range(4)) + "\\n\\n"
    return text[:{CHUNKS} * 16 - 40] + "\\n\\nEnd of " + word

class Paced(af.ScriptedModel):
    "Says its chunks at their time, late or not, and notes when it said the last."
    async def stream(self, request):
        began, n = time.perf_counter(), 0
        async for event in super().stream(request):
            n += 1
            await asyncio.sleep(max(began + n / {PER_SECOND} - time.perf_counter(), 0))
            yield event
            self.said_last = time.time()

model = Paced([answer("first"), answer("second"), answer("third")])
wb = af.Workbench(model=model, data_dir="bench")
"""
_CELLS = (
    _SETUP,
    "wb.chat()",
    "started = time.process_time()",
    "print(time.process_time() - started)",
    """
frame = pd.DataFrame({"key": np.arange(400_000) % 1000, "value": np.random.default_rng(1).random(400_000)})
until = time.time() + 30
while time.time() < until:
    frame.groupby("key")["value"].apply(lambda part: part.rolling(5).mean().sum())
""",
    "print(model.said_last)",
    """
async def fill():
    manager = wb._thread.engine.conversations
    conversation_id = await manager.start_conversation("Long")
    for i in range(1000):
        answer = f"Answer {i} with **some** words, `code` and a list:\\n\\n- one\\n- two"
        await manager.add(conversation_id, f"Question {i}?", answer)
    return conversation_id
conversation_id = wb._thread.call(fill())
""",
    "wb.chat(conversation_id)",
    """
async def fill():
    manager = wb._thread.engine.conversations
    conversation_id = await manager.start_conversation("Long answers")
    for i in range(30):
        await manager.add(conversation_id, f"Question {i}?", answer(f"answer {i}")[:LONG_CHARS])
    return conversation_id
LONG_CHARS = 16_000
conversation_id = wb._thread.call(fill())
""",
    "wb.chat(conversation_id)",
)
_WATCH = """() => {
    const seen = { changes: [], longest: 0, ended: {} };
    window.seen = seen;
    const live = document.getElementsByClassName("af-live");
    let length = 0;
    new MutationObserver(() => {
        const newest = [...live].map((view) => [...view.getElementsByClassName("af-answer")].at(-1));
        const text = newest.map((node) => node?.textContent).join("");
        if (text.length === length) return;
        length = text.length;
        seen.changes.push(Date.now());
        for (const word of ["first", "second", "third"]) {
            if (!(word in seen.ended) && text.includes(`End of ${word}`)) seen.ended[word] = Date.now();
        }
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) seen.longest = Math.max(seen.longest, entry.duration);
    }).observe({ type: "longtask" });
}"""


@dataclass
class Received:
    """The bytes received over websockets."""

    n_bytes: int = 0

    def listen(self, socket: WebSocket) -> None:
        """Count the bytes of a websocket."""
        socket.on("framereceived", self._count)

    def _count(self, payload: Any) -> None:
        self.n_bytes += len(payload if isinstance(payload, bytes) else payload.encode())


def figures() -> Iterator[Figure]:
    """All figures of the chat."""
    with tempfile.TemporaryDirectory() as folder, lab_server(Path(folder)) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(CHROMIUM_ARGS))
        write_notebook(server, "chat.ipynb", _CELLS)
        lab = watch(browser.new_page(), server, "chat.ipynb")
        received = Received()
        lab.page.on("websocket", received.listen)
        lab.open()
        for index in (0, 1):
            lab.run_cell(index)
            lab.wait_done(index)
        expect(lab.output(1).locator(".af-composer textarea")).to_be_visible()
        lab.page.evaluate(_WATCH)
        yield from _free(lab, received)
        yield from _busy(lab)
        yield from _long(lab)
        yield from _crowded(lab)
        browser.close()


def _ask(lab: LabPage, cell: int = 1) -> None:
    composer = lab.output(cell).locator(".af-composer textarea")
    composer.fill("Say it.")
    composer.press("Enter")


def _wait_for_end(lab: LabPage, word: str) -> None:
    lab.page.wait_for_function(f"() => window.seen.ended.{word}", timeout=_TIMEOUT_MS)


def _time_of_last_text(lab: LabPage) -> float:
    lab.run_cell(5)
    expect(lab.output(5)).to_be_visible(timeout=_TIMEOUT_MS)
    lab.wait_done(5)
    return float(lab.output(5).inner_text())


def _free(lab: LabPage, received: Received) -> Iterator[Figure]:
    lab.run_cell(2)
    lab.wait_done(2)
    before = received.n_bytes
    _ask(lab)
    _wait_for_end(lab, "first")
    n_bytes = received.n_bytes - before
    lab.run_cell(3)
    lab.wait_done(3)
    cpu_s = float(lab.output(3).inner_text())
    late_s = lab.page.evaluate("() => window.seen.ended.first") / 1000 - _time_of_last_text(lab)
    longest_ms = lab.page.evaluate("() => window.seen.longest")
    yield Figure(f"chat, {CHUNKS} chunks: over the websocket", n_bytes / 1e6, MOST_MB, "MB", 1.0)
    yield Figure(f"chat, {CHUNKS} chunks: CPU of the kernel", cpu_s, MOST_CPU_S, "s", 1.0)
    yield Figure("chat: last text after the last chunk", late_s, LATEST_S, "s", 1.0)
    yield Figure("chat: longest task of the page", longest_ms, LONGEST_TASK_MS, "ms", 1.0)


def _busy(lab: LabPage) -> Iterator[Figure]:
    lab.page.evaluate("() => { window.seen.changes = []; window.seen.longest = 0; }")
    lab.run_cell(4)
    time.sleep(1.0)
    _ask(lab)
    _wait_for_end(lab, "second")
    changes = lab.page.evaluate("() => window.seen.changes")
    gaps = [later - earlier for earlier, later in pairwise(changes)]
    lab.wait_done(4, _TIMEOUT_MS)
    late_s = lab.page.evaluate("() => window.seen.ended.second") / 1000 - _time_of_last_text(lab)
    yield Figure("chat beside pandas: gaps, 95th percentile", statistics.quantiles(gaps, n=20)[-1], GAP_MS, "ms", 1.0)
    yield Figure("chat beside pandas: last text after last chunk", late_s, LATEST_S, "s", 1.0)


def _long(lab: LabPage) -> Iterator[Figure]:
    lab.run_cell(6)
    lab.wait_done(6)
    started = time.perf_counter()
    lab.run_cell(7)
    shown = lab.output(7).locator(".af-live").get_by_text("Answer 999")
    expect(shown).to_be_visible(timeout=_TIMEOUT_MS)
    took_s = time.perf_counter() - started
    yield Figure("chat: a conversation of 1,000 messages opens", took_s, OPENS_WITHIN_S, "s", 1.0)


def _crowded(lab: LabPage) -> Iterator[Figure]:
    """Measure below many long answers, until they are saved and the output is redrawn."""
    for index in (8, 9):
        lab.run_cell(index)
        lab.wait_done(index)
    expect(lab.output(9).locator(".af-composer textarea")).to_be_visible(timeout=_TIMEOUT_MS)
    lab.page.wait_for_timeout(_SAVED_MS)
    lab.page.evaluate("() => { window.seen.longest = 0; }")
    _ask(lab, 9)
    _wait_for_end(lab, "third")
    lab.page.wait_for_timeout(_SAVED_MS)
    longest_ms = lab.page.evaluate("() => window.seen.longest")
    yield Figure("chat below 30 long answers: longest task", longest_ms, LONGEST_TASK_MS, "ms", 1.0)
