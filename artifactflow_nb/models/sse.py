"""The event stream of a chat endpoint, bytes in, JSON out, however the network cut it.

It is read line by line: a `data:` line that is JSON by itself is an event at once, which is what endpoints send. Lines
that no event stream has are kept: an endpoint that was asked for a stream may answer with plain JSON. Linear in the
number of bytes.
"""

import json
from typing import Any

import orjson

_IGNORED_FIELDS = (b"id", b"retry")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseReader:
    """Splits a stream into its payloads.

    A payload is decoded JSON; text that is not JSON comes as a `str`; an `event: error` comes as `{"error": payload}`.

    Attributes:
        done: Whether `[DONE]` was seen; what follows it is ignored.
    """

    def __init__(self) -> None:
        self.done = False
        self._open: list[bytes] = []  # the unfinished line, in the pieces that arrived
        self._held: list[bytes] = []  # data lines of one event that are JSON only together
        self._stray: list[bytes] = []
        self._event = b""
        self._any = False  # whether there was an event: then what is not one is noise

    def feed(self, data: bytes) -> list[Any]:
        """The payloads that these bytes complete."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if not lines:
            self._open.append(rest)
            return []
        if self._open:
            lines[0] = b"".join((*self._open, lines[0]))
            self._open = []
        if rest:
            self._open.append(rest)
        found: list[Any] = []
        for line in lines:
            if line.startswith(b"data:") and not self._held and not self._event and not self.done:
                try:
                    found.append(orjson.loads(line[5:]))
                except orjson.JSONDecodeError:
                    self._take(line, found)
            elif line:
                self._take(line, found)
            elif self._held or self._event:
                self._end_event(found)
        self._any = self._any or bool(found)
        return found

    def finish(self) -> list[Any]:
        """The payloads that the end of the stream completes; a plain body, if that is what came."""
        found: list[Any] = []
        self._take(b"".join(self._open), found)
        self._end_event(found)
        self._open = []
        body = b"\n".join(self._stray).strip()
        if body and not self._any and not found:
            found.append(_decode(body))
        self._stray = []
        return found

    def _take(self, line: bytes, found: list[Any]) -> None:
        """Read a line that is not an event by itself."""
        if self.done:
            return
        line = line.rstrip(b"\r").removeprefix(_BYTE_ORDER_MARK)
        name, _, value = line.partition(b":")
        value = value.strip()
        if name == b"data":
            self._take_data(value)
        elif name == b"event":
            self._event = value
        elif line and name and name not in _IGNORED_FIELDS:
            self._stray.append(line)
        elif not line:
            self._end_event(found)

    def _take_data(self, value: bytes) -> None:
        if value == b"[DONE]":
            self.done = True
        elif value:
            self._held.append(value)

    def _end_event(self, found: list[Any]) -> None:
        if self._held:
            payload = _decode(b"\n".join(self._held))
            found.append({"error": payload} if self._event == b"error" else payload)
        self._held, self._event = [], b""


def _decode(data: bytes) -> Any:
    """The JSON, with broken characters replaced; the text itself if it is none."""
    text = data.decode("utf-8-sig", "replace")
    try:
        payload = json.loads(text)
        # The standard decoder lets half surrogate pairs through, which no file and no database takes.
        return json.loads(json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return text
