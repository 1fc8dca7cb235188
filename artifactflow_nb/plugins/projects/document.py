"""Export of a project: the blocks in order, with headings by their level in the tree.

An unfinished document starts with a notice, and a block without text keeps its heading, so that a document with gaps
does not look complete. Deleted blocks are excluded.
"""

import sqlite3

from artifactflow_nb.core.language import EnglishText, translate, translate_list
from artifactflow_nb.core.text.format import format_local_time, translate_count
from artifactflow_nb.core.text.markdown import safe_markdown, safe_markdown_line
from artifactflow_nb.export.document import MAX_LEVEL, DocumentPart, ExportDocument, as_document_part
from artifactflow_nb.plugins.projects.project import PROJECT_ID
from artifactflow_nb.plugins.projects.store import load_project
from artifactflow_nb.plugins.projects.tree import Block, BlockTree
from artifactflow_nb.store.artifact_versions import list_visible, require_visible
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.store.database import DatabaseWork


def project_document(conversation_id: str, message_id: str | None) -> DatabaseWork[ExportDocument]:
    """Return the database query that builds the document of a project.

    Errors: `NotFound` for a conversation without a project.
    """

    def work(db: sqlite3.Connection) -> ExportDocument:
        project = require_visible(db, conversation_id, PROJECT_ID, message_id, None)
        info, tree = load_project(db, conversation_id, message_id)
        visible = list_visible(db, conversation_id, message_id)
        versions = [artifact for artifact in visible if artifact.metadata_json is not None]
        written = [block for block in tree if not block.is_group]
        unfinished: dict[EnglishText, list[Block]] = {
            "Stale (their dependencies were changed since): {names}": [tree[key] for key in tree.stale],
            "Not reviewed (a person has not approved them yet): {names}": [
                block for block in written if block.sha256 and not block.is_usable
            ],
            "Not written yet (they have no text): {names}": [block for block in written if not block.sha256],
        }
        paths = {block.block_id: safe_markdown_line(tree.path(block.block_id)) for block in tree}
        lines = [
            f"- {translate(state, names=translate_list(paths[block.block_id] for block in blocks))}"
            for state, blocks in unfinished.items()
            if blocks
        ]
        notice = [f"**{translate('This document is not finished')}**", "\n".join(lines)] if lines else []
        parts = [DocumentPart("\n\n".join([f"# {safe_markdown_line(info.name)}", *notice]), {})]
        for block in tree:
            fields = {
                "block_id": block.block_id,
                "phase": block.phase,
                "parent": block.parent or None,
                "is_group": block.is_group,
                "status": tree.status(block.block_id),
                "depends_on": list(block.depends_on),
                "need_review": block.need_review,
                "version": block.version,
                "stale": block.block_id in tree.stale,
            }
            parts.append(DocumentPart(_chapter(tree, block), fields))
        text = "\n\n".join(part.markdown for part in parts) + "\n"
        written_at = max(artifact.created_at for artifact in (project, *versions))
        metadata = {
            "project": info.name,
            "conversation_id": conversation_id,
            "template": info.template,
            "phase": info.phase,
            "n_blocks": len(written),
            "created_at": written_at.isoformat(),
        }
        name = info.name
        facts = translate_count(len(written), "block"), translate("phase {phase}", phase=info.phase)
        origin = " · ".join([name, *facts, format_local_time(written_at)])
        properties = USER, written_at, conversation_id, origin, metadata, parts
        return ExportDocument(name, name, text, text, *properties)

    return work


def _chapter(tree: BlockTree, block: Block) -> str:
    """Format the heading and the text of a block; top-level blocks have headings of level 2, below the title."""
    level = min(2 + tree.path(block.block_id).count("/"), MAX_LEVEL)
    heading = f"{'#' * level} {safe_markdown_line(block.name)}"
    if block.is_group:
        return heading
    missing = f"*{translate('Not written yet.')}*"
    text = as_document_part(safe_markdown(block.content), block.name, level) if block.sha256 else missing
    return f"{heading}\n\n{text}".rstrip()
