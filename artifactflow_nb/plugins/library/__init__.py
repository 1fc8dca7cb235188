"""`af.Library`: sealed runs that a team shares in a folder or a bucket, without a server.

::

    runs/<sha256>.afrun                 sealed files
    frames/<frame>/<sha256>.parquet     the rows of the runs of one publication
    index/<writer>.json                 the publications of one writer: one thread of one process

No two writers write one file, so that writers need no lock; an index is written last, and whole. A reader merges the
indexes, and reads what they name. Other files are named by the hash of their content: a half-written, damaged or
exchanged file is noticed.
"""

import hashlib
import io
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
import threading
import warnings
import weakref
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from artifactflow_nb.analysis.frames.catalog import all_frames
from artifactflow_nb.analysis.frames.packing import as_frame, pack_fitting
from artifactflow_nb.analysis.frames.query import authorize
from artifactflow_nb.analysis.frames.reading import load_frame, schema_name
from artifactflow_nb.core.local_files import absolute_path
from artifactflow_nb.core.text.format import count
from artifactflow_nb.errors import NotFound, UsageError, brief, check_text
from artifactflow_nb.recording.files import Limits, write_whole
from artifactflow_nb.recording.seal import read_sealed, write_store
from artifactflow_nb.store.database import connect
from artifactflow_nb.store.frames import BOOL, FLOAT, INT, TIME, Frame
from artifactflow_nb.store.schema import to_microseconds

if TYPE_CHECKING:
    import pandas as pd

    from artifactflow_nb.notebook.run import RunRecord

INSTALL = "pip install 'artifactflow-nb[library]'"
"""The command that installs what a library needs."""

_MAX_INDEX_BYTES, _MAX_INDEXES = 64 * 2**20, 10_000
_MAX_ROWS, _MAX_COLUMNS = 20_000_000, 1_000
_SQL_TYPES = {TIME: "INTEGER", BOOL: "INTEGER", INT: "INTEGER", FLOAT: "REAL"}

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Publication(BaseModel):
    """One call of `publish`.

    Attributes:
        files: The hash of the sealed file of each run, by the id of the run.
        owners: The id of the run whose file contains a run or subrun, by the id of the contained run or subrun.
        frames: The hash of the Parquet file of each frame, by the name of the frame.
    """

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    published_at: Annotated[str, Field(max_length=40)]
    published_by: Annotated[str, Field(max_length=200)]
    files: dict[str, Sha256]
    owners: dict[str, str]
    frames: dict[str, Sha256]


