"""The card of a study: a live grid of questions and factors, and the same as a table in the saved notebook.

::

    name, state, bar    counts by state, cost so far, forecast, time left; changes with each cell
    waiting, failed     sentences, with buttons that only a live page has
    grid                a row per question, a place per combination of factors; of many questions only the counts
"""

import asyncio
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from artifactflow_nb.core.language import EnglishText, status_label, tool_label, translate, translate_list
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.core.text.format import clip, translate_count, translate_duration, usd
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.plugins.studies.tables import DONE, FAILED, OF_STUDY, PLANNED, RUNNING, StudyRow, load_study
from artifactflow_nb.widgets.page.elements import STATUS_MARKS, button
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.view import PageAction
from artifactflow_nb.widgets.run.polled_view import PolledView

if TYPE_CHECKING:
    from artifactflow_nb.plugins.studies.study import Study

MAX_QUESTIONS = 40
"""The largest number of questions that have a row of their own."""

_MAX_PLACES = 12
_MAX_FAILURES = 5
_MAX_NUMBERS = 12
_QUESTION_COLUMNS = 72
_ORDER = ("failed", "waiting", "running", "planned", "cancelled", "done")
"""The states, the most important first."""

_MARKS = {"planned": "pending", "done": "ok"}  # the other marks have the names of their states


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a study, summed in SQL.

    Attributes:
        questions: The questions by number.
        places: The combinations of factors, in order, as texts.
        cells: The number of cells by question, place and state.
        waiting: The number of waiting cells by tool.
        failures: The most frequent errors, each with the numbers of the failed cells.
        cost_usd: The cost of all attempts; None if no price is known.
        n_unpriced: The number of model calls without a price.
        mean_ms: The mean time of a completed run; None if no run is completed.
    """

    study: StudyRow
    questions: Mapping[int, str]
    places: Sequence[str]
    cells: Mapping[tuple[int, str], Counter[str]]
    waiting: Mapping[str, int]
    failures: Sequence[tuple[list[int], str]]
    cost_usd: float | None
    n_unpriced: int
    tokens: int
    mean_ms: float | None

    @property
    def states(self) -> Counter[str]:
        """The number of cells by state."""
        return sum(self.cells.values(), Counter())


_RUNS_OF_STUDY = (
    "FROM study_cells AS c JOIN json_each(json_insert(c.earlier_runs, '$[#]', c.run_id)) AS e "
    f"JOIN {{}} AS r ON r.run_id = e.value WHERE c.{OF_STUDY.replace('AND cell_id', 'AND c.cell_id')}"
)


def load_progress(db: sqlite3.Connection, name: str) -> Progress:
    """Sum the progress of a study."""
    study = load_study(db, name)
    values = {"study": study.study_id}
    cells: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    places: dict[str, str] = {}
    counts = (
        "SELECT question_n, factors, state, count(*) FROM study_cells "  # noqa: S608
        f"WHERE {OF_STUDY} GROUP BY 1, 2, 3 ORDER BY min(n)"
    )
    for number, factors, state, n in map(tuple, db.execute(counts, values)):
        place = places.setdefault(factors, ", ".join(f"{label}" for label in orjson.loads(factors).values()))
        cells[number, place][state] += n
    questions = f"SELECT question_n, question FROM study_cells WHERE {OF_STUDY} GROUP BY 1"  # noqa: S608
    failed = (
        "SELECT json_group_array(n), error FROM study_cells "  # noqa: S608
        f"WHERE {OF_STUDY} AND state = 'failed' GROUP BY error ORDER BY count(*) DESC LIMIT {_MAX_FAILURES}"
    )
    waiting = (
        "SELECT a.tool_name, count(DISTINCT c.cell_id) FROM study_cells AS c "  # noqa: S608
        f"JOIN approvals AS a ON a.run_id = c.run_id WHERE c.{OF_STUDY} "
        "AND c.state = 'waiting' AND a.decision IS NULL GROUP BY 1"
    )
    usage = (
        "SELECT sum(cost_usd), total(cost_usd IS NULL AND input_tokens IS NOT NULL AND provider <> "
        f"'{COMPUTED_PROVIDER}'), total(input_tokens + output_tokens) {_RUNS_OF_STUDY.format('llm_calls')}"
    )
    mean = f"SELECT avg(completed_at - started_at) / 1000.0 {_RUNS_OF_STUDY.format('runs')} AND r.status = 'completed'"
    cost_usd, n_unpriced, tokens = db.execute(usage, values).fetchone()
    return Progress(
        study,
        dict(map(tuple, db.execute(questions, values))),
        list(dict.fromkeys(places.values())),
        dict(cells),
        dict(map(tuple, db.execute(waiting, values))),
        [(orjson.loads(numbers), error or "") for numbers, error in map(tuple, db.execute(failed, values))],
        cost_usd,
        int(n_unpriced),
        int(tokens),
        db.execute(mean, values).fetchone()[0],
    )


class StudyView(PolledView):
    """The live card of a study."""

    label: EnglishText = "Study"
    css = "af-study"

    def __init__(self, study: "Study", progress: Progress) -> None:
        super().__init__(study._thread.engine)  # noqa: SLF001 - a view is a part of its study
        self._study = study
        self._progress = progress

    async def load(self) -> None:
        """Sum the progress again."""
        name = self._progress.study.name
        self._progress = await self._engine.database.read(lambda db: load_progress(db, name))

    async def _follow(self) -> None:
        await super()._follow()
        if self._progress.study.state != RUNNING and not self._progress.states[RUNNING]:
            self.screen.finish()

    def announcement(self) -> str:
        """Return the sentence of the cells that wait, or the end of the study."""
        return " ".join(waiting_sentences(self._progress)) or (
            "" if self._progress.study.state == RUNNING else state_sentence(self._progress)
        )

    def nodes(self) -> tuple[Node, ...]:
        """Return the content, with buttons."""
        return (*progress_nodes(self._progress), self._controls())

    def saved_nodes(self) -> tuple[Node, ...]:
        """Return the content of the saved output."""
        return progress_nodes(self._progress)

    def _controls(self) -> Node:
        progress, buttons = self._progress, []
        for tool in progress.waiting:
            for label, is_approved in ((translate("Approve all"), True), (translate("Deny all"), False)):
                name = f"{label}: {tool_label(tool)}"
                buttons.append(button(label, "decide", name=name, tool=tool, approved=is_approved))
        if progress.states[FAILED]:
            buttons.append(button(translate("Retry failed cells"), "retry"))
        if progress.study.state == RUNNING:
            buttons.append(button(translate("Cancel the study"), "cancel"))
        return Node("controls", "".join(buttons), kind="controls", css="af-study-controls")

    async def act_decide(self, act: PageAction) -> None:
        """Decide all requests for a tool."""
        await asyncio.to_thread(self._study.decide, str(act.args["tool"]), approved=bool(act.args["approved"]))

    async def act_retry(self, _act: PageAction) -> None:
        """Do the failed cells again."""
        await asyncio.to_thread(self._study.retry)

    async def act_cancel(self, _act: PageAction) -> None:
        """Cancel the study."""
        await asyncio.to_thread(self._study.cancel)


def progress_nodes(progress: Progress) -> tuple[Node, ...]:
    """Build the card without its controls."""
    name = escape_with_language(progress.study.name)
    head = (
        f'<strong>{translate("Study")}</strong> {name} <span class="af-quiet">{escape(state_sentence(progress))}</span>'
    )
    sentences = [*waiting_sentences(progress), *failure_sentences(progress)]
    notes = "".join(f"<p>{escape_with_language(sentence)}</p>" for sentence in sentences)
    plain = "\n".join([f"{translate('Study')} {progress.study.name}: {state_sentence(progress)}", *sentences])
    return (
        Node("head", head, text=plain),
        Node("figures", f"<p>{escape(figures_sentence(progress))}</p>", text="", css="af-study-figures"),
        Node("notes", notes, text="", css="af-study-notes"),
        grid_node(progress),
    )


def state_sentence(progress: Progress) -> str:
    """Say how many cells have which state, and why the study has stopped."""
    states = progress.states
    sentence = f"{translate_count(states.total(), 'cell')}: {translate_list(_state_counts(states, _ORDER[::-1]))}"
    if progress.study.state == DONE and (n := states[PLANNED]):
        cells = translate_count(n, "cell")
        return sentence + translate(". {cells} planned: the budget does not cover another cell.", cells=cells)
    return sentence


def figures_sentence(progress: Progress) -> str:
    """Say the tokens and the cost so far, with a forecast and the time left."""
    states, total = progress.states, progress.states.total()
    n_ended = states[DONE] + states[FAILED]
    parts = [translate_count(progress.tokens, "token")]
    if progress.cost_usd is not None:
        unknown = translate(", {n} unknown", n=f"{progress.n_unpriced:,}") if progress.n_unpriced else ""
        parts = [usd(progress.cost_usd) + unknown, *parts]
        if 0 < n_ended < total:
            cost = usd(progress.cost_usd / n_ended * total)
            at_least = translate("at least {cost} in all", cost=cost)
            parts.append(at_least if unknown else translate("about {cost} in all", cost=cost))
    if progress.study.state == RUNNING and progress.mean_ms and (n_left := states[PLANNED] + states[RUNNING]):
        rounds = -(-n_left // progress.study.spec["at_once"])
        parts.append(translate("about {time} left", time=translate_duration(rounds * progress.mean_ms)))
    return " · ".join(parts)


def waiting_sentences(progress: Progress) -> list[str]:
    """Say how many cells wait for which tool."""
    return [
        translate("{cells} waiting for a decision: {tool}.", cells=translate_count(n, "cell"), tool=tool_label(tool))
        for tool, n in progress.waiting.items()
    ]


def failure_sentences(progress: Progress) -> list[str]:
    """Say why cells failed: the numbers of the cells, and their error."""
    sentences = []
    for numbers, error in progress.failures:
        named = ", ".join(map(str, sorted(numbers)[:_MAX_NUMBERS])) + ", …" * (len(numbers) > _MAX_NUMBERS)
        cells = translate_count(len(numbers), "failed cell")
        sentences.append(f"{cells} ({named}): {clip(error, 2 * _QUESTION_COLUMNS)}")
    return sentences


def grid_node(progress: Progress) -> Node:
    """Build the grid: a row per question; of many questions or places, only a row per place."""
    if len(progress.questions) > MAX_QUESTIONS or len(progress.places) > _MAX_PLACES:
        totals: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (_, place), counts in progress.cells.items():
            totals[place] += counts
        rows = [_row(f"p{n}", place, [("", totals[place])]) for n, place in enumerate(progress.places)]
    else:
        rows = []
        for number, question in progress.questions.items():
            places = [(place, progress.cells.get((number, place), Counter())) for place in progress.places]
            rows.append(_row(f"q{number}", question, places))
    return Node("grid", kind="list", css="af-study-grid", children=tuple(rows))


def _row(key: str, label: str, places: Sequence[tuple[str, Counter[str]]]) -> Node:
    """Build a row: the label, then a leaf per place, so that a change sends one leaf to the page."""
    label = clip(label, _QUESTION_COLUMNS)
    leaves = [
        Node(
            f"{key}.{n}",
            f"{f'<span>{escape_with_language(place)}</span> ' * bool(place)}{_place_html(counts)}",
            css="af-study-place",
        )
        for n, (place, counts) in enumerate(places)
    ]
    plain = "; ".join(f"{place} {', '.join(_state_counts(counts))}".strip() for place, counts in places)
    head = Node(f"{key}.label", escape_with_language(label), css="af-study-question")
    return Node(key, kind="item", css="af-study-row", children=(head, *leaves), text=f"{label}: {plain}")


def _place_html(counts: Counter[str]) -> str:
    marks = [(_MARKS.get(state, state), status_label(state), counts[state]) for state in _ORDER if counts[state]]
    return " ".join(
        f'<span class="af-mark af-{mark}" role="img" aria-label="{label}">{STATUS_MARKS[mark]}</span>{n:,}'
        for mark, label, n in marks
    )


def _state_counts(counts: Counter[str], order: Sequence[str] = _ORDER) -> list[str]:
    return [f"{counts[state]:,} {status_label(state)}" for state in order if counts[state]]
