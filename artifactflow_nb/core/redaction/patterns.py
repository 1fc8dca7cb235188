"""Patterns of secrets: keys of well-known services, private keys, credentials in addresses, values next to names.

Each pattern searches a text in one pass in linear time: repetitions are bounded or possessive, and a pattern that
starts at a word boundary is not tried inside a word.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from artifactflow_nb.core.redaction.names import (
    MIN_VALUE,
    has_content,
    is_literal,
    is_not_a_word,
    is_placeholder,
    is_secret,
    is_secret_variable,
    looks_like_password,
    looks_random,
    may_name_secret,
    names_password,
    names_secret,
)


@dataclass(frozen=True, slots=True)
class Form:
    """A pattern of secrets.

    Attributes:
        signs: Every match contains one of these texts; a text that contains none of them is not searched.
        find: Returns the start and end offsets of the secrets in a text, in order.
    """

    signs: tuple[str, ...]
    find: Callable[[str], Iterator[tuple[int, int]]]


_ESCAPE = re.compile(r"(?:\\[nrtbf]|%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4})\Z")
"""An escape sequence before a key, in JSON or in an address; the key starts after the last character."""

_MAX_ESCAPE = 6
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
_ADDRESSES = (
    ("hooks.slack.com/services/", r"[A-Za-z0-9/]{16,}+"),
    ("/api/webhooks/", rf"[0-9]{{10,}}+/{_LONG}{{30,}}+"),
    ("api.telegram.org/bot", rf"[0-9]{{6,}}+:{_LONG}{{30,}}+"),
)
"""Beginnings of addresses with the pattern of the secret part after them."""


def _keys(begin: re.Pattern[str], keys: Sequence[tuple[str, re.Pattern[str]]], text: str) -> Iterator[tuple[int, int]]:
    """Find keys by their prefixes; `begin` matches the ends of these prefixes."""
    end = 0
    for match in begin.finditer(text):
        for prefix, rest in keys:
            at = match.end() - len(prefix)
            if at < end or not text.startswith(prefix, at):
                continue
            # A key starts neither within a word, except after an escape, nor in base64, which has prefixes by chance.
            before = text[at - 1 : at]
            if (before.isascii() and before.isalnum()) or before in {"_", "-"}:
                can_start = _ESCAPE.search(text, max(at - _MAX_ESCAPE, 0), at) is not None
            else:
                can_start = before not in {"+", "/"} or _BASE64.match(text, max(at - _BASE64_CHARS, 0), at) is None
            if can_start and (key := rest.match(text, match.end())):
                end = key.end()
                yield at, end


def pattern_form(
    *signs: str, pattern: str | re.Pattern[str], accepts: Callable[[re.Match[str]], bool] = lambda _match: True
) -> Form:
    """Create a form that finds the last named group of each accepted match; without groups, the whole match."""
    compiled = re.compile(pattern)

    def find(text: str) -> Iterator[tuple[int, int]]:
        return (match.span(match.lastgroup or 0) for match in compiled.finditer(text) if accepts(match))

    return Form(signs, find)


# --- secrets that follow a name or a mark -----------------------------------------------------------------------------

_Span = tuple[int, int]

_NAME_PARTS = ("key", "token", "secret", "credential", "authorization", "pass", "pwd")
_PUNCTUATION = ".:?"
_NEIGHBOURHOOD = 160

_QUOTE = r"""\\{0,3}["']"""
_START = r"(?<![A-Za-z0-9_.-])(?!(?<=\\)[nrt][A-Za-z])"
"""The start of a name, after the letter of an escaped line break in JSON."""

_USER = re.compile(r"""://(?P<value>[^\s/?#@:"'<>\[\]]{0,128}+:[^\s/?#@"'<>{}]{1,256}+|[A-Za-z0-9_-]{20,128}+)@""")
_QUERY_NAME = re.compile(r"[?&;#](?P<name>[A-Za-z0-9_.%~-]{1,64}+)=")
_QUERY_VALUE = re.compile(r"""[^&;#\s"'<>()\[\]{}`\\|]{1,4096}+""")
_NAME_BEFORE_VALUE = re.compile(
    rf"(?:{_START}|(?<=\\[nrt]))(?P<name>[A-Za-z][A-Za-z0-9_-]{{2,60}}+)(?:{_QUOTE})?\s{{0,2}}[:=]\s{{0,2}}"
)
"""A name and the separator before its value, with or without quotes, in JSON, YAML, programs and shells."""

_QUOTED = re.compile(
    r"""(?:"(?P<double>[^"\\\r\n]*+(?:\\.[^"\\\r\n]*+)*+)|'(?P<single>[^'\\\r\n]*+(?:\\.[^'\\\r\n]*+)*+))"""
)
_ESCAPED_QUOTED = re.compile(r"""(?P<mark>\\{1,7}["'])(?P<value>(?:[^\\"'\r\n]++|(?!(?<!\\)(?P=mark))[^\r\n])++)""")
_MAX_VALUE = 4096
_UNQUOTED = re.compile(r"[A-Za-z0-9._~+/=%$!*^-]{8,4096}+(?!\()")
_PASSWORD = re.compile(
    r"""(?P<value>[^\s"'<>()\[\]{},;|`\\]{4,256}+)(?P<ends>(?=\s*?$|["'<;\\\]]))?+(?![(\[{])""", re.MULTILINE
)
_CONNECTION = re.compile(
    r"(?:^|[\s;])(?:host|hostaddr|server|data source|address|dbname|database|initial catalog|user id|uid|user)"
    r"\s?=\s?[^\s,;()]+(?:[\s;]|$)",
    re.IGNORECASE,
)
_TAGGED = re.compile(
    r"<(?P<name>[A-Za-z][A-Za-z0-9_-]{2,60}+)>\s{0,9}"
    r"(?=<!\[CDATA\[(?P<data>(?:[^\]]|\](?!\]>)){1,4096}+)|(?P<bare>[^<>\s][^<>]{0,4095}+))"
)
"""A parameter of a call in XML, `<api_key><![CDATA[...]]></api_key>`; the search continues within the value."""
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
_COOKIE_VALUE = re.compile("=([^;]*)")
_COOKIES = re.compile(
    rf"""cookie(?:{_QUOTE})?:\s{{0,2}}(?:{_QUOTE})?(?P<value>{_COOKIE}(?:; ?{_COOKIE}){{0,64}}+)""", re.IGNORECASE
)


def _queries(text: str) -> Iterator[_Span]:
    """Find secrets in the query of an address; the value of a plain `key` or `token` must look random."""
    end = 0
    for match in _QUERY_NAME.finditer(text):
        name = match["name"]
        if match.start() < end or not may_name_secret(name) or (value := _QUERY_VALUE.match(text, match.end())) is None:
            continue
        end = value.end()
        is_certain = names_secret(name) or name.lower() in {"sig", "signature"}
        if looks_random(value[0]) or (is_certain and has_content(value[0]) and not is_placeholder(value[0])):
            yield value.span()


def _named_values(text: str) -> Iterator[_Span]:
    """Find values next to names: `"api_key": "..."`, `MY_TOKEN=...`, `password: correct-horse-battery`."""
    lower = text.lower()
    if not any(part in lower for part in _NAME_PARTS):
        return
    end = 0
    for match in _NAME_BEFORE_VALUE.finditer(text):
        name, start = match["name"], match.end()
        if match.start() < end or not (names_secret(name) or name.isupper()):
            continue
        if quoted := _QUOTED.match(text, start, start + _MAX_VALUE):
            span = quoted.span(quoted.lastgroup or 0)
            is_found = is_secret(name, text[slice(*span)])
        elif escaped := _ESCAPED_QUOTED.match(text, start, start + _MAX_VALUE):
            span = escaped.span("value")
            is_found = is_secret(name, escaped["value"])
        else:
            span, is_found = _unquoted(text, match)
            end = span[1]  # names within this value were checked with it
        if is_found:
            yield span
            end = span[1]


def _unquoted(text: str, match: re.Match[str]) -> tuple[_Span, bool]:
    """Return the range of an unquoted value after a name, and whether the value is a secret."""
    name, at = match["name"], match.end()
    plain = _UNQUOTED.match(text, at)
    if plain is not None and looks_random(plain[0]):
        return plain.span(), names_secret(name) or is_secret_variable(name, plain[0])
    if names_password(name) and (word := _PASSWORD.match(text, at)):
        span = at, at + len(word["value"].rstrip(_PUNCTUATION))
        value = text[slice(*span)]
        if looks_like_password(value) and (word["ends"] is not None or not value.replace("-", "").isalpha()):
            return span, True
        # Among the parts of a database's connection string, a password can be any word.
        is_possible = match[0].endswith("=") and has_content(word["value"]) and not is_placeholder(word["value"])
        before = max(match.start() - _NEIGHBOURHOOD, 0), match.start()
        after = word.end(), word.end() + _NEIGHBOURHOOD
        return span, is_possible and any(_CONNECTION.search(text, *near) for near in (before, after))
    return (plain.span() if plain is not None else (at, at)), False


# Keys are grouped by the last character of their prefixes, so that a text is searched once per group.
_KEY_GROUPS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
for _prefix, _rest in _KEYS:
    _sign = _prefix[-1] if _prefix[-1] in "_-" else _prefix
    _KEY_GROUPS.setdefault(_sign, []).append((_prefix, re.compile(_rest)))

FORMS: tuple[Form, ...] = (
    *(
        Form(
            (sign,),
            partial(
                _keys,
                re.compile(f"{re.escape(sign)}(?:{'|'.join(f'(?<={re.escape(prefix)})' for prefix, _ in keys)})"),
                keys,
            ),
        )
        for sign, keys in _KEY_GROUPS.items()
    ),
    *(pattern_form(prefix, pattern=f"(?<={re.escape(prefix)}){rest}") for prefix, rest in _ADDRESSES),
    pattern_form("PRIVATE KEY", pattern=_PEM),
    # A user with a password, or a user alone that looks random.
    pattern_form("@", pattern=_USER, accepts=lambda match: ":" in match["value"] or looks_random(match["value"])),
    Form(("=",), _queries),
    # The fields of a digest, or the credential of another scheme.
    pattern_form(
        "uthorization",
        "AUTHORIZATION",
        pattern=_AUTHORIZATION,
        accepts=lambda match: bool(match["fields"]) or is_literal(match["value"]),
    ),
    pattern_form(
        "earer ",
        pattern=_BEARER,
        accepts=lambda match: looks_random(match["value"]) or (bool(match["open"]) and is_literal(match["value"])),
    ),
    # All cookies of a header if the value of one cookie looks random.
    pattern_form(
        "ookie",
        "OOKIE",
        pattern=_COOKIES,
        accepts=lambda match: any(
            len(value) >= MIN_VALUE and is_not_a_word(value) and looks_random(value)
            for value in _COOKIE_VALUE.findall(match["value"])
        ),
    ),
    pattern_form("</", pattern=_TAGGED, accepts=lambda match: is_secret(match["name"], match[match.lastgroup or 0])),
    Form((":", "="), _named_values),
)
"""All patterns; the patterns of keys with a known prefix come first."""
