"""The artifact tools, in runs of an engine and called directly with a store."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenEngine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.cpu_time import within
from support.event_loop import ticking
from support.replies import call, report

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.toolcalls.xml import format_call, format_result, parse_reply, parse_results
from artifactflow_nb.store.artifacts import ArtifactManager
from artifactflow_nb.store.conversations import ConversationManager
from artifactflow_nb.store.database import Database
from artifactflow_nb.testing import FakeIds
from artifactflow_nb.tools.artifacts import create_artifact, read_artifact, rewrite_artifact, update_artifact
from artifactflow_nb.tools.base import Tool, ToolContext

TEXT = "# Title\n\n  indented & <b>bold</b>\n\nThe cat sat on the mat.\nThe dog sat on the mat.\n"


async def run(open_engine: OpenEngine, *calls: str) -> tuple[Any, list[ToolResult]]:
    engine = await open_engine([report(TEXT) + "".join(calls), "Done."], approvals="approve")
    result = await engine.controller.execute("Write.")
    text = engine.model.requests[-1].messages[-1].content
    artifacts = await engine.artifacts.list_artifacts(result.conversation_id, message_id=result.message_id)
    return artifacts[0], [outcome for _, outcome in parse_results(text)]


async def test_read_returns_the_exact_text(open_engine: OpenEngine) -> None:
    """The text is unchanged, so that a copied passage matches."""
    _, results = await run(open_engine, call("read_artifact", id="research_report"))
    assert results[-1].data == TEXT


async def test_update_replaces_one_exact_passage(open_engine: OpenEngine) -> None:
    """The rest of the text is unchanged."""
    update = call("update_artifact", id="research_report", old="  indented & <b>bold</b>", new="  plain")
    artifact, _ = await run(open_engine, update)
    assert artifact.content == TEXT.replace("  indented & <b>bold</b>", "  plain")
    assert (artifact.version, artifact.update_type) == (2, "update")


@pytest.mark.parametrize(
    ("old", "problem", "excerpt"),
    [
        ("The cat sat on a mat.", "does not hold the passage", "5: The cat sat on the mat."),
        ("sat on the mat.", "stands there 2 times", "6: The dog sat on the mat."),
        ("", "`old` is empty", ""),
    ],
)
async def test_update_without_a_unique_match_changes_nothing(
    open_engine: OpenEngine, old: str, problem: str, excerpt: str
) -> None:
    """The error shows the nearest lines with their numbers."""
    artifact, results = await run(open_engine, call("update_artifact", id="research_report", old=old, new="x"))
    assert (artifact.version, artifact.content) == (1, TEXT)
    assert problem in (results[-1].error or "")
    assert excerpt in (results[-1].error or "")


async def test_rewrite_keeps_earlier_versions(open_engine: OpenEngine) -> None:
    """The whole text is replaced, and the previous version can be read."""
    rewrite = call("rewrite_artifact", id="research_report", content="New.")
    artifact, results = await run(open_engine, rewrite, call("read_artifact", id="research_report", version="1"))
    assert (artifact.version, artifact.content) == (2, "New.")
    assert results[-1].data == TEXT


class Shelf:
    """A store with one conversation, in which tools are called as in a run."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path)
        self.artifacts = ArtifactManager(self._database, SystemClock())
        self._ids = FakeIds()

    async def open(self) -> "Shelf":
        await self._database.open()
        conversations = ConversationManager(self._database, SystemClock(), self._ids)
        self.conversation_id = await conversations.start_conversation()
        self.message_id = (await conversations.add(self.conversation_id, "Write.", "Written.")).message_id
        return self

    async def close(self) -> None:
        await self._database.close()

    async def call(self, tool: Tool, **params: Any) -> ToolResult:
        services = {ArtifactManager: self.artifacts}
        place = (self.conversation_id, self.message_id, "lead_agent", self._ids.new("tool"))
        return await tool.run(ToolContext("run-1", *place, services), params)

    async def write(self, content: str, artifact_id: str = "report") -> None:
        assert (await self.call(create_artifact, id=artifact_id, title="Report", content=content)).success

    async def update(self, old: str, new: str = "new", artifact_id: str = "report") -> str:
        result = await self.call(update_artifact, id=artifact_id, old=old, new=new)
        return result.error or ""

    async def text(self, artifact_id: str = "report") -> str:
        return (await self.artifacts.read(self.conversation_id, artifact_id, message_id=self.message_id)).content


@pytest.fixture
async def shelf(tmp_path: Path) -> Any:
    opened = await Shelf(tmp_path / "store.db").open()
    yield opened
    await opened.close()


NASTY = [
    "\r\n",
    "\n",
    "\t",
    "  ",
    " \n",
    "]]>",
    "<![CDATA[",
    "</old>",
    "</data></tool_result>",
    "</tool_call>",
    "&amp;",
]
NASTY += [
    "<item>",
    "\u200b",
    "\ufeff",
    "\u2028",
    "\x0b",
    "\r",
    "`",
    "a",
    "B",
    "茶",
    "é",
    "e\u0301",
    "😀",
    "[Lines 1-2 of 3]",
]
TEXTS = st.lists(st.sampled_from(NASTY) | st.characters(exclude_categories=["Cs"]), min_size=1).map("".join)


