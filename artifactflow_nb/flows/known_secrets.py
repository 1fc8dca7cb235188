"""Masking of secrets that are known by value: keys of settings, models and servers, secret environment variables.

Secrets are masked where text enters a run: in the results of models and tools, and in a person's input. So no row,
event, answer, artifact, export or saved output contains a known secret. Text that only looks like a secret is not
masked, since documents may discuss such text; `KnownSecrets.redactor` removes such text from recordings and errors.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar, cast

from artifactflow_nb.core.messages import DeltaKind, Message, ToolCall, ToolResult
from artifactflow_nb.core.redaction.names import MASK
from artifactflow_nb.core.redaction.redactor import SHORTEST, SHORTEST_WORD, Redactor, spelling_pattern, spellings_of
from artifactflow_nb.models.base import ModelReply

T = TypeVar("T")

LOOKED_AT = 3
"""The number of first characters of a secret for which a piece is searched."""


class KnownSecrets:
    """Masks secrets by their values.

    Args:
        values: The secrets. A value of fewer than 4 characters, or 8 if all are letters, is ignored as a placeholder;
            other values of fewer than 8 characters are masked only as whole words.

    Attributes:
        beginnings: The first three characters of each spelling.
        cut_beginnings: The first character, and the first two characters, of each spelling.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values = frozenset(values)
        self._spellings = spellings_of(self.values)
        self._bytes = tuple(spelling.encode("utf-8", "replace") for spelling in self._spellings)
        self._pattern = re.compile("|".join(map(spelling_pattern, self._spellings)))
        self.beginnings = tuple(sorted({spelling[:LOOKED_AT] for spelling in self._spellings}))
        self.cut_beginnings = frozenset(text[:length] for text in self.beginnings for length in range(1, LOOKED_AT))
        self._longest = len(self._spellings[0]) if self._spellings else 0
        self._shortest = len(self._spellings[-1]) if self._spellings else 0

    def __bool__(self) -> bool:
        return bool(self._spellings)

    def __repr__(self) -> str:
        return f"KnownSecrets(<{len(self.values)} values>)"

    @cached_property
    def redactor(self) -> Redactor:
        """Redacts texts that leave the workbench: these secrets, and texts that match a pattern of secrets."""
        return Redactor(self.values)

    def text(self, text: str) -> str:
        """Mask each secret in a text; a text without secrets is returned as the same object."""
        if len(text) < self._shortest:
            return text
        for spelling in self._spellings:
            if spelling in text:
                return self._pattern.sub(MASK, text)
        return text

    def are_in(self, data: bytes, shortest: int = 0) -> bool:
        """Return whether bytes contain a secret of at least this length in UTF-8, even inside a word."""
        return any(spelling in data for spelling in self._bytes if len(spelling) >= shortest)

    def value(self, value: T) -> T:
        """Mask each secret in a text, mapping, list or tuple; a value without secrets stays the same object."""
        masked: Any = value
        if not self._spellings:
            return value
        if isinstance(value, str):
            masked = self.text(value)
        elif isinstance(value, Mapping):
            items = {self.value(name): self.value(item) for name, item in value.items()}
            is_same = all(map(operator.is_, (*value, *value.values()), (*items, *items.values())))
            masked = value if is_same else items
        elif isinstance(value, list | tuple):
            masked_items = [self.value(item) for item in value]
            if not all(map(operator.is_, value, masked_items)):
                masked = masked_items if isinstance(value, list) else tuple(masked_items)
        return cast("T", masked)

    def call(self, call: ToolCall) -> ToolCall:
        """Mask the name, parameters and error of a tool call."""
        return ToolCall(self.text(call.name), self.value(call.params), call.error and self.text(call.error))

    def result(self, result: ToolResult) -> ToolResult:
        """Mask the data, error and metadata of a tool's result."""
        if not self._spellings:
            return result
        data, error = self.value(result.data), result.error and self.text(result.error)
        return replace(result, data=data, error=error, metadata=self.value(result.metadata))

    def messages(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        """Mask the texts and calls of messages."""
        if not self._spellings:
            return tuple(messages)
        return tuple(
            replace(message, content=self.text(message.content), calls=tuple(map(self.call, message.calls)))
            for message in messages
        )

    def reply(self, reply: ModelReply) -> ModelReply:
        """Mask the texts, calls and model name of a reply."""
        if not self._spellings:
            return reply
        return replace(
            reply,
            content=self.text(reply.content),
            reasoning=self.text(reply.reasoning),
            calls=tuple(map(self.call, reply.calls)),
            model=self.text(reply.model),
            finish_reason=self.text(reply.finish_reason),
            provider_fields=self.value(reply.provider_fields),
        )

    def cut_off(self, text: str) -> str:
        """Mask a text that ends abruptly, perhaps in the middle of a secret."""
        end = self.open_from(text)
        return self.masked_until(text, 0, end) + mask_of_rest(text[end:])

    def masked_until(self, text: str, start: int, end: int) -> str:
        """Mask a part of a text; the text around the part shows whether a short secret is a whole word."""
        if self.text(text) is text:
            return text[start:end]
        pieces, at = [], start
        for match in self._pattern.finditer(text, start):
            if match.end() > end:
                break
            pieces += [text[at : match.start()], MASK]
            at = match.end()
        return "".join((*pieces, text[at:end]))

    def open_from(self, text: str, start: int = 0) -> int:
        """Return the position from which a text may contain an incomplete secret, or the length of the text."""
        candidate = self._candidate(text, max(start, len(text) - self._longest))
        if candidate < len(text) and self.text(text) is not text:
            for match in self._pattern.finditer(text, start):
                if match.start() >= candidate:
                    break
                if match.end() > candidate:  # the candidate begins inside a complete secret
                    candidate = self._candidate(text, match.end())
        return candidate

    def _candidate(self, text: str, start: int) -> int:
        for at in range(start, len(text)):
            rest = text[at:]
            for spelling in self._spellings:
                # The next character decides whether a short secret is a whole word, so the secret is open until then.
                if spelling.startswith(rest) and (len(rest) < len(spelling) or len(spelling) < SHORTEST_WORD):
                    return at
        return len(text)


class SecretLookup:
    """The known secrets, looked up again for each run, since environment variables can change.

    Attributes:
        current: The result of the last look-up.
    """

    def __init__(self, look_up: Callable[[], frozenset[str]] = frozenset) -> None:
        self.look_up = look_up
        self.current = KnownSecrets(look_up())

    def refresh(self) -> KnownSecrets:
        """Look up the values of the secrets again."""
        values = self.look_up()
        if values != self.current.values:
            self.current = KnownSecrets(values)
        return self.current

    def mask(self, text: str) -> str:
        """Mask each current secret in a text that enters a run."""
        return self.current.text(text)

    def redact(self, text: str) -> str:
        """Redact a text that leaves the workbench, or an error of third-party code, with the secrets of this moment."""
        return self.refresh().redactor.text(text)


class MaskedPieces:
    """Masks the pieces of one reply as they arrive; the pieces of a kind add up to the masked text.

    The end of the text is withheld as long as it may be the beginning of a secret.
    """

    def __init__(self, secrets: KnownSecrets) -> None:
        self._secrets = secrets
        self._beginnings, self._cut_beginnings = secrets.beginnings, secrets.cut_beginnings
        self._tails: dict[DeltaKind, str] = {}
        self._last_characters = frozenset(text[-1] for text in self._cut_beginnings)
        self._before: dict[DeltaKind, str] = {}

    def feed(self, kind: DeltaKind, piece: str) -> str:
        """Add a piece; return the text that can be published now, which may be empty."""
        text = self._tails.pop(kind, "") + piece if self._tails else piece
        for beginning in self._beginnings:
            if beginning in text:
                return self._searched(kind, text)
        for end in (text[-2:], text[-1:]) if text[-1:] in self._last_characters else ():
            if end in self._cut_beginnings:
                self._tails[kind] = end
                text = text[: len(text) - len(end)]
                break
        if text:
            self._before[kind] = text
        return text

    def _searched(self, kind: DeltaKind, text: str) -> str:
        """Mask a text that contains the first characters of a secret; withhold an end that may begin a secret."""
        before = self._before.get(kind, "")[-1:]
        text = before + text
        end = self._secrets.open_from(text, len(before))
        if end < len(text):
            self._tails[kind] = text[end:]
        if end > len(before):
            self._before[kind] = text[:end]
        return self._secrets.masked_until(text, len(before), end)

    def finish(self, *, is_cut_off: bool = False) -> list[tuple[DeltaKind, str]]:
        """Return the withheld text; if the reply ended abruptly, a mask replaces text that may be most of a secret."""
        tails, self._tails = self._tails, {}
        if is_cut_off:
            return [(kind, mask_of_rest(rest)) for kind, rest in tails.items()]
        texts = []
        for kind, rest in tails.items():
            before = self._before.get(kind, "")[-1:]
            text = before + rest
            texts.append((kind, self._secrets.masked_until(text, len(before), len(text))))
        return texts


def mask_of_rest(rest: str) -> str:
    """Mask the end of an interrupted text if it may be the beginning of a secret."""
    return rest if len(rest) < SHORTEST else MASK
