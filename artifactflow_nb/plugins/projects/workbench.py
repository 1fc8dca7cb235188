"""What projects add to a workbench and to a sealed run."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from artifactflow_nb.analysis.frames.api import Frames
from artifactflow_nb.errors import UsageError
from artifactflow_nb.notebook.display import CellDisplay
from artifactflow_nb.plugins.projects.frames import BLOCKS, EVALUATIONS, PROJECT_RUNS
from artifactflow_nb.plugins.projects.handle import Project, Projects
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

TemplateSource = str | os.PathLike[str] | Mapping[str, Any]
ProjectFilter = Project | str | Iterable[Project | str] | None


class ProjectFrames(Frames):
    """The frames of projects, as methods."""

    def blocks_df(
        self,
        project: ProjectFilter = None,
        *,
        conversation: ConversationFilter = None,
        since: TimeFilter = None,
        until: TimeFilter = None,
        columns: ColumnSelection = None,
    ) -> "pd.DataFrame":
        """One row per block of each project on its active branch; `since` and `until` apply to `updated_at`.

        `project` is a project, its name, or a list of them. Groups of columns: `what`, `place`, `results`, `size`,
        `time`. Other arguments and errors as for `runs_df`.
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
        """One row per grade of a block on the active branch; `since` and `until` apply to `created_at`.

        `all_branches` and `run` include other branches, and `is_active` says which grades are active. `project` is a
        project or its name. Groups of columns: `what`, `results`, `time`, `tree`. Other arguments as for `runs_df`.
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

    def project_runs_df(
        self,
        project: ProjectFilter = None,
        *,
        run: RunFilter = None,
        since: TimeFilter = None,
        until: TimeFilter = None,
        status: StatusFilter = None,
        columns: ColumnSelection = None,
    ) -> "pd.DataFrame":
        """One row per run of each project, including child runs, with the columns of `runs_df`, its work and counts.

        `work` is talk, write or evaluate; for a child run its flow. `project` is as for `blocks_df`; other arguments,
        groups and errors are as for `runs_df`.
        """
        return self._load(PROJECT_RUNS, run, since=since, until=until, status=status, project=project, columns=columns)


class ProjectMethods(ProjectFrames):
    """The methods of a workbench for projects."""

    _thread: RecordingThread
    _display: CellDisplay

    def project(self, name: str, *, template: TemplateSource | None = None) -> Project:
        """Return the project of this name; it is created if it does not exist.

        Args:
            name: The name, which is unique in the store.
            template: The phases and first blocks of a new project: the name of a packaged template, a YAML file, or a
                mapping; None for `default`. An existing project is not changed.

        Errors: `UsageError` for an invalid name or template.
        """
        engine = self._thread.engine
        loaded = ProjectTemplate.load(DEFAULT_TEMPLATE if template is None else template)
        name = engine.secrets.mask(name) if isinstance(name, str) else name
        self._thread.call(engine.service(ProjectStore).create(name, loaded, USER))
        return Project(self._thread, name, self._display)

    def projects(self) -> Projects:
        """List the projects of the store, in the order of their creation.

        A project whose artifact was overwritten is omitted; `project` says how to restore it.
        """
        found = []
        for name in read_store(self._store, list_projects):
            with suppress(UsageError):
                found.append(Project(self._thread, name, self._display))
        return Projects(found)

    def conversation_of_project(self, project: str | HasConversationId, conversation_id: str | None) -> str:
        """Return the conversation of a project; `UsageError` if `conversation_id` belongs to another conversation."""
        if not isinstance(project, Project):
            name: Any = self._thread.engine.secrets.mask(project) if isinstance(project, str) else project
            project = Project(self._thread, name, self._display)
        if conversation_id not in {None, project.conversation_id}:
            raise UsageError(f"{conversation_id} is not the conversation of {project.name!r}. Remove conversation_id.")
        return project.conversation_id
