"""Secrets that their place shows: credentials in addresses and headers, values beside names that say so.

Each form finds the parts of a text to mask, in one pass whose time grows with the text's length: what may repeat is
bounded or never given back, and what can only begin at a word is not looked for inside of one.
"""

import re
from collections.abc import Iterator

from artifactflow_nb.recordings.secret_names import (
    LEAST_VALUE,
    is_no_word,
    is_secret,
    is_secret_variable,
    is_told_of,
    looks_like_password,
    looks_random,
    may_say_secret,
    says_password,
    says_secret,
)
from artifactflow_nb.recordings.secret_shapes import SHAPES, Form

_Span = tuple[int, int]

_NAMED = ("key", "token", "secret", "credential", "authorization", "pass", "pwd")
_LEAST_SHOWN = 4
_PUNCTUATION = ".:?"
_NEAR = 160

_QUOTE = r"""\\{0,3}["']"""
_START = r"(?<![A-Za-z0-9_.-])(?!(?<=\\)[nrt][A-Za-z])"
"""Where a name begins; not at the letter of a line break that JSON wrote, but behind it."""

_USER = re.compile(r"""://(?P<value>[^\s/?#@:"'<>\[\]]{0,128}+:[^\s/?#@"'<>{}]{1,256}+|[A-Za-z0-9_-]{20,128}+)@""")
_ASKED = re.compile(r"[?&;#](?P<name>[A-Za-z0-9_.%~-]{1,64}+)=")
_ANSWER = re.compile(r"""[^&;#\s"'<>()\[\]{}`\\|]{1,4096}+""")
_GIVEN = re.compile(
    rf"(?:{_START}|(?<=\\[nrt]))(?P<name>[A-Za-z][A-Za-z0-9_-]{{2,60}}+)(?:{_QUOTE})?\s{{0,2}}[:=]\s{{0,2}}"
)
"""A name and what stands between it and its value: in quotes or not, as JSON, YAML, programs and shells write it."""

_IN_QUOTES = re.compile(
    r"""(?:"(?P<double>[^"\\\r\n]*+(?:\\.[^"\\\r\n]*+)*+)|'(?P<single>[^'\\\r\n]*+(?:\\.[^'\\\r\n]*+)*+))"""
)
_ESCAPED = re.compile(r"""(?P<mark>\\{1,7}["'])(?P<value>(?:[^\\"'\r\n]++|(?!(?<!\\)(?P=mark))[^\r\n])++)""")
_LONGEST = 4096
_PLAIN = re.compile(r"[A-Za-z0-9._~+/=%$!*^-]{8,4096}+(?!\()")
_PASSWORD = re.compile(
    r"""(?P<value>[^\s"'<>()\[\]{},;|`\\]{4,256}+)(?P<ends>(?=\s*?$|["'<;\\\]]))?+(?![(\[{])""", re.MULTILINE
)
_CONNECTION = re.compile(
    r"(?:^|[\s;])(?:host|hostaddr|server|data source|address|dbname|database|initial catalog|user id|uid|user)"
    r"\s?=\s?[^\s,;()]+(?:[\s;]|$)",
    re.IGNORECASE,
)
_TAG = re.compile(r"<(?P<name>[A-Za-z][A-Za-z0-9_-]{2,60}+)>\s{0,9}")
_TAGGED = re.compile(r"(?:<!\[CDATA\[(?P<data>(?:[^\]]|\](?!\]>)){1,4096}+)|(?P<bare>[^<>\s][^<>]{0,4095}+))")
_AUTHORIZATION = re.compile(
    rf"""authorization(?:{_QUOTE})?\s{{0,2}}[:=]\s{{0,2}}(?:{_QUOTE})?"""
    r"""(?:(?:digest|aws4-hmac-sha256)[ ]{1,3}(?P<fields>[^\r\n\\\[\]]{8,4096}+)"""
    r"""|(?:bearer|basic|token|apikey|api-key|negotiate)[ ]{1,3}(?P<value>[^\s"'\\<>,;\[\]{}`]{6,4096}+))""",
    re.IGNORECASE,
)
_BEARER = re.compile(
    rf"""(?P<open>{_QUOTE})?(?:\b|(?<=\\[nrt]))[Bb]earer[ ]{{1,3}}(?P<value>[A-Za-z0-9._~+/=-]{{8,4096}}+)"""
)
_COOKIE = r"""[A-Za-z0-9_.-]{1,64}+=[^\s;"'\\\[\]]{1,4096}+"""
_COOKIES = re.compile(
    rf"""cookie(?:{_QUOTE})?:\s{{0,2}}(?:{_QUOTE})?(?P<value>{_COOKIE}(?:; ?{_COOKIE}){{0,64}}+)""", re.IGNORECASE
)


def _users(text: str) -> Iterator[_Span]:
    """User and password of an address; a user alone if no person is called so."""
    for found in _USER.finditer(text) if "@" in text else ():
        if ":" in found["value"] or looks_random(found["value"]):
            yield found.span("value")


