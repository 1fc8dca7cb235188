"""The frames as methods of the workbench."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from artifactflow_nb.frames.blocks import BLOCKS
from artifactflow_nb.frames.catalog import (
    APPROVALS,
    ARTIFACTS,
    EVENTS,
    LLM_CALLS,
    MESSAGES,
    SOURCES,
    TOOL_CALLS,
)
from artifactflow_nb.frames.evaluations import EVALUATIONS
from artifactflow_nb.frames.filters import Columns, Conversations, OfConversation, Projects, Runs, Statuses, When
from artifactflow_nb.frames.plan_steps import PLAN_STEPS
from artifactflow_nb.frames.project_runs import PROJECT_RUNS
from artifactflow_nb.frames.query import Params, query
from artifactflow_nb.frames.reading import describe, load
from artifactflow_nb.frames.runs import RUNS
from artifactflow_nb.projects import project_conversation

if TYPE_CHECKING:
    import pandas as pd


class WithFrames(ABC):
    """What has a store, as typed pandas frames, read from its rows: the same after a restart of the kernel."""

    @property
    @abstractmethod
    def _store(self) -> Path:
        """The store's file."""

    def runs_df(
        self,
        run: Runs = None,
        *,
        conversation: Conversations = None,
        since: When = None,
        until: When = None,
        status: Statuses = None,
        columns: Columns = None,
    ) -> "pd.DataFrame":
        """One row per run: what was asked, its status, time, tokens and cost.

        `wb.runs_df(since=timedelta(days=1), status="failed", columns=["time", "question"])`, for example.

        Args:
            run: Only these runs: a run, its id, or several of them.
            conversation: Only these conversations: an id, a run of it, or several of them.
            since: Only from this time on, by `started_at`: a datetime (a naive one is taken as UTC), its ISO format, or
                a timedelta back from now.
            until: Only before this time, which is given in the same ways.
            status: Only this status, or these: running, waiting, completed, failed, cancelled, interrupted.
            columns: Only these columns and groups of columns, one or several: `what`, `outcome`, `time`, `counts`,
                `tokens`, `cost`, `replay`. The ids, by which frames join, always come along. `columns_df` tells all.

        Errors: `UsageError` for a column or a value that cannot be used, `NotFound` for an unknown id.
        """
        return load(
            self._store,
            RUNS,
            run,
            conversation=conversation,
            since=since,
            until=until,
            status=status,
            columns=columns,
        )

    def llm_calls_df(
        self,
        run: Runs = None,
        *,
        conversation: Conversations = None,
        since: When = None,
        until: When = None,
        columns: Columns = None,
    ) -> "pd.DataFrame":
        """One row per model call, failed attempts too; a time filters by `started_at`.

        Groups of columns: `what`, `model`, `outcome`, `time`, `tokens`, `cost`, `replay`. Arguments as for `runs_df`.
        """
        return load(self._store, LLM_CALLS, run, conversation=conversation, since=since, until=until, columns=columns)

    def tool_calls_df(
        self,
        run: Runs = None,
        *,
        conversation: Conversations = None,
        since: When = None,
        until: When = None,
        columns: Columns = None,
    ) -> "pd.DataFrame":
        """One row per tool call, and who approved it; a time filters by `called_at`.

        Groups of columns: `what`, `outcome`, `time`, `decisions`, `replay`. Arguments as for `runs_df`.
        """
        return load(self._store, TOOL_CALLS, run, conversation=conversation, since=since, until=until, columns=columns)

    def plan_steps_df(
        self,
        run: Runs = None,
        *,
        conversation: Conversations = None,
        since: When = None,
        until: When = None,
        columns: Columns = None,
    ) -> "pd.DataFrame":
        """One row per step of each plan that was begun; a time filters by when the plan was.

        Groups of columns: `what`, `outcome`, `time`, `counts`, `tokens`, `cost`, `text`. Arguments as for `runs_df`.
        """
        return load(self._store, PLAN_STEPS, run, conversation=conversation, since=since, until=until, columns=columns)

    def events_df(
        self,
        run: Runs = None,
        *,
        conversation: Conversations = None,
        since: When = None,
        until: When = None,
        columns: Columns = None,
    ) -> "pd.DataFrame":
        """One row per stored event, all but chunks of text; a time filters by `ts`.

        Groups of columns: `what`, `time`, `payload`. Arguments as for `runs_df`.
        """
        return load(self._store, EVENTS, run, conversation=conversation, since=since, until=until, columns=columns)

    def messages_df(
        self,
        run: Runs = None,
        *,
        conversation: Conversations = None,
        since: When = None,
        until: When = None,
        status: Statuses = None,
        columns: Columns = None,
    ) -> "pd.DataFrame":
        """One row per message, with its place in the tree; a time filters by `created_at`.

        Groups of columns: `tree`, `text`, `outcome`, `time`. Arguments as for `runs_df`.
        """
        return load(
            self._store,
            MESSAGES,
            run,
            conversation=conversation,
            since=since,
            until=until,
            status=status,
            columns=columns,
        )

    def artifacts_df(
        self,
        run: Runs = None,
        *,
        conversation: Conversations = None,
        since: When = None,
        until: When = None,
        columns: Columns = None,
    ) -> "pd.DataFrame":
        """One row per version of an artifact, without its text; a time filters by `created_at`.

        Groups of columns: `what`, `size`, `time`. Arguments as for `runs_df`.
        """
        return load(self._store, ARTIFACTS, run, conversation=conversation, since=since, until=until, columns=columns)

    def blocks_df(
        self,
        project: Projects = None,
        *,
        conversation: Conversations = None,
        since: When = None,
        until: When = None,
        columns: Columns = None,
    ) -> "pd.DataFrame":
        """One row per block of each project, as the active branch has it; a time filters by `updated_at`.

        `project` keeps to a project, its name, or several. Groups of columns: `what`, `place`, `outcome`, `size`,
        `time`. Other arguments and errors as for `runs_df`.
        """
        return load(
            self._store,
            BLOCKS,
            project=project,
            conversation=conversation,
            since=since,
            until=until,
            columns=columns,
        )

    def evaluations_df(
        self,
        project: OfConversation | str | None = None,
        *,
        run: Runs = None,
        since: When = None,
        until: When = None,
        all_branches: bool = False,
        columns: Columns = None,
    ) -> "pd.DataFrame":
        """One row per grade that a text of a project was given on its active branch; a time filters by `created_at`.

        With `all_branches` those of the others are there, too, and `is_active` tells them apart; with `run` those that
        the run gave, wherever it stands. Groups of columns: `what`, `outcome`, `time`, `tree`. Other arguments as for
        `runs_df`, and `project`: its name or handle.
        """
        return load(
            self._store,
            EVALUATIONS,
            run,
            conversation=project_conversation(project) if isinstance(project, str) else project,
            since=since,
            until=until,
            is_active=None if all_branches or run is not None else True,
            columns=columns,
        )

    def project_runs_df(
        self,
        project: Projects = None,
        *,
        run: Runs = None,
        since: When = None,
        until: When = None,
        status: Statuses = None,
        columns: Columns = None,
    ) -> "pd.DataFrame":
        """One row per run of each project, those included that other runs began for it: all that `runs_df` says of it.

        Besides, `work` says what it did for the project (talk, write, evaluate; of a run that another began, its flow),
        and counts tell of the blocks that it wrote and the grades that it gave. What a run spent that it began stands
        in a row of its own. `project` is as for `blocks_df`; other arguments, groups and errors are as for `runs_df`.
        """
        return load(
            self._store,
            PROJECT_RUNS,
            run,
            since=since,
            until=until,
            status=status,
            project=project,
            columns=columns,
        )

    def approvals_df(
        self,
        run: Runs = None,
        *,
        conversation: Conversations = None,
        since: When = None,
        until: When = None,
        columns: Columns = None,
    ) -> "pd.DataFrame":
        """One row per request to the person or the policy, open ones too; a time filters by `asked_at`.

        Groups of columns: `what`, `time`, `decisions`, `payload`. Arguments as for `runs_df`.
        """
        return load(self._store, APPROVALS, run, conversation=conversation, since=since, until=until, columns=columns)

    def sources_df(
        self,
        *,
        since: When = None,
        until: When = None,
        columns: Columns = None,
    ) -> "pd.DataFrame":
        """One row per indexed source; a time filters by `fetched_at`.

        Groups of columns: `what`, `size`, `time`. Arguments as for `runs_df`.
        """
        return load(self._store, SOURCES, since=since, until=until, columns=columns)

    def columns_df(self) -> "pd.DataFrame":
        """What the frames hold, one row per column: `frame`, `column`, `group`, `dtype`, `meaning`."""
        return describe()

    def query(self, sql: str, params: Params = None, *, timeout_s: float | None = None) -> "pd.DataFrame":
        """The rows of one SELECT over the frames, typed; nothing can be changed by it.

        A bare name such as `llm_calls` is the frame with its columns, `main.llm_calls` the store's own table. Times are
        microseconds since 1970 in SQL: `datetime(started_at / 1000000, 'unixepoch')`, or a datetime among the
        parameters. A column that bears the name of a frame's column keeps its type.

        Args:
            sql: `SELECT agent_name, sum(total_tokens) FROM llm_calls GROUP BY 1`.
            params: Values for `?` (a list) or for `:name` (a dict).
            timeout_s: Seconds after which to give up; None for never. Stopping the cell ends it too.

        Errors: `UsageError` for SQL that is wrong or does anything but read, `TimeoutError`.
        """
        return query(self._store, sql, params, timeout_s=timeout_s)
