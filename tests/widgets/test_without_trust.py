"""Saved outputs without some elements: untrusted notebooks in JupyterLab, and pages that show Markdown only."""

import base64
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from support.charts import SVG, xml
from support.pages import ShownView
from support.played_runs import PlayedRun

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.widgets.run.saved import saved_run
from artifactflow_nb.widgets.timeline import TimelineView

VOID = frozenset({"img", "br", "hr"})


class Seen(HTMLParser):
    """The words that are left, and the images.

    Args:
        html: The face.
        keeps: What else keeps words from being seen: JupyterLab's `hidden`, or `rp`, which code hosts let through.
    """

    def __init__(self, html: str, keeps: str) -> None:
        super().__init__()
        self._keeps = keeps
        self._open: list[bool] = []
        self.words: list[str] = []
        self.images: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has_words_dropped = self._keeps == "hidden" and tag in {"style", "script"}
        is_hidden = has_words_dropped or self._keeps in {tag, *(name for name, value in attrs if value)}
        if tag not in VOID:
            self._open.append(is_hidden)
        if tag == "img":
            self.images.append(dict(attrs)["src"] or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An empty element of a drawing."""

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not any(self._open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture
def saved_outputs(tmp_path: Path, finished: PlayedRun) -> Iterator[dict[str, str]]:
    """The saved HTML of a run and of every view with a drawing."""
    with af.Workbench(model=ScriptedModel(["One.", "Two.", "Three."]), data_dir=tmp_path / "data") as wb:
        first = wb.ask("First question?").wait(10)
        second = wb.ask("Second question?", conversation_id=first.conversation_id).wait(10)
        wb.conversation(second).edit("Another question?").wait(10)
        timeline = ShownView(wb._thread, TimelineView(first._client)).view
        yield {
            "tree": wb.tree(first).saved_output()["text/html"],
            "timeline": timeline.saved_output()["text/html"],
            "run": saved_run(finished)["text/html"],
        }


@pytest.mark.parametrize("keeps", ["hidden", "rp"])
def test_untrusted_output_has_no_style_or_label_text(saved_outputs: dict[str, str], keeps: str) -> None:
    """Style rules and labels of the drawing are not displayed as text; questions, answers and figures are displayed."""
    words = {
        "tree": ("Another question?", "Three."),
        "timeline": ("model calls", "scripted"),
        "run": ("replaces", "600 tokens"),
    }
    for name, html in saved_outputs.items():
        text = Seen(html, keeps).text
        assert "--af-" not in text
        assert "{" not in text
        assert "first token" not in text  # the key of the timeline's drawing
        assert all(word in text for word in words[name]), (name, text)


def test_image_replaces_untrusted_drawing(saved_outputs: dict[str, str]) -> None:
    """The timeline has an image of its drawing; the tree is a list."""
    (source,) = Seen(saved_outputs["timeline"], "hidden").images
    kind, data = source.split(",")
    assert kind == "data:image/svg+xml;base64"
    labels = ["".join(node.itertext()) for node in xml(base64.b64decode(data).decode()).iter(f"{SVG}text")]
    assert "Timeline" in labels
    assert "<svg" not in saved_outputs["tree"]
    assert "<img" not in saved_outputs["tree"]


def test_markdown_conversion_keeps_html_intact(saved_outputs: dict[str, str]) -> None:
    """In a notebook converted to Markdown, the saved output stays HTML, and the text after it is Markdown."""
    for html in saved_outputs.values():
        label, first, *others = MarkdownIt("commonmark").parse(f"Before.\n\n{html}\n\n*After.*")[3:]
        assert f"{label.content}{first.content}".strip() == html
        assert (label.type, first.type) == ("html_block", "html_block")
        assert [token.type for token in others] == ["paragraph_open", "inline", "paragraph_close"]
