"""The table and the frame of the claims of runs."""

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from artifactflow_nb.analysis.frames.api import Frames, frame_method
from artifactflow_nb.store import frames
from artifactflow_nb.store.frames import ENUM, IDS, INT, TEXT, TIME, Column, Frame, reading_order, stored_columns
from artifactflow_nb.store.schema import Table

_TEXT = Path(__file__).with_name("claims.sql").read_text(encoding="utf-8")
_SQL = dict(re.findall(r"-- (\w+)\n(.+?);", _TEXT, re.DOTALL))

CHECKS = Table("claims", _SQL["columns"], key="check_id")

STANDING = _SQL["standing"]
_QUOTE = "CASE WHEN c.start IS NOT NULL THEN coalesce(c.quote, c.text) END"
OF_VERSION = "v.conversation_id = ? AND v.artifact_id = ? AND v.version = ?"


def load_checks(db: sqlite3.Connection, where: str, values: Sequence[str | int]) -> list[sqlite3.Row]:
    """Load the checks that count, with the number of the version and the passage."""
    columns = f"v.version, {_QUOTE} AS passage, c.*"
    sql = f"SELECT {columns} FROM {STANDING} WHERE {where} ORDER BY v.rowid, c.n"  # noqa: S608 - only constants
    return db.execute(sql, values).fetchall()


_CHECKED_AT = "coalesce(c.checked_at, v.created_at)"

CLAIMS_FRAME = Frame(
    "claims",
    reading_order(
        "text status method reason quote address",
        *stored_columns(IDS, TEXT, "c", claim_id="Id of the claim.", run_id="Run whose sources were read."),
        *stored_columns(IDS, TEXT, "c", conversation_id="Conversation of the artifact.", artifact_id="Id in it."),
        *stored_columns(IDS, INT, "v", version="Version of the artifact."),
        *stored_columns("what", INT, "c", n="Number of the claim in the version, from 0."),
        *stored_columns("what", TEXT, "c", text="The claim; a cell of a table with its labels."),
        *stored_columns("what", ENUM, "c", kind="fact, quote, figure or computed."),
        *stored_columns("what", INT, "c", n_figures="Figures of the claim."),
        *stored_columns(
            "check",
            ENUM,
            "c",
            status="supported, contradicted, unsupported, uncheckable or unchecked.",
            method="The rule: quotes, figures, names, order, words; computed, model or person; NA if none decided.",
        ),
        *stored_columns("check", TEXT, "c", reason="The reason, or the note of a person."),
        *stored_columns("check", INT, "c", score="Share of the claim's content in the passage, in per cent."),
        *stored_columns("source", TEXT, "c", address="Address of the source.", source_title="Title of the source."),
        Column("quote", "source", TEXT, _QUOTE, "The passage."),
        *stored_columns(
            "source", INT, "c", start="Begin of the passage in the source.", end="End.", page="Page or NA."
        ),
        *stored_columns("check", TEXT, "c", checker="Who checked: rules, or the name of a person."),
        *stored_columns("source", TEXT, "c", source_sha256="Hash of the text of the source."),
        Column("checked_at", "check", TIME, _CHECKED_AT, "When it was checked."),
    ),
    STANDING,
    "v.rowid, c.n",
    {**frames.run_filters("c", "checked_at"), **frames.time_filters(_CHECKED_AT)},
)


claims_df = frame_method(
    Frames.llm_calls_df,
    CLAIMS_FRAME,
    "Return one row per claim of a version of an artifact, with the check that counts; times apply to `checked_at`.",
)
