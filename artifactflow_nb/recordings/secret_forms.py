"""What secrets look like: keys of well-known services, credentials in addresses, values beside names that say so.

Each form finds the parts of a text to mask, in one pass whose time grows with the text's length: what may repeat is
bounded or never given back, and what can only begin at a word is not looked for inside of one.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

MASK = "[secret]"
"""What stands for a secret."""

Form = Callable[[str], Iterator[tuple[int, int]]]
"""Finds the parts of a text that are secret: begin and end of each, in order."""

_LEAST_VALUE = 8
_LEAST_SHOWN = 4
_LEAST_RANDOM = 20
_LONGEST_PLAIN = 16

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_VARIABLE = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
_SENTENCE = re.compile(r"[A-Za-z]+ [a-z]+")
_ALONE = ("password", "passwd", "passphrase", "secret", "credential", "credentials", "authorization", "apikey")
_NAMED = ("key", "token", "secret", "passw", "passphrase", "credential", "authorization")
_WITH_KEY = frozenset(
    [
        "api",
        "access",
        "auth",
        "authorization",
        "secret",
        "private",
        "client",
        "session",
        "refresh",
        "bearer",
        "signing",
        "encryption",
        "subscription",
        "account",
        "service",
        "openai",
        "anthropic",
        "tavily",
        "github",
        "gitlab",
        "aws",
        "azure",
        "google",
    ]
)
_ENDINGS = (
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "signature",
    "sig",
)
_NO_SECRETS = frozenset({"monkey", "donkey", "turkey", "hockey", "jockey", "whiskey", "hotkey"})


def says_secret(name: str) -> bool:
    """Whether a name says that its value is secret: `api_key`, `clientSecret`, `X-Auth-Token`, `password`.

    `key` and `token` alone do not: they are also those of a table and of a text.
    """
    words = [word.lower() for word in _WORD.findall(name[:100])]
    if any(word.endswith(_ALONE) for word in words):
        return True
    return any(
        word.removesuffix("s") in {"key", "token"} and before in _WITH_KEY for before, word in pairwise(words)
    ) or any(word.removesuffix("s") in {"accesskey", "accesstoken", "authtoken", "secretkey"} for word in words)


def is_secret(name: str, value: str) -> bool:
    """Whether a value beside such a name is one: not where it says nothing, or names a variable, as in an example."""
    n_shown = sum(character.isalnum() for character in value)
    if n_shown < _LEAST_SHOWN or MASK in value or _VARIABLE.fullmatch(value) or not says_secret(name):
        return False
    return "pass" in name.lower() or not _SENTENCE.search(value)  # only what people think of has words


def _may_say_secret(name: str) -> bool:
    """The same where a name stands in an address: there, `key` and `token` alone say it too."""
    words = [word.lower() for word in _WORD.findall(name)]
    return any(word.endswith(_ENDINGS) and word not in _NO_SECRETS for word in words)


def is_secret_variable(name: str, value: str) -> bool:
    """Whether an environment variable holds a secret, by its name and the length of its value."""
    words = [word.removesuffix("S") for word in name.upper().split("_")]
    said = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL")
    words = [*words, "PASSWORD"] if name.upper().endswith(("_PASS", "_PWD", "_PAT")) and "/" not in value else words
    return len(value.strip()) >= _LEAST_VALUE and any(word.endswith(said) for word in words)


def _looks_random(value: str) -> bool:
    """Whether a value is no word and no name of a program: it has digits, or is long and mixes its letters."""
    if any(character.isdigit() for character in value):
        return len(value) >= _LEAST_VALUE
    mixed = value.lower() != value and value.upper() != value
    return len(value) >= _LEAST_RANDOM and mixed and not set("._-") & set(value)


def _is_no_word(value: str) -> bool:
    return len(value) > _LONGEST_PLAIN or not (value.isalpha() and (value.islower() or value.isupper()))


# --- forms of their own ----------------------------------------------------------------------------------------------

_PEM = (
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"
    r"(?:(?:\s|\\[rnt])*+(?:[A-Za-z0-9+/=]{32,}+|(?:Proc-Type|DEK-Info): ?[A-Za-z0-9,-]{1,100}+))++"
    r"(?:(?:\s|\\[rnt])*+[A-Za-z0-9+/=]{1,76}+(?=\s*+(?:\\[rnt])*+-----END))?+"
    r"(?:(?:\s|\\[rnt])*+-----END [A-Z ]{0,40}PRIVATE KEY-----)?+"
)
_COOKIE = r"""[A-Za-z0-9_.-]{1,64}+=[^\s;"'\\]"""
_SHAPES = (
    ("sk-", r"(?<![A-Za-z0-9_-])[sr]k-(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{12,}+"),
    *((f"k_{kind}_", rf"(?<![A-Za-z0-9_-])[spr]k_{kind}_[A-Za-z0-9]{{8,}}+") for kind in ("live", "test")),
    *((f"gh{kind}_", rf"(?<![A-Za-z0-9_-])gh{kind}_[A-Za-z0-9]{{16,}}+") for kind in "pousr"),
    ("github_pat_", r"(?<![A-Za-z0-9_-])github_pat_[A-Za-z0-9_]{16,}+"),
    ("glpat-", r"(?<![A-Za-z0-9_-])glpat-[A-Za-z0-9_-]{16,}+"),
    ("hf_", r"(?<![A-Za-z0-9_-])hf_[A-Za-z0-9]{16,}+"),
    ("tvly-", r"(?<![A-Za-z0-9_-])tvly-[A-Za-z0-9_-]{12,}+"),
    *((kind, rf"(?<![A-Za-z0-9]){kind}[A-Z0-9]{{16,}}+(?![a-z])") for kind in ("AKIA", "ASIA")),
    ("AIza", r"(?<![A-Za-z0-9_-])AIza[A-Za-z0-9_-]{20,}+"),
    ("xox", r"(?<![A-Za-z0-9_-])xox[a-z]-[A-Za-z0-9-]{8,}+"),
    ("eyJ", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+){0,3}"),
    ("gsk_", r"(?<![A-Za-z0-9_-])gsk_[A-Za-z0-9]{20,}+"),
    ("npm_", r"(?<![A-Za-z0-9_-])npm_[A-Za-z0-9]{30,}+"),
    ("pypi-", r"(?<![A-Za-z0-9_-])pypi-AgE[A-Za-z0-9_-]{16,}+"),
    ("xai-", r"(?<![A-Za-z0-9_-])xai-(?=[A-Za-z]{0,64}[0-9])[A-Za-z0-9]{20,}+"),
    ("SG.", r"(?<![A-Za-z0-9_-])SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"),
    ("hooks.slack.com/services/", r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{16,}+"),
    ("ookie: ", rf"(?<=ookie: ){_COOKIE}{{8,4096}}+(?:; ?{_COOKIE}{{1,4096}}+){{0,64}}+"),
    ("PRIVATE KEY-----", _PEM),
)

# --- values beside what says so --------------------------------------------------------------------------------------

_QUOTE = r"""\\{0,3}["']"""
_NAME = r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z][A-Za-z0-9_-]{2,60}+)"
_USER = re.compile(r"""://(?P<value>[^\s/?#@:"'<>\[\]]{0,128}+:[^\s/?#@"'<>{}]{1,256}+)@""")
_QUERY = re.compile(r"""[?&;](?P<name>[A-Za-z0-9_.%~-]{1,64}+)=(?P<value>[^&;#\s"'<>()\[\]{}`\\|]{1,4096}+)""")
_QUOTED = re.compile(
    rf"""{_NAME}(?:{_QUOTE})?\s{{0,2}}[:=]\s{{0,2}}"""
    r"""(?:"(?P<double>(?:[^"\\\r\n]|\\.){1,4096}+)|'(?P<single>(?:[^'\\\r\n]|\\.){1,4096}+)"""
    r"""|\\{1,3}["'](?P<inner>[^"'\\\r\n]{1,4096}+))"""
)
_PLAIN = re.compile(
    rf"""{_NAME}(?:{_QUOTE})?\s{{0,2}}[:=]\s{{0,2}}(?P<value>[A-Za-z0-9._~+/=%$!*^-]{{8,4096}}+)(?!\()"""
)
_TAGGED = re.compile(
    r"<(?P<name>[A-Za-z][A-Za-z0-9_-]{2,60}+)>\s{0,9}"
    r"(?:<!\[CDATA\[(?P<value>(?:[^\]]|\](?!\]>)){1,4096}+)|(?P<bare>[^<>\s][^<>]{0,4095}+))"
)
_AUTHORIZATION = re.compile(
    rf"""authorization(?:{_QUOTE})?\s{{0,2}}[:=]\s{{0,2}}(?:{_QUOTE})?"""
    r"""(?:(?:digest|aws4-hmac-sha256)[ ]{1,3}(?P<fields>[^\r\n\\\[\]]{8,4096}+)"""
    r"""|(?:bearer|basic|token|apikey|api-key|negotiate)[ ]{1,3}(?P<value>[^\s"'\\<>,;\[\]{}`]{6,4096}+))""",
    re.IGNORECASE,
)
_BEARER = re.compile(rf"""(?P<open>{_QUOTE})?\b[Bb]earer[ ]{{1,3}}(?P<value>[A-Za-z0-9._~+/=-]{{8,4096}}+)""")


