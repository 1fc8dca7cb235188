"""The outcome of an answer: stated by the lead in the last line, and hidden from the person."""

from pathlib import Path
from typing import Any

import pytest
from conftest import OpenEngine, OpenWorkbench
from support.replies import by_agent, call, delegate, report

import artifactflow_nb as af
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.runs import OutcomeFilter, split_outcome
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.widgets.run.saved import saved_run

ANSWER = "The state's GDP was 2.3 trillion. A < B, and `<outcomes>` is not a tag."
PARTLY = f"{ANSWER}\n\n<outcome>partly</outcome>\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes.\n<outcome>answered</outcome>", ("Yes.", "answered")),
        ("Yes.\n`<outcome>Partly</outcome>`\n", ("Yes.", "partly")),
        ("No.\n<outcome>not in sources</outcome>", ("No.", "not_in_sources")),
        ("No. <outcome>not-in-sources", ("No.", "not_in_sources")),
        ("Yes.\n<outcome>great</outcome>", ("Yes.", None)),
        (
            "The tag <outcome>partly</outcome> ends an answer.",
            ("The tag <outcome>partly</outcome> ends an answer.", None),
        ),
        ("Yes.", ("Yes.", None)),
        ("<outcome>partly</outcome>", ("", "partly")),
    ],
)
def test_outcome_is_read_from_the_last_line_only(text: str, expected: tuple[str, str | None]) -> None:
    assert split_outcome(text) == expected


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("text", [PARTLY, "1 < 2 <o", "a <outcome>partly</outcome> b", "<outcome>partly"])
def test_streamed_text_never_has_the_outcome(text: str, size: int) -> None:
    """However the text is split, only the last line with the outcome is withheld; a tag within the text remains."""
    outcome = OutcomeFilter()
    streamed = [outcome.feed(text[at : at + size]) for at in range(0, len(text), size)]
    whole = "".join(streamed) + outcome.finish()
    assert whole.rstrip() == split_outcome(text)[0].rstrip()
    if text is PARTLY:
        assert "<outcome>" not in "".join(streamed)


@pytest.mark.parametrize("protocol", ["xml", "native"])
async def test_outcome_is_stored_and_not_shown(open_engine: OpenEngine, protocol: str) -> None:
    """There is no further model call; the stream, the answer, later prompts and the history lack the line."""
    turns = by_agent(lead=[delegate("search_agent", "Look."), report(), PARTLY, "And so on."], search=["Found."])
    engine = await open_engine(turns, settings={"tool_protocol": protocol})
    chunks: list[str] = []
    run = await engine.controller.begin("GDP of New York?")
    await engine.controller.subscribe(
        run.run_id,
        lambda event: chunks.append(event.data["delta"]) if event.type is StreamEventType.LLM_CHUNK else None,
    )
    await (await engine.controller.start(run))
    result = await engine.controller.result(run.run_id)
    assert (result.response, result.outcome) == (ANSWER, "partly")
    assert "<outcome>" not in "".join(chunks)
    model: Any = engine.model
    assert len(model.requests) == 4
    await engine.controller.execute("And then?", conversation_id=run.conversation_id)
    assert all("<outcome>partly" not in message.content for message in model.requests[-1].messages[1:])


async def test_concluding_turn_states_the_outcome_too(open_engine: OpenEngine) -> None:
    """An answer that the round limit enforces may state an outcome; without the line the outcome is None."""

    def script(request: ModelRequest) -> str:
        if request.tool_choice == "none":
            return "Nothing.\n<outcome>not_in_sources</outcome>"
        return call("read_artifact", id="none")

    engine = await open_engine(script)
    assert (await engine.controller.execute("Why?")).outcome == "not_in_sources"
    silent = await open_engine(["Because."])
    assert (await silent.controller.execute("Why?")).outcome is None


def test_outcome_is_in_handle_frame_views_and_files(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The outcome is recorded, replayed and sealed; a run without an outcome has None."""
    cassette = tmp_path / "runs.jsonl"
    wb = workbench([PARTLY, "Done."], interactive=False, record=cassette)
    run, other = wb.ask("GDP of New York?").wait(), wb.ask("Why?").wait()
    assert (run.outcome, other.outcome) == ("partly", None)
    assert wb.runs_df()["outcome"].astype(object).where(wb.runs_df()["outcome"].notna(), None).tolist() == [
        "partly",
        None,
    ]
    assert "Completed · Partly answered" in saved_run(run._client)["text/html"]
    assert "Completed · 1 model call" in saved_run(other._client, with_metrics=False)["text/html"]
    with af.open_run(run.seal(tmp_path / "run.zip")) as sealed:
        assert sealed.outcome == "partly"
        found = sealed.verify()
        assert (found.differences, found.prompts) == ((), ())
    with af.Workbench(replay=cassette, data_dir=tmp_path / "replay", interactive=False) as replay:
        assert replay.ask("GDP of New York?").wait().outcome == "partly"
