"""Redaction of rows: secrets leave a recording before it is written to a file."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from artifactflow_nb.core.pieces import Piece, pack, unpack
from artifactflow_nb.core.redaction.names import MASK, is_secret
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.recording.rows import Row, RunRows
from artifactflow_nb.store.encoding import sha256, to_json
from artifactflow_nb.store.migrations import from_microseconds
from artifactflow_nb.store.prompts import request_hash

_STRING = r'"(?:[^"\\]|\\.)*+"'
_NAMED_STRING = re.compile(rf"(?:(?P<name>{_STRING})(?P<colon>\s*:\s*)(?=[\"]))?(?P<value>{_STRING})")
"""A JSON string, with its name where it is the value of one."""

_DERIVED = {"sha256", "request_hash", "pieces_json"}
"""Columns that are computed from others."""


def redacted(rows: RunRows, redactor: Redactor) -> RunRows:
    """The rows without secrets, with new hashes and pieces of the changed texts."""
    texts = {row["sha256"]: redactor.text(row["content"]) for row in rows["texts"]}
    versions = {row["sha256"]: redactor.text(row["content"]) for row in rows["artifact_versions"]}  # blocks name them
    renamed = {key: sha256(text) for key, text in (versions | texts).items()}
    tables: dict[str, tuple[Row, ...]] = {}
    for table, found in rows.tables.items():
        redacted_rows = []
        for row in found:
            masked_row = {name: _column(name, value, redactor, renamed) for name, value in row.items()}
            if "content" in row and "sha256" in row:
                masked_row["sha256"] = sha256(masked_row["content"])
            if row.get("pieces_json") is not None:
                masked_row["pieces_json"] = _pieces(row, masked_row, redactor)
            redacted_rows.append(masked_row)
        tables[table] = tuple(redacted_rows)
    stored = {renamed[key]: text for key, text in texts.items()}
    tables["texts"] = tuple({"sha256": key, "content": stored[key]} for key in sorted(stored))
    masked = RunRows(redactor.text(rows.run_id), rows.schema, tables)
    calls = list(zip(rows["llm_calls"], tables["llm_calls"], strict=True))
    if any(now["request_json"] != row["request_json"] for row, now in calls):
        hashed = []
        for row, now in calls:
            prompt = masked.prompts[now["call_id"]]
            is_same = prompt == rows.prompts[row["call_id"]]
            new = request_hash(now["request_model"], now["temperature"], map(to_json, prompt))
            hashed.append(now if is_same else {**now, "request_hash": new})
        tables["llm_calls"] = tuple(hashed)
    return masked


def redacted_json(text: str, redactor: Redactor, renamed: Mapping[str, str] | None = None) -> str:
    """Redact each string of a JSON text, or replace it by its new name; the other characters stay as they are."""
    known = renamed or {}

    def masked(string: str, name: str = "") -> str:
        value = orjson.loads(string)
        if name and is_secret(orjson.loads(name), value):
            now = MASK
        else:
            now = known[value] if value in known else redactor.text(value)
        return string if now == value else orjson.dumps(now).decode()

    def again(found: re.Match[str]) -> str:
        name = found["name"] or ""
        return (masked(name) + found["colon"] if name else "") + masked(found["value"], name)

    return _NAMED_STRING.sub(again, text)


def _column(name: str, value: Any, redactor: Redactor, renamed: Mapping[str, str]) -> Any:
    if not isinstance(value, str) or name in _DERIVED:
        return value
    return redacted_json(value, redactor, renamed) if name.endswith("_json") else redactor.text(value)


def _pieces(row: Row, masked: Row, redactor: Redactor) -> str | None:
    """The pieces of the redacted text: as many at the same times, divided at the same positions."""
    packed: str = row["pieces_json"]
    texts, now = ({"answer": version["content"], "reasoning": version["reasoning"]} for version in (row, masked))
    if texts == now and redacted_json(packed, redactor) == packed:
        return packed
    try:
        pieces = unpack(orjson.loads(packed), from_microseconds(row["started_at"]), texts)
    except (ValueError, LookupError, TypeError):  # damaged pieces
        return None
    return to_json(pack(_cut(pieces, redactor), from_microseconds(row["started_at"]), now))


def _cut(pieces: list[Piece], redactor: Redactor) -> list[Piece]:
    last = {piece.kind: place for place, piece in enumerate(pieces)}
    texts = {kind: redactor.text("".join(piece.text for piece in pieces if piece.kind == kind)) for kind in last}
    done = dict.fromkeys(texts, 0)
    cut = []
    for place, piece in enumerate(pieces):
        start = done[piece.kind]
        end = len(texts[piece.kind]) if place == last[piece.kind] else start + len(piece.text)
        done[piece.kind] = end
        cut.append(piece._replace(tool=redactor.text(piece.tool), text=texts[piece.kind][start:end]))
    return cut
