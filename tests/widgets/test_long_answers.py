"""Answers of any length are displayed within a second: views and saved outputs are cut, with a hint to the rest."""

import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenWorkbench
from support.cpu_time import Try, within
from support.pages import ShownView
from support.played_runs import PlayedRun
from support.replies import report

import artifactflow_nb as af
from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.text.shortened import ANSWER_LOCATION
from artifactflow_nb.widgets.artifacts.view import ArtifactPanel
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.saved import saved_run
from artifactflow_nb.widgets.run.transcript import RunTranscript
from artifactflow_nb.widgets.run.view import RunView


def paragraphs(n: int) -> str:
    return "".join(f"Paragraph {i} says one thing.\n\n" for i in range(n))


def table(n: int) -> str:
    return "| a | b |\n|---|---|\n" + "".join(f"| row {i} | {i} |\n" for i in range(n))


def answered(open_workbench: OpenWorkbench, folder: Path, text: str) -> tuple[af.Workbench, af.Run]:
    """A run with the text as its artifact and its answer."""
    model = af.ScriptedModel([report(text), text], chunk_chars=100_000)
    wb = open_workbench(model=model, data_dir=folder, approvals="approve", interactive=False)
    run = wb.ask("Tell me everything.").wait()
    assert run.status == "completed"
    return wb, run


def all_views(wb: af.Workbench, run: af.Run) -> dict[str, Callable[[], Any]]:
    """A function for each view, which opens it and returns its saved output."""

    async def output(shown: ShownView) -> Any:
        return shown.view.saved_output()

    def show(view: Any) -> None:
        wb._thread.call(output(ShownView(wb._thread, view)))

    place = run.conversation_id, run.message_id
    return {
        "live": lambda: show(RunView(run._client)),
        "saved": lambda: saved_run(run._client),
        "chat": lambda: show(ChatView(wb._thread, run.conversation_id)),
        "panel": lambda: show(ArtifactPanel(wb._thread, *place, with_dates=False)),
    }


@pytest.mark.timed
@pytest.mark.parametrize(("make", "n"), [(paragraphs, 200_000), (table, 100_000)], ids=["paragraphs", "table"])
def test_very_long_answer_is_shown_as_fast_as_one_at_the_limit(
    workbench: OpenWorkbench, tmp_path: Path, make: Callable[[int], str], n: int
) -> None:
    """A view of 200,000 paragraphs or rows takes about as long as a view of 2,000, because only a part is rendered."""
    floor = all_views(*answered(workbench, tmp_path / "short", make(2_000)))
    for name, show in all_views(*answered(workbench, tmp_path / "long", make(n))).items():
        with Try() as least:
            floor[name]()
        for attempt in within(3 * least.seconds + 0.5):
            with attempt:
                show()


def test_every_output_links_to_full_answer(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Live view, chat and all saved formats are cut, and name run.response and the export."""
    text = paragraphs(5_000)
    wb, run = answered(workbench, tmp_path / "data", text)
    live = ShownView(wb._thread, RunView(run._client))
    chat = ShownView(wb._thread, ChatView(wb._thread, run.conversation_id))
    bundle = saved_run(run._client)
    shown = ["".join(live.html.values()), "".join(chat.html.values()), *bundle.values(), run.response._repr_html_()]
    for form in shown:
        assert "more characters" in form
        assert "run.response" in form
        assert "Paragraph 999 says" in form
        assert "Paragraph 1001 says" not in form
    panel = ShownView(wb._thread, ArtifactPanel(wb._thread, run.conversation_id, run.message_id, with_dates=False))
    handle = run.artifacts["research_report"]
    for form in ("".join(panel.html.values()), handle._repr_html_()):
        assert "more characters. The whole text is in the store, and exports write it." in form
        assert "Paragraph 1001 says" not in form


def test_handles_and_exports_contain_full_answer(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """run.response, the artifact and their exports contain the last paragraph and no hint."""
    wb, run = answered(workbench, tmp_path / "data", paragraphs(2_000))
    handle = run.artifacts["research_report"]
    assert run.response == paragraphs(2_000).strip()
    assert handle.content == paragraphs(2_000)
    files = [
        wb.conversation(run).to_html(tmp_path / "talk.html"),
        wb.conversation(run).to_markdown(tmp_path / "talk.md"),
        wb.conversation(run).to_ipynb(tmp_path / "talk.ipynb"),
        handle.to_html(tmp_path / "report.html"),
        handle.to_ipynb(tmp_path / "report.ipynb"),
    ]
    for path in files:
        text = Path(path).read_text(encoding="utf-8")
        assert "Paragraph 1999 says" in text
        assert "more characters" not in text
    assert "Paragraph 1999 says" in handle.cell


def chunk(seq: int, text: str) -> StreamEvent:
    data = {"kind": "text", "delta": text, "call_id": "call-1", "job_id": "main"}
    return StreamEvent(
        StreamEventType.LLM_CHUNK, datetime(2026, 1, 1, tzinfo=UTC), seq, "run-0001", "lead_agent", data=data
    )


def test_streaming_cost_does_not_grow_with_answer() -> None:
    """Rendering the last hundred of 400 chunks with 500 paragraphs takes as long as the second hundred."""
    transcript, renderer = RunTranscript("Why?"), RunRenderer(PlayedRun([]))
    piece = paragraphs(500)

    def median_s(first: int) -> float:
        """Median CPU time of a hundred chunks, because other processes disturb some chunks."""
        times = []
        for seq in range(first, first + 100):
            start = time.process_time()
            transcript.apply(chunk(seq, piece))
            nodes = renderer.nodes(transcript)
            times.append(time.process_time() - start)
        assert ANSWER_LOCATION in str(nodes[-1])
        return statistics.median(times)

    medians_s = [median_s(first) for first in (1, 101, 201, 301)]
    assert medians_s[-1] < 2 * medians_s[1] + 0.002
