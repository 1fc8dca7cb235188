"""`wb.claims`: the claims of a version of an artifact, and the verdicts of persons.

A verdict is one more check of the claim: no check is changed or deleted, and the verdict of a person counts before the
checks by rules. The next version keeps the verdict on a sentence that it has in the same words; see `check_version`.
"""

import getpass
import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from artifactflow_nb.core.text.cards import CardTable, card_frame, cell_html
from artifactflow_nb.core.text.format import count
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import UsageError
from artifactflow_nb.notebook.artifact import ArtifactHandle
from artifactflow_nb.plugins.claims.frame import OF_VERSION, load_checks
from artifactflow_nb.plugins.claims.marks import STATUSES
from artifactflow_nb.plugins.claims.versions import PERSON, write_check
from artifactflow_nb.store.frames import RunFilter
from artifactflow_nb.store.schema import to_microseconds

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A claim with the check that counts; the fields are columns of `wb.claims_df`."""

    _row: sqlite3.Row = field(repr=False)
    _thread: EngineThread | None = field(repr=False)
    claim_id: str
    text: str
    status: str
    method: str | None
    reason: str
    quote: str | None
    address: str | None
    checker: str

    def accept(self, note: str) -> None:
        """Store your verdict that the source supports the claim: `accept("Read in the original, p. 12")`.

        The verdict counts before all other checks, and is part of seals, imports and forks of the run.

        Errors: `UsageError` for an empty note and for a sealed run, which no verdict changes.
        """
        self._decide("supported", note)

    def reject(self, note: str) -> None:
        """Store your verdict that the claim is wrong; see `accept`."""
        self._decide("contradicted", note)

    def _decide(self, status: str, note: str) -> None:
        if not note.strip():
            raise UsageError('The note is empty. Say why, such as accept("Read in the original, p. 12").')
        if self._thread is None:
            raise UsageError("A sealed run does not change. Import it with wb.store.import_run, and decide there.")
        engine, row = self._thread.engine, dict(self._row)
        row |= {"status": status, "method": PERSON, "reason": engine.secrets.mask(note)}
        row |= {"checker": getpass.getuser(), "checked_at": to_microseconds(engine.clock.now())}
        self._thread.call(engine.database.write(lambda db: write_check(db, row)))


class Claims(tuple[CheckedClaim, ...]):
    """The claims of a version: `14 claims: 11 supported, 1 contradicted, 2 uncheckable`."""

    __slots__ = ()

    def __repr__(self) -> str:
        n = Counter(claim.status for claim in self)
        counts = ", ".join(f"{n[status]} {status}" for status in STATUSES if n[status])
        return f"{count(len(self), 'claim')}: {counts}" if self else "No claims."

    def _repr_html_(self) -> str:
        rows = [(n, each.status, each.text, each.reason, each.quote) for n, each in enumerate(self)]
        table = CardTable.from_rows(("n", "status", "claim", "reason", "passage"), rows)
        return card_frame(f"<p>{cell_html(repr(self))}</p>" + (table.html() if rows else ""))


class ClaimAccessor:
    """The claims of a store: `wb.claims`, and `run.claims` of a sealed run."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def counts_df(self, run: RunFilter = None) -> "pd.DataFrame":
        """Return the number of claims by run, in the last versions of its artifacts, and how many have each status."""
        import pandas as pd

        version, place = ["conversation_id", "artifact_id", "version"], ["conversation_id", "artifact_id", "message_id"]
        claims = self._owner.claims_df(run, columns=[*version, "run_id", "status"])
        versions = self._owner.artifacts_df(columns=[*version, "message_id"])
        last = claims.merge(versions.groupby(place, dropna=False, as_index=False)["version"].max(), on=version)
        statuses = pd.get_dummies(last["status"].astype(pd.CategoricalDtype(list(STATUSES))), dtype=int)
        counts = statuses.groupby(last["run_id"]).sum()
        return counts.add_prefix("n_claims_").assign(n_claims=counts.sum(axis=1))

    def __getitem__(self, version: ArtifactHandle) -> Claims:
        """Return the claims of a version: `wb.claims[run.artifacts["report"]]`."""
        if not isinstance(version, ArtifactHandle):
            raise UsageError('wb.claims takes a version of an artifact: wb.claims[run.artifacts["report"]].')
        branch = version.branch
        place = branch.conversation_id, version.artifact_id, version.version
        rows = branch.read(lambda db: load_checks(db, OF_VERSION, place))
        names = ("claim_id", "text", "status", "method", "reason", "passage", "address", "checker")
        return Claims(CheckedClaim(row, branch.thread, *(row[name] for name in names)) for row in rows)
