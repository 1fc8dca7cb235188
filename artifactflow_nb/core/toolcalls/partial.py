"""`PartialParameter`: a text parameter of a tool call that the model is still writing."""

import json
import re
from collections.abc import Callable

from artifactflow_nb.core.toolcalls.parser import unescape
from artifactflow_nb.core.toolcalls.scanner import CDATA_CLOSE, CDATA_OPEN

_STRING = re.compile(r"""[^"\\]*+(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*+)*+""")
_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_INCOMPLETE_ENTITY = re.compile(r"&[#\w]{0,9}\Z")
_MAX_OPENING_CHARS = 80


class PartialParameter:
    """The text of a parameter, read piece by piece from JSON arguments or from the elements of the XML protocol.

    It is read for display only: the call itself is parsed when it is complete.
    """

    def __init__(self, name: str) -> None:
        element = rf"<{name}>\s*+(?:(?P<cdata>{re.escape(CDATA_OPEN)})|(?=[^<\s]))"
        self._openings = [re.compile(rf'"{name}"\s*+:\s*+"'), re.compile(element)]
        self._rest = ""
        self._read_value: Callable[[], str] | None = None

    def read(self, piece: str) -> tuple[str, bool]:
        """Read the next piece of the call.

        Returns:
            The text that it adds to the parameter, and whether this text begins the parameter of another call.
        """
        self._rest += piece
        text, is_new = (self._read_value() if self._read_value else ""), False
        while self._read_value is None:
            opening = next(filter(None, (opening.search(self._rest) for opening in self._openings)), None)
            if opening is None:
                self._rest = self._rest[-_MAX_OPENING_CHARS:]
                break
            self._openings = [opening.re]  # a call has one form, and its text may look like the other one
            is_json = opening.re.pattern.startswith('"')
            self._read_value = self._json if is_json else self._cdata if opening["cdata"] else self._xml
            self._rest = self._rest[opening.end() :]
            text, is_new = self._read_value(), True
        return text, is_new

    def _json(self) -> str:
        value = _STRING.match(self._rest)
        end = value.end() if value else 0
        part, self._rest = self._rest[:end], self._rest[end:]
        if self._rest.startswith('"'):
            self._read_value = None
        elif half := _HIGH_SURROGATE.search(part):  # the other half of the character comes with the next piece
            part, self._rest = part[: half.start()], half[0] + self._rest
        try:
            text: str = json.loads(f'"{part}"', strict=False)
        except json.JSONDecodeError:  # an escape that JSON does not know
            text = part
        return text

    def _cdata(self) -> str:
        end = self._rest.find(CDATA_CLOSE)
        if end < 0:
            end = max(len(self._rest) - len(CDATA_CLOSE) + 1, 0)
        else:
            self._read_value = None
        part, self._rest = self._rest[:end], self._rest[end:]
        return part

    def _xml(self) -> str:
        end = self._rest.find("<")
        if end >= 0:
            self._read_value = None
        else:
            incomplete = _INCOMPLETE_ENTITY.search(self._rest)
            end = incomplete.start() if incomplete else len(self._rest)
        part, self._rest = self._rest[:end], self._rest[end:]
        return unescape(part)