def _queries(text: str) -> Iterator[_Span]:
    """Values of an address's query; those of a mere key or token only if no word looks like them."""
    end = 0
    for found in _ASKED.finditer(text):
        name = found["name"]
        if found.start() < end or not may_say_secret(name) or (value := _ANSWER.match(text, found.end())) is None:
            continue
        end = value.end()
        is_sure = says_secret(name) or name.lower() in {"sig", "signature"}
        if looks_random(value[0]) or (is_sure and _shows(value[0]) and not is_told_of(value[0])):
            yield value.span()


def _shows(value: str) -> bool:
    return sum(character.isalnum() for character in value) >= _LEAST_SHOWN


def _tagged(text: str) -> Iterator[_Span]:
    """Parameters of a call that is written as text: `<api_key><![CDATA[...]]></api_key>`."""
    for found in _TAG.finditer(text):
        if says_secret(found["name"]) and (value := _TAGGED.match(text, found.end())):
            part = value.lastgroup or ""
            if is_secret(found["name"], value[part]):
                yield value.span(part)


def _given(text: str) -> Iterator[_Span]:
    """Values beside names: `"api_key": "..."`, `MY_TOKEN=...`, `password: correct-horse-battery`."""
    if (":" not in text and "=" not in text) or not _may_name(text):
        return
    end = 0
    for found in _GIVEN.finditer(text):
        if found.start() < end or not (says_secret(found["name"]) or found["name"].isupper()):
            continue
        if quoted := _IN_QUOTES.match(text, found.end(), found.end() + _LONGEST):
            span = quoted.span(quoted.lastgroup or 0)
            is_one = is_secret(found["name"], text[slice(*span)])
        elif escaped := _ESCAPED.match(text, found.end(), found.end() + _LONGEST):
            span = escaped.span("value")
            is_one = is_secret(found["name"], escaped["value"])
        else:
            span, is_one = _unquoted(text, found)
            end = span[1]  # what is in it was looked at, too
        if is_one:
            yield span
            end = span[1]


def _may_name(text: str) -> bool:
    """Whether any name in a text can say that its value is secret; most texts have none."""
    lower = text.lower()
    return any(word in lower for word in _NAMED)


def _unquoted(text: str, found: re.Match[str]) -> tuple[_Span, bool]:
    """Where the value without quotes is that follows a name, and whether it is secret."""
    name, at = found["name"], found.end()
    plain = _PLAIN.match(text, at)
    if plain is not None and looks_random(plain[0]):
        return plain.span(), says_secret(name) or is_secret_variable(name, plain[0])
    if says_password(name) and (word := _PASSWORD.match(text, at)):
        span = at, at + len(word["value"].rstrip(_PUNCTUATION))
        value = text[slice(*span)]
        is_like_one = looks_like_password(value) and (word["ends"] is not None or not value.replace("-", "").isalpha())
        return span, is_like_one or _is_of_connection(text, found, word)
    return (plain.span() if plain is not None else (at, at)), False


def _is_of_connection(text: str, found: re.Match[str], word: re.Match[str]) -> bool:
    """Whether a value is one of those that say how a database is reached: there, any word is a password."""
    value, start, end = word["value"], found.start(), word.end()
    if not found[0].endswith("=") or not _shows(value) or is_told_of(value):
        return False
    return any(_CONNECTION.search(text, *near) for near in ((max(start - _NEAR, 0), start), (end, end + _NEAR)))


def _authorizations(text: str) -> Iterator[_Span]:
    """What follows `Authorization:`."""
    if "uthorization" in text or "AUTHORIZATION" in text:
        for found in _AUTHORIZATION.finditer(text):
            part = "fields" if found["fields"] else "value"
            if part == "fields" or (is_no_word(found["value"]) and not is_told_of(found["value"])):
                yield found.span(part)


def _bearers(text: str) -> Iterator[_Span]:
    """What follows `Bearer`."""
    for found in _BEARER.finditer(text):
        value = found["value"]
        if looks_random(value) or (found["open"] and is_no_word(value) and not is_told_of(value)):
            yield found.span("value")


def _cookies(text: str) -> Iterator[_Span]:
    """What follows `Cookie:` and `Set-Cookie:`, if any value of it is no word."""
    if "ookie" in text or "OOKIE" in text:
        for found in _COOKIES.finditer(text):
            values = (part.partition("=")[2] for part in found["value"].split(";"))
            if any(len(value) >= LEAST_VALUE and is_no_word(value) and looks_random(value) for value in values):
                yield found.span("value")


FORMS: tuple[Form, ...] = (
    *SHAPES,
    Form("://", _users),
    Form("=", _queries),
    Form("", _authorizations),
    Form("earer ", _bearers),
    Form("", _cookies),
    Form("</", _tagged),
    Form("", _given),
)
"""All of them, keys of a form of their own first."""
