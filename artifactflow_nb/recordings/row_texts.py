"""Whether what stands inside the texts of a row that comes from a file can be: JSON, hashes, words of the program."""

import re
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, get_args

from artifactflow_nb.blocks import check_noted
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.plans import JobKind
from artifactflow_nb.recordings.bounded import is_shallow, loads
from artifactflow_nb.recordings.event_checks import flaw_of
from artifactflow_nb.recordings.form_checks import check_manifest, check_offer, check_settings
from artifactflow_nb.recordings.pieces import unpack
from artifactflow_nb.recordings.row_masks import sha256
from artifactflow_nb.recordings.rows import ENDED, SHA256, Row
from artifactflow_nb.store.calls import FINISHED, PENDING, STARTED
from artifactflow_nb.store.requests import decision_of
from artifactflow_nb.store.schema import from_us

Told = Mapping[str, Any]
"""What the columns of a row say that hold JSON, by their names."""

_UNSAID = {"instruction": None, "edited_json": None, "scope": None, "decided_by": None, "by_code": 1}
"""What a row of `approvals` may leave out."""

_EVENTS = frozenset(StreamEventType)
_COUNTED = re.compile(r"-?\d{1,12}(?:\*(\d{1,7}))?")

_JOBS = frozenset(get_args(JobKind))


def check_texts(table: str, row: Row) -> None:
    """Raise `ValueError` that says what is wrong; the columns are of their types."""
    told = {name: _json(row[name], name) for name in row if name.endswith("_json") and row[name] is not None}
    if "sha256" in row and "content" in row and row["sha256"] != sha256(row["content"]):
        raise ValueError("the text is not the one that its hash names")
    if table in {"runs", "messages"} and row["status"] not in ENDED:
        raise ValueError(f"the status is {row['status'][:80]!r}; only what has ended can come from a file")
    if table in _CHECKS:
        _CHECKS[table](row, told)


def _json(text: str, name: str) -> Any:
    wanted = list if name == "request_json" else dict
    try:
        value = loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is no JSON {wanted.__name__}: {error}") from error
    if not isinstance(value, wanted) or not is_shallow(value):
        raise ValueError(f"{name} is no JSON {wanted.__name__}, or is nested too deep")
    return value


def _check_run(row: Row, told: Told) -> None:
    if row.get("owner") is not None or row.get("completed_at") is None:
        raise ValueError("it has an owner, or no end")
    check_settings(told["settings_json"])
    check_manifest(told.get("manifest_json", {}))


def _check_job(row: Row, told: Told) -> None:
    del told
    if row["kind"] not in _JOBS or row["n"] < 1:
        raise ValueError(f"there is no job {row['kind'][:80]!r} with the number {row['n']}")


def _check_block_job(row: Row, told: Told) -> None:
    del row
    if not all(isinstance(value, str) for value in told["basis_json"].values()):
        raise ValueError("its basis names no hashes")


def _check_call(row: Row, told: Told) -> None:
    del told
    if (status := row["status"]) not in {PENDING, STARTED, FINISHED}:
        raise ValueError(f"there is no status {status[:80]!r}")
    ended = [row.get(name) for name in ("success", "metadata_json", "called_at", "completed_at", "duration_ms")]
    if status == FINISHED and None in ended:
        raise ValueError("it is finished and does not say with what")


def _check_ask(row: Row, told: Told) -> None:
    del told
    if (word := row.get("decision")) is None:
        return
    decision = decision_of({**_UNSAID, **row})
    if decision is None or decision.word != word or not row.get("decided_by") or row.get("decided_at") is None:
        raise ValueError(f"it does not tell who decided {word[:80]!r}, when, and what")


def _check_event(row: Row, told: Told) -> None:
    if row["event_type"] not in _EVENTS or row["seq"] < 1:
        raise ValueError(f"there is no event {row['event_type'][:80]!r} with the number {row['seq']}")
    if (flaw := flaw_of(row["event_type"], told["data_json"])) is not None:
        raise ValueError(flaw)


def _check_turn(row: Row, told: Told) -> None:
    for entry in told["request_json"]:
        match entry:
            case [str(), str(key), *calls] if not calls or _are_calls(calls):
                if not SHA256.fullmatch(key):
                    raise ValueError(f"{key[:80]!r} is no hash of a text")
            case _:
                raise ValueError("request_json holds what is no message")
    check_offer(told.get("offer_json", {}))
    if "pieces_json" in told and not _are_pieces(row, told["pieces_json"]):
        raise ValueError("pieces_json does not say how the text arrived")


def _are_calls(found: list[Any]) -> bool:
    """Whether that is the rest of a message, the calls that it tells: `[[[name, parameters], ...]]`."""
    match found:
        case [list(calls)]:
            return all(isinstance(call, list) and [type(part) for part in call] == [str, dict] for call in calls)
    return False


def _are_pieces(row: Row, packed: Mapping[str, Any]) -> bool:
    try:
        said = sum(map(len, packed.get("said", {}).values()))
        if _n_pieces(packed) > len(row["content"]) + len(row["reasoning"]) + said + 1000:
            return False
        unpack(packed, from_us(row["started_at"]), {"answer": row["content"], "reasoning": row["reasoning"]})
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return False
    return True


def _n_pieces(packed: Mapping[str, Any]) -> float:
    """How many pieces there are, at most, before any of them is made."""
    counts: list[float] = [sum(abs(int(times)) for _, _, times in packed["kinds"])]
    for name in ("chars", "ms", "seq"):
        matches = [_COUNTED.fullmatch(word) for word in packed[name].split()]
        counts.append(sum(inf if match is None else int(match[1] or 1) for match in matches))
    return max(counts)


def _check_version(row: Row, told: Told) -> None:
    if "block_json" in told:
        check_noted(row["block_json"])


_CHECKS: Mapping[str, Callable[[Row, Told], None]] = {
    "plan_jobs": _check_job,
    "block_jobs": _check_block_job,
    "runs": _check_run,
    "llm_calls": _check_turn,
    "tool_calls": _check_call,
    "approvals": _check_ask,
    "events": _check_event,
    "artifact_versions": _check_version,
}
"""What is checked of the rows of a table beside what is checked of all; each raises `ValueError`."""
