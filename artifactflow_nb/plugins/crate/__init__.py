"""A run that can be cited: a crate of research objects, a paragraph about methods, and `CITATION.cff`."""

import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactflow_nb.core.local_files import AnyPath, absolute_path
from artifactflow_nb.engine.plugin import Plugin
from artifactflow_nb.errors import Conflict, UsageError
from artifactflow_nb.notebook.citation import CitesSources
from artifactflow_nb.notebook.run import RunRecord, run_access
from artifactflow_nb.plugins.crate.draft import latex, quarto
from artifactflow_nb.plugins.crate.methods import citation_text, methods_text
from artifactflow_nb.plugins.crate.rocrate import Metadata, files_of
from artifactflow_nb.plugins.crate.watch import watch
from artifactflow_nb.recording.files import pack, write_bytes
from artifactflow_nb.recording.rows import ENDED, RunRows, load_run_rows, redacted
from artifactflow_nb.recording.seal import load_parts, sealed_bytes
from artifactflow_nb.sources.citation_marks import listed_sources
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.runs import load_full_id

if TYPE_CHECKING:
    import pandas as pd

NOUNS = frozenset({"crate", "rocrate"})
"""Words that no identifier outside of this folder has; `tests/package/test_plugins.py` checks it."""


class Crate:
    """`wb.crate`, and `run.crate` of a sealed run: runs that can be cited. `run` is a run, a sealed run or an id."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def _rows(self, run: RunRecord | str, *, is_redacted: bool = True) -> RunRows:
        """Load the rows of a run that has ended and of its subruns, by default without secrets."""
        store, run_id, redactor = run_access(self._owner, run)

        def load(db: sqlite3.Connection) -> RunRows:
            rows = load_run_rows(db, load_full_id(db, run_id))
            if rows.run["status"] not in ENDED:
                raise Conflict(f"The run {rows.run_id} is {rows.run['status']}. Wait until the run has ended.")
            return redacted(rows, redactor) if is_redacted else rows

        return read_store(store, load)

    def _sealed(self, run: RunRecord | str, run_id: str) -> tuple[bytes, str]:
        """Return the sealed file of a run, and the hash by which it is cited."""
        path, (store, _, redactor) = getattr(run, "path", None), run_access(self._owner, run)

        def load(db: sqlite3.Connection) -> bytes:
            db.execute("BEGIN")  # one snapshot for all queries; closing the connection ends it
            return sealed_bytes(load_parts(db, run_id, redactor))

        data = read_store(store, load) if path is None else path.read_bytes()  # a sealed run has its file
        return data, hashlib.sha256(data).hexdigest()

    def methods(self, run: RunRecord | str) -> str:
        """Return a paragraph in the past tense about a run that has ended, for the methods section of a paper.

        The paragraph has the question, models, dates, what was searched and read, decisions of persons, the budget, the
        cost, and what was not found.

        Errors: `NotFound` for an unknown run; `Conflict` for a run that has not ended.
        """
        return methods_text(self._rows(run))

    def citation(self, run: RunRecord | str, *, authors: Sequence[str] = ()) -> str:
        """Return the text of a `CITATION.cff` for a run, with the hash of its sealed file; errors as for `methods`."""
        rows = self._rows(run)
        return citation_text(rows, authors, self._sealed(run, rows.run_id)[1])

    def write(
        self,
        run: RunRecord | str,
        path: AnyPath,
        *,
        authors: Sequence[str] = (),
        license_url: str = "",
        replace: bool = False,
    ) -> Path:
        """Write a crate of research objects: a zip file with the run, in the profile Process Run Crate (RO-Crate).

        The crate has the question, the answer, the artifacts of the run, checks of claims, `methods.txt`,
        `CITATION.cff` and the sealed run; its metadata also has agents, models, tools, and the sources with hashes.
        Secrets are redacted. Equal runs give equal files. Needs `artifactflow-nb[crate]`.

        Args:
            run: A run that has ended, a sealed run or an id.
            path: The file, such as `run.crate.zip`.
            authors: Names of the persons who publish the run.
            license_url: The address of the licence; empty if no licence is stated.
            replace: Replace an existing file.

        Returns:
            The path of the file.

        Errors: `NotFound` for an unknown run; `Conflict` for a run that has not ended; `UsageError` for a file that
        exists or cannot be written, and without the package rocrate.
        """
        rows = self._rows(run)
        data, digest = self._sealed(run, rows.run_id)
        files = files_of(rows) | {
            "run.afrun": (data, "The sealed run: af.open_run(path) opens it"),
            "methods.txt": (methods_text(rows).encode("utf-8", "replace"), "The methods of the run"),
            "CITATION.cff": (citation_text(rows, authors, digest).encode("utf-8", "replace"), "How to cite the run"),
        }
        about = Metadata(rows).json(files, authors, license_url)
        members = {name: content for name, (content, _) in files.items()} | {"ro-crate-metadata.json": about}
        return write_bytes(absolute_path(path), pack(members), replace=replace)

    def latex(
        self, report: CitesSources, folder: AnyPath, *, authors: Sequence[str] = (), replace: bool = False
    ) -> Path:
        """Write a report as the draft of a paper: `report.tex` and `references.bib` in a folder.

        Numbers of citations become keys of the bibliography, and the methods of the run are the last section. No
        command of the report's text remains; formulas appear as they are written. Secrets are redacted.

        Args:
            report: A version of an artifact that a run wrote, such as `run.artifacts["research_report"]`.
            folder: The folder, which is created.
            authors: Names of the persons who write the paper.
            replace: Replace existing files.

        Returns:
            The path of the draft.

        Errors: `UsageError` for a file that exists or cannot be written, and for a version that no run wrote.
        """
        return self._draft(report, folder, authors, "report.tex", latex, replace=replace)

    def quarto(
        self, report: CitesSources, folder: AnyPath, *, authors: Sequence[str] = (), replace: bool = False
    ) -> Path:
        """Write a report as `report.qmd` and `references.bib`; no code in the text runs. Otherwise as `latex`."""
        return self._draft(report, folder, authors, "report.qmd", quarto, replace=replace)

    def watch(self, runs: RunRecord | str | Sequence[RunRecord | str], *, web: bool = True) -> "pd.DataFrame":
        """Compare the sources that runs read with the sources now: a row for each claim on a source that is different.

        Columns: `run_id`, `address`, `title`, `state` (`changed`, `moved`, `removed`, `retracted` or `unchecked`),
        `reason` (of `unchecked`, and where a page is now), `claim` (NA if no text cites the source) and its last
        `status` (see `wb.claims_df`). No model is called; `web=False` and a replay read no page again.

        Errors: `NotFound` for an unknown run; `Conflict` for a run that has not ended; `UsageError` for a sealed run.
        """
        thread = getattr(self._owner, "_thread", None)
        if thread is None:
            raise UsageError("A sealed run reads no source again. Import the run with wb.store.import_run(path).")
        listed = [runs] if isinstance(runs, RunRecord | str) else runs
        works = self._owner.literature.works_df()
        return watch(thread, [self._rows(run, is_redacted=False) for run in listed], works, web=web)

    def _draft(
        self, report: Any, folder: AnyPath, authors: Sequence[str], name: str, form: Any, *, replace: bool
    ) -> Path:
        from artifactflow_nb.plugins.literature.cited_works import cited_works
        from artifactflow_nb.plugins.literature.works import to_bibtex

        if getattr(report, "run_id", None) is None or not hasattr(report, "markdown"):
            raise UsageError("Pass a version of an artifact that a run wrote: run.artifacts[...].")
        cited, masked = report._cited_texts(), run_access(self._owner, report.run_id)[2].text  # noqa: SLF001 - an accessor is a part of its workbench
        listed = {number: replaced(source, title=masked(source.title))  # a key may have a word of a title
                  for number, source in listed_sources(*cited.texts).items()}  # fmt: skip
        works = cited.read(lambda db: cited_works(db, listed, lambda each: cited.load_evidence(db, each)))
        rows = self._rows(report.run_id)
        origin = f"ArtifactFlow NB, run {rows.run_id}, {report.artifact_id} version {report.version}"
        references = masked(to_bibtex(list({work.key: work for work in works.values()}.values())))
        values = {"title": masked(report.title), "authors": ", ".join(authors) or "ArtifactFlow NB", "origin": origin,
                  "date": report.created_at.date().isoformat(), "methods": methods_text(rows),
                  "references": references}  # fmt: skip
        text = form(masked(report.markdown), {number: masked(work.key) for number, work in works.items()}, values)
        target = absolute_path(folder)
        target.mkdir(parents=True, exist_ok=True)
        write_bytes(target / "references.bib", references.encode("utf-8", "replace"), replace=replace)
        return write_bytes(target / name, text.encode("utf-8", "replace"), replace=replace)


CRATE = Plugin("crate")
