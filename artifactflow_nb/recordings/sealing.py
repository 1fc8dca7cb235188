"""What a sealed file holds, taken from the store of its run."""

import sqlite3
from datetime import datetime

import orjson

from artifactflow_nb.recordings.row_checks import check_rows
from artifactflow_nb.recordings.row_masks import Mask, mask_json, mask_rows
from artifactflow_nb.recordings.rows import Rows, documents_read, load_rows
from artifactflow_nb.recordings.sealed import Parts, ReadSource
from artifactflow_nb.store.metrics import load_metrics
from artifactflow_nb.store.schema import from_us
from artifactflow_nb.store.sources import SCHEME
from artifactflow_nb.store.storable import to_json


def export_rows(db: sqlite3.Connection, run_id: str, mask: Mask) -> Rows:
    """The rows of a run, each text masked; they are what `import_rows` takes.

    Errors: as of `load_rows`; `CassetteError` if the mask, or what a store holds, leaves rows that cannot be taken.
    """
    rows = mask_rows(load_rows(db, run_id), mask)
    check_rows(db, rows)
    return rows


def parts_of(db: sqlite3.Connection, run_id: str, cassette: bytes, mask: Mask) -> Parts:
    """Everything of a run, for `write_sealed`.

    Args:
        db: A connection to the store, in one transaction.
        run_id: The run, which has ended.
        cassette: Its cassette, without secrets.
        mask: Takes the secrets out of everything else.

    Errors: as of `export_rows`.
    """
    rows = export_rows(db, run_id, mask)
    return Parts(
        rows, cassette, _metrics(db, run_id, from_us(rows.run["completed_at"]), mask), _sources(db, rows, mask)
    )


def _metrics(db: sqlite3.Connection, run_id: str, until: datetime, mask: Mask) -> dict[str, object]:
    told = to_json(load_metrics(db, run_id, until).as_json())
    masked: dict[str, object] = orjson.loads(mask_json(told, mask))
    return masked


def _sources(db: sqlite3.Connection, rows: Rows, mask: Mask) -> tuple[ReadSource, ...]:
    """The documents as they were before they were masked: how long they are stands in them."""
    sql = "SELECT * FROM tool_calls WHERE run_id IN (SELECT value FROM json_each(?)) ORDER BY rowid"
    calls = db.execute(sql, (to_json([row["run_id"] for row in rows["runs"]]),)).fetchall()
    files = {row["source_id"]: row["uri"] for row in rows["sources"]}
    read = []
    for one in documents_read(map(dict, calls)):
        address = mask(one.address)
        uri = files.get(address.removeprefix(SCHEME).partition("#")[0]) if address.startswith(SCHEME) else None
        read.append(ReadSource(address, uri or address, mask(one.title), mask(one.text)))
    return tuple(read)
