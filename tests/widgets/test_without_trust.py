"""What a reader sees of a face whose elements are taken away: JupyterLab without trust, and hosts of Markdown."""

import base64
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from plots.drawn import SVG, xml
from widgets.grown import START, chain, grow
from widgets.pages import ShownView
from widgets.played import PlayedRun

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.store.tree_reading import TreeEntry
from artifactflow_nb.text.markdown import MarkdownRenderer
from artifactflow_nb.widgets.frozen import frozen_bundle
from artifactflow_nb.widgets.timeline import TimelineView
from artifactflow_nb.widgets.tree_face import tree_face
from artifactflow_nb.widgets.tree_layout import lay_out

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
        """An element of a drawing that holds nothing."""

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
def faces(tmp_path: Path, finished: PlayedRun) -> Iterator[dict[str, str]]:
    """The HTML of every kind of face that has a drawing, and of a run."""
    with af.Workbench(model=ScriptedModel(["One.", "Two.", "Three."]), data_dir=tmp_path / "data") as wb:
        first = wb.ask("First question?").wait(10)
        second = wb.ask("Second question?", conversation_id=first.conversation_id).wait(10)
        wb.edit(second, "Another question?").wait(10)
        timeline = ShownView(wb._thread, TimelineView(first.port)).view
        yield {
            "tree": wb.tree(first).face()["text/html"],
            "timeline": timeline.face()["text/html"],
            "run": frozen_bundle(finished)["text/html"],
        }


@pytest.mark.parametrize("keeps", ["hidden", "rp"])
def test_neither_style_nor_labels_are_left_behind(faces: dict[str, str], keeps: str) -> None:
    """No rule of the style and no label of the drawing is read as text; the questions, answers and figures are."""
    words = {
        "tree": ("Another question?", "Three."),
        "timeline": ("model calls", "scripted"),
        "run": ("replaces", "600 tokens"),
    }
    for name, html in faces.items():
        text = Seen(html, keeps).text
        assert "--af-" not in text
        assert "{" not in text
        assert "first token" not in text  # the key of the timeline's drawing
        assert all(word in text for word in words[name]), (name, text)


def test_an_image_stands_for_the_drawing(faces: dict[str, str]) -> None:
    """Tree and timeline have one image each, which carries a drawing with the same texts."""
    for name in ("tree", "timeline"):
        (source,) = Seen(faces[name], "hidden").images
        kind, data = source.split(",")
        assert kind == "data:image/svg+xml;base64"
        root = xml(base64.b64decode(data).decode())
        labels = ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]
        assert any("Another question?" in label for label in labels) == (name == "tree")


def test_markdown_leaves_the_html_alone(faces: dict[str, str]) -> None:
    """In a notebook that was converted to Markdown a face is one block of HTML, and the text after it is Markdown."""
    for html in faces.values():
        first, *others = MarkdownIt("commonmark").parse(f"Before.\n\n{html}\n\n*After.*")[3:]
        assert (first.type, first.content.strip()) == ("html_block", html)
        assert [token.type for token in others] == ["paragraph_open", "inline", "paragraph_close"]


def listed(entries: list[TreeEntry]) -> list[tuple[int, str]]:
    """The list that stands for a tree: of each entry its depth and its text."""
    conversation = Conversation("c", "Title", entries[-1].message_id, START, START, len(entries), 1, 0)
    page = tree_face(conversation, lay_out(entries), {}, MarkdownRenderer(), measured=False)["text/html"]
    outline = page.split("The tree as a list</summary>")[1].split("</details>")[0]
    depth, found = 0, []
    for mark, text in re.findall(r"<(/?ul|li)>([^<]*)", outline):
        depth += {"ul": 1, "/ul": -1}.get(mark, 0)
        found += [(depth, text)] if mark == "li" else []
    assert depth == 0
    assert outline.count("<li>") == outline.count("</li>") == len(found)
    return found


def test_the_tree_reads_as_a_list() -> None:
    """Branches stand in the list of the question that they follow, several beginnings in that of the start."""
    assert [depth for depth, _ in listed(chain(3))] == [1, 1, 1]
    branched = listed(grow([None, 0, 1, 0, 3, 2]))
    depths = {text.split("?")[0]: depth for depth, text in branched}
    assert depths == {f"Question {turn}: Question {n}": depth for n, turn, depth in
                      ((0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 2, 2), (4, 3, 2), (5, 4, 1))}  # fmt: skip
    begun = listed(grow([None, None]))
    assert [(depth, text.split(":")[0]) for depth, text in begun] == [
        (1, "Start"),
        (2, "Question 1"),
        (1, "Question 1"),
    ]


def test_the_style_in_the_image_is_complete() -> None:
    """Each class that decides how the drawing looks has its rules there, by the widths of the image itself."""
    conversation = Conversation("c", "Title", "m0", START, START, 1, 1, 0)
    entries = grow([None, 0, 0])
    page = tree_face(conversation, lay_out(entries), {}, MarkdownRenderer())["text/html"]
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', page)
    root = xml(base64.b64decode(data).decode())
    (style,) = [node.text or "" for node in root.iter(f"{SVG}style")]
    classes = {name for node in root.iter() for name in (node.get("class") or "").split()}
    plain = {"af-hit", "af-node", "af-active", "af-t0"}
    assert {name for name in classes - plain if not re.search(rf"\.{name}\b", style)} == set()
    assert "@container" not in style
    assert not re.search(r"\.af-run\b", style)
    assert set(re.findall(r"var\((--af-[\w-]+)", style)) <= set(re.findall(r"(--af-[\w-]+):", style))
