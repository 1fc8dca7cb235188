"""`Frames`: the frames of a store, as methods of a workbench and of a sealed run."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from artifactflow_nb.analysis.frames.catalog import (
    APPROVALS,
    ARTIFACTS,
    EVENTS,
    LLM_CALLS,
    MESSAGES,
    PLAN_STEPS,
    SOURCES,
    TOOL_CALLS,
)
from artifactflow_nb.analysis.frames.metrics import load_metrics_frame
from artifactflow_nb.analysis.frames.query import Params, query
from artifactflow_nb.analysis.frames.reading import describe_columns, load_frame
from artifactflow_nb.analysis.frames.runs import RUNS
from artifactflow_nb.core.language import Language, in_language
from artifactflow_nb.store.frames import (
    IDS,
    SUMMARY,
    ColumnSelection,
    ConversationFilter,
    Frame,
    NameFilter,
    RunFilter,
    StatusFilter,
    TimeFilter,
)

if TYPE_CHECKING:
    import pandas as pd

_Method = TypeVar("_Method", bound=Callable[..., Any])


def frame_method(method: _Method, frame: Frame, rows: str) -> _Method:
    """Return a method that loads another frame with the same arguments."""

    @wraps(method)
    def load(self: "Frames", run: RunFilter = None, **filters: Any) -> "pd.DataFrame":
        return self._load(frame, run, **filters)

    groups = dict.fromkeys(f"`{column.group}`" for column in frame.columns if column.group != IDS)
    load.__doc__ = f"{rows}\n\nGroups of columns: {', '.join(groups)}. Arguments as for `runs_df`."
    load.__name__, load.__qualname__ = f"{frame.name}_df", f"Frames.{frame.name}_df"
    return cast("_Method", load)


class Frames:
    """Typed pandas frames of a store, read from its rows, so they are the same after a kernel restart."""

    _language: Language = "en"

    def __init__(self, store: Path) -> None:
        self._store_file = store

    @property
    def _store(self) -> Path:
        return self._store_file

    def _load(self, frame: Frame, run: RunFilter = None, **filters: Any) -> "pd.DataFrame":
        loaded = load_frame(self._store, frame, run, **filters)
        loaded.attrs["language"] = self._language  # the language of charts of this frame
        return loaded

    def runs_df(
        self,
        run: RunFilter = None,
        *,
        conversation: ConversationFilter = None,
        since: TimeFilter = None,
        until: TimeFilter = None,
        status: StatusFilter = None,
        columns: ColumnSelection = None,
        answer: bool = False,
    ) -> "pd.DataFrame":
        """Return one row per run: question, status, seconds, tokens and cost; `columns="all"` has the other columns.

        Example: `wb.runs_df(since=timedelta(days=1), status="failed", columns=["time", "question"])`.

        Args:
            run: Filter by run: a run, its id, or a list of runs or ids.
            conversation: Filter by conversation: an id, a run of the conversation, or a list of these.
            since: Earliest `started_at`, inclusive: a datetime (naive means UTC), an ISO string, or a timedelta before
                now.
            until: Latest `started_at`, exclusive, in the same formats.
            status: One or several of running, waiting, completed, failed, cancelled, abandoned.
            columns: Columns or groups of columns, one or several: `what`, `results`, `time`, `counts`, `tokens`,
                `cost`, `replay`, `all`; by default `summary`, eight columns that people read. Other selections include
                the ids, on which frames join. `columns_df` lists all columns.
            answer: Whether to add the column `answer`.

        Errors: `UsageError` for an unknown column or an invalid value, `NotFound` for an unknown id.
        """
        optional = ("answer",) if answer else ()
        return self._load(
            RUNS,
            run,
            conversation=conversation,
            since=since,
            until=until,
            status=status,
            columns=SUMMARY if columns is None else columns,
            optional=optional,
        )

    def llm_calls_df(
        self,
        run: RunFilter = None,
        *,
        conversation: ConversationFilter = None,
        since: TimeFilter = None,
        until: TimeFilter = None,
        columns: ColumnSelection = None,
    ) -> "pd.DataFrame":
        """Return one row per model call, including failed attempts; `since` and `until` apply to `started_at`.

        Groups of columns: `what`, `model`, `results`, `time`, `tokens`, `cost`, `replay`. Arguments as for `runs_df`.
        """
        return self._load(LLM_CALLS, run, conversation=conversation, since=since, until=until, columns=columns)

    tool_calls_df = frame_method(
        llm_calls_df,
        TOOL_CALLS,
        "Return one row per tool call, with its approval; `since` and `until` apply to `called_at`.",
    )
    plan_steps_df = frame_method(
        llm_calls_df,
        PLAN_STEPS,
        "Return one row per step of each started plan; `since` and `until` apply to the start of the plan.",
    )
    events_df = frame_method(
        llm_calls_df, EVENTS, "Return one row per stored event, without text chunks; `since` and `until` apply to `ts`."
    )
    artifacts_df = frame_method(
        llm_calls_df,
        ARTIFACTS,
        "Return one row per version of an artifact, without its text; `since` and `until` apply to `created_at`.",
    )
    approvals_df = frame_method(
        llm_calls_df,
        APPROVALS,
        "Return one row per approval request, including open ones; `since` and `until` apply to `asked_at`.",
    )

    def messages_df(
        self,
        run: RunFilter = None,
        *,
        conversation: ConversationFilter = None,
        since: TimeFilter = None,
        until: TimeFilter = None,
        status: StatusFilter = None,
        columns: ColumnSelection = None,
    ) -> "pd.DataFrame":
        """Return one row per message, with its position in the tree; `since` and `until` apply to `created_at`.

        Groups of columns: `tree`, `text`, `results`, `time`. Arguments as for `runs_df`.
        """
        return self._load(
            MESSAGES, run, conversation=conversation, since=since, until=until, status=status, columns=columns
        )

    def sources_df(
        self, *, since: TimeFilter = None, until: TimeFilter = None, columns: ColumnSelection = None
    ) -> "pd.DataFrame":
        """Return one row per indexed source; `since` and `until` apply to `fetched_at`.

        Groups of columns: `what`, `size`, `time`. Arguments as for `runs_df`.
        """
        return self._load(SOURCES, since=since, until=until, columns=columns)

    def metrics_df(
        self,
        run: RunFilter = None,
        *,
        by: str = "agent",
        agent: NameFilter = None,
        model: NameFilter = None,
        flow: NameFilter = None,
        conversation: ConversationFilter = None,
        since: TimeFilter = None,
        until: TimeFilter = None,
        search: str = "",
        sort: str | None = None,
        ascending: bool = False,
    ) -> "pd.DataFrame":
        """Return one row per group of model calls: tokens, cached share, times, cost and failures.

        Calls of subruns count for the run that started them. Columns: the name of the group; `n_runs`; `n_llm_calls`,
        the calls with a reply; `n_failures`, failed attempts of model calls and failed tool calls, without denied and
        stopped calls; `total_tokens`; `tokens_estimated`, whether tokens and cost contain estimates; `cached_share` of
        the input tokens; medians and 95th percentiles of the time to the first text (`ttft_p50_ms`, `ttft_p95_ms`) and
        of the whole call (`latency_p50_ms`, `latency_p95_ms`); `cost_usd` of the calls with a price; `n_unpriced`, the
        number of calls without a price; ids.

        Args:
            run: As for `runs_df`.
            by: `agent`, `model`, `flow`, `conversation`, `day` (of this computer's time zone) or `run`.
            agent: Filter by agent: a name or a list of names.
            model: Filter by model, by the name in the reply.
            flow: Filter by flow.
            conversation: As for `runs_df`.
            since: Earliest start of a call, as for `runs_df`.
            until: Latest start of a call, as for `runs_df`.
            search: Words that the name of the group must contain.
            sort: The column to sort by; None to sort days and runs by start, other groups by tokens.
            ascending: Whether the lowest value is first.

        Errors: `UsageError` for an unknown group or column, or an invalid value; `NotFound` for an unknown id.
        """
        names = {"agent": agent, "model": model, "flow": flow}
        filters = {"conversation": conversation, "since": since, "until": until, **names}
        with in_language(self._language):
            return load_metrics_frame(self._store, run, by, search, sort, ascending=ascending, **filters)

    def columns_df(self) -> "pd.DataFrame":
        """Describe the columns of all frames, one per row: `frame`, `column`, `group`, `dtype`, `meaning`."""
        return describe_columns()

    def query(self, sql: str, params: Params = None, *, timeout_s: float | None = None) -> "pd.DataFrame":
        """Run one read-only SELECT over the frames, and return its rows as a typed frame.

        A bare name such as `llm_calls` is the frame, `main.llm_calls` the table of the store. In SQL, times are
        microseconds since 1970: `datetime(started_at / 1000000, 'unixepoch')`; a datetime parameter is converted. A
        result column with the name of a frame's column gets the type of that column.

        Args:
            sql: A statement, such as `SELECT agent_name, sum(total_tokens) FROM llm_calls GROUP BY 1`.
            params: Values for `?` (a list) or for `:name` (a dict).
            timeout_s: Time limit in seconds, or None. Interrupting the cell stops the query too.

        Errors: `UsageError` for invalid SQL or a statement that does more than read; `TimeoutError`.
        """
        return query(self._store, sql, params, timeout_s=timeout_s)
