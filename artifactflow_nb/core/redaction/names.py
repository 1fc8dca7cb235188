"""Names of secrets, and values that can be secrets.

Whole words of a name count: `API_KEY`, `clientSecret`, `X-Auth-Token`. A name of metadata about a secret (`KEY_FILE`,
`password_length`) or of a number (`MAX_TOKENS`) does not count.
"""

import re
from functools import lru_cache
from itertools import pairwise

MASK = "[secret]"
"""Replaces a secret in a text."""

MIN_VALUE = 8
"""Minimum length of a secret that no name identifies."""

_MIN_ALNUM = 4
_MIN_PASSWORD = 6
_MIN_RANDOM = 20
_MAX_WORD = 16
_MAX_NAME = 100
_CACHE_SIZE = 1024


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_VARIABLE = re.compile(r"[A-Z]+(?:_[A-Z]+)+|\$\{?\w+\}?|%\w+%|\{\{.*\}\}")
AUTH_SCHEME = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)
_SENTENCE = re.compile(r"[A-Za-z]+ [a-z]+")
_ADDRESSED = re.compile(r"(?:[A-Za-z]:)?(?:~|\.{1,2})?[/\\]|[a-z][a-z+.-]*://(?![^/\s]*@)|unix:")
_RANDOM_PART = re.compile(r"(?=[^/\\]*[0-9])(?=[^/\\]*[a-z])(?=[^/\\]*[A-Z])[A-Za-z0-9+=]{16,}+")
_DIGIT = re.compile("[0-9]")
_NUMBER = re.compile(r"[0-9+.,:_/ -]+(?:[eE][+-]?[0-9]+)?")
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[a-z]+(?:_[a-z]+)+")
_STANDARD = re.compile(
    r"(?:sha|md|base|utf|aes|des|rsa|argon|pbkdf|oauth|http|ipv|tls|ssl|rfc|iso|hmac|bcrypt|version)-?[0-9]\S{0,9}",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"(?:your|insert|enter|put|replace|paste)\b.*|(?:your|insert|enter|replace)[_-].*|.*\b(?:goes )?here", re.IGNORECASE
)
_PLACEHOLDER_WORDS = _word_set(
    "optional required string text none null true false password passwd passphrase secret secrets token key value "
    "hidden redacted masked example sample placeholder default empty missing unset unknown undefined plain plaintext "
    "hashed encrypted random generated expired invalid incorrect wrong changed protected enabled disabled username "
    "credential credentials authorization bearer basic digest public private nothing forgotten needed mandatory "
    "boolean integer object array varchar bytes"
)
"""Words that describe a value and are written in its place."""

_CONNECTIVES = _word_set(
    "a an and are as at be by can case do end for free has in is it its less like must no non not of off on one only "
    "or out per self so than that the then to two up use user via was we what when who with you your"
)
"""Words that occur in compounds such as `end-to-end` but seldom in passwords."""

_SECRET_WORDS = tuple(_word_set("password passwd passphrase pwd secret credential credentials authorization apikey"))
_KEY_QUALIFIERS = _word_set(
    "api access app auth authorization secret private client session refresh bearer bot signing encryption master "
    "subscription account service shared storage deploy webhook admin openai anthropic tavily github gitlab aws azure "
    "google hf huggingface replicate mistral cohere groq slack discord telegram stripe twilio sendgrid npm pypi"
)
_COMPOUNDS = frozenset({"accesskey", "accesstoken", "authtoken", "secretkey", "privatekey", "apitoken", "accountkey"})
_VARIABLE_WORDS = frozenset({"key", "token", "pass", "pat", "auth", "cookie"})
_METADATA_WORDS = _word_set(
    "file files path paths dir directory folder name names type kind mode length len size count counts number limit "
    "max min ttl timeout age expiry expires expiration url uri endpoint host port sock socket method scheme provider "
    "manager policy field column format version algorithm alg sha digest fingerprint checksum hint label prompt "
    "required enabled disabled rotation usage strength reset"
)
_QUERY_WORDS = ("key", "token", *_SECRET_WORDS, "signature", "sig")
_FALSE_KEYS = frozenset({"monkey", "donkey", "turkey", "hockey", "jockey", "whiskey", "hotkey"})


def _words(name: str) -> list[str]:
    """Split a name into words in lower case; the name of metadata about a secret has no words."""
    words = [word.lower() for word in _WORD.findall(name[:_MAX_NAME])]
    last_word = next((word for word in reversed(words) if not word.isdigit()), "")
    return [] if last_word in _METADATA_WORDS else words