def _may_name(text: str) -> bool:
    """Whether any name in a text can say that its value is secret; most texts have none."""
    lower = text.lower()
    return any(word in lower for word in _NAMED)


def _shape(hint: str, pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    if hint in text:
        yield from (found.span() for found in pattern.finditer(text))


def _users(text: str) -> Iterator[tuple[int, int]]:
    """User and password of an address."""
    if "://" in text and "@" in text:
        yield from (found.span("value") for found in _USER.finditer(text))


def _queries(text: str) -> Iterator[tuple[int, int]]:
    """Values of an address's query."""
    if "=" in text:
        yield from (found.span("value") for found in _QUERY.finditer(text) if _may_say_secret(found["name"]))


def _quoted(text: str) -> Iterator[tuple[int, int]]:
    """Values in quotes: `"api_key": "..."`, `password='...'`."""
    if ("'" in text or '"' in text) and _may_name(text):
        for found in _QUOTED.finditer(text):
            value = found.lastgroup or ""
            if is_secret(found["name"], found[value]):
                yield found.span(value)


def _plain(text: str) -> Iterator[tuple[int, int]]:
    """Values without quotes: `api-key: ...`, `PASSWORD=...`; only those that no word looks like."""
    if (":" in text or "=" in text) and _may_name(text):
        for found in _PLAIN.finditer(text):
            if says_secret(found["name"]) and _looks_random(found["value"]):
                yield found.span("value")


def _tagged(text: str) -> Iterator[tuple[int, int]]:
    """Parameters of a call that is written as text: `<api_key><![CDATA[...]]></api_key>`."""
    if "</" in text:
        for found in _TAGGED.finditer(text):
            part = "value" if found["value"] else "bare"
            if is_secret(found["name"], found[part]):
                yield found.span(part)


def _authorizations(text: str) -> Iterator[tuple[int, int]]:
    """What follows `Authorization:`."""
    if "uthorization" in text or "AUTHORIZATION" in text:
        for found in _AUTHORIZATION.finditer(text):
            part = "fields" if found["fields"] else "value"
            if part == "fields" or _is_no_word(found["value"]):
                yield found.span(part)


def _bearers(text: str) -> Iterator[tuple[int, int]]:
    """What follows `Bearer`."""
    if "earer " in text:
        for found in _BEARER.finditer(text):
            if _looks_random(found["value"]) or (found["open"] and _is_no_word(found["value"])):
                yield found.span("value")


FORMS: tuple[Form, ...] = (
    *(partial(_shape, hint, re.compile(pattern)) for hint, pattern in _SHAPES),
    *(_users, _queries, _authorizations, _bearers, _tagged, _quoted, _plain),
)
"""All of them."""
