"""Incremental parser of server-sent events: bytes in, decoded JSON out.

A `data:` line that is complete JSON becomes an event at once, without waiting for the blank line, because chat
endpoints send such lines. Lines that are not part of an event stream are collected: some endpoints reply with plain
JSON although a stream was requested. The time is linear in the number of bytes.
"""

import json
from typing import Any

import orjson

_IGNORED_FIELDS = (b"id", b"retry")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseReader:
    """Parser of one stream.

    A payload is decoded JSON, or a `str` if it is not JSON; an `event: error` becomes `{"error": payload}`.

    Attributes:
        done: Whether `[DONE]` has arrived; everything after it is ignored.
        is_plain: Whether the body was no event stream.
    """

    def __init__(self) -> None:
        self.done = False
        self.is_plain = False
        self._partial_line: list[bytes] = []  # joined once the line is complete, to stay linear
        self._data: list[bytes] = []  # data lines of an event whose JSON has several lines
        self._other_lines: list[bytes] = []  # perhaps a plain JSON body
        self._event = b""
        self._has_events = False  # after an event, other lines are noise

    def feed(self, data: bytes) -> list[Any]:
        """Read bytes and return the payloads that the bytes complete."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if not lines:
            self._partial_line.append(rest)
            return []
        if self._partial_line:
            lines[0] = b"".join((*self._partial_line, lines[0]))
            self._partial_line = []
        if rest:
            self._partial_line.append(rest)
        payloads: list[Any] = []
        for line in lines:
            if line.startswith(b"data:") and not self._data and not self._event and not self.done:
                try:
                    payloads.append(orjson.loads(line[5:]))
                except orjson.JSONDecodeError:
                    self._read_line(line, payloads)
            elif line:
                self._read_line(line, payloads)
            elif self._data or self._event:
                self._end_event(payloads)
        self._has_events = self._has_events or bool(payloads)
        return payloads

    def finish(self) -> list[Any]:
        """Return the remaining payloads at the end of the stream, or the plain JSON body of a reply without events."""
        payloads: list[Any] = []
        self._read_line(b"".join(self._partial_line), payloads)
        self._end_event(payloads)
        self._partial_line = []
        body = b"\n".join(self._other_lines).strip()
        if body and not self._has_events and not payloads:
            payloads.append(_decode(body))
            self.is_plain = True
        self._other_lines = []
        return payloads

    def _read_line(self, line: bytes, payloads: list[Any]) -> None:
        """Read a line that is not a whole event in itself, such as one of several `data` lines."""
        if self.done:
            return
        line = line.rstrip(b"\r").removeprefix(_BYTE_ORDER_MARK)
        name, _, value = line.partition(b":")
        value = value.strip()
        if name == b"data":
            if value == b"[DONE]":
                self.done = True
            elif value:
                self._data.append(value)
        elif name == b"event":
            self._event = value
        elif line and name and name not in _IGNORED_FIELDS:
            self._other_lines.append(line)
        elif not line:
            self._end_event(payloads)

    def _end_event(self, payloads: list[Any]) -> None:
        if self._data:
            payload = _decode(b"\n".join(self._data))
            payloads.append({"error": payload} if self._event == b"error" else payload)
        self._data, self._event = [], b""


def _decode(data: bytes) -> Any:
    """Decode JSON with invalid characters replaced; return the text itself if it is not JSON."""
    text = data.decode("utf-8-sig", "replace")
    try:
        payload = json.loads(text)
        # The standard decoder accepts lone surrogates, which neither files nor databases can store.
        return json.loads(json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return text
