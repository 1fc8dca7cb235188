"""A project as a document: its blocks in their order, under the headings that their places give them.

What is not finished says so at the top, and a block without a text keeps its place: a document with a hole in it must
not read as if it were whole. Deleted blocks are no part of it.
"""

from collections.abc import Iterator, Sequence

from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.export.document import Document, Part
from artifactflow_nb.projects import PROJECT, ProjectHead
from artifactflow_nb.store.artifact_versions import Artifact, list_seen, require_seen
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.store.block_rows import load_tree
from artifactflow_nb.store.database import Work
from artifactflow_nb.text.figures import count, moment
from artifactflow_nb.text.headings import DEEPEST, part
from artifactflow_nb.text.markdown import portable, portable_line

_MISSING = "*Not written yet.*"


def project_document(conversation_id: str, message_id: str | None) -> Work[Document]:
    """What reads the document of a project from the store.

    Args:
        conversation_id: The conversation of the project.
        message_id: The last message of the branch that is read.

    Errors: `NotFound` for a conversation that has no project.
    """
    return lambda db: _document(
        conversation_id,
        require_seen(db, conversation_id, PROJECT, message_id, None),
        load_tree(db, conversation_id, message_id),
        [one for one in list_seen(db, conversation_id, message_id) if one.block_json is not None],
    )


def _document(conversation_id: str, project: Artifact, tree: BlockTree, versions: Sequence[Artifact]) -> Document:
    head = ProjectHead.from_json(project.content)
    title = "\n\n".join([f"# {portable_line(head.name)}", *_unfinished(tree)])
    parts = (Part(title, {}), *(Part(_chapter(tree, block), _about(tree, block)) for block in tree))
    text = "\n\n".join(one.markdown for one in parts) + "\n"
    written = max(one.created_at for one in (project, *versions))
    n_texts = sum(not block.is_group for block in tree)
    about = {
        "project": head.name,
        "conversation_id": conversation_id,
        "template": head.template,
        "phase": head.phase,
        "n_blocks": n_texts,
        "created_at": written.isoformat(),
    }
    origin = f"{head.name} · {count(n_texts, 'block')} · phase {head.phase} · {moment(written)}"
    return Document(head.name, head.name, text, text, USER, written, conversation_id, origin, about, parts)


def _unfinished(tree: BlockTree) -> Iterator[str]:
    """What a reader has to know before they rely on the text."""
    texts = [block for block in tree if not block.is_group]
    waiting = [block for block in texts if block.sha256 and not block.is_usable]
    missing = [block for block in texts if not block.sha256]
    lines = [
        *_said("Stale", "what they were written from was changed since", tree, [tree[key] for key in tree.stale]),
        *_said("Not reviewed", "a person has not approved them yet", tree, waiting),
        *_said("Not written yet", "they have no text", tree, missing),
    ]
    if lines:
        yield "**This document is not finished**"
        yield "\n".join(lines)


def _said(what: str, why: str, tree: BlockTree, blocks: Sequence[Block]) -> Iterator[str]:
    if blocks:
        names = ", ".join(portable_line(tree.path(block.block_id)) for block in blocks)
        yield f"- {what} ({why}): {names}"


def _chapter(tree: BlockTree, block: Block) -> str:
    """A block under its heading, which is of the second level at the top."""
    level = min(2 + tree.path(block.block_id).count("/"), DEEPEST)
    heading = f"{'#' * level} {portable_line(block.name)}"
    if block.is_group:
        return heading
    text = part(portable(block.content), block.name, level) if block.sha256 else _MISSING
    return f"{heading}\n\n{text}".rstrip()


def _about(tree: BlockTree, block: Block) -> dict[str, object]:
    """What a program is told of a block, in the metadata of its cell."""
    return {
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
