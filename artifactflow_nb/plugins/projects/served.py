"""The addresses of projects in the HTTP interface."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from artifactflow_nb.engine.plugin import RouteCall, ServedRoute
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.plugins.projects.project import (
    DEFAULT_TEMPLATE,
    ProjectTemplate,
    packaged_templates,
    project_conversation_id,
    validate_project_name,
)
from artifactflow_nb.plugins.projects.store import ProjectStore, list_projects
from artifactflow_nb.store.artifacts import Authorship

if TYPE_CHECKING:
    from artifactflow_nb.engine.engine import Engine


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ProjectBody(_Body):
    """A new project."""

    name: str = Field(description="The name, which is unique on the server.")
    template: str | dict[str, Any] | None = Field(
        default=None, description="The name of a packaged template, or an object with its fields; null for `default`."
    )


class AdvanceBody(_Body):
    """The change of a project to another phase."""

    phase: str | None = Field(default=None, description="The phase; null for the next one.")


async def _create(engine: "Engine", call: RouteCall) -> Any:
    """Create a project unless a project has the name; a request cannot read a template file of the server."""
    body: ProjectBody = call.body
    if isinstance(body.template, str) and body.template not in packaged_templates():
        templates = ", ".join(packaged_templates())
        raise UsageError(f"There is no template {body.template[:80]!r}. Known: {templates}; or send an object.")
    loaded = ProjectTemplate.load(body.template or DEFAULT_TEMPLATE)
    await engine.service(ProjectStore).create(engine.secrets.mask(body.name), loaded, f"http:{call.user}")
    return await _describe(engine, body.name)


async def _advance(engine: "Engine", call: RouteCall) -> Any:
    by = Authorship(*await _branch(engine, call.params["name"]), f"http:{call.user}")
    return asdict(await engine.service(ProjectStore).advance(by, call.body.phase))


async def _describe(engine: "Engine", name: str) -> dict[str, Any]:
    """Return the phases of a project and the names and states of its blocks."""
    conversation_id, message_id = await _branch(engine, name)
    info, tree = await engine.service(ProjectStore).project(conversation_id, message_id)
    blocks = [{"path": tree.path(block.block_id), "id": block.block_id, "status": block.status} for block in tree]
    project = {"name": info.name, "conversation_id": conversation_id}
    return {**project, "phase": info.phase, "phases": list(info.phase_names), "blocks": blocks}


async def _branch(engine: "Engine", name: str) -> tuple[str, str | None]:
    """Return the conversation of a project and the last message of the active branch."""
    conversation_id = project_conversation_id(validate_project_name(engine.secrets.mask(name)))
    try:
        return conversation_id, (await engine.conversations.get(conversation_id)).active_message_id
    except NotFound:
        raise NotFound(f"There is no project {name!r}. POST /projects creates a project.") from None


def routes() -> Sequence[ServedRoute]:
    """Return the routes; a question about a project is a question to its conversation with the flow `compose`."""

    async def list_names(engine: "Engine", _call: RouteCall) -> Any:
        return {"projects": await engine.database.read(list_projects)}

    async def describe(engine: "Engine", call: RouteCall) -> Any:
        return await _describe(engine, call.params["name"])

    return (
        ServedRoute("GET", "/projects", "The names of the projects.", list_names),
        ServedRoute("POST", "/projects", "Create a project with a conversation of its own.", _create, ProjectBody),
        ServedRoute("GET", "/projects/{name}", "The conversation, phases and blocks of a project.", describe),
        ServedRoute("POST", "/projects/{name}/advance", "Change a project to another phase.", _advance, AdvanceBody),
    )