class _Index(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    format: Annotated[str, Field(pattern="^artifactflow-nb library 1$")]
    publications: tuple[Publication, ...]


class Library:
    """Sealed runs of a team, in a folder or a bucket.

    Args:
        address: A folder, or an address of fsspec, such as `s3://lab/research`.
        by: The name under which you publish; None for the name of your account on this machine.
        options: Options of fsspec for the address, such as `endpoint_url` of a bucket.

    Attributes:
        skipped: A sentence about each file that could not be used and was left out, by the path of the file.

    Errors: The first call raises `UsageError` if a package is not installed, and for an address of an unknown kind.
    """

    def __init__(self, address: str | Path, *, by: str | None = None, **options: Any) -> None:
        is_url = isinstance(address, str) and "://" in address
        self._address = str(address) if is_url else str(absolute_path(address))
        self._options = options
        self._by = by or os.environ.get("USER") or os.environ.get("USERNAME", "")
        self._published: dict[tuple[int, int], tuple[str, list[Publication]]] = {}  # a writer by process and thread
        self._verified: dict[tuple[str, str], pd.DataFrame] = {}
        self._copies: Path | None = None
        self.skipped: dict[str, str] = {}
        self._reported: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Library, self._address, by=self._by, **self._options), ()  # a copy is another writer

    def __repr__(self) -> str:
        return f"Library({self._address!r})"

    @cached_property
    def _place(self) -> tuple[Any, str]:
        """The file system of fsspec, and the path of the library in it."""
        try:
            import pyarrow.parquet  # noqa: F401 - rows are read and written with it
            from fsspec.core import url_to_fs

            files, root = url_to_fs(self._address, **self._options)
        except ImportError as error:
            package = (error.name or str(error)).partition(".")[0]
            raise UsageError(f"The library {brief(self._address)} needs {package}: {INSTALL}") from None
        except ValueError as error:
            raise UsageError(f"The address {brief(self._address)} of the library cannot be used: {error}") from None
        return files, root.rstrip("/")

    _files = property(lambda self: self._place[0])
    _root = property(lambda self: self._place[1])

    # --- publishing --------------------------------------------------------------------------------------------------

    def publish(self, runs: "RunRecord | str | Path | Iterable[RunRecord | str | Path]") -> list[str]:
        """Add runs that have ended, with the rows of their frames; return the ids of the runs.

        Several runs in one call take less space, and are read faster, than one call for each run. A run that is
        published again replaces the earlier publication of the run.

        Args:
            runs: A run, the path of a sealed file, or several. Secrets are masked, as in `run.seal`.

        Errors: as for `run.seal` and `af.open_run`; `UsageError` if the address cannot be written.
        """
        import pandas as pd

        several = [runs] if isinstance(runs, str | Path) or hasattr(runs, "run_id") else list(runs)
        files, owners, parts = dict[str, str](), dict[str, str](), dict[str, list[pd.DataFrame]]()
        with tempfile.TemporaryDirectory(prefix="artifactflow-") as folder:
            for number, run in enumerate(several):
                path = absolute_path(run) if isinstance(run, str | Path) else getattr(run, "path", None)
                path = path or run.seal(Path(folder) / f"{number}.afrun")  # type: ignore[union-attr]  # a `Run`
                data = path.read_bytes()
                run_id, run_ids, frames = load_rows(path, Path(folder) / f"{number}.db")
                files[run_id] = self._put("runs", data, "afrun")
                owners |= dict.fromkeys(run_ids, run_id)
                for name, frame in frames.items():
                    parts.setdefault(name, []).append(frame)
        hashes = {}
        for name, rows in parts.items():
            file = io.BytesIO()
            pd.concat(rows).to_parquet(file, index=False, engine="pyarrow")
            hashes[name] = self._put(f"frames/{name}", file.getvalue(), "parquet")
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        new = Publication(published_at=now, published_by=self._by, files=files, owners=owners, frames=hashes)
        here = os.getpid(), threading.get_ident()
        writer, published = self._published.setdefault(here, (secrets.token_hex(8), []))
        index = _Index(format="artifactflow-nb library 1", publications=(*published, new))
        self._write(f"{self._root}/index/{writer}.json", index.model_dump_json().encode())
        published.append(new)
        return list(files)

    def _put(self, place: str, data: bytes, ending: str) -> str:
        """Write a file under the hash of its content, unless it is there; return the hash."""
        digest = hashlib.sha256(data).hexdigest()
        path = f"{self._root}/{place}/{digest}.{ending}"
        if not self._files.exists(path) or self._files.size(path) != len(data):
            self._write(path, data)
        return digest

    def _write(self, path: str, data: bytes) -> None:
        """Write a file whole: on a disk, first under another name; a bucket never shows a part of a file."""
        try:
            if "file" in self._files.protocol:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                write_whole(Path(path), data)
            else:
                self._files.pipe_file(path, data)
        except Exception as error:  # any error of the library of the address
            raise UsageError(f"{brief(path)} cannot be written: {type(error).__name__}: {error!s:.300}") from error

    # --- reading -----------------------------------------------------------------------------------------------------

    def runs_df(self) -> "pd.DataFrame":
        """Return one row per run, with the columns of `wb.runs_df(columns="all", answer=True)` and `published_by`.

        Files that cannot be used are left out, with one warning; `skipped` has the reasons.
        """
        return self._frame("runs")

    def find(self, text: str) -> "pd.DataFrame":
        """Return the rows of `runs_df` whose question and answer together have all words of a text, ignoring case."""
        check_text("text", text)
        runs = self.runs_df()
        texts = (runs["question"].fillna("") + "\n" + runs["answer"].fillna("")).str.casefold()
        has_all = [all(word in each for word in text.casefold().split()) for each in texts]
        return runs[has_all].reset_index(drop=True)

    def query(self, sql: str) -> "pd.DataFrame":
        """Run one read-only SELECT over the frames, such as `SELECT flow, avg(cost_usd) FROM runs GROUP BY 1`.

        The tables are the frames of a workbench whose rows belong to runs: `runs`, `llm_calls`, `tool_calls` and so on.
        Times are microseconds since 1970.

        Errors: `UsageError` for invalid SQL, and for SQL that does more than read.
        """
        check_text("sql", sql)
        with closing(sqlite3.connect(":memory:")) as db:
            for name in _frames():
                if not re.search(rf"\b{name}\b", sql, re.IGNORECASE):
                    continue
                frame = self._frame(name)
                columns = [f'"{each}" {_SQL_TYPES.get(str(dtype), "TEXT")}' for each, dtype in frame.dtypes.items()]
                db.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
                for column in frame.select_dtypes("datetimetz"):
                    frame[column] = frame[column].astype("object").map(to_microseconds, na_action="ignore")
                rows = frame.astype("object").where(frame.notna(), None).itertuples(index=False, name=None)
                db.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)  # noqa: S608 - constants
            types = {column.name: column.dtype for frame in _frames().values() for column in frame.columns}
            db.set_authorizer(authorize)
            try:
                rows = db.execute(sql)
                names = [entry[0] for entry in rows.description or ()]
                arrays = pack_fitting(rows, [types.get(name) for name in names])
            except (sqlite3.Error, sqlite3.Warning) as error:
                known = ", ".join(_frames())
                raise UsageError(
                    f"The SQL cannot be run: {error!s:.300}. The library has the tables {known}."
                ) from error
        return as_frame(names, arrays, schema_name("query"))

    def file(self, run_id: str) -> Path:
        """Return the path of the sealed file of a run, for `wb.store.import_run`; for a bucket, of a local copy.

        Errors: `NotFound` for a run that is not in the library; `UsageError` for a file that is missing or was changed.
        """
        check_text("run_id", run_id)
        digest = next((each.files[run_id] for each in self._publications() if run_id in each.files), None)
        if digest is None:
            raise NotFound(
                f"The library {self._address!r} has no run {brief(run_id)}; library.runs_df() lists its runs."
            )
        path = f"{self._root}/runs/{digest}.afrun"
        data = self._read(path, digest, Limits().file_bytes)
        if data is None:
            raise UsageError(f"The run {brief(run_id)} cannot be opened: {self.skipped[path]} Publish the run again.")
        if "file" in self._files.protocol:
            return Path(path)
        if self._copies is None:
            self._copies = Path(tempfile.mkdtemp(prefix="artifactflow-"))
            weakref.finalize(self, shutil.rmtree, self._copies, ignore_errors=True)
        copy = self._copies / f"{digest}.afrun"
        copy.write_bytes(data)
        return copy

    def open(self, run_id: str) -> Any:
        """Open the sealed file of a run, like `af.open_run`. Errors as for `file` and `af.open_run`."""
        from artifactflow_nb import open_run

        return open_run(self.file(run_id))

    def _publications(self) -> list[Publication]:
        """Return the publications of all writers, the newest first."""
        self._files.invalidate_cache()
        found: list[Publication] = []
        try:
            paths = self._files.ls(f"{self._root}/index", detail=False)
        except FileNotFoundError:
            paths = []
        names = [
            path for path in sorted(paths) if path.endswith(".json") and not path.rpartition("/")[2].startswith(".")
        ]
        for path in names[:_MAX_INDEXES]:
            if (data := self._read(path, None, _MAX_INDEX_BYTES)) is None:
                continue
            try:
                found += _Index.model_validate_json(data).publications
            except (ValidationError, ValueError, RecursionError):
                self._skip(path, "is no index of a library.")
        self._warn()
        return sorted(found, key=lambda each: each.published_at, reverse=True)

    def _frame(self, name: str) -> "pd.DataFrame":
        """Return the rows of a frame of all runs, each run from its newest publication."""
        import pandas as pd

        declared, seen, parts = _frames()[name], set[str](), list[pd.DataFrame]()
        for publication in self._publications():
            new = publication.owners.keys() - seen
            seen |= new
            if (digest := publication.frames.get(name)) is None or not new:
                continue
            if (rows := self._rows(declared, digest)) is not None:
                parts.append(rows[rows["run_id"].isin(new)].assign(published_by=publication.published_by))
        self._warn()
        empty = _typed(pd.DataFrame(), declared).assign(published_by=pd.array([], "string"))
        whole = pd.concat(parts[::-1], ignore_index=True) if parts else empty
        whole = _typed(whole, declared).assign(published_by=whole["published_by"].astype("string"))
        whole.attrs["schema"] = schema_name(name)
        return whole

    def _rows(self, declared: Frame, digest: str) -> "pd.DataFrame | None":
        """Return the rows of a Parquet file, in the columns of this release; None for a file that cannot be used."""
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile

        key = declared.name, digest
        if key not in self._verified:
            path = f"{self._root}/frames/{declared.name}/{digest}.parquet"
            if (data := self._read(path, digest, Limits().file_bytes)) is None:
                return None
            try:
                file = ParquetFile(io.BytesIO(data))
                about = file.metadata
                n_bytes = sum(about.row_group(n).total_byte_size for n in range(about.num_row_groups))
                if about.num_rows > _MAX_ROWS or about.num_columns > _MAX_COLUMNS or n_bytes > Limits().total_bytes:
                    raise ValueError("it is too large")
                known = {column.name for column in declared.columns} & {*file.schema_arrow.names}
                frame = file.read(columns=sorted(known)).to_pandas(ignore_metadata=True)
                self._verified[key] = _typed(frame, declared)
            except (pa.ArrowException, ValueError, TypeError, OSError, LookupError, OverflowError) as error:
                self._skip(path, f"has no rows of {declared.name}: {error!s:.200}.")
                return None
        return self._verified[key]

    def _read(self, path: str, digest: str | None, max_bytes: int) -> bytes | None:
        """Return the content of a file; None for a missing or too large file, and for another hash than in its name."""
        try:
            size = self._files.size(path)
            if size is None or size > max_bytes:
                raise ValueError(f"has {size:,} bytes, more than {max_bytes:,}.")
            data: bytes = self._files.cat_file(path)
            if digest is not None and hashlib.sha256(data).hexdigest() != digest:
                raise ValueError("has another content than its name says.")
        except FileNotFoundError:
            self._skip(path, "is missing.")
        except ValueError as error:
            self._skip(path, str(error))
        except Exception as error:  # noqa: BLE001 - any error of the library of the address
            self._skip(path, f"cannot be read: {type(error).__name__}: {error!s:.200}.")
        else:
            self.skipped.pop(path, None)
            return data
        return None

    def _skip(self, path: str, problem: str) -> None:
        self.skipped[path] = f"{path.rpartition('/')[2]} {problem}"

    def _warn(self) -> None:
        """Say once of each file that it was left out."""
        new = [path for path in self.skipped if path not in self._reported]
        if new:
            self._reported |= {*new}
            n_files = count(len(new), "file")
            text = f"{self!r} left out {n_files} (library.skipped has the reasons). {self.skipped[new[0]]}"
            warnings.warn(text, stacklevel=4)


