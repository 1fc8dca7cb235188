"""No secret reaches a cassette, in any form and any column; everything else is unchanged."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recording.conftest import SampleStore
from recording.test_rows import rows_of
from support.sample_recordings import head_of, recording, with_row
from support.sealed_store import SECRET
from support.secret_corpus import KNOWN, SECRETS

from artifactflow_nb.core.pieces import Piece, pack, unpack
from artifactflow_nb.core.redaction.names import MASK
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.recording.cassette import one_recording
from artifactflow_nb.recording.rows import RunRows, redacted, redacted_json
from artifactflow_nb.recording.schema import check_rows
from artifactflow_nb.store.prompts import resolve
from artifactflow_nb.store.schema import from_microseconds

FREE_TEXTS = {
    "conversations": ("title",),
    "messages": ("content", "response"),
    "runs": ("question", "error_message"),
    "llm_calls": ("content", "reasoning", "error_message", "finish_reason", "response_model"),
    "tool_calls": ("result", "error_message", "tool_name", "error_type"),
    "artifact_versions": ("title", "content", "reason", "created_by"),
}
"""Columns in which a model, a tool or a person may write anything."""

JSON_COLUMNS = {
    "runs": ("settings_json", "manifest_json"),
    "tool_calls": ("args_json", "metadata_json"),
    "events": ("data_json",),
}


def planted(secret: str, text: str) -> RunRows:
    """A recording with a text in every column, and a parameter with a secret name."""
    _, rows = recording()
    for table, columns in FREE_TEXTS.items():
        rows = with_row(rows, table, **dict.fromkeys(columns, text))
    values = {"url": text, "more": [{text: text}], "password": secret, "headers": {"note": text}}
    for table, names in JSON_COLUMNS.items():
        for name in names:
            before = orjson.loads(rows[table][-1][name])
            rows = with_row(rows, table, **{name: orjson.dumps({**before, **values}).decode()})
    prompt = json.dumps({"role": "user", "content": text})
    sha256 = hashlib.sha256(prompt.encode()).hexdigest()
    version = rows["artifact_versions"][-1]
    rows = with_row(rows, "artifact_versions", sha256=hashlib.sha256(version["content"].encode()).hexdigest())
    rows = with_row(rows, "llm_calls", request_json=json.dumps([["user", sha256, [["t", values]]]]), pieces_json=None)
    return RunRows(rows.run_id, {**rows.tables, "texts": (*rows["texts"], {"sha256": sha256, "content": prompt})})


def spellings(secret: str) -> list[bytes]:
    forms = [secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret, safe="")]
    return [form.encode() for form in forms] + [base64.b64encode(secret.encode())]


def written(rows: RunRows, redactor: Redactor) -> bytes:
    """The bytes of a usable cassette of the redacted rows."""
    found = check_rows(redacted(rows, redactor))
    return one_recording(head_of(found), found)


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret[:12])
def test_secret_of_any_form_is_in_no_place_of_a_cassette(secret: str) -> None:
    rows = planted(secret, SECRETS[secret].format(secret))
    content = written(rows, Redactor())
    assert [form for form in spellings(secret) if form in content] == []
    assert content.count(MASK.encode()) > 10


@pytest.mark.parametrize("secret", KNOWN)
def test_known_secret_is_in_no_place_of_a_cassette(secret: str) -> None:
    spelled = [form.decode() for form in spellings(secret)]
    text = " ".join([f"It is {secret}!", *spelled, json.dumps({"a": json.dumps(secret)})])
    content = written(planted(secret, text), Redactor([secret]))
    assert [form for form in spellings(secret) if form in content] == []


def test_redaction_changes_only_secrets_in_rows_of_a_real_run(samples: SampleStore) -> None:
    before, after = rows_of(samples), redacted(rows_of(samples), Redactor([SECRET]))
    forms = json.dumps(SECRET)[1:-1], json.dumps(SECRET, ensure_ascii=False)[1:-1], SECRET
    assert any(form in str(before.tables) for form in forms)
    assert not any(form in str(after.tables) for form in forms)
    assert MASK in after.message["response"]
    assert before["messages"][0]["content"] == after["messages"][0]["content"]
    assert all(MASK in row["content"] for row in after["artifact_versions"])
    assert check_rows(after) == after


def test_redaction_without_secrets_changes_no_byte(samples: SampleStore) -> None:
    """Redacting twice equals redacting once."""
    once = redacted(rows_of(samples), Redactor([SECRET]))
    assert redacted(once, Redactor([SECRET])) == once
    assert redacted(once, Redactor()) == once


@given(st.lists(st.sampled_from([*SECRETS, *KNOWN, *"\"\\'", MASK, "://", "=", " "]) | st.text(max_size=5), max_size=8))
@settings(max_examples=40, deadline=None)
def test_redacting_rows_again_changes_nothing(parts: list[str]) -> None:
    """Redaction is stable for any concatenation of secrets and parts of secrets."""
    text = "".join(parts).encode("utf-8", "replace").decode()
    once = redacted(planted("hunter2", text), Redactor(KNOWN))
    assert redacted(once, Redactor(KNOWN)) == once
    assert not [secret for secret in KNOWN if secret.encode() in one_recording(head_of(once), once)]


def test_hashes_are_made_of_redacted_texts(samples: SampleStore) -> None:
    """A hash of the original text would allow guessing secrets. Equal prompts stay equal."""
    before, after = rows_of(samples), redacted(rows_of(samples), Redactor([SECRET]))
    secret = {row["sha256"] for row in before["texts"] if json.dumps(SECRET)[1:-1] in row["content"]}
    secret |= {row["sha256"] for row in before["texts"] if SECRET in row["content"]}
    assert secret
    assert not any(key in str(after.tables) for key in secret)
    questions = [
        [(prompt, row["request_hash"]) for prompt, row in zip(resolve(calls, list).values(), calls, strict=True)]
        for calls in (before["llm_calls"], after["llm_calls"])
    ]
    pairs = list(zip(*questions, strict=True))
    assert all((old[0] == new[0]) == (old[1] == new[1]) for old, new in pairs)
    assert any(old[1] != new[1] for old, new in pairs)


# --- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ['{"a":"x"}', '{"a\\"b":["opaque-key",1.50,null],"opaque-key":"k\\u00e9y opaque-key"}', '"opaque-key"', "[]"],
)
def test_redaction_keeps_the_form_of_json(text: str) -> None:
    """Names and values are redacted in decoded form."""
    found = redacted_json(text, Redactor(["opaque-key"]))
    assert orjson.loads(found) == orjson.loads(text.replace("opaque-key", MASK))
    assert redacted_json(text, Redactor()) == text


def test_secret_that_json_spells_with_escapes_is_redacted() -> None:
    text = '{"note":"of \\u006fpaque-k\\u0065y"}'
    assert redacted_json(text, Redactor(["opaque-key"])) == f'{{"note":"of {MASK}"}}'


def test_value_of_a_secret_name_is_redacted_in_json() -> None:
    """Values of other names and items of lists are not redacted."""
    text = '{"password": "of-a-param", "n":{"api_key":"x-y-z-1","key" : 5}, "list":["password","abcd"], "other":"x-y"}'
    assert redacted_json(text, Redactor()) == text.replace("of-a-param", MASK).replace("x-y-z-1", MASK)


# --- streamed text ---------------------------------------------------------------------------------------------------

AT = datetime(2026, 1, 1, tzinfo=UTC)


def streamed(pieces: list[Piece], content: str) -> RunRows:
    """A recording whose last reply arrived in these pieces."""
    _, rows = recording()
    us = (AT - datetime(1970, 1, 1, tzinfo=UTC)).days * 86_400_000_000
    packed = orjson.dumps(pack(pieces, AT, {"answer": content, "reasoning": ""})).decode()
    return with_row(rows, "llm_calls", content=content, reasoning="", pieces_json=packed, started_at=us)


def arrived(rows: RunRows) -> list[Piece]:
    call = rows["llm_calls"][-1]
    texts: dict[str, Any] = {"answer": call["content"], "reasoning": call["reasoning"]}
    return unpack(orjson.loads(call["pieces_json"]), from_microseconds(call["started_at"]), texts)


@pytest.mark.parametrize("secret", ["one two", "ne two t", "two three", "one two three"])
def test_redacted_reply_keeps_number_and_times_of_its_pieces(secret: str) -> None:
    """The secret may be cut anywhere, also in the text of a call, which the reply does not contain."""
    pieces = [Piece("answer", "", text, AT, n) for n, text in enumerate(["one ", "two ", "", "three"])]
    pieces.append(Piece("call", "send", f"{{{secret}}}", AT, 9))
    rows = redacted(streamed(pieces, "one two three"), Redactor([secret]))
    found = arrived(rows)
    answer = "".join(piece.text for piece in found if piece.kind == "answer")
    assert answer == rows["llm_calls"][-1]["content"] == "one two three".replace(secret, MASK)
    assert [(piece.kind, piece.at, piece.seq) for piece in found] == [
        (entry.kind, entry.at, entry.seq) for entry in pieces
    ]
    assert found[-1].text == f"{{{MASK}}}"


@pytest.mark.parametrize("size", [1, 3, 50])
def test_secret_that_arrived_in_pieces_is_not_in_the_file(size: int) -> None:
    secret = next(iter(SECRETS))
    content = f"Use {secret} now, and `{secret}` then."
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    pieces = [Piece("answer", "", part, AT, seq) for seq, part in enumerate(parts)]
    pieces.append(Piece("call", "t", f'{{"api_key": "{secret}"}}', AT, 99))
    rows = streamed(pieces, content)
    found = arrived(redacted(rows, Redactor()))
    assert "".join(piece.text for piece in found if piece.kind == "answer") == f"Use {MASK} now, and `{MASK}` then."
    assert found[-1].text == f'{{"api_key": "{MASK}"}}'
    assert secret.encode() not in written(rows, Redactor())


def test_pieces_that_do_not_fit_their_text_are_dropped() -> None:
    """Such pieces could contain any part of a secret."""
    secret = next(iter(SECRETS))
    rows = streamed([Piece("answer", "", secret, AT, 1)], secret)
    rows = with_row(rows, "llm_calls", content=f"Now {secret}.")
    assert redacted(rows, Redactor())["llm_calls"][-1]["pieces_json"] is None
