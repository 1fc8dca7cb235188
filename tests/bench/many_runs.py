"""30 runs that stream at the same time in one notebook of a real JupyterLab: the longest task of the page.

A task is measured twice, from a trace of Chromium: in CPU time of the page's thread, against 100 ms, and by the clock.
On a busy machine the clock says how long others had the processor, so the floor is what JupyterLab itself takes in the
same run: the longest task while the page opens this notebook. On a quiet machine both are to be below 100 ms.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.figures import Figure
from browser.lab import CHROMIUM_ARGS, LabPage, find_chromium, lab_server, watch, write_notebook
from playwright.sync_api import CDPSession, expect, sync_playwright

N_RUNS = 30
LONGEST_TASK_MS = 100

_TIMEOUT_MS = 180_000
_NAME = "many.ipynb"
_SETUP = """import artifactflow_nb as af

answer = ("One sentence of the answer, with **bold** words. " * 5 + "\\n\\n") * 20
model = af.ScriptedModel(lambda _request: answer, chunk_chars=24, delay_s=0.05)
wb = af.Workbench(model=model, data_dir="many")"""
_MAIN_THREAD = "CrRendererMain"
_TASK = "ThreadControllerImpl::RunTask"


class Trace:
    """A trace of the browser; `end` returns its events."""

    def __init__(self, session: CDPSession, lab: LabPage) -> None:
        self._session = session
        self._lab = lab
        self._events: list[dict[str, Any]] = []
        self._is_complete = False
        session.on("Tracing.dataCollected", lambda message: self._events.extend(message["value"]))
        session.on("Tracing.tracingComplete", self._complete)
        config = {"includedCategories": ["toplevel", "__metadata"]}
        session.send("Tracing.start", {"traceConfig": config, "transferMode": "ReportEvents"})

    def _complete(self, _message: object) -> None:
        self._is_complete = True

    def end(self) -> list[dict[str, Any]]:
        """End the trace; return its events."""
        self._session.send("Tracing.end")
        while not self._is_complete:
            self._lab.page.wait_for_timeout(100)
        return self._events


def longest_task_ms(events: list[dict[str, Any]], measure: str) -> float:
    """Longest task of a page in milliseconds; the measure is `tdur`, CPU time, or `dur`, by the clock."""
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == _MAIN_THREAD
    }
    tasks = [
        event[measure]
        for event in events
        if event["name"] == _TASK and (event["pid"], event["tid"]) in main and measure in event
    ]
    if not tasks:
        raise AssertionError(f"The trace has {len(events)} events and no task of the page.")
    return float(max(tasks)) / 1000


def figures() -> Iterator[Figure]:
    """The longest task of the page, from the time when the runs stream until they are saved."""
    with tempfile.TemporaryDirectory() as folder, lab_server(Path(folder)) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(CHROMIUM_ARGS))
        write_notebook(server, _NAME, [_SETUP, *(f'wb.ask("How long? ({n})")' for n in range(N_RUNS))])
        lab = watch(browser.new_page(), server, _NAME)
        opening = Trace(lab.page.context.new_cdp_session(lab.page), lab)
        lab.open()
        floor = longest_task_ms(opening.end(), "dur")
        lab.run_all()
        expect(lab.page.locator(".af-live")).to_have_count(N_RUNS, timeout=_TIMEOUT_MS)
        trace = Trace(lab.page.context.new_cdp_session(lab.page), lab)
        saved = lab.page.locator(".af-saved").filter(has_text="Completed")
        expect(saved).to_have_count(N_RUNS, timeout=_TIMEOUT_MS)
        events = trace.end()
        name = f"{N_RUNS} streaming runs: longest task"
        yield Figure(f"{name}, CPU", longest_task_ms(events, "tdur"), LONGEST_TASK_MS, "ms", 1.0)
        yield Figure(f"{name}, by the clock", longest_task_ms(events, "dur"), floor, "ms", 1.0)
        browser.close()
