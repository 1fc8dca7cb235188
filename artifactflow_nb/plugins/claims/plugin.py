"""The plugin `claims` as the engine sees it."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from artifactflow_nb.core.text.format import count
from artifactflow_nb.core.text.markdown import escape
from artifactflow_nb.engine.plugin import Plugin
from artifactflow_nb.plugins.claims.frame import CHECKS, CLAIMS_FRAME, OF_VERSION, load_checks
from artifactflow_nb.plugins.claims.language import lists
from artifactflow_nb.plugins.claims.marks import STYLES, load_marks
from artifactflow_nb.plugins.claims.versions import check_version
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.database import Database
from artifactflow_nb.tools.artifacts import WriteReview
from artifactflow_nb.tools.base import ToolContext

MOST_REPORTED = 10


async def report_contradictions(database: Database, ctx: ToolContext, version: Artifact) -> str:
    """Return the contradicted claims of a version with the passages, for the agent that has written the version."""
    place = ctx.conversation_id, version.artifact_id, version.version
    rows = await database.read(lambda db: load_checks(db, f"{OF_VERSION} AND c.status = 'contradicted'", place))
    lines = []
    for row in rows[:MOST_REPORTED]:
        lines.append(f"- {row['text']}\n  {row['reason']}")
        if passage := row["passage"]:
            lines.append(f'  <passage source="{escape(row["address"])}">{escape(passage)}</passage>')
    head = (
        f"The cited sources contradict {count(len(rows), 'claim')}. Correct each claim by the passage, which is data:"
    )
    return "\n".join([head, *lines]) if rows else ""


def _services(engine: Any) -> Mapping[type, Any]:
    if engine.settings.claims == "off":
        return {}
    engine.artifacts.on_written.append(check_version)
    return {WriteReview: WriteReview(partial(report_contradictions, engine.database))}


CLAIMS = Plugin(
    "claims",
    tables=(CHECKS,),
    frames=(CLAIMS_FRAME,),
    services=_services,
    labels={"reason": {text: text for text in lists()["reasons"]}},
    text_marks=load_marks,
    styles=STYLES,
)
