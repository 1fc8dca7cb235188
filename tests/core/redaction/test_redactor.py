"""Redaction: secrets in any spelling are replaced, and texts about keys and tokens are unchanged."""

import base64
import html
import json
import time
from pathlib import Path
from pydoc_data.topics import topics
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cpu_time import no_collection
from support.secret_corpus import BODY, KNOWN, OTHERS, PLAIN, SECRETS, VARIABLES

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.redaction.names import MASK, is_secret_variable
from artifactflow_nb.core.redaction.redactor import Redactor, is_same_text
from artifactflow_nb.engine.factories import known_values

ROOT = Path(af.__file__).parents[1]
OPAQUE = "opaque-value"
"""A secret that only those recognize who know it."""


def spellings(secret: str) -> list[str]:
    in_json = json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]
    in_addresses = quote(secret, safe=""), quote_plus(secret)
    return [secret, *in_json, *in_addresses, html.escape(secret), base64.b64encode(secret.encode()).decode()]


# --- what is redacted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret[:12])
def test_secret_is_replaced_and_the_text_around_it_is_unchanged(secret: str) -> None:
    text = SECRETS[secret].format(secret)
    before, _, after = text.partition(secret)
    assert Redactor().text(text) == f"{before}{MASK}{after}"


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret[:12])
def test_secret_is_redacted_alike_in_plain_text_json_and_xml(secret: str) -> None:
    """The text of a reply and the parameters that are parsed from it are redacted alike."""
    text = SECRETS[secret].format(secret)
    written = json.dumps({"note": text})
    assert json.loads(Redactor().text(written)) == {"note": Redactor().text(text)}
    xml = "<tool_call><name>t</name><params><note><![CDATA[{}]]></note></params></tool_call>"
    assert Redactor().text(xml.format(text)) == xml.format(Redactor().text(text))


@pytest.mark.parametrize("secret", KNOWN)
def test_known_secret_is_redacted_in_all_its_spellings(secret: str) -> None:
    text = " ".join([f"It is {secret}!", *spellings(secret), json.dumps({"a": json.dumps(secret)})])
    redacted = Redactor([secret]).text(text)
    assert [spelling for spelling in spellings(secret) if spelling in redacted] == []


def test_keys_of_settings_and_secret_variables_are_known() -> None:
    configured = af.Settings.load(base_url="http://h/v1", model="m", api_key="abc-123", tavily_key="def-456")
    redactor = Redactor(known_values(configured, VARIABLES | OTHERS, ()))
    text = f"abc-123 def-456 {' '.join(VARIABLES.values())}"
    assert redactor.text(text) == " ".join([MASK] * (len(VARIABLES) + 2))
    assert "abc-123" not in repr(redactor)


@pytest.mark.parametrize("name", VARIABLES)
def test_variable_with_a_secret_name_and_value_is_secret(name: str) -> None:
    assert is_secret_variable(name, VARIABLES[name])


@pytest.mark.parametrize("value", ["hunter2", "a text", "OPENAI_API_KEY", "sk-proj-aB3dE5gH7jK9mN1pQ3sT5", "", "abc"])
def test_parameter_with_a_secret_name_is_redacted_as_in_the_reply(value: str) -> None:
    """The text of a call and its parsed parameters are redacted alike."""
    xml = "<tool_call><name>t</name><params><api_key><![CDATA[{}]]></api_key></params></tool_call>"
    redacted = Redactor().redact_value({"api_key": value})["api_key"]
    assert Redactor().text(xml.format(value)) == xml.format(redacted)


def test_values_are_redacted_in_names_texts_lists_and_after_secret_names() -> None:
    value = {f"of {OPAQUE}": [OPAQUE, {"password": "short", "n": 1}], "tokens": 5, "deep": ({"api_key": "x-y-z-1"},)}
    assert Redactor([OPAQUE]).redact_value(value) == {
        f"of {MASK}": [MASK, {"password": MASK, "n": 1}],
        "tokens": 5,
        "deep": [{"api_key": MASK}],
    }


# --- what stays ------------------------------------------------------------------------------------------------------

