"""The projects of a workbench: begun or gone on with by their names, and listed."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from artifactflow_nb.artifact import Branch
from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import UsageError
from artifactflow_nb.project import Project
from artifactflow_nb.project_template import DEFAULT, ProjectTemplate
from artifactflow_nb.run import Run
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.store.blocks import list_projects
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.text.cards import Cell, Code
from artifactflow_nb.text.listing import Listing

if TYPE_CHECKING:
    from artifactflow_nb.widgets.panel import Panel

Source = str | os.PathLike[str] | Mapping[str, Any]


class WithProjects:
    """The part of a workbench that holds projects."""

    _thread: EngineThread

    def _is_watched(self) -> bool:
        """Whether a person may be looking; the workbench knows."""
        raise NotImplementedError

    def _started(self, begin: Callable[[], Awaitable[StoredRun]], flow: str) -> Run:
        """Begin a run of a flow and give its handle; the workbench does."""
        raise NotImplementedError

    def _board_of(self, conversation_id: str) -> "Panel":
        """The board of the project that a conversation holds; the workbench makes it."""
        raise NotImplementedError

    def project(self, name: str, *, template: Source | None = None) -> Project:
        """The project of a name: begun if there is none, else as it is.

        Args:
            name: Its name, once in the store.
            template: What it begins with: the name of a packaged template, a YAML file, or a mapping; None for
                `default`. A project that is there keeps what it was begun with.

        Errors: `UsageError` for a name or a template that cannot be.
        """
        engine, made_of = self._thread.engine, ProjectTemplate.load(DEFAULT if template is None else template)
        self._thread.call(engine.blocks.begin(name, made_of, USER))
        return self._held(name)

    def _held(self, name: str) -> Project:
        return Project(self._thread, name, self._started, self._board_of, dated=self._is_watched())

    def _conversation_of(self, project: str | Project, given: str | None) -> str:
        """The conversation of a project, by its name or handle; `UsageError` if another one was given."""
        held = project if isinstance(project, Project) else self._held(project)
        if given not in {None, held.conversation_id}:
            raise UsageError(f"{given} is not the conversation of {held.name!r}. Leave conversation_id out.")
        return held.conversation_id

    def projects(self) -> "Projects":
        """The projects of the store, in the order in which they were begun.

        One whose artifact somebody made into something else is left out; `project` says how to get it back.
        """
        found = []
        for name in Branch(self._thread, "", None).read(list_projects):
            with suppress(UsageError):
                found.append(self._held(name))
        return Projects(found)


class Projects(Listing[Project]):
    """Projects, each of which is a handle."""

    def _columns(self) -> Sequence[str]:
        return ["project", "phase", "blocks", "stale", "conversation"]

    def _cells(self, value: Project, /) -> Sequence[Cell]:
        tree = value.tree
        return [value.name, value.phase, len(tree), len(tree.stale), Code(value.conversation_id)]

    def _nothing(self) -> str:
        return 'No projects yet. Begin one with wb.project("name").'