def _frames() -> dict[str, Frame]:
    """Return the frames whose rows belong to runs, by name."""
    return {frame.name: frame for frame in all_frames() if "run" in frame.filters}


def load_rows(path: Path, store: Path) -> "tuple[str, list[str], dict[str, pd.DataFrame]]":
    """Return the run of a sealed file, the ids of the run and of the runs that it started, and the rows of frames."""
    parts, _ = read_sealed(path)
    with closing(connect(store)) as db:
        db.execute("PRAGMA synchronous = OFF")  # the store is deleted at once
        write_store(db, parts)
    run_ids = [parts.rows.run_id]
    for row in parts.rows["runs"]:  # each run comes after the run that started it, and after the earlier runs
        run_ids += [row["run_id"]] if row["parent_run_id"] in run_ids else []
    optional = {"runs": ("answer",)}
    frames = {
        name: load_frame(store, frame, run_ids, optional=optional.get(name, ())) for name, frame in _frames().items()
    }
    return parts.rows.run_id, run_ids, frames


def _typed(frame: "pd.DataFrame", declared: Frame) -> "pd.DataFrame":
    """Return a frame with the columns of this release and their types; a missing column is unknown."""
    dtypes = {
        column.name: column.dtype for column in declared.columns if not column.is_optional or column.name == "answer"
    }
    return frame.reindex(columns=[*dtypes]).astype(dtypes)
