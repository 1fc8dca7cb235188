"""What of a workbench's runs can be had again without asking anybody: what is recorded, replayed, live or changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from artifactflow_nb.engine import Engine
from artifactflow_nb.errors import CassetteError, CassetteMiss
from artifactflow_nb.manifest import changes
from artifactflow_nb.recordings.cassette import Cassette
from artifactflow_nb.recordings.misses import RE_RECORD
from artifactflow_nb.recordings.player import Player
from artifactflow_nb.store.made import MadeRun, load_made
from artifactflow_nb.store.ownership import observed_status
from artifactflow_nb.store.runs import RUNNING
from artifactflow_nb.text.cards import MAX_ROWS, Card, Cell, Code, Fold, Rows, Shown, Table

if TYPE_CHECKING:
    from sqlite3 import Connection

State = Literal["recorded", "replayed", "live", "changed"]

_ORIGINS = {"hit": "replayed", "recorded": "recorded", "off": "live"}
_NAMED = 3
_EXAMPLE = '"data/cassettes/notebook.jsonl"'


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """How one run was made.

    Attributes:
        state: `recorded` into the cassette, `replayed` from it, `live` if it is in none, `changed` if it was played and
            did not do what was recorded.
        is_kept: Whether it can be played: it was, or it is in the cassette now.
        mode: `live`, `record`, `replay` or `auto`.
        status: The run's status.
        llm_calls: How many model calls it has of each origin: `off`, `recorded`, `hit`.
        tool_calls: How many tool calls it has of each origin.
        parted_at: Where it first did what was not recorded; None if nowhere.
        changes: What of a played run is not as it was when it was recorded: versions, agents, prompts, tools, sources.
    """

    run_id: str
    question: str
    state: State
    is_kept: bool
    mode: str
    status: str
    llm_calls: Mapping[str, int]
    tool_calls: Mapping[str, int]
    parted_at: str | None = None
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repro(Shown):
    """What of some runs is recorded, replayed, live or changed, and what to do about it.

    Attributes:
        runs: The runs in the order in which they began.
        cassette: The cassette of the workbench; None if it has none.
        mode: What the workbench does with it.
        problem: Why the cassette cannot be used; None if it can.
    """

    runs: tuple[RunOrigin, ...]
    cassette: Path | None = None
    mode: str = "live"
    problem: str | None = None

    @property
    def advice(self) -> str:
        """How many of the runs are recorded or replayed, and what makes the others so."""
        if not self.runs:
            return 'No run yet. Ask with wb.ask("...").'
        n_kept = sum(run.is_kept for run in self.runs)
        told = [f"{_share(n_kept, len(self.runs))} recorded."]
        if changed := [run for run in self.runs if run.state == "changed"]:
            told.append(f"{_listed(changed)} changed: {_of_changed(changed)}")
        if self.problem is not None:
            told.append(self.problem)
        elif live := [run for run in self.runs if run.state == "live"]:
            told.append(f"{_listed(live)} live: {self._of_live(live)}")
        if n_kept == len(self.runs):
            told.append(self._of_kept())
        return " ".join(told)

    def _of_live(self, live: list[RunOrigin]) -> str:
        if self.cassette is None:
            return (
                f"make the workbench with af.Workbench(record={_EXAMPLE}) and execute the notebook from its beginning."
            )
        if all(run.status == RUNNING and run.mode in {"record", "auto"} for run in live):
            return "wait until they rest; then they are recorded."
        return f'execute the notebook from its beginning with af.Workbench(record="{self.cassette}").'

    def _of_kept(self) -> str:
        if self.cassette is None:
            return f"This workbench has no cassette: name theirs, as in af.Workbench(replay={_EXAMPLE})."
        if all(run.state == "replayed" for run in self.runs):
            return "Nothing was asked outside."
        return "Executed with AF_MODE=replay, the notebook gives the same without a network and without a key."

    @property
    def _states(self) -> str:
        """`2 recorded, 1 live`."""
        states = [run.state for run in self.runs]
        return ", ".join(f"{states.count(state):,} {state}" for state in dict.fromkeys(states)) or "no runs"

    def __repr__(self) -> str:
        return f"Repro({self._states}, mode={self.mode!r})"

    def _card(self) -> Card:
        found: Rows = [
            ("cassette", None if self.cassette is None else Code(str(self.cassette))),
            ("mode", self.mode),
        ]
        shown = self.runs if len(self.runs) <= MAX_ROWS else sorted(self.runs, key=lambda run: run.is_kept)
        columns = ("question", "is", "mode", "model calls", "tool calls", "what changed", "run")
        folds = [Fold("Runs", Table.of(columns, map(_row, shown)), is_open=True)] if self.runs else []
        return Card("Reproducibility", self._states, found, folds, self.advice)


def _of_changed(changed: list[RunOrigin]) -> str:
    if any(run.mode == "replay" for run in changed):
        return f"it asks for what is not recorded. {RE_RECORD}"
    return "what is new was made and recorded. Look at what changed in the cassette before you keep it."


def _share(n_kept: int, n: int) -> str:
    """`2 of 3 runs are`, `All 3 runs are`, `None of the 3 runs is`, `The run is not`."""
    if n == 1:
        return "The run is" if n_kept else "The run is not"
    if n_kept in {0, n}:
        return f"All {n} runs are" if n_kept else f"None of the {n} runs is"
    return f"{n_kept} of {n} runs {'is' if n_kept == 1 else 'are'}"


def _listed(runs: list[RunOrigin]) -> str:
    named = ", ".join(run.run_id for run in runs[:_NAMED])
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    return f"{named}{more} {'is' if len(runs) == 1 else 'are'}"


def _row(run: RunOrigin) -> list[Cell]:
    parted = [f"from {run.parted_at} on"] if run.parted_at else []
    what = "; ".join([*parted, *run.changes])
    return [run.question, run.state, run.mode, _told(run.llm_calls), _told(run.tool_calls), what, Code(run.run_id)]


def _told(calls: Mapping[str, int]) -> str:
    """`3 replayed, 2 recorded`."""
    return ", ".join(f"{calls[origin]:,} {word}" for origin, word in _ORIGINS.items() if calls.get(origin))


# --- from a workbench ------------------------------------------------------------------------------------------------


def load_repro(engine: Engine, db: "Connection", *, whole_store: bool = False) -> Repro:
    """What of a workbench's runs is recorded, replayed, live or changed.

    Args:
        engine: Its engine.
        db: A connection to its store.
        whole_store: Whether to look at all runs of the store, and not only at those that were begun here.
    """
    begun = engine.controller.begun
    holder = engine.deck.file or engine.deck.cassette
    path = None if holder is None else holder.path
    made = load_made(db, None if whole_store else list(begun))
    kept, problem = _kept(path)
    runs = [_origin(engine, one, is_kept=one.run_id in kept) for one in made]
    return Repro(tuple(runs), path, engine.deck.mode, problem)


def _origin(engine: Engine, made: MadeRun, *, is_kept: bool) -> RunOrigin:
    player, now = engine.deck.player(made.run_id), engine.controller.begun.get(made.run_id)
    state = _state(made, player, is_kept=is_kept, is_ours=now is not None)
    found = () if player is None or now is None else changes(player.recording.manifest, now, made.agents)
    return RunOrigin(
        run_id=made.run_id,
        question=made.question,
        state=state,
        is_kept=state in {"recorded", "replayed"} or (state == "changed" and is_kept and made.mode != "replay"),
        mode=made.mode,
        status=observed_status(engine.folder, made.status, made.owner),
        llm_calls=made.llm_calls,
        tool_calls=made.tool_calls,
        parted_at=None if player is None else player.parted_at,
        changes=tuple(found),
    )


def _kept(path: Path | None) -> tuple[frozenset[str], str | None]:
    """The ids of the runs in a cassette as it is on the disk now, and why it cannot be used, if it cannot."""
    if path is None or not path.exists():
        return frozenset(), None
    try:
        return frozenset(head.run_id for head in Cassette.open(path).runs), None
    except CassetteError as error:
        return frozenset(), str(error)


def _state(run: MadeRun, player: Player | None, *, is_kept: bool, is_ours: bool) -> State:
    if (player is not None and player.parted_at is not None) or run.error_type == CassetteMiss.__name__:
        return "changed"
    if player is not None or run.mode == "replay":
        return "replayed"
    if is_kept:
        return "recorded"
    if is_ours:  # then the cassette would hold it
        return "live"
    origins = {*run.llm_calls, *run.tool_calls}
    if "recorded" in origins:
        return "changed" if "hit" in origins and run.mode == "auto" else "recorded"
    return "replayed" if "hit" in origins and run.mode == "auto" else "live"
