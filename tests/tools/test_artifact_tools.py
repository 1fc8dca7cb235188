"""The artifact tools, through a real engine."""

import time
from typing import Any

import pytest
from conftest import OpenEngine
from scripts import call, report

from artifactflow_nb.messages import ToolResult
from artifactflow_nb.tools.passages import nearest_passages
from artifactflow_nb.xml_calls import parse_results

TEXT = "# Title\n\n  indented & <b>bold</b>\n\nThe cat sat on the mat.\nThe dog sat on the mat.\n"


async def run(open_engine: OpenEngine, *calls: str) -> tuple[Any, list[ToolResult]]:
    engine = await open_engine([report(TEXT) + "".join(calls), "Done."], approvals="approve")
    result = await engine.controller.execute("Write.")
    text = engine.model.requests[-1].messages[-1].content
    seen = await engine.artifacts.list_artifacts(result.conversation_id, message_id=result.message_id)
    return seen[0], [outcome for _, outcome in parse_results(text)]


async def test_what_is_read_is_what_stands_there(open_engine: OpenEngine) -> None:
    """read_artifact gives the text to the byte, so that a copied passage matches."""
    _, results = await run(open_engine, call("read_artifact", id="research_report"))
    assert results[-1].data == TEXT


async def test_an_update_replaces_one_exact_passage(open_engine: OpenEngine) -> None:
    """The passage is replaced and nothing else."""
    update = call("update_artifact", id="research_report", old="  indented & <b>bold</b>", new="  plain")
    artifact, _ = await run(open_engine, update)
    assert artifact.content == TEXT.replace("  indented & <b>bold</b>", "  plain")
    assert (artifact.version, artifact.update_type) == (2, "update")


@pytest.mark.parametrize(
    ("old", "problem", "shown"),
    [
        ("The cat sat on a mat.", "does not hold the passage", "5: The cat sat on the mat."),
        ("sat on the mat.", "stands there 2 times", "6: The dog sat on the mat."),
        ("", "`old` is empty", ""),
    ],
)
async def test_an_update_that_does_not_match_changes_nothing(
    open_engine: OpenEngine, old: str, problem: str, shown: str
) -> None:
    """An absent or ambiguous passage is an error that shows the nearest lines with their numbers."""
    artifact, results = await run(open_engine, call("update_artifact", id="research_report", old=old, new="x"))
    assert (artifact.version, artifact.content) == (1, TEXT)
    assert problem in (results[-1].error or "")
    assert shown in (results[-1].error or "")


async def test_a_rewrite_keeps_earlier_versions(open_engine: OpenEngine) -> None:
    """The whole text is replaced; the version before can still be read."""
    rewrite = call("rewrite_artifact", id="research_report", content="New.")
    artifact, results = await run(open_engine, rewrite, call("read_artifact", id="research_report", version="1"))
    assert (artifact.version, artifact.content) == (2, "New.")
    assert results[-1].data == TEXT


def test_a_miss_in_a_large_document_is_bounded() -> None:
    """Looking for the nearest lines in a megabyte takes time in proportion to its length."""
    line = "the quick brown fox jumps over the lazy dog again and again\n"
    passage = "a passage of many words that is not there " * 70

    def seconds(n_lines: int) -> float:
        started = time.perf_counter()
        nearest_passages(line * n_lines, passage)
        return time.perf_counter() - started

    seconds(1_000)
    assert seconds(16_000) < 16 * max(seconds(1_000), 0.001) * 4
