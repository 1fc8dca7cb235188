"""Masking of known secrets in texts, values and streamed pieces."""

import base64
from collections.abc import Callable
from itertools import pairwise
from types import MappingProxyType
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifactflow_nb.core.redaction.names import MASK
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.flows.known_secrets import KnownSecrets, MaskedPieces, SecretLookup

SECRETS = ["sk-aabab-1234", "aabab-1234-more", 'has"quote+and/', "ab1c"]
KNOWN = KnownSecrets(SECRETS)


def arrived(pieces: list[str], secrets: KnownSecrets = KNOWN, *, is_cut_off: bool = False) -> str:
    masked = MaskedPieces(secrets)
    pieces_out = [masked.feed("answer", piece) for piece in pieces]
    return "".join([*pieces_out, *(text for _, text in masked.finish(is_cut_off=is_cut_off))])


CREDENTIALS = [base64.b64encode(f"{user}:{SECRETS[0]}".encode()).decode() for user in ("a", "ab", "abc")]
words = st.sampled_from(
    [*SECRETS, *CREDENTIALS, *(secret[:n] for secret in SECRETS for n in (1, 3, 6)), "ab", "x", " ", "\n", MASK]
)
texts = st.lists(words, max_size=8).map("".join)


@given(texts, st.lists(st.integers(0, 80), max_size=12))
def test_pieces_equal_the_masked_text_at_any_cut(text: str, cuts: list[int]) -> None:
    """Pieces equal the masked text for secrets that overlap, follow each other or are within a word."""
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    assert arrived([text[start:end] for start, end in pairwise(places)]) == KNOWN.text(text)


@given(texts, st.integers(1, 12))
def test_no_sequence_of_pieces_contains_a_secret(text: str, length: int) -> None:
    """A reply that breaks off contains at most three characters of a secret."""
    pieces = [text[at : at + length] for at in range(0, len(text), length)]
    pieces_out = arrived(pieces)
    assert not [secret for secret in SECRETS[:3] if secret in pieces_out]
    for n in range(len(pieces)):
        start = arrived(pieces[:n], is_cut_off=True)
        assert start == KNOWN.cut_off("".join(pieces[:n]))


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('"has\\"quote+and/"', f'"{MASK}"'),
        ("?key=has%22quote%2Band%2F&x", f"?key={MASK}&x"),
        ("has&quot;quote+and/", MASK),
        ("Basic aGFzInF1b3RlK2FuZC8=", f"Basic {MASK}"),
        ("(ab1c)", f"({MASK})"),
        ("xab1c ab1cd ab1c_", f"xab1c ab1cd {MASK}_"),
        ("none", "none"),
    ],
)
def test_encoded_spellings_are_masked(text: str, masked: str) -> None:
    """Spellings in JSON, URLs, HTML and base64 are masked; short secrets are masked as whole words only."""
    assert KNOWN.text(text) == masked


@pytest.mark.parametrize("user", ["", "a", "ab", "abc", "ümläut", "me@example.org"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_basic_credentials_are_masked_for_any_user(user: str, encode: Callable[[bytes], bytes]) -> None:
    """Base64 of user and password in both alphabets, with padding and without, shows nothing of the password."""
    secrets = KnownSecrets(["s3cr3t-pw?~ÿ", "hunter22", "abc12x"])
    for password in secrets.values:
        written = encode(f"{user}:{password}".encode()).decode()
        for credentials in (written, written.rstrip("="), quote(written, safe="")):
            text = f"401 for Authorization: Basic {credentials}, try again"
            for masked in (secrets.text(text), arrived(list(text), secrets), Redactor(secrets.values).text(text)):
                assert MASK in masked
                assert written.rstrip("=")[-4:] not in masked


def test_value_without_a_secret_is_not_copied() -> None:
    """A value without a secret is returned as the same object."""
    text, value = "plain " * 9, {"a": ["b", {"c": 1}], "d": ("e", None)}
    assert KNOWN.text(text) is text
    assert KNOWN.value(value) is value
    assert KNOWN.value(MappingProxyType({"sk-aabab-1234": ["sk-aabab-1234"]})) == {MASK: [MASK]}


def test_unsuspicious_piece_is_passed_on_at_once() -> None:
    """A piece that does not end with the beginning of a secret is not delayed."""
    pieces = MaskedPieces(KNOWN)
    assert pieces.feed("answer", "Hello.") == "Hello."
    assert pieces.finish() == []


def test_changed_secrets_are_used_and_not_displayed() -> None:
    """Patterns are compiled again when the values change, and no repr contains a value."""
    values = {"opaque-value-1"}
    lookup = SecretLookup(lambda: frozenset(values))
    before = lookup.current
    assert lookup.refresh() is before
    values.add("opaque-value-2")
    assert lookup.mask("opaque-value-2") == "opaque-value-2"
    assert lookup.refresh().text("opaque-value-2") == MASK
    assert "opaque" not in repr(lookup.current)
