"""Reproducibility of a workbench's runs, which are recorded, replayed, live or changed, with advice."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from artifactflow_nb.core.local_files import shown_path
from artifactflow_nb.core.text.cards import MAX_ROWS, Card, CardCell, CardMixin, CardRows, CardTable, Code, Details
from artifactflow_nb.engine.manifest import MANUALS
from artifactflow_nb.errors import CassetteError
from artifactflow_nb.recording.cassette import Cassette
from artifactflow_nb.recording.modes import PLAYED, CassetteSession
from artifactflow_nb.store.ownership import effective_status
from artifactflow_nb.store.provenance import RunProvenance, load_provenance
from artifactflow_nb.store.runs import RUNNING
from artifactflow_nb.tools.mcp.offers import offers_from_json

if TYPE_CHECKING:
    from sqlite3 import Connection

State = Literal["recorded", "replayed", "live", "changed"]

_ORIGINS = {"hit": "replayed", "recorded": "recorded", "off": "live"}
_NAMED = 3
_EXAMPLE = '"data/cassettes/notebook.jsonl"'


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """A run with its provenance.

    Attributes:
        state: `recorded` into the cassette, `replayed` from the cassette, `live` without a recording, or `changed` for
            a played run that continued live after a decision that differs from the recorded decision.
        is_recorded: Whether the run can be played: the run was played, or the cassette contains the run now.
        mode: `live`, `record`, `replay` or `auto`.
        llm_calls: Number of model calls by origin: `off`, `recorded`, `hit`.
        tool_calls: Number of tool calls by origin.
        changes: Changes since a played run was recorded: the release, prompts, tools.
    """

    run_id: str
    question: str
    state: State
    is_recorded: bool
    mode: str
    status: str
    llm_calls: Mapping[str, int]
    tool_calls: Mapping[str, int]
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReproducibilityReport(CardMixin):
    """The runs of a workbench, recorded, replayed, live or changed, with advice.

    Attributes:
        runs: The runs in the order of their starts.
        cassette: The cassette of the workbench, or None.
        problem: The error of an unusable cassette, or None.
    """

    runs: tuple[RunOrigin, ...]
    cassette: Path | None = None
    mode: str = "live"
    problem: str | None = None

    @property
    def advice(self) -> str:
        """The number of recorded and replayed runs, and how to record the other runs."""
        if not self.runs:
            return 'No run yet. Ask with wb.ask("...").'
        n_recorded = sum(run.is_recorded for run in self.runs)
        lines = [f"{_share(n_recorded, len(self.runs))} recorded."]
        if changed := [run for run in self.runs if run.state == "changed"]:
            advice = "new results were made and recorded. Look at the changes of the cassette before you keep it."
            lines.append(f"{_listed(changed)} changed: {advice}")
        live = [run for run in self.runs if run.state == "live"]
        if self.problem is not None:
            lines.append(self.problem)
        elif live and self.cassette is None:
            advice = f"with af.Workbench(record={_EXAMPLE}) and execute the notebook from its beginning."
            lines.append(f"{_listed(live)} live: make the workbench {advice}")
        elif live and all(run.status == RUNNING and run.mode in {"record", "auto"} for run in live):
            lines.append(f"{_listed(live)} live: wait for the end or the next pause.")
        elif live:
            path = shown_path(self.cassette or "")
            advice = f'execute the notebook from its beginning with af.Workbench(record="{path}").'
            lines.append(f"{_listed(live)} live: {advice}")
        if n_recorded < len(self.runs):
            return " ".join(lines)
        if self.cassette is None:
            lines.append(f"This workbench has no cassette: pass the cassette, as in af.Workbench(replay={_EXAMPLE}).")
        elif all(run.state == "replayed" for run in self.runs):
            lines.append("No model or service was called.")
        else:
            lines.append("With AF_MODE=replay, the notebook has the same results without a network and without a key.")
        return " ".join(lines)

    @property
    def _states(self) -> str:
        """Count the runs by state: `2 recorded, 1 live`."""
        states = [run.state for run in self.runs]
        return ", ".join(f"{states.count(state):,} {state}" for state in dict.fromkeys(states)) or "no runs"

    def __repr__(self) -> str:
        return f"ReproducibilityReport({self._states}, mode={self.mode!r})"

    def _card(self) -> Card:
        rows: CardRows = [
            ("cassette", None if self.cassette is None else Code(shown_path(self.cassette))),
            ("mode", self.mode),
        ]
        shown = self.runs if len(self.runs) <= MAX_ROWS else sorted(self.runs, key=lambda run: run.is_recorded)
        columns = ("question", "is", "mode", "model calls", "tool calls", "what changed", "run")
        folds = [Details("Runs", CardTable.from_rows(columns, map(_row, shown)), is_open=True)] if self.runs else []
        return Card("Reproducibility", self._states, rows, folds, self.advice)


def _share(n_recorded: int, n: int) -> str:
    """Write the subject of a sentence: `2 of 3 runs are`, `All 3 runs are`, `None of the 3 runs is`."""
    if n == 1:
        return "The run is" if n_recorded else "The run is not"
    if n_recorded in {0, n}:
        return f"All {n} runs are" if n_recorded else f"None of the {n} runs is"
    return f"{n_recorded} of {n} runs {'is' if n_recorded == 1 else 'are'}"


def _listed(runs: list[RunOrigin]) -> str:
    named = ", ".join(run.run_id for run in runs[:_NAMED])
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    return f"{named}{more} {'is' if len(runs) == 1 else 'are'}"


def _row(run: RunOrigin) -> list[CardCell]:
    calls = _counted(run.llm_calls), _counted(run.tool_calls)
    return [run.question, run.state, run.mode, *calls, "; ".join(run.changes), Code(run.run_id)]


def _counted(calls: Mapping[str, int]) -> str:
    """Count calls by origin: `3 replayed, 2 recorded`."""
    return ", ".join(f"{calls[origin]:,} {word}" for origin, word in _ORIGINS.items() if calls.get(origin))


# --- from a workbench ------------------------------------------------------------------------------------------------


def load_report(
    db: "Connection",
    session: CassetteSession,
    folder: Path,
    run_ids: Sequence[str] | None,
    run_changes: Mapping[str, tuple[str, ...]],
) -> ReproducibilityReport:
    """Report which runs are recorded, replayed, live or changed.

    `run_ids` is None for all runs of the store; `run_changes` are the changes since played runs were recorded.
    """
    path = session.path if session.mode != "live" else None
    recorded, problem = None if path is None else frozenset[str](), None
    if path is not None and path.exists():
        try:
            recorded = frozenset(head.run_id for head in Cassette.open(path).heads)
        except CassetteError as error:
            problem = str(error)
    runs = [_origin(run, folder, recorded, run_changes.get(run.run_id, ())) for run in load_provenance(db, run_ids)]
    return ReproducibilityReport(tuple(runs), path, session.mode, problem)


def _origin(run: RunProvenance, folder: Path, recorded: Collection[str] | None, changes: tuple[str, ...]) -> RunOrigin:
    origins = {*run.llm_calls, *run.tool_calls}
    is_recorded = "recorded" in origins if recorded is None else run.run_id in recorded
    state: State = "recorded" if is_recorded else "live"
    if run.mode in PLAYED:
        state = "replayed"
    elif run.mode == "auto" and "hit" in origins:
        state = "changed" if origins & {"recorded", "off"} else "replayed"
    return RunOrigin(
        run_id=run.run_id,
        question=run.question,
        state=state,
        is_recorded=state != "live" and (state != "changed" or run.run_id in (recorded or ())),
        mode=run.mode,
        status=effective_status(folder, run.status, run.owner),
        llm_calls=run.llm_calls,
        tool_calls=run.tool_calls,
        changes=changes,
    )


def manifest_changes(recorded: Mapping[str, Any], now: Mapping[str, Any], agents: Collection[str]) -> list[str]:
    """List changes since the recording that a playback does not show: the release, prompts and tools.

    `recorded` is empty if the recording has no manifest.
    """
    release = [manifest.get("versions", {}).get("artifactflow-nb") for manifest in (recorded, now)]
    changes = [f"artifactflow-nb {release[0]} → {release[1]}"] if all(release) and release[0] != release[1] else []
    used = [agent for name in agents if (agent := recorded.get("agents", {}).get(name)) is not None]
    prompts = {agent["prompt"] for agent in used}
    prompts |= {MANUALS.get(agent["tool_protocol"], "") for agent in used if agent["tools"]}
    servers = {offer.name for offer in offers_from_json(recorded["mcp"])} if recorded.get("mcp") else set()
    tools = {name for agent in used for name in agent["tools"]} - servers  # a replay starts no MCP servers
    changes += [f"prompt {name}.md" for name in _different(recorded, now, "prompts", prompts)]
    return changes + [f"tool {name}" for name in _different(recorded, now, "tools", tools)]


def _different(recorded: Mapping[str, Any], now: Mapping[str, Any], kind: str, names: Collection[str]) -> Iterator[str]:
    before, after = recorded.get(kind, {}), now.get(kind, {})
    yield from (
        name
        for name in sorted(names)
        if name in before and before[name] != after.get(name) and (kind == "tools" or name in after)
    )


def notice(run_id: str, changes: Collection[str]) -> str:
    """Write the log line for a playback whose prompts, tools or release have changed since the recording."""
    return (
        f"The run {run_id} is played as recorded. Changed since then: {', '.join(changes)}. "
        "AF_MODE=verify executes the run again with the recorded model and compares."
    )
