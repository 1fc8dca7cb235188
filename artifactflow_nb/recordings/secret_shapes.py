"""Secrets that show themselves: keys of well-known services as these publish their form, and blocks of private keys.

A form is looked for where its first letters stand, so that the time is that of finding these.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True, slots=True)
class Form:
    """A form that secrets have.

    Attributes:
        sign: What stands in every text that holds one: a text without it, as nearly all are, is passed over at once.
        find: Finds the parts of a text that are secret: begin and end of each, in order.
    """

    sign: str
    find: Callable[[str], Iterator[tuple[int, int]]]


_ESCAPE = re.compile(r"(?:\\[nrtbf]|%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4})\Z")
"""What JSON and addresses write before a key; its last character is no letter of a word."""

_LONGEST_ESCAPE = 6
_BASE64 = re.compile(r"[A-Za-z0-9+/]{30}[+/]\Z")
_BASE64_CHARS = 31

_PEM = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:\s|\\{1,7}[rnt])*+(?:[A-Za-z0-9+/=]{32,}+|(?:Proc-Type|DEK-Info|Version|Comment): ?[^\r\n\\]{1,100}+))++"
    r"(?:(?:\s|\\{1,7}[rnt])*+[A-Za-z0-9+/=]{1,76}+(?=\s*+(?:\\{1,7}[nrt])*+(?:-----END|=)))?+"
    r"(?:(?:\s|\\{1,7}[rnt])*+=[A-Za-z0-9+/]{4}(?=\s*+(?:\\{1,7}[nrt])*+-----END))?+"
    r"(?:(?:\s|\\{1,7}[rnt])*+-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?+"
)
_LONG = "[A-Za-z0-9_-]"
_KEYS = (
    ("sk-", r"(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{12,}+"),
    *((f"{kind}k_{where}_", r"[A-Za-z0-9]{8,}+") for kind in "spr" for where in ("live", "test")),
    ("whsec_", r"[A-Za-z0-9+/=]{16,}+"),
    *((f"gh{kind}_", r"[A-Za-z0-9]{16,}+") for kind in "pousr"),
    ("github_pat_", r"[A-Za-z0-9_]{16,}+"),
    *((f"gl{kind}-", rf"{_LONG}{{16,}}+(?:\.[a-z0-9]{{2}}\.[a-z0-9]+)?") for kind in ("pat", "rt", "dt", "oas", "ptt")),
    ("hf_", r"[A-Za-z0-9]{16,}+"),
    ("r8_", r"[A-Za-z0-9]{30,}+"),
    ("gsk_", r"[A-Za-z0-9]{20,}+"),
    ("xai-", r"(?=[A-Za-z]{0,64}[0-9])[A-Za-z0-9]{20,}+"),
    ("pplx-", r"[A-Za-z0-9]{32,}+"),
    ("nvapi-", rf"{_LONG}{{32,}}+"),
    ("tvly-", rf"{_LONG}{{12,}}+"),
    *((kind, r"[A-Z0-9]{16,}+(?![a-z])") for kind in ("AKIA", "ASIA")),
    ("AIza", rf"{_LONG}{{20,}}+"),
    ("ya29.", rf"{_LONG}{{20,}}+"),
    ("GOCSPX-", rf"{_LONG}{{20,}}+"),
    *((f"xox{kind}-", r"[A-Za-z0-9-]{8,}+") for kind in "abeoprs"),
    ("xapp-", r"[0-9]-[A-Za-z0-9-]{16,}+"),
    ("eyJ", rf"{_LONG}{{8,}}+\.{_LONG}{{8,}}+(?:\.{_LONG}*+){{0,3}}"),
    ("npm_", r"[A-Za-z0-9]{30,}+"),
    ("pypi-", rf"AgE{_LONG}{{16,}}+"),
    *((f"dckr_{kind}_", rf"{_LONG}{{20,}}+") for kind in ("pat", "oat")),
    ("SG.", rf"{_LONG}{{16,}}+\.{_LONG}{{16,}}+"),
    ("hvs.", rf"{_LONG}{{24,}}+"),
    ("dop_v1_", r"[a-f0-9]{64}"),
    *((f"shp{kind}_", r"[A-Fa-f0-9]{32}") for kind in ("at", "ca", "pa", "ss")),
    ("lsv2_", r"(?:pt|sk)_[a-f0-9_]{32,}+"),
    ("AGE-SECRET-KEY-1", r"[A-Z0-9]{50,}+"),
)
_AFTER = (
    ("hooks.slack.com/services/", r"[A-Za-z0-9/]{16,}+"),
    ("/api/webhooks/", rf"[0-9]{{10,}}+/{_LONG}{{30,}}+"),
    ("api.telegram.org/bot", rf"[0-9]{{6,}}+:{_LONG}{{30,}}+"),
)
"""What makes an address secret, with what stands before it."""


def _begins(text: str, at: int) -> bool:
    """Whether a key may begin here: not within a word, nor within base64, where any letters come by chance."""
    before = text[at - 1 : at]
    if (before.isascii() and before.isalnum()) or before in {"_", "-"}:
        return _ESCAPE.search(text, max(at - _LONGEST_ESCAPE, 0), at) is not None
    return before not in {"+", "/"} or at < _BASE64_CHARS or not _BASE64.match(text, at - _BASE64_CHARS, at)


def _keys(begin: re.Pattern[str], keys: Sequence[tuple[str, re.Pattern[str]]], text: str) -> Iterator[tuple[int, int]]:
    """Keys that begin with letters of these, where all of them end in what is found."""
    end = 0
    for found in begin.finditer(text):
        for first, rest in keys:
            at = found.end() - len(first)
            if at < end or not text.startswith(first, at) or not _begins(text, at):
                continue
            if key := rest.match(text, found.end()):
                end = key.end()
                yield at, end


def _forms_of_keys() -> Iterator[Form]:
    """Those that end in the same mark are looked for in one go: where that mark stands."""
    groups: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for first, rest in _KEYS:
        groups.setdefault(first[-1] if first[-1] in "_-" else first, []).append((first, re.compile(rest)))
    for sign, keys in groups.items():
        behind = "|".join(f"(?<={re.escape(first)})" for first, _ in keys)
        yield Form(sign, partial(_keys, re.compile(f"{re.escape(sign)}(?:{behind})"), keys))


def _secret_address(before: str, rest: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    at = text.find(before)
    while at >= 0:
        if found := rest.match(text, at + len(before)):
            yield found.span()
        at = text.find(before, at + len(before))


def _private_keys(text: str) -> Iterator[tuple[int, int]]:
    yield from (found.span() for found in _PEM.finditer(text))


SHAPES: tuple[Form, ...] = (
    *_forms_of_keys(),
    *(Form(before, partial(_secret_address, before, re.compile(rest))) for before, rest in _AFTER),
    Form("PRIVATE KEY", _private_keys),
)
"""All of them."""
