"""What decided an answer: forks of a run in which one source is withheld, or one step is sampled again.

::

    run: question ── search ── fetch a, b ── fetch c ── answer
                               └── without a: fetch b ── fetch c ── another answer?     no call before it is repeated
                                              └── without c: another answer?

Forks are ordinary runs in a conversation of their own, "Ablation of ...", so that the conversation of the run does not
change. A fork is named by the source or step and a number: the same call finds it again, and pays for nothing twice.
"""

import asyncio
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, isnan, nan
from typing import TYPE_CHECKING, Any, Literal, Self

import orjson

from artifactflow_nb import __version__
from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.clock_ids import derived_id, whole_ms
from artifactflow_nb.core.runs import GRAPH_SETTING, PARENT_CALL_SETTING
from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, CardTable, Code, Details
from artifactflow_nb.core.text.format import usd
from artifactflow_nb.errors import Conflict, UsageError, brief
from artifactflow_nb.notebook.run import HEARTBEAT_S
from artifactflow_nb.plugins.graders import ABSTAINED, FAILED, GRADED, CellGrade, answer_figures
from artifactflow_nb.recording.fork import Change, NewRunIds, change_of, write_fork
from artifactflow_nb.recording.rows import ENDED, RunRows, load_run_rows
from artifactflow_nb.recording.steps import Step, steps_of
from artifactflow_nb.sources.citations import SourceDocument, documents_read
from artifactflow_nb.store.conversations import insert_conversation
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.encoding import insert, read_row, to_json
from artifactflow_nb.store.runs import RUNNING, StoredRun, load_run
from artifactflow_nb.store.schema import to_microseconds

if TYPE_CHECKING:
    import pandas as pd

    from artifactflow_nb.plugins.claims.figures import Figure

NOUNS = frozenset({"claim", "grade"})
"""Words of other plugins that identifiers of this folder have; `tests/package/test_plugins.py` checks it."""

Unit = Literal["sources", "steps"]
Grade = Any
"""A function that takes an answer and returns a number, a grader of `af.graders`, or None."""


