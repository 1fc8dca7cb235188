"""The table and the frame of the claims of runs."""

from artifactflow_nb.analysis.frames.api import Frames, frame_method
from artifactflow_nb.store import frames
from artifactflow_nb.store.frames import ENUM, IDS, INT, TEXT, TIME, Column, Frame, reading_order, stored_columns
from artifactflow_nb.store.schema import Table

CHECKS = Table(
    "claims",
    """
    check_id TEXT NOT NULL, claim_id TEXT NOT NULL, tool_call_id TEXT,
    conversation_id TEXT NOT NULL, artifact_id TEXT NOT NULL, version INTEGER, n INTEGER NOT NULL,
    text TEXT NOT NULL, kind TEXT NOT NULL, n_figures INTEGER NOT NULL,
    status TEXT NOT NULL, method TEXT, reason TEXT, score INTEGER,
    address TEXT, source_title TEXT, quote TEXT, "start" INTEGER, "end" INTEGER, page INTEGER,
    checker TEXT NOT NULL, source_sha256 TEXT, checked_at INTEGER
    """,
    key="check_id",
)
"""The checks of claims: `check_id` is the id of the claim and a number.

The tool call gives the version, because a fork gives versions other numbers. `version` is the number of a version that
a person wrote, and `checked_at` is NULL for a check at the time of the version.
"""

STANDING = """
main.claims AS c JOIN main.artifact_versions AS v ON v.conversation_id = c.conversation_id
AND v.artifact_id = c.artifact_id AND (v.tool_call_id = c.tool_call_id OR v.version = c.version)
AND c.rowid = (SELECT d.rowid FROM main.claims AS d WHERE d.check_id BETWEEN c.claim_id || '/' AND c.claim_id || '0'
ORDER BY d.method IS 'person' DESC, d.rowid DESC LIMIT 1)
"""
"""The check of each claim that counts: a person's last verdict, else the last check."""

_QUOTE = "CASE WHEN c.start IS NOT NULL THEN coalesce(c.quote, c.text) END"
"""A quote that equals its claim is stored once."""

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
