"""`wb.projects`: the projects of a store, and their frames."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from artifactflow_nb.analysis.frames.api import Frames
from artifactflow_nb.core.text.cards import Card, CardCell, CardMixin, CardTable, Code, Details
from artifactflow_nb.errors import UsageError
from artifactflow_nb.notebook.display import CellDisplay
from artifactflow_nb.plugins.projects.frames import BLOCKS, EVALUATIONS, PROJECT_RUNS
from artifactflow_nb.plugins.projects.handle import Project
from artifactflow_nb.plugins.projects.project import DEFAULT_TEMPLATE, ProjectTemplate, project_conversation_id
from artifactflow_nb.plugins.projects.store import ProjectStore, list_projects
from artifactflow_nb.recording.engine import RecordingThread
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.frames import (
    ColumnSelection,
    ConversationFilter,
    HasConversationId,
    RunFilter,
    StatusFilter,
    TimeFilter,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

TemplateSource = str | os.PathLike[str] | Mapping[str, Any]
ProjectFilter = Project | str | Iterable[Project | str] | None


class ProjectFrames:
    """The frames of projects: `wb.projects.blocks_df()`, or `run.projects.blocks_df()` of a sealed run."""

    def __init__(self, frames: Frames) -> None:
        self._load = frames._load  # noqa: SLF001 - an accessor is a part of its workbench

    def blocks_df(
        self,
        project: ProjectFilter = None,
        *,
        conversation: ConversationFilter = None,
        since: TimeFilter = None,
        until: TimeFilter = None,
        columns: ColumnSelection = None,
    ) -> "pd.DataFrame":
        """Return one row per block of each project on its active branch; `since` and `until` apply to `updated_at`.

        `project` is a project, a name, or a list of both. Groups of columns: `what`, `place`, `results`, `size`,
        `time`. Other arguments and errors as for `wb.runs_df`.
        """
        return self._load(BLOCKS, project=project, conversation=conversation, since=since, until=until, columns=columns)

    def evaluations_df(
        self,
        project: HasConversationId | str | None = None,
        *,
        run: RunFilter = None,
        since: TimeFilter = None,
        until: TimeFilter = None,
        all_branches: bool = False,
        columns: ColumnSelection = None,
    ) -> "pd.DataFrame":
        """Return one row per grade of a block on the active branch; `since` and `until` apply to `created_at`.

        `all_branches` and `run` include other branches; `is_active` marks the active grades. `project` is a
        project or its name. Groups of columns: `what`, `results`, `time`, `tree`. Other arguments as for `wb.runs_df`.
        """
        return self._load(
            EVALUATIONS,
            run,
            conversation=project_conversation_id(project) if isinstance(project, str) else project,
            since=since,
            until=until,
            is_active=None if all_branches or run is not None else True,
            columns=columns,
        )

    def runs_df(
        self,
        project: ProjectFilter = None,
        *,
        run: RunFilter = None,
        since: TimeFilter = None,
        until: TimeFilter = None,
        status: StatusFilter = None,
        columns: ColumnSelection = None,
    ) -> "pd.DataFrame":
        """Return one row per run of each project, with child runs: the columns of `wb.runs_df`, the work and counts.

        `work` is talk, write or evaluate, or the flow of a child run. `project` is as for `blocks_df`; other arguments,
        groups and errors are as for `wb.runs_df`.
        """
        return self._load(PROJECT_RUNS, run, since=since, until=until, status=status, project=project, columns=columns)

    def plot_evaluations(self, grades: "pd.DataFrame", *, ax: "Axes | None" = None) -> "Axes":
        """Plot the grades of blocks by dimension, lowest mean first, with earlier scores.

        Args:
            grades: Rows of `evaluations_df`, all or some; the column `evidence_json` has the reasons.
            ax: Axes to draw on; None for a new figure.

        Errors: `UsageError` for a frame that lacks a required column, and if matplotlib is missing.
        """
        from artifactflow_nb.plugins.projects.evaluation_plot import plot_evaluations

        return plot_evaluations(grades, ax=ax)


class Projects(ProjectFrames, CardMixin):
    """The projects of a workbench, by name and in the order of their creation: `wb.projects["Essay"]`."""

    _thread: RecordingThread
    _display: CellDisplay

    def __init__(self, workbench: Any) -> None:
        super().__init__(workbench)
        self._thread, self._display = workbench._thread, workbench._display  # noqa: SLF001 - an accessor is a part of it

    def start(self, name: str, *, template: TemplateSource | None = None) -> Project:
        """Create and return a project; an existing project with the name is returned unchanged.

        Args:
            name: The name, which is unique in the store.
            template: The phases and first blocks of a new project: the name of a packaged template, a YAML file, or a
                mapping; None for `default`.

        Errors: `UsageError` for an invalid name or template.
        """
        engine = self._thread.engine
        loaded = ProjectTemplate.load(DEFAULT_TEMPLATE if template is None else template)
        name = engine.secrets.mask(name) if isinstance(name, str) else name
        self._thread.call(engine.service(ProjectStore).create(name, loaded, USER))
        return self[name]

    def __getitem__(self, name: str) -> Project:
        masked: Any = self._thread.engine.secrets.mask(name) if isinstance(name, str) else name
        return Project(self._thread, masked, self._display)

    def _ipython_key_completions_(self) -> list[str]:
        """Return the names of the projects, for completion after `[`."""
        return read_store(self._thread.engine.database.path, list_projects)

    def __iter__(self) -> Iterator[Project]:
        for name in self._ipython_key_completions_():
            with suppress(UsageError):  # overwritten; opening the project says how to restore it
                yield self[name]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _card(self) -> Card:
        rows: list[list[CardCell]] = []
        for project in self:
            tree = project.tree
            rows.append([project.name, project.phase, len(tree), len(tree.stale), Code(project.conversation_id)])
        table = CardTable.from_rows(["project", "phase", "blocks", "stale", "conversation"], rows)
        folds = [Details("Projects", table, is_open=True)] if rows else []
        note = "" if rows else 'No projects yet. Create one with wb.projects.start("name").'
        return Card("Projects", str(len(rows)), [], folds, note)

    def __repr__(self) -> str:
        return f"Projects({', '.join(repr(project.name) for project in self)})"
