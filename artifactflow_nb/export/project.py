"""Export of a project: its blocks in order, with headings whose level follows from the tree.

An unfinished document starts with a notice, and a block without text keeps its heading, so that a document with gaps
does not look complete. Deleted blocks are excluded.
"""

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt

from artifactflow_nb.core.document.project import PROJECT_ID, ProjectInfo
from artifactflow_nb.core.document.tree import Block, BlockTree
from artifactflow_nb.core.language import ENGLISH, Texts
from artifactflow_nb.core.text.format import format_time
from artifactflow_nb.core.text.markdown import safe_markdown, safe_markdown_line
from artifactflow_nb.export.document import DocumentPart, ExportDocument
from artifactflow_nb.store.artifact_versions import Artifact, list_visible, require_visible
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.store.database import DatabaseWork
from artifactflow_nb.store.document_rows import load_block_tree

MAX_LEVEL = 6
_HASHES = re.compile("#{1,6}")
_LAST_HASH = re.compile(r"(?<!\\)#$")


def as_document_part(markdown: str, name: str, level: int) -> str:
    """Shift the headings of a text below the heading of its part, and remove a first heading that repeats the name.

    Args:
        markdown: The text, sanitised by `safe_markdown`.
        name: Name of the part, as plain text.
        level: Level of the part's heading. The highest heading of the text becomes one level lower, the others keep
            their distance to it, down to level 6.
    """
    lines = markdown.split("\n")
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)  # headings in lists and quotations, too
    headings = [
        (token, tokens[n + 1], token.map[0], token.map[1])
        for n, token in enumerate(tokens)
        if token.type == "heading_open" and token.map
    ]
    if headings:
        token, inline, start, end = headings[0]
        words = "".join(child.content or " " for child in inline.children or () if child.nesting == 0).split()
        is_first = token.level == 0 and not "".join(lines[:start]).strip()
        if is_first and " ".join(words).casefold() == " ".join(name.split()).casefold():
            return as_document_part("\n".join(lines[end:]).strip("\n"), "", level)  # "" equals no heading
    highest = min((int(token.tag[1]) for token, *_ in headings), default=0)
    for token, inline, start, end in reversed(headings):  # from the end: a heading may become shorter by some lines
        hashes = "#" * min(int(token.tag[1]) - highest + level + 1, MAX_LEVEL)
        if token.markup.startswith("#"):
            lines[start] = _HASHES.sub(hashes, lines[start], count=1)
            continue
        # Underlines have two levels only, so an underlined heading gets hashes.
        before, has_text, _ = lines[start].partition(inline.content.split("\n")[0])
        prefix = before if has_text else ""  # of a list or quotation
        text = _LAST_HASH.sub(r"\#", " ".join(inline.content.split()))  # a last hash would read as a closing one
        lines[start:end] = [f"{prefix}{hashes} {text}"]
    return "\n".join(lines)


def project_document(
    conversation_id: str, message_id: str | None, texts: Texts = ENGLISH
) -> DatabaseWork[ExportDocument]:
    """Return the database query that builds the document of a project.

    Errors: `NotFound` for a conversation without a project.
    """
    return lambda db: _document(
        conversation_id,
        require_visible(db, conversation_id, PROJECT_ID, message_id, None),
        load_block_tree(db, conversation_id, message_id),
        [artifact for artifact in list_visible(db, conversation_id, message_id) if artifact.block_json is not None],
        texts,
    )


def _document(
    conversation_id: str, project: Artifact, tree: BlockTree, versions: Sequence[Artifact], texts: Texts
) -> ExportDocument:
    info = ProjectInfo.from_json(project.content)
    written = [block for block in tree if not block.is_group]
    unfinished = {
        "stale_blocks": [tree[key] for key in tree.stale],
        "unreviewed_blocks": [block for block in written if block.sha256 and not block.is_usable],
        "empty_blocks": [block for block in written if not block.sha256],
    }
    lines = [
        f"- {texts(state, names=texts.listed(safe_markdown_line(tree.path(block.block_id)) for block in blocks))}"
        for state, blocks in unfinished.items()
        if blocks
    ]
    notice = [f"**{texts('not_finished')}**", "\n".join(lines)] if lines else []
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
        parts.append(DocumentPart(_chapter(tree, block, texts), fields))
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
    facts = name, texts.count(len(written), "n_blocks"), texts("in_phase", phase=info.phase), format_time(written_at)
    properties = USER, written_at, conversation_id, " · ".join(facts), metadata, parts
    return ExportDocument(name, name, text, text, *properties, texts=texts)


def _chapter(tree: BlockTree, block: Block, texts: Texts) -> str:
    """Heading and text of a block; top-level blocks have headings of level 2, below the title."""
    level = min(2 + tree.path(block.block_id).count("/"), MAX_LEVEL)
    heading = f"{'#' * level} {safe_markdown_line(block.name)}"
    if block.is_group:
        return heading
    missing = f"*{texts('not_written')}*"
    text = as_document_part(safe_markdown(block.content), block.name, level) if block.sha256 else missing
    return f"{heading}\n\n{text}".rstrip()
