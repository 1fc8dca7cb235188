"""The rows of a run without secrets: every text goes through a mask, and what follows from a text is made anew.

What follows from texts: their hashes, by which prompts name them, and the pieces in which a reply arrived.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson

from artifactflow_nb.recordings.pieces import Piece, pack, unpack
from artifactflow_nb.recordings.rows import Row, Rows
from artifactflow_nb.recordings.secret_names import MASK, is_secret
from artifactflow_nb.store.schema import from_us
from artifactflow_nb.store.storable import to_json

Mask = Callable[[str], str]
"""Gives a text without the secrets in it; the same text for the same text."""

_STRING = r'"(?:[^"\\]|\\.)*+"'
_TOLD = re.compile(rf"(?:(?P<name>{_STRING})(?P<colon>\s*:\s*)(?=[\"]))?(?P<value>{_STRING})")
"""A string, with its name where it is a value that has one."""

_DERIVED = {"sha256", "request_hash", "pieces_json"}
"""Columns that follow from others."""


def mask_rows(rows: Rows, mask: Mask) -> Rows:
    """The same rows, masked; rows in which nothing is masked are equal to what they were."""
    texts = {row["sha256"]: mask(row["content"]) for row in rows["texts"]}
    versions = {row["sha256"]: mask(row["content"]) for row in rows["artifact_versions"]}  # named by those of blocks
    renamed = {key: sha256(text) for key, text in (versions | texts).items()}
    tables = {name: tuple(_masked(row, mask, renamed) for row in found) for name, found in rows.tables.items()}
    kept = {renamed[key]: text for key, text in texts.items()}
    tables["texts"] = tuple({"sha256": key, "content": kept[key]} for key in sorted(kept))
    return replace(rows, run_id=mask(rows.run_id), tables=tables)


def mask_json(text: str, mask: Mask, renamed: Mapping[str, str] | None = None) -> str:
    """JSON in which each string is masked, or renamed if it is one of these; what is not masked keeps its form.

    A string beside a name that says so is secret as a whole, as it is in a cassette.
    """
    known = renamed or {}

    def masked(string: str, name: str = "") -> str:
        said = orjson.loads(string)
        kept = MASK if name and is_secret(orjson.loads(name), said) else known[said] if said in known else mask(said)
        return string if kept == said else orjson.dumps(kept).decode()

    def again(found: re.Match[str]) -> str:
        name = found["name"] or ""
        return (masked(name) + found["colon"] if name else "") + masked(found["value"], name)

    return _TOLD.sub(again, text)


def sha256(text: str) -> str:
    """The hash by which texts are named."""
    return hashlib.sha256(text.encode()).hexdigest()


def _masked(row: Row, mask: Mask, renamed: Mapping[str, str]) -> Row:
    masked = {name: _value(name, value, mask, renamed) for name, value in row.items()}
    if "content" in row and "sha256" in row:
        masked["sha256"] = sha256(masked["content"])
    if "request_json" in row and masked["request_json"] != row["request_json"]:
        asked = masked["request_model"], masked["temperature"], masked["request_json"]
        masked["request_hash"] = sha256("|".join(map(str, asked)))
    if row.get("pieces_json") is not None:
        masked["pieces_json"] = _pieces(row, masked, mask)
    return masked


def _value(name: str, value: Any, mask: Mask, renamed: Mapping[str, str]) -> Any:
    if not isinstance(value, str) or name in _DERIVED:
        return value
    return mask_json(value, mask, renamed) if name.endswith("_json") else mask(value)


def _pieces(row: Row, masked: Row, mask: Mask) -> str | None:
    """How the masked text arrived: in as many pieces at the same times, cut where the text itself was cut."""
    packed: str = row["pieces_json"]
    started_at = from_us(row["started_at"])
    if _texts(row) == _texts(masked) and mask_json(packed, mask) == packed:
        return packed
    try:
        pieces = unpack(orjson.loads(packed), started_at, _texts(row))
    except (ValueError, LookupError, TypeError):  # how it arrived is not known
        return None
    return _packed(pieces, started_at, _texts(masked), mask)


def _texts(row: Row) -> dict[str, str]:
    return {"answer": row["content"], "reasoning": row["reasoning"]}


def _packed(pieces: list[Piece], started_at: datetime, texts: Mapping[str, str], mask: Mask) -> str:
    last = {piece.kind: place for place, piece in enumerate(pieces)}
    kept = {kind: mask("".join(piece.text for piece in pieces if piece.kind == kind)) for kind in last}
    done = dict.fromkeys(kept, 0)
    cut = []
    for place, piece in enumerate(pieces):
        start = done[piece.kind]
        end = len(kept[piece.kind]) if place == last[piece.kind] else start + len(piece.text)
        done[piece.kind] = end
        cut.append(piece._replace(tool=mask(piece.tool), text=kept[piece.kind][start:end]))
    return to_json(pack(cut, started_at, texts))
