"""Citations of sources that a run has read, has only found, or has never seen; displayed and exported."""

import re
from pathlib import Path
from typing import Annotated

import pytest

import artifactflow_nb as af
from artifactflow_nb.sources.values import Evidence
from artifactflow_nb.widgets.run.saved import saved_run

READ, FOUND, INVENTED = "local:notes/otter.md#rest", "local:notes/heron.md#hunt", "https://example.org/never"
REPORT = f"""Otters sleep at night [1]. Herons hunt fish [2]. Elephants sing at dawn [3].

1. Otter — {READ}
2. Heron — {FOUND}
3. {INVENTED}
"""
CONFIG = {"lead_agent": {"tools": ["all"]}}
READING = [af.ToolCall("web_search", {"query": "heron fish"}), af.ToolCall("web_fetch", {"urls": [READ]})]
WRITING = af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": REPORT})
UNREAD = "This run has not read this source."


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "otter.md").write_text("# Rest\n\nOtters swim all day. Otters sleep at night in their den.\n")
    (folder / "heron.md").write_text("# Hunt\n\nHerons hunt fish in shallow water.\n")
    return folder


def ask(notes: Path, *replies: object, n_questions: int = 1) -> af.Run:
    """The last run of a conversation with these replies of a model."""
    model = af.ScriptedModel(list(replies))
    wb = af.Workbench(model=model, approvals="approve", data_dir=notes.parent / "store", graph_config=CONFIG)
    wb.sources.add(notes)
    run = wb.ask("How do animals live?").wait(20)
    for _ in range(n_questions - 1):
        run = wb.ask("And now?", conversation_id=run.conversation_id).wait(20)
    return run


def marks(html: str) -> dict[str, str]:
    """The citations of a text: the passage by the accessible name of the mark."""
    pattern = r'<span class="af-cite-mark([^"]*)"[^>]*aria-label="([^"]*)">\[\d\]</span><span [^>]*>(.*?)</span></span>'
    found = re.findall(pattern, html)
    unread = re.compile("not read by this run|seen in search results only")
    assert all(("af-cite-unread" in css) == bool(unread.search(name)) for css, name, _ in found)
    return {name: passage for _, name, passage in found}


def test_citation_says_that_a_source_was_not_read(notes: Path, tmp_path: Path) -> None:
    """A read source shows the passage, a found source the snippet, and an invented address neither."""
    run = ask(notes, *READING, WRITING, REPORT)
    saved = saved_run(run._client)["text/html"]
    exported = run.artifacts["note"].to_html(tmp_path).read_text()
    for html in (saved, run.artifacts["note"]._repr_html_(), exported):
        shown = marks(html)
        names = ["[1] Otter", "[2] Heron, seen in search results only", f"[3] {INVENTED}, not read by this run"]
        assert list(shown) == names
        sentence = "1 of 3 cited sources was only seen in search results, 1 was not read at all."
        assert sentence in html or html not in {saved, exported}
        read, found, invented = shown.values()
        assert "<mark>Otters sleep at night in their den.</mark>" in read
        assert UNREAD not in read
        assert UNREAD in found
        assert "Passage in the search results:</small><q>" in found
        assert "Herons hunt fish" in found
        assert UNREAD in invented
        assert invented.count(INVENTED) <= 3  # title, link and its address
        assert "<q>" not in invented


def test_citation_value_says_whether_its_source_was_read(notes: Path) -> None:
    run = ask(notes, *READING, WRITING, REPORT)
    for citation in (run.citation, run.artifacts["note"].citation):
        assert [citation(number).is_unread for number in (1, 2, 3)] == [False, True, True]
        assert UNREAD in citation(3)._repr_html_()
        assert UNREAD not in citation(1)._repr_html_()


def test_later_question_cites_sources_that_an_earlier_question_read(notes: Path) -> None:
    """Runs of one branch share the sources that they have read."""
    run = ask(notes, *READING, "Fine.", REPORT, n_questions=2)
    assert "[1] Otter" in marks(saved_run(run._client)["text/html"])


def test_source_of_another_tool_is_not_called_unread(notes: Path) -> None:
    """A source whose address is in the question, or in a result of the person's own tool, may have been read there."""

    @af.tool
    async def look_up(ctx: af.ToolContext, word: Annotated[str, "The word."]) -> str:
        """Look up a word."""
        return f"{word}: see {INVENTED}"

    model = af.ScriptedModel([af.ToolCall("look_up", {"word": "otter"}), REPORT])
    wb = af.Workbench(model=model, approvals="approve", data_dir=notes.parent / "own", graph_config=CONFIG)
    wb.tool(look_up)
    run = wb.ask(f"What says {FOUND}?").wait(20)
    assert [run.citation(number).is_unread for number in (1, 2, 3)] == [True, False, False]


def test_manual_edit_keeps_the_citations_of_its_run(notes: Path) -> None:
    note = ask(notes, *READING, WRITING, REPORT).artifacts["note"]
    edited = note.edit(note.content.replace("Elephants", "Whales"))
    assert list(marks(edited._repr_html_())) == list(marks(note._repr_html_()))


@pytest.mark.parametrize(
    ("read", "cited"),
    [
        ("https://e.org/a", "http://www.e.org/a/#part"),
        ("local:a.md#one", "local:a.md"),
        ("local:a.md", "local:a.md#one"),
    ],
)
def test_forms_of_one_address(read: str, cited: str) -> None:
    """Scheme, fragment and slash of a web address do not matter, and a read section makes its file a read file."""
    evidence = Evidence({read: "text"}, is_complete=True)
    assert not evidence.is_unread(cited)
    assert evidence.text(cited) == "text"
    assert evidence.is_unread("https://e.org/a?b")
    assert evidence.is_unread("local:a.md#two") == (read != "local:a.md")


def test_address_in_a_text_leads_to_its_section(notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a passage the link has the heading of the section in Markdown, and the line in other texts."""
    monkeypatch.chdir(tmp_path)
    (notes / "long.md").write_text("# First\n\nOne.\n\n## Second part\n\nTwo.\n")
    (notes / "plain.txt").write_text("Title\n\n" + "The first paragraph. " * 5)
    text = "See [1].\n\n1. Long — local:notes/long.md#second-part\n2. Plain — local:notes/plain.txt#part-1\n"
    note = af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": text})
    run = ask(notes, note, text)
    for html in (saved_run(run._client)["text/html"], run.artifacts["note"]._repr_html_()):
        assert re.search(r'href="notes/long\.md#Second-part"[^>]*>local:notes/long\.md#second-part</a>', html)
        assert re.search(r'href="notes/plain\.txt#line=\d"[^>]*>local:notes/plain\.txt#part-1</a>', html)
