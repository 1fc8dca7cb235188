"""A simulated page in Python that displays the view of an engine and presses its buttons."""

import asyncio
import html
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.widgets.page.nodes import Node, PlacedNode
from artifactflow_nb.widgets.page.saved import SavedOutput
from artifactflow_nb.widgets.page.stream import PageStream, SavedState
from artifactflow_nb.widgets.page.view import View

PATIENCE_S = 10.0
_ACTING = re.compile(r'<button [^>]*?data-act="([^"]*)" data-args="([^"]*)">([^<]*)</button>')
_NAME = re.compile(r'aria-label="([^"]*)"')


def visible_text(html_text: str) -> str:
    """Return the text of an HTML output on one line, without styles."""
    bare = re.sub(r"<style>.*?</style>|<[^>]*>", " ", html_text, flags=re.DOTALL)
    return " ".join(html.unescape(bare).split())


def place_nodes(nodes: tuple[Node, ...], parent: str = "") -> Iterator[PlacedNode]:
    """Yield every node with its position: parents before children, siblings in order."""
    after = ""
    for node in nodes:
        yield PlacedNode(node, parent, after)
        yield from place_nodes(node.children, node.key)
        after = node.key


class ShownView:
    """A view on its engine's thread with the messages to its pages; every method may be called from a test.

    Args:
        thread: The engine's thread.
        view: The view.
    """

    def __init__(self, thread: EngineThread, view: View) -> None:
        self.view = view
        self.html: dict[str, str] = {}
        self.data: dict[str, Any] = {}
        self.kinds: dict[str, str] = {}
        self.effects: list[Mapping[str, Any]] = []
        self.saved_outputs: list[SavedOutput] = []
        self.announced = self.label = ""
        self._answers: dict[int, Mapping[str, Any]] = {}
        self._n_acts = 0
        self._thread = thread
        self.closed = False
        self.stream = PageStream(view, self._receive, self._save, self._leave)
        thread.call(self.stream.open())
        thread.call(self._hello())

    def saved_output(self) -> SavedOutput:
        """Return the saved output, in the language of the engine."""

        async def output() -> SavedOutput:
            return self.view.saved_output()

        return self._thread.call(output())

    async def _hello(self) -> None:
        self.stream.receive({"type": "hello"})

    def _save(self, output: SavedOutput, n: int, is_last: bool) -> SavedState:
        self.saved_outputs.append(output)
        return SavedState(n, output, is_last)

    def _leave(self) -> None:
        self.closed = True

    def _receive(self, message: Mapping[str, Any]) -> None:
        match message["type"]:
            case "result":
                self._answers[message["id"]] = message
            case "effect":
                self.effects.append(message)
            case "snapshot":
                self.html, self.data, self.kinds, self.label = {}, {}, {}, message["label"]
                self._apply(message)
            case "patch":
                self._apply(message)

    def _apply(self, message: Mapping[str, Any]) -> None:
        self.announced = message.get("announce", self.announced)
        tree = message.get("tree", {})
        for key, _parent, _after, kind, _css, _open, data in tree.get("shape", ()):
            self.kinds[key], self.data[key] = kind, data
        for key, keep, add in tree.get("text", ()):
            old = self.html.get(key, "").encode("utf-16-le")[: 2 * keep].decode("utf-16-le")
            self.html[key] = old + add
        for key in tree.get("gone", ()):
            self.html.pop(key, None)
            del self.kinds[key], self.data[key]

    @property
    def text(self) -> str:
        """The text of the page, without markup."""
        return html.unescape(re.sub(r"<[^>]*>", " ", " ".join(self.html.values())))

    @property
    def buttons(self) -> list[str]:
        """The names of all buttons, in any order."""
        return [name for name, *_ in self._found()]

    def _found(self) -> list[tuple[str, str, dict[str, Any]]]:
        found = []
        for own in list(self.html.values()):
            for match in _ACTING.finditer(own):
                named = _NAME.search(match[0])
                args = orjson.loads(html.unescape(match[2]))
                found.append((html.unescape(named[1] if named else match[3]), match[1], args))
        return found

    def press(self, name: str, nth: int = 0) -> Mapping[str, Any]:
        """Press the button with this name, the `nth` of several from 0; return the result of the kernel."""
        matching = [(act, args) for found, act, args in self._found() if found == name]
        assert matching, f"There is no button {name!r} among {self.buttons}."
        return self.do(*matching[nth])

    def submit(self, act: str, /, **values: Any) -> Mapping[str, Any]:
        """Fill in and send the form of an action; return the result of the kernel."""
        data = next(data for key, data in self.data.items() if self.kinds[key] == "form" and data["act"] == act)
        return self.do(act, {**data.get("args", {}), "values": values})

    def do(self, act: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send an action; return the result of the kernel."""
        return self.do_at_once((act, args))[0]

    def do_at_once(self, *acts: tuple[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Send several concurrent actions; return their results."""
        first = self._n_acts + 1
        for act, args in acts:
            self._n_acts += 1
            message = {"type": "act", "id": self._n_acts, "page": "page", "act": act, "args": dict(args)}
            self._thread.call_soon(self.stream.receive, message)
        numbers = range(first, self._n_acts + 1)
        self.until(lambda: all(number in self._answers for number in numbers))
        return [self._answers[number] for number in numbers]

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until a condition is true."""
        try:
            self._thread.call(_until(holds))
        except TimeoutError:
            raise TimeoutError(
                f"The page has not changed as expected after {PATIENCE_S:g} s; its text: {self.text:.2000}"
            ) from None


async def _until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - what it waits for are other people's states
            await asyncio.sleep(0.01)