COUNTS = (
    "An outcome has changed if the fork has another grade. Without grade=: if it has another outcome (such as "
    "not_in_sources), other figures, or, without any figures, another text but for case and white space."
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A source or a step whose effect on the answer is measured.

    Attributes:
        name: The address of the source without a section, or the number of the step.
        label: The title of the source, or what the agent did.
        step: The first step that is executed again.
        agent: The agent of the step.
    """

    name: str
    label: str
    step: int
    agent: str


def subjects_of(rows: RunRows, by: Unit) -> list[Subject]:
    """Return the sources that a run has read, each with the first step that found it, or the model steps of the run."""
    steps = steps_of(rows)
    if by == "steps":
        return [Subject(str(step.number), step.description, step.number, step.agent)
                for step in steps if step.kind == "model" and step.name]  # fmt: skip
    titles = {_source(document.address): document.title for document in reversed(_documents(rows))}
    seen: dict[str, Step] = {}
    for step in steps:
        metadata = orjson.loads(step.row.get("metadata_json") or "{}")  # of a search and of reading: the sources
        for result in metadata.get("results") or ():
            if isinstance(result, Mapping):
                seen.setdefault(_source(str(result.get("address"))), step)
    return [Subject(name, titles[name].partition(":")[0], step.number, step.agent)
            for name, step in seen.items() if name in titles]  # fmt: skip


def _documents(rows: RunRows) -> list[SourceDocument]:
    return documents_read(row for row in rows["tool_calls"] if row["run_id"] == rows.run_id)


def _source(address: str) -> str:
    """Return the address of a whole source."""
    return address.partition("#")[0]


class Ablation(CardMixin):
    """The effect of each source, or of each step, on the answer of a run; `await` it until all forks have ended.

    Attributes:
        run: The run.
        by: `sources` or `steps`.
        repeats: The number of forks for each source or step.
    """

    def __init__(self, workbench: Any, run: Any, by: Unit, repeats: int, grade: Grade) -> None:
        self.run, self.by, self.repeats = run, by, repeats
        self._workbench = workbench
        self._thread = workbench._thread  # noqa: SLF001 - an ablation is a part of its workbench
        self._grade = grade
        self._own_grade = None if grade is None else self._graded(run)
        if self._own_grade is not None and self._own_grade.outcome == FAILED:
            raise UsageError(f"The answer of the run cannot be graded: {self._own_grade.evidence}.")
        self._rows: RunRows = run.rows()
        self.subjects = subjects_of(self._rows, by)
        self._forking = self._thread.submit(self._fork_all())

    # --- forks -------------------------------------------------------------------------------------------------------

    def _thread_id(self, subject: Subject, repeat: int) -> str:
        return derived_id("thd", self.run.run_id, self.by, subject.name, repeat)

    async def _fork_all(self) -> None:
        """Store and start the forks that do not exist, and wait for all; called on the engine's loop."""
        engine = self._thread.engine
        forked = await engine.runs.get(self.run.run_id)
        await engine.run_config.check_models(forked)
        forks: list[StoredRun] = []
        for repeat in range(self.repeats):  # the first fork of each source or step, then the second
            for subject in self.subjects:
                thread_id = self._thread_id(subject, repeat)
                known = await engine.database.read(lambda db, thread=thread_id: _run_of(db, thread))
                change, withheld = change_of(self._rows, subject.step), [subject.name] * (self.by == "sources")
                forks.append(known or await store_fork(engine, forked, change, withheld, thread_id))
                if forks[-1].status == RUNNING and not engine.controller.scheduler.is_driving(forks[-1].run_id):
                    await engine.controller.start(forks[-1])
        for fork in forks:
            await engine.controller.join(fork.run_id)

    def wait(self) -> Self:
        """Wait until all forks have ended, or wait for a decision; interrupting the cell ends the wait."""
        self._forking.result()
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self._wait_in_loop().__await__()

    async def _wait_in_loop(self) -> Self:
        ended = asyncio.wrap_future(self._forking)
        while not ended.done():
            await asyncio.wait([asyncio.shield(ended)], timeout=HEARTBEAT_S)
        return self.wait()

    # --- results -----------------------------------------------------------------------------------------------------

    def forks(self, name: str | int) -> "list[Any]":
        """Return the forks of a source, by its address, or of a step, by its number, that exist so far."""
        threads = [
            self._thread_id(each, n) for each in self.subjects if each.name == str(name) for n in range(self.repeats)
        ]
        stored = read_store(self._workbench.store.path, lambda db: [_run_of(db, thread) for thread in threads])
        return [self._workbench.run(run.run_id) for run in stored if run is not None]

    @property
    def df(self) -> "pd.DataFrame":
        """One row per source or step, the largest share of changed outcomes first.

        Columns: `address` and `title`, or `step`, `agent` and `title`; `n` forks with an answer, `n_without` without
        one, or with a grade that failed; `changed` outcomes, their `share` with its 95 % interval from `low` to `high`;
        `grade_change`, the mean difference to the grade of the run; `cost_usd` of the forks, NaN if a price is unknown;
        `claims`, the texts of the claims of the run that no other source supports (sources only).
        `Ablation.what_counts` says what a changed outcome is.
        """
        import pandas as pd

        rows = [self._row(subject) for subject in self.subjects]
        names = ["address", "title"] if self.by == "sources" else ["step", "agent", "title"]
        names += ["n", "n_without", "changed", "share", "low", "high", "grade_change", "cost_usd"]
        frame = pd.DataFrame(rows, columns=[*names, *(["claims"] if self.by == "sources" else [])])
        return frame.sort_values(["share", "changed"], ascending=False, kind="stable", ignore_index=True)

    what_counts = COUNTS

    def _row(self, subject: Subject) -> dict[str, Any]:
        from artifactflow_nb.plugins.graders.statistics import wilson

        forks = self.forks(subject.name)
        answered = [fork for fork in forks if fork.status == "completed"]
        if self._own_grade is None:
            differences, has_changed = [], [self._has_changed(fork) for fork in answered]
        else:
            own = self._own_grade
            grades = [grade for grade in map(self._graded, answered) if grade.outcome != FAILED]
            has_changed = [(grade.outcome, grade.score) != (own.outcome, own.score) for grade in grades]
            scores = [grade.score for grade in grades if grade.score is not None]
            differences = [] if own.score is None else [score - own.score for score in scores]
        changed, n, costs = sum(has_changed), len(has_changed), [fork.entry.cost_usd for fork in forks]
        low, high = wilson(changed, n)
        return {
            "address": subject.name,
            "title": subject.label,
            "step": subject.step,
            "agent": subject.agent,
            "n": n,
            "n_without": len(forks) - n,
            "changed": changed,
            "share": changed / n if n else nan,
            "low": low,
            "high": high,
            "grade_change": sum(differences) / len(differences) if differences else nan,
            "cost_usd": nan if None in costs else sum(costs),
            "claims": self._resting_on.get(subject.name, []),
        }

    def _graded(self, run: Any) -> CellGrade:
        """Return the grade of the answer of a run; a function that raises, or returns no number, has failed."""
        if not hasattr(self._grade, "grade"):
            try:
                score = self._grade(str(run.response))
                outcome: Any = ABSTAINED if score is None else GRADED if isfinite(score) else FAILED
            except Exception as error:  # noqa: BLE001 - a function of the user may raise anything
                return CellGrade(FAILED, None, f"{type(error).__name__}: {error}")
            return CellGrade(outcome, score, f"the score is {score!r}")
        sql = "SELECT columns FROM study_cells WHERE run_id = ?"
        cell = read_store(self._workbench.store.path, lambda db: db.execute(sql, (self.run.run_id,)).fetchone())
        columns = orjson.loads(cell[0]) if cell is not None else {}  # the run may be that of a cell of a study
        row = {"question": run.question, "answer": str(run.response), "outcome": run.outcome, "run_id": run.run_id}
        grade: CellGrade = self._grade.grade({**columns, **row})
        return grade

    def _has_changed(self, fork: Any) -> bool:
        return fork.outcome != self.run.outcome or not is_same_answer(str(self.run.response), str(fork.response))

    @cached_property
    def _resting_on(self) -> dict[str, list[str]]:
        """The supported claims that the run's other read sources do not support, by the address of the cited source."""
        try:
            from artifactflow_nb.plugins.claims.checker import check
            from artifactflow_nb.plugins.claims.sources import Source
        except ImportError:  # a package without the plugin
            return {}
        sql = "SELECT text, address FROM claims WHERE run_id = ? AND status = 'supported' AND address IS NOT NULL"
        documents = [(_source(each.address), Source(each.text, each.address)) for each in _documents(self._rows)]
        texts: dict[str, list[str]] = {}
        for text, address in self._workbench.query(sql, [self.run.run_id]).to_numpy():
            others = [source for name, source in documents if name != _source(address)]
            if check(text, others).status != "supported":
                texts.setdefault(_source(address), []).append(text)
        return texts

    def _card(self) -> Card:
        frame = self.df
        names = ["title", "address"] if self.by == "sources" else ["step", "agent", "title"]
        rows = []
        for row in frame.to_dict("records"):
            interval = "" if isnan(row["low"]) else f"{row['low']:.0%} to {row['high']:.0%}"
            cells = [Code(row[name]) if name == "address" else str(row[name]) for name in names]
            fallen = [str(len(row["claims"]))] if self.by == "sources" else []
            cost = "unknown" if isnan(row["cost_usd"]) else usd(row["cost_usd"])
            rows.append([*cells, f"{row['changed']} of {row['n']}", interval, *fallen, cost])
        columns = [*names, "changed", "95 %", *(["claims that fall"] if self.by == "sources" else []), "cost"]
        n_all, n_ended = len(self.subjects) * self.repeats, int(frame["n"].sum())
        about: CardRows = [("forks with an answer", f"{n_ended} of {n_all}"), ("run_id", Code(self.run.run_id))]
        table = Details(f"What the answer rests on, by {self.by}", CardTable.from_rows(columns, rows), is_open=True)
        return Card("Ablation", self.run.question, about, [table], note=COUNTS)

    def __repr__(self) -> str:
        return f"Ablation({self.run.question!r}, by={self.by!r}, {len(self.subjects)} x {self.repeats})"


def ablate(workbench: Any, run: Any, by: Unit, repeats: int, grade: Grade) -> Ablation:
    """Start the ablation of a run; `Studies.ablate` describes the arguments and errors."""
    run = workbench.run(run) if isinstance(run, str) else run
    if by not in {"sources", "steps"}:
        raise UsageError(f"by is {brief(by)}; it must be 'sources' or 'steps'.")
    if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 1:
        raise UsageError(f"repeats is {brief(repeats)}; it must be a whole number from 1.")
    if grade is not None and not callable(grade) and not hasattr(grade, "grade"):
        raise UsageError(f"grade is {brief(grade)}; pass a function of the answer that returns a number, or a rule.")
    if workbench._thread.engine.session.mode != "live":  # noqa: SLF001 - as above
        raise UsageError(
            "This workbench records or replays. Ablate the run in a workbench without record= and replay=."
        )
    if run.status not in ENDED:
        raise Conflict(f"The run {run.run_id} is {run.status}. Wait until the run has ended.")
    if GRAPH_SETTING in run.settings:
        raise UsageError("The run has a graph of your own, which cannot be forked at a step.")
    return Ablation(workbench, run, by, repeats, grade)


async def store_fork(
    engine: Any, forked: StoredRun, change: Change, withheld: Sequence[str], thread_id: str
) -> StoredRun:
    """Store a fork in the conversation of the ablation, without the withheld sources; `start` then continues it."""
    settings = {**forked.settings, "fork": change.as_json()}
    settings.pop(PARENT_CALL_SETTING, None)
    settings["sources"] = [*(settings.get("sources") or ()), *(f"-{address}" for address in withheld)]
    limits, model = settings.get("budget"), settings.get("model")
    await engine.run_config.build(forked.flow, limits and Budget.from_limits(limits), model, "standard", None)
    columns = {
        "settings_json": orjson.dumps(settings, option=orjson.OPT_SORT_KEYS).decode(),
        "manifest_json": to_json(await engine.manifest(forked.flow, model)),
        "mode": engine.mode,
        "package_version": __version__,
    }
    now = to_microseconds(whole_ms(engine.clock.now()))
    run_id, message_id = engine.ids.new("run"), engine.ids.new("msg")

    def write(db: sqlite3.Connection) -> StoredRun:
        ids = NewRunIds(run_id, message_id, thread_id, now, copy_history(db, forked, now))
        write_fork(db, load_run_rows(db, forked.run_id), change, ids, columns)
        return load_run(db, run_id)

    stored: StoredRun = await engine.database.write(write)
    return stored


def is_same_answer(answer: str, other: str) -> bool:
    """Return whether two answers have the same figures or, if neither has any, the same text."""
    try:
        figures, others = (
            [figure for figure in answer_figures(text) if figure.kind != "name"] for text in (answer, other)
        )
    except ImportError:  # a package without the plugin that reads figures
        figures, others = [], []
    if not figures and not others:
        return answer.casefold().split() == other.casefold().split()
    from artifactflow_nb.plugins.claims.figures import agrees

    def covers(some: "Sequence[Figure]", all_of: "Sequence[Figure]") -> bool:
        return all(any(agrees(figure, each) or agrees(each, figure) for each in some) for figure in all_of)

    return covers(figures, others) and covers(others, figures)


def _run_of(db: sqlite3.Connection, thread_id: str) -> StoredRun | None:
    row = db.execute("SELECT run_id FROM runs WHERE thread_id = ?", (thread_id,)).fetchone()
    return None if row is None else load_run(db, row[0])


def copy_history(db: sqlite3.Connection, forked: StoredRun, now: int) -> dict[str, str]:
    """Create the conversation of the forks with the earlier messages of the run's branch; return the new ids.

    The copied messages have no runs, and their artifacts no tool calls.
    """
    old = forked.conversation_id
    moved = {old: derived_id("conv", forked.run_id, "ablation")}
    path: list[sqlite3.Row] = []
    message = forked.parent_message_id
    while message is not None:
        path.insert(0, db.execute("SELECT * FROM messages WHERE message_id = ?", (message,)).fetchone())
        moved[message] = derived_id("msg", moved[old], message)
        message = path[0]["parent_id"]
    if db.execute("SELECT 1 FROM conversations WHERE conversation_id = ?", (moved[old],)).fetchone():
        return moved
    insert_conversation(db, moved[old], f"Ablation of: {forked.question}", now)
    renamed = {"conversation_id": moved[old], "run_id": None, "tool_call_id": None}
    for row in path:
        ids = {name: moved.get(row[name]) for name in ("message_id", "parent_id")}
        insert(db, "messages", {**read_row(db, row), **ids, "conversation_id": moved[old]})
    versions = db.execute("SELECT * FROM artifact_versions WHERE conversation_id = ? ORDER BY rowid", (old,)).fetchall()
    for row in versions:
        if row["message_id"] is None or row["message_id"] in moved:
            insert(
                db, "artifact_versions", {**read_row(db, row), **renamed, "message_id": moved.get(row["message_id"])}
            )
    return moved