def test_passage_copied_from_a_read_is_found(tmp_path: Path) -> None:
    """Any passage copied from a result of read_artifact is found at its place."""
    with asyncio.Runner() as runner:
        shelf = runner.run(Shelf(tmp_path / "store.db").open())
        ids = FakeIds()

        @given(TEXTS, st.data())
        @settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
        def copied(text: str, data: st.DataObject) -> None:
            start = data.draw(st.integers(0, len(text) - 1))
            end = data.draw(st.integers(start + 1, len(text)))
            key = ids.new("report")
            runner.run(shelf.write(text, key))
            shown = format_result("read_artifact", runner.run(shelf.call(read_artifact, id=key)))
            ((_, read),) = parse_results(shown)
            assert read.data == text
            passage = read.data[start:end]
            (written,) = parse_reply(format_call("update_artifact", {"id": key, "old": passage, "new": "|"})).calls
            result = runner.run(shelf.call(update_artifact, **written.params))
            if result.success:
                assert runner.run(shelf.text(key)) == text[:start] + "|" + text[end:]
            else:
                assert "the passage stands there" in (result.error or "")
                assert text.find(passage, text.find(passage) + 1) > 0

        copied()
        runner.run(shelf.close())


async def test_spaces_around_an_id_are_ignored(shelf: Shelf) -> None:
    """Models write spaces around ids."""
    await shelf.write("text", " report\n")
    assert (await shelf.call(read_artifact, id="\treport ")).data == "text"


async def test_overlapping_matches_are_not_unique(shelf: Shelf) -> None:
    """Two matches that overlap are two matches."""
    await shelf.write("abababa")
    assert "stands there 2 times" in await shelf.update("abab")
    assert await shelf.text() == "abababa"


async def test_ambiguous_passage_is_shown_with_its_context(shelf: Shelf) -> None:
    """Each match is shown with the lines around it, so that a longer passage can be copied."""
    await shelf.write("# One\nsame\n\n# Two\nsame\nend\n")
    error = await shelf.update("same")
    assert error.endswith("Its lines:\n1: # One\n2: same\n3: \n...\n4: # Two\n5: same\n6: end")


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("first\n  deep  line\t\nlast\n", "deep line\nlast"),
        ("first\r\n  deep\r\nlast\r\n", "deep\nlast"),
        ("first\nde\u200bep\nlast\n", "deep\nlast"),
        ("first\ndeep\nlast\n", "deep  \nlast\u200b"),
    ],
    ids=["spaces", "line ends", "unseen in the text", "unseen in the call"],
)
async def test_difference_in_white_space_is_reported(shelf: Shelf, text: str, old: str) -> None:
    """If only white space differs, the error says so and shows the lines."""
    await shelf.write(text)
    error = await shelf.update(old)
    assert "only with other white space or invisible characters. Copy `old` exactly. Its lines:\n1: first\n2: " in error
    assert "\n3: last" in error
    assert await shelf.text() == text


async def test_nearest_passage_is_found_in_chinese(shelf: Shelf) -> None:
    """Without spaces between words, pairs of characters are compared."""
    await shelf.write("红茶来自福建。\n绿茶的产地是浙江省杭州市。\n咖啡来自云南。\n")
    assert "Nearest lines:\n2: 绿茶的产地是浙江省杭州市。" in await shelf.update("绿茶的产区是浙江省杭州市。")


async def test_nearest_passage_has_several_lines(shelf: Shelf) -> None:
    """A passage of several lines is compared as a whole."""
    filler = "".join(f"alpha {n}\nbeta {n}\ngamma {n}\n" for n in range(50))
    await shelf.write(f"{filler}alpha x\n\nbeta y\ngamma z\n{filler}")
    error = await shelf.update("alpha x\n\nbeta y!\ngamma zz\n")
    assert "\n151: alpha x\n152: \n153: beta y\n154: gamma z" in error


async def test_nearest_passage_is_found_within_a_very_long_line(shelf: Shelf) -> None:
    """The nearest part of the line is shown with its first column."""
    words = " ".join(f"word{n}" for n in range(10_000))
    await shelf.write(words)
    error = await shelf.update("word7000 word7001 word7O02 word7003")
    assert "word7000 word7001 word7002 word7003" in error
    assert "1, from character " in error
    assert len(error) < 5_000


async def test_error_for_a_missing_passage_has_no_lines_without_similar_lines(shelf: Shelf) -> None:
    """Without a common word no line is shown."""
    await shelf.write("tea and coffee\n")
    assert (await shelf.update("zzz")).endswith("Nearest lines:\n(none is alike)")