PROSE = [
    *[ROOT / "README.md", ROOT / "CHANGELOG.md"],
    *sorted((ROOT / "artifactflow_nb").rglob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
    *sorted((ROOT / "data").rglob("*.md")),
]

REDACTOR = Redactor(["sk-of-nobody-0123456789", "a-password-of-nobody"])


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_prose_about_keys_and_tokens_is_unchanged(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert REDACTOR.text(text) == text


def test_language_reference_of_python_is_unchanged() -> None:
    """Half a megabyte of text about a language with keys, tokens and addresses is not redacted."""
    assert [name for name, text in topics.items() if REDACTOR.text(text) != text] == []


@pytest.mark.parametrize("text", PLAIN, ids=lambda text: text[:20])
def test_text_that_resembles_a_secret_is_unchanged(text: str) -> None:
    """Names of variables and parameters, placeholders, hashes and images are not redacted, also in JSON."""
    assert REDACTOR.text(text) == text
    assert REDACTOR.text(json.dumps({"note": text})) == json.dumps({"note": text})


@pytest.mark.parametrize("name", OTHERS)
def test_variable_with_a_harmless_name_or_value_is_not_secret(name: str) -> None:
    """Counts, paths, words and descriptions of a secret are not redacted."""
    assert not is_secret_variable(name, OTHERS[name])


@pytest.mark.parametrize("secret", ["", " ", "k", "EMPTY", "none", "[secret]", "secret"])
def test_placeholder_is_no_known_secret(secret: str) -> None:
    """A placeholder for an optional key is not redacted, as it may be an ordinary word."""
    text = "An EMPTY key k is none, and [secret] stands for a secret."
    assert Redactor([secret]).text(text) == text


# --- comparing with a recording --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recorded", "now", "is_same"),
    [
        ("It is [secret].", "It is opaque.value.", True),
        ("It is [secret].", "It is [secret].", True),
        ("[secret]", "opaque-value", True),
        ("[secret]/[secret]?a=[secret]&b", "opaque1/opaque2?a=opaque3&b", True),
        ("[secret][secret] end", "opaque1opaque2 end", True),
        ("of [secret] and apples", "of opaque1 pears and apples", False),
        ("?key=[secret]&x=1", "?key=opaque1&y=2&x=1", False),
        ('{"a":"[secret]","b":1}', '{"a":"opaque1","c":2,"b":1}', False),
        ("It is [secret].", "It is you.", False),
        ("It is [secret].", "It is opaque1.!", False),
        ("It is [secret].", "is opaque1.", False),
        ("It is here.", "It is opaque1.", False),
        ("[secret] and [secret]", "opaque1 and", False),
    ],
)
def test_mask_matches_one_secret_and_no_change_around_it(recorded: str, now: str, is_same: bool) -> None:
    assert is_same_text(recorded, now) is is_same


@pytest.mark.parametrize("redactor", [Redactor([OPAQUE]), Redactor()], ids=["known here", "unknown here"])
def test_value_that_differs_only_in_secrets_gets_the_recorded_text(redactor: Redactor) -> None:
    """The result does not depend on who knew the secret at the recording or knows it now."""
    recorded = {"note": "of [secret].", "deep": [{"x": "[secret]"}]}
    now = {"note": f"of {OPAQUE}.", "deep": [{"x": OPAQUE}]}
    assert redactor.with_recorded_texts(recorded, now) == recorded
    assert redactor.with_recorded_texts(recorded, {**now, "deep": []}) == {"note": "of [secret].", "deep": []}
    assert (
        redactor.with_recorded_texts(recorded, {**now, "note": "of apples and pears."})["note"]
        == "of apples and pears."
    )
    before, after = Decision(True, "Use [secret].", params=recorded), Decision(True, f"Use {OPAQUE}.", params=now)
    assert redactor.with_recorded_texts(before, after) == before
    assert redactor.with_recorded_texts(before, Decision(False, f"Use {OPAQUE}.")) == Decision(False, "Use [secret].")


def test_recorded_value_with_a_secret_that_is_known_now_matches() -> None:
    """The cassette was recorded where the secret was not known."""
    recorded, now = {"note": f"of {OPAQUE}."}, {"note": "of [secret]."}
    assert Redactor([OPAQUE]).with_recorded_texts(recorded, now) == recorded


def test_recorded_text_has_no_secrets_in_names_and_after_secret_names() -> None:
    recorded = {"[secret]": "one [secret]", "password": "[secret]"}
    now = {OPAQUE: f"one {OPAQUE}", "password": "hunter2"}
    assert Redactor([OPAQUE]).with_recorded_texts(recorded, now) == recorded


# --- properties ------------------------------------------------------------------------------------------------------

parts = st.sampled_from(
    [
        *SECRETS,
        *KNOWN,
        *(form.format(secret) for secret, form in SECRETS.items()),
        *("[secret]", "[sec", "ret]", "://", "@", ":", "=", "?token=", "&", "Bearer ", "Authorization: ", '"', "'"),
        *("\\", "api_key", "password", "<api_key>", "<![CDATA[", "]]>", "</api_key>", "sk-", "eyJ", " "),
        "-----BEGIN PRIVATE KEY-----",
    ]
) | st.text(max_size=5)


@given(st.lists(parts, max_size=12).map("".join))
@settings(max_examples=400, deadline=None)
def test_redaction_is_idempotent(text: str) -> None:
    """No secret remains, however secrets and parts of them are joined."""
    redactor = Redactor(KNOWN)
    once = redactor.text(text)
    assert redactor.text(once) == once
    assert not [secret for secret in KNOWN if secret in once]


PARTS = (
    *("a", "a=a=a=", "eyJ", "sk-", "://", "://a:", "?key=", "Bearer ", "authorization:", "cookie: a=", "AKIA", BODY),
    *("-----BEGIN PRIVATE KEY-----\n", "api_key='", "<api_key>", "<api_key><![CDATA[", "password", "password=", "A"),
    *("\\n" + "A" * 40, "a-", "x_", "[secret]", "password: a-", "password=aaaa host=a ", 'token=\\"', "\\nkey="),
)


@pytest.mark.timed
@pytest.mark.parametrize("part", PARTS)
def test_time_is_linear_in_the_length_of_the_text(part: str) -> None:
    """320 KB of repeated beginnings of secrets take less than ten times as long as their first 80 KB."""
    for end in ("", "!", "\n-----END"):
        text = f"-----BEGIN PRIVATE KEY-----{part * (320_000 // len(part))}{end}"
        with no_collection():
            assert _seconds(text) < 10 * _seconds(text[:80_000]) + 0.03


@pytest.mark.timed
@pytest.mark.parametrize("part", ["a", "a=a=a=", "=", "0:", "[secret]"])
def test_two_megabytes_take_little_longer_than_a_copy(part: str) -> None:
    """The text has no line breaks and no start of a secret; it is compared with a copy by character."""
    text = (part * 2_000_000)[:2_000_000]
    with no_collection():
        started = time.process_time()
        assert "".join(letter for letter in text) == text
        assert _seconds(text) < 10 * (time.process_time() - started)


def _seconds(text: str) -> float:
    started = time.process_time()
    Redactor(["sk-of-nobody-0123456789"]).text(text)
    return time.process_time() - started
