"""Projects: documents of blocks that are written phase by phase, with personas, skills and grades."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from artifactflow_nb.core.language import translate
from artifactflow_nb.engine.plugin import Plugin, ServedRoute
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.flows.base import FlowSpec
from artifactflow_nb.plugins.projects.frames import BLOCKS, EVALUATIONS, PROJECT_RUNS
from artifactflow_nb.plugins.projects.named_text_store import NamedTextStore
from artifactflow_nb.plugins.projects.named_texts import SKILLS_SETTING
from artifactflow_nb.plugins.projects.project import DELEGATES, TEXTS, project_conversation_id
from artifactflow_nb.plugins.projects.store import (
    BLOCK_JOBS,
    BlockJobStore,
    ProjectStore,
    block_metadata,
    list_projects,
)
from artifactflow_nb.plugins.projects.tree import check_block_metadata

if TYPE_CHECKING:
    from artifactflow_nb.engine.engine import Engine

NOUNS = frozenset({"project", "persona", "grade", "skill"})
"""Words that no identifier outside of this folder has; `tests/package/test_plugins.py` checks it."""


def _flows() -> Sequence[FlowSpec]:
    from artifactflow_nb.plugins.projects.spec import COMPOSE_FLOW

    return (COMPOSE_FLOW,)


def _services(engine: "Engine") -> Mapping[type, Any]:
    return {
        ProjectStore: ProjectStore(engine.database, engine.artifacts, engine.secrets.redact),
        BlockJobStore: BlockJobStore(engine.database),
        NamedTextStore: NamedTextStore(engine.database, engine.artifacts, engine.secrets.redact),
    }


def _routes() -> Sequence[ServedRoute]:
    from artifactflow_nb.plugins.projects.served import routes

    return routes()


def _kept_conversations(db: sqlite3.Connection) -> list[str]:
    return [project_conversation_id(name) for name in list_projects(db)]


async def _references(engine: "Engine", conversation_id: str, message_id: str | None) -> list[tuple[str, str, str]]:
    """Return the blocks of a project."""
    try:
        tree = await engine.service(ProjectStore).tree(conversation_id, message_id)
    except (NotFound, UsageError):  # no project, or its artifact was overwritten
        return []
    return [(f"@{tree.path(block.block_id)}", block.name, translate("block")) for block in tree]


def _check_row(table: str, row: Mapping[str, Any]) -> None:
    """Check the metadata of a block, the hashes of a job, and the shared skills of a run; see `Plugin`."""
    if table == "artifact_versions" and row["metadata_json"] is not None:
        check_block_metadata(row["metadata_json"])
    if table == BLOCK_JOBS.name and {*map(type, orjson.loads(row["basis_json"]).values())} - {str}:
        raise ValueError("basis_json has no hashes")
    skills = orjson.loads(row["settings_json"]).get(SKILLS_SETTING) if table == "runs" else None
    for name, text in (skills or {}).items():
        if not isinstance(text, str):
            raise ValueError(f"settings.skills.{name} is {text!r:.80}, which is not a text")  # noqa: TRY004 - of a file


PROJECTS = Plugin(
    "projects",
    flows=_flows,
    tables=(BLOCK_JOBS,),
    frames=(BLOCKS, EVALUATIONS, PROJECT_RUNS),
    services=_services,
    labels=TEXTS["labels"],
    delegating_tools=DELEGATES,
    model_text_tools=frozenset(TEXTS["labels"]["tool"]),
    on_artifact_written=block_metadata,
    kept_conversations=_kept_conversations,
    references=_references,
    routes=_routes,
    check_row=_check_row,
)