@lru_cache(_CACHE_SIZE)
def names_secret(name: str) -> bool:
    """Return whether a name is the name of a secret: `api_key`, `clientSecret`, `X-Auth-Token`, `password`.

    `key` and `token` alone do not name a secret, because tables have keys and texts have tokens.
    """
    words = _words(name)
    if any(word.endswith(_SECRET_WORDS) for word in words):
        return True
    return any(
        word.removesuffix("s") in {"key", "token"} and before in _KEY_QUALIFIERS for before, word in pairwise(words)
    ) or any(word.removesuffix("s") in _COMPOUNDS for word in words)


def names_password(name: str) -> bool:
    """Return whether a name is the name of a password; a password may consist of words."""
    return ("pass" in name.lower() or "pwd" in name.lower()) and names_secret(name)


def may_name_secret(name: str) -> bool:
    """Return whether the name of a query parameter can be the name of a secret; `key` and `token` alone can be, too."""
    return any(word.endswith(_QUERY_WORDS) and word not in _FALSE_KEYS for word in _words(name))


@lru_cache(_CACHE_SIZE)
def is_secret_variable(name: str, value: str) -> bool:
    """Return whether an environment variable holds a secret, by its name and value.

    Values that occur in ordinary texts do not count: values of fewer than 8 characters, plain numbers, words of up to
    16 letters, paths, addresses without a user, and repetitions of one or two characters.
    """
    value = value.strip()
    if len(value) < MIN_VALUE or len(set(value)) <= 2 or _NUMBER.fullmatch(value) or is_path(value):  # noqa: PLR2004
        return False
    is_named = names_secret(name) or not _VARIABLE_WORDS.isdisjoint(_words(name))
    return is_named and is_literal(value)


def is_secret(name: str, value: str) -> bool:
    """Return whether a quoted value next to a name is a secret; False for placeholders and names of variables."""
    if not names_secret(name) or MASK in value or is_placeholder(value) or not has_content(value):
        return False
    credential = AUTH_SCHEME.sub("", value, count=1)
    return names_password(name) or not _SENTENCE.search(credential)  # several words are a secret only as a password


def has_content(value: str) -> bool:
    """Return whether a value has enough letters and digits for a secret."""
    return sum(character.isalnum() for character in value) >= _MIN_ALNUM


def is_placeholder(value: str) -> bool:
    """Return whether a value is written in place of a secret: `optional`, `OPENAI_API_KEY`, `Bearer $TOKEN`."""
    if scheme := AUTH_SCHEME.match(value):
        value = value[scheme.end() :]
    is_listed = value.lower() in _PLACEHOLDER_WORDS
    return is_listed or any(pattern.fullmatch(value) for pattern in (_VARIABLE, _PLACEHOLDER, _STANDARD))


def is_literal(value: str) -> bool:
    """Return whether a value is neither a single word nor a placeholder."""
    return is_not_a_word(value) and not is_placeholder(value)


def is_path(value: str) -> bool:
    """Return whether a value is a path or an address, and not base64, which can also start with a slash."""
    if not _ADDRESSED.match(value):
        return False
    return not any(map(_RANDOM_PART.fullmatch, re.split(r"[/\\]", value)))


def is_not_a_word(value: str) -> bool:
    """Return whether a value is not a single word in lower case, upper case or with a capital."""
    return len(value) > _MAX_WORD or not (value.isalpha() and (value[1:].islower() or value.isupper()))


def looks_random(value: str) -> bool:
    """Return whether a value, no path or placeholder, has digits, or is long and has letters of both cases."""
    if is_path(value) or is_placeholder(value):
        return False
    if _DIGIT.search(value):
        return len(value) >= MIN_VALUE and not _NUMBER.fullmatch(value)
    mixed = value.lower() != value and value.upper() != value
    return len(value) >= _MIN_RANDOM and mixed and not set("._-") & set(value)


def looks_like_password(value: str) -> bool:
    """Return whether an unquoted value can be a password: letters with digits or signs, or words joined by hyphens."""
    if len(value) < _MIN_PASSWORD or is_path(value) or is_placeholder(value) or _ATTRIBUTE.fullmatch(value):
        return False
    if _DIGIT.search(value):
        return any(character.isalpha() for character in value) or len(value) >= MIN_VALUE
    if set("!@#$%^*+~") & set(value[:-1]):
        return sum(character.isalpha() for character in value) >= _MIN_ALNUM
    parts = value.lower().split("-")
    return len(parts) > 2 and all(part.isalpha() for part in parts) and _CONNECTIVES.isdisjoint(parts)  # noqa: PLR2004