def large_misses() -> dict[str, tuple[str, str]]:
    """Documents of 100 KB, each with an absent passage of 3 KB."""
    chance = random.Random(1)  # noqa: S311 - nothing secret is drawn
    prose = " ".join(f"w{chance.randrange(3_000)}" for _ in range(20_000))
    chinese = "".join(chr(0x4E00 + chance.randrange(2_000)) for _ in range(100_000))
    items = [f"item {n}: the value of the item is {n} and no more\n" for n in range(2_200)]
    return {
        "one long line": (prose, prose[5_000:8_000].replace("1", "2")),
        "one letter": ("a" * 100_000, "a" * 1_500 + "b" + "a" * 1_499),
        "same lines": ("the quick brown fox jumps\n" * 4_000, "the quick brown fox leaps\n" * 120),
        "one letter a line": ("a\n" * 50_000, "a\n" * 1_499 + "b"),
        "blank lines": ("\n" * 100_000, "\n" * 2_999 + "b"),
        "near misses": ("".join(items), "".join(items[50:110]).replace("more", "less")),
        "white space": (prose.replace(" ", "  "), prose[5_000:8_000]),
        "white space in lines": (prose.replace(" ", "\n"), prose[5_000:8_000]),
        "chinese": (chinese, chinese[5_000:6_000] + "茶" + chinese[6_001:8_000]),
        "same chinese": ("的一是" * 33_000, "的一不" * 1_000),
        "signs": ("-=*+ " * 20_000, "-=+" * 1_000),
        "often there": ("ab\n" * 33_000, "ab\n" * 1_000),
    }


@pytest.mark.timed
@pytest.mark.parametrize("name", large_misses())
async def test_absent_passage_in_a_large_document_takes_bounded_time(shelf: Shelf, name: str) -> None:
    """An absent passage of 3 KB in a document of 100 KB takes at most 100 ms of CPU time."""
    document, passage = large_misses()[name]
    await shelf.write(document)
    for attempt in within(0.1):
        with attempt:
            assert "was not changed" in await shelf.update(passage)


async def test_search_for_an_absent_passage_does_not_block_the_loop(shelf: Shelf) -> None:
    """Other tasks run while the nearest lines in 2 MB are searched."""
    await shelf.write("".join(f"line {n} of a long document\n" for n in range(70_000)))
    async with ticking(0.001) as ticks:
        assert "does not hold the passage" in await shelf.update("line x of a short document\n" * 50)
    assert ticks.n > 10  # it takes half a second; a blocked loop would count a few times at most


async def test_concurrent_updates_are_all_applied(shelf: Shelf) -> None:
    """Concurrent updates of different passages do not overwrite each other."""
    await shelf.write("".join(f"[{n}]" for n in range(20)))
    errors = await asyncio.gather(*(shelf.update(f"[{n}]", f"({n})") for n in range(20)))
    assert errors == [""] * 20
    assert await shelf.text() == "".join(f"({n})" for n in range(20))


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"from_line": 2, "n_lines": 2}, "[Lines 2-3 of 4]\n  two\r\n\tthree \n"),
        ({"from_line": 4}, "[Lines 4-4 of 4]\nfour"),
        ({"n_lines": 1}, "[Lines 1-1 of 4]\none\n"),
        ({"from_line": 3, "n_lines": 99}, "[Lines 3-4 of 4]\n\tthree \nfour"),
        ({"from_line": 1, "n_lines": 4}, "one\n  two\r\n\tthree \nfour"),
        ({"from_line": "2", "n_lines": "1"}, "[Lines 2-2 of 4]\n  two\r\n"),
    ],
)
async def test_long_artifact_is_read_in_parts(shelf: Shelf, params: dict[str, Any], expected: str) -> None:
    """Lines are returned unchanged after one line with their numbers, which a complete text does not have."""
    await shelf.write("one\n  two\r\n\tthree \nfour")
    assert (await shelf.call(read_artifact, id="report", **params)).data == expected


@pytest.mark.parametrize("params", [{"from_line": 0}, {"from_line": 5}, {"from_line": 1, "n_lines": 0}])
async def test_reading_lines_out_of_range_is_an_error(shelf: Shelf, params: dict[str, Any]) -> None:
    """The error has the number of lines."""
    await shelf.write("one\ntwo\n")
    result = await shelf.call(read_artifact, id="report", **params)
    assert "report (version 1) has 2 lines" in (result.error or "")


async def test_empty_artifact_can_be_read(shelf: Shelf) -> None:
    """Reading from its first line returns an empty text."""
    await shelf.write("")
    assert (await shelf.call(read_artifact, id="report", from_line=1)).data == ""


async def test_earlier_version_is_read_in_parts(shelf: Shelf) -> None:
    """Version and lines can be combined."""
    await shelf.write("one\ntwo\n")
    await shelf.call(rewrite_artifact, id="report", content="New.")
    assert (await shelf.call(read_artifact, id="report", version=1, n_lines=1)).data == "[Lines 1-1 of 2]\none\n"
