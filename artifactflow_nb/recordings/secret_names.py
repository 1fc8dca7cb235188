"""Which names say that their value is secret, and which values can be one.

Whole words of a name count: `API_KEY`, `clientSecret`, `X-Auth-Token`. A name that ends in what is only told of a
secret (`KEY_FILE`, `password_length`), or counts (`MAX_TOKENS`), says nothing; nor does a value that any text may hold.
"""

import re
from functools import lru_cache
from itertools import pairwise

MASK = "[secret]"
"""What stands for a secret."""

LEAST_VALUE = 8
"""A shorter value is masked only where its place leaves no doubt."""

_LEAST_SHOWN = 4
_LEAST_PASSWORD = 6
_LEAST_RANDOM = 20
_LONGEST_PLAIN = 16
_LONGEST_NAME = 100
_REMEMBERED = 1024


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_VARIABLE = re.compile(r"[A-Z]+(?:_[A-Z]+)+|\$\{?\w+\}?|%\w+%|\{\{.*\}\}")
_SCHEME = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)
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
_DESCRIBED = _listed(
    "optional required string text none null true false password passwd passphrase secret secrets token key value "
    "hidden redacted masked example sample placeholder default empty missing unset unknown undefined plain plaintext "
    "hashed encrypted random generated expired invalid incorrect wrong changed protected enabled disabled username "
    "credential credentials authorization bearer basic digest public private nothing forgotten needed mandatory "
    "boolean integer object array varchar bytes"
)
"""What is said of a value in its place."""

_JOINING = _listed(
    "a an and are as at be by can case do end for free has in is it its less like must no non not of off on one only "
    "or out per self so than that the then to two up use user via was we what when who with you your"
)
"""Words of which compounds such as `end-to-end` are made, and passwords seldom."""

_ALONE = ("password", "passwd", "passphrase", "pwd", "secret", "credential", "credentials", "authorization", "apikey")
_WITH_KEY = _listed(
    "api access app auth authorization secret private client session refresh bearer bot signing encryption master "
    "subscription account service shared storage deploy webhook admin openai anthropic tavily github gitlab aws azure "
    "google hf huggingface replicate mistral cohere groq slack discord telegram stripe twilio sendgrid npm pypi"
)
_GLUED = frozenset({"accesskey", "accesstoken", "authtoken", "secretkey", "privatekey", "apitoken", "accountkey"})
_OF_VARIABLES = frozenset({"key", "token", "pass", "pat", "auth", "cookie"})
_ABOUT = _listed(
    "file files path paths dir directory folder name names type kind mode length len size count counts number limit "
    "max min ttl timeout age expiry expires expiration url uri endpoint host port sock socket method scheme provider "
    "manager policy field column format version algorithm alg sha digest fingerprint checksum hint label prompt "
    "required enabled disabled rotation usage strength reset"
)
_IN_ADDRESSES = ("key", "token", *_ALONE, "signature", "sig")
_NO_KEYS = frozenset({"monkey", "donkey", "turkey", "hockey", "jockey", "whiskey", "hotkey"})


def _words(name: str) -> list[str]:
    """The words of a name; none if it ends in what is only told of a secret."""
    words = [word.lower() for word in _WORD.findall(name[:_LONGEST_NAME])]
    said = next((word for word in reversed(words) if not word.isdigit()), "")
    return [] if said in _ABOUT else words


@lru_cache(_REMEMBERED)
def says_secret(name: str) -> bool:
    """Whether a name says that its value is secret: `api_key`, `clientSecret`, `X-Auth-Token`, `password`.

    `key` and `token` alone do not: they are also those of a table and of a text.
    """
    words = _words(name)
    if any(word.endswith(_ALONE) for word in words):
        return True
    return any(
        word.removesuffix("s") in {"key", "token"} and before in _WITH_KEY for before, word in pairwise(words)
    ) or any(word.removesuffix("s") in _GLUED for word in words)


def says_password(name: str) -> bool:
    """Whether a name says that its value is what a person thought of: it may be of words."""
    return ("pass" in name.lower() or "pwd" in name.lower()) and says_secret(name)


def may_say_secret(name: str) -> bool:
    """The same where a name stands in an address: there, `key` and `token` alone may say it too."""
    return any(word.endswith(_IN_ADDRESSES) and word not in _NO_KEYS for word in _words(name))


def is_secret_variable(name: str, value: str) -> bool:
    """Whether an environment variable holds a secret: its name says so, and its value is none that any text may hold.

    Values that do not count are shorter than 8 characters, plain numbers, words of up to 16 letters, paths, addresses
    without a user, and those of one or two characters over and over.
    """
    value = value.strip()
    if len(value) < LEAST_VALUE or len(set(value)) <= 2 or _NUMBER.fullmatch(value) or is_path(value):  # noqa: PLR2004
        return False
    is_named = says_secret(name) or not _OF_VARIABLES.isdisjoint(_words(name))
    return is_named and is_no_word(value) and not is_told_of(value)


def is_secret(name: str, value: str) -> bool:
    """Whether a value in quotes beside such a name is one: not where it says nothing, or names a variable."""
    n_shown = sum(character.isalnum() for character in value)
    if n_shown < _LEAST_SHOWN or MASK in value or not says_secret(name) or is_told_of(value):
        return False
    return says_password(name) or not _SENTENCE.search(value)  # only what people think of has words


def is_told_of(value: str) -> bool:
    """Whether a value is what one writes in the place of a secret: `optional`, `OPENAI_API_KEY`, `Bearer $TOKEN`."""
    if scheme := _SCHEME.match(value):
        value = value[scheme.end() :]
    return value.lower() in _DESCRIBED or any(form.fullmatch(value) for form in (_VARIABLE, _PLACEHOLDER, _STANDARD))


def is_path(value: str) -> bool:
    """Whether a value is a path or an address; base64 may begin with a slash, too, and looks random."""
    return _ADDRESSED.match(value) is not None and not any(
        _RANDOM_PART.fullmatch(part) for part in re.split(r"[/\\]", value)
    )


def is_no_word(value: str) -> bool:
    """Whether a value is more than a word of one case, or with a capital."""
    return len(value) > _LONGEST_PLAIN or not (value.isalpha() and (value[1:].islower() or value.isupper()))


def looks_random(value: str) -> bool:
    """Whether a value is no word and no name of a program: it has digits, or is long and mixes its letters."""
    if is_path(value) or is_told_of(value):
        return False
    if _DIGIT.search(value):
        return len(value) >= LEAST_VALUE and not _NUMBER.fullmatch(value)
    mixed = value.lower() != value and value.upper() != value
    return len(value) >= _LEAST_RANDOM and mixed and not set("._-") & set(value)


def looks_like_password(value: str) -> bool:
    """Whether a value without quotes is what a person thought of: letters with digits or signs, or words in a row."""
    known = _STANDARD, _ATTRIBUTE
    if (
        len(value) < _LEAST_PASSWORD
        or is_path(value)
        or is_told_of(value)
        or any(one.fullmatch(value) for one in known)
    ):
        return False
    if _DIGIT.search(value):
        return any(character.isalpha() for character in value) or len(value) >= LEAST_VALUE
    if set("!@#$%^*+~") & set(value[:-1]):
        return sum(character.isalpha() for character in value) >= _LEAST_SHOWN
    parts = value.lower().split("-")
    return len(parts) > 2 and all(part.isalpha() for part in parts) and _JOINING.isdisjoint(parts)  # noqa: PLR2004
