"""The projects of a data folder for the users of a server; see `RunLifecycle`."""

from dataclasses import asdict
from typing import Any

from artifactflow_nb.engine.controller import RunOptions
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.plugins.projects.project import (
    COMPOSE,
    DEFAULT_TEMPLATE,
    ProjectTemplate,
    packaged_templates,
    project_conversation_id,
    validate_project_name,
)
from artifactflow_nb.plugins.projects.store import ProjectStore, list_projects
from artifactflow_nb.store.artifacts import Authorship


class ServedProjects:
    """Creates projects, changes their phases, and says how a question about a project is asked."""

    def __init__(self, lifecycle: Any) -> None:
        self._lifecycle = lifecycle
        self._engine = lifecycle.thread.engine

    async def names(self) -> Any:
        """List the projects, in the order of their creation."""
        return await self._lifecycle.call(self._engine.database.read(list_projects))

    async def create(self, name: str, template: str | dict[str, Any] | None, user: str) -> Any:
        """Create a project unless a project has the name, and return the project.

        Errors: `UsageError` for an invalid name or template; a template is never read from a file of the server.
        """
        self._lifecycle.check_writable()
        if isinstance(template, str) and template not in packaged_templates():
            known = ", ".join(packaged_templates())
            raise UsageError(f"There is no template {template[:80]!r}. Known: {known}; or send an object.")
        loaded = ProjectTemplate.load(template or DEFAULT_TEMPLATE)
        name = self._engine.secrets.mask(name)
        await self._lifecycle.call(self._engine.service(ProjectStore).create(name, loaded, f"http:{user}"))
        return await self.project(name)

    async def project(self, name: str) -> Any:
        """Return the phases of a project and the names and states of its blocks."""

        async def work() -> dict[str, Any]:
            conversation_id, message_id = await self._branch(name)
            info, tree = await self._engine.service(ProjectStore).project(conversation_id, message_id)
            blocks = [
                {"path": tree.path(block.block_id), "id": block.block_id, "status": block.status} for block in tree
            ]
            place = {"name": info.name, "conversation_id": conversation_id}
            return {**place, "phase": info.phase, "phases": list(info.phase_names), "blocks": blocks}

        return await self._lifecycle.call(work())

    async def advance(self, name: str, phase: str | None, user: str) -> Any:
        """Change a project to another phase; errors as for `ProjectStore.advance`."""

        async def work() -> dict[str, Any]:
            by = Authorship(*await self._branch(name), f"http:{user}")
            return asdict(await self._engine.service(ProjectStore).advance(by, phase))

        self._lifecycle.check_writable()
        return await self._lifecycle.call(work())

    async def question(self, name: str, of: str | None, flow: str | None) -> RunOptions:
        """Return the conversation and the flow of a question about a project; `of` is the conversation that it names.

        Errors: `UsageError` if the question names another conversation; `NotFound` for an unknown project.
        """
        conversation_id, _ = await self._lifecycle.call(self._branch(name))
        if of not in {None, conversation_id}:
            raise UsageError(f"{of} is not the conversation of {name!r}. Remove conversation_id.")
        return RunOptions(conversation_id=conversation_id, flow=flow or COMPOSE)

    async def _branch(self, name: str) -> tuple[str, str | None]:
        """Return the conversation of a project and the last message of the active branch."""
        conversation_id = project_conversation_id(validate_project_name(self._engine.secrets.mask(name)))
        try:
            return conversation_id, (await self._engine.conversations.get(conversation_id)).active_message_id
        except NotFound:
            raise NotFound(f"There is no project {name!r}. POST /projects creates a project.") from None
