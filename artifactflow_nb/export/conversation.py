"""Export of a branch of a conversation: questions with answers, sources and artifacts.

Texts of models and of the web are sanitised one by one, so that an open code fence in one answer cannot change how the
next answer renders.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.language import status_label, translate
from artifactflow_nb.core.text.format import clip, format_local_time, translate_count
from artifactflow_nb.core.text.markdown import safe_markdown, safe_markdown_line
from artifactflow_nb.engine.cited_sources import load_evidence, load_marks
from artifactflow_nb.export.document import ExportDocument, artifact_document, as_document_part
from artifactflow_nb.sources.citation_marks import addresses_of, unread_sentence
from artifactflow_nb.sources.values import Evidence
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID, Artifact
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.store.conversations import TITLE_COLUMNS, Conversation, StoredMessage

if TYPE_CHECKING:
    from artifactflow_nb.engine.engine import Engine

FETCH_TOOL = "web_fetch"
_HEADING_COLUMNS = 120
_WEB_ADDRESS = re.compile(r"https?://[^\s<>\"\\^`{|}]+")


@dataclass(slots=True)
class _TurnRecord:
    """The sources that a run read (titles by address), its artifacts (titles and versions by id), models and tokens."""

    sources: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, tuple[str, int]] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    n_tokens: int = 0

    def apply(self, event: StreamEvent) -> None:
        """Add the sources, the artifact or the usage of an event."""
        data = event.data
        if event.type == StreamEventType.TOOL_COMPLETE and event.tool == FETCH_TOOL and data.get("success"):
            for result in (data.get("metadata") or {}).get("results", ()):
                self.sources.setdefault(str(result["address"]), str(result["title"] or result["address"]))
        elif event.type == StreamEventType.LLM_COMPLETE and data.get("model"):
            self.models.append(str(data["model"]))
            self.n_tokens += (data.get("token_usage") or {}).get("total_tokens") or 0
        elif event.type == StreamEventType.ARTIFACT_CHANGED and data["artifact_id"] != TASK_PLAN_ID:
            self.artifacts[str(data["artifact_id"])] = data.get("title") or data["artifact_id"], data["version"]


async def conversation_document(
    engine: "Engine", conversation_id: str, message_id: str | None = None
) -> ExportDocument:
    """Build the document of a branch, with the artifacts that are visible at the end of the branch.

    The coroutine must run on the loop of the engine. Without a message the branch is the active branch.

    Errors: `NotFound` for an unknown conversation or message.
    """
    conversation = await engine.conversations.get(conversation_id)
    path = await engine.conversations.path(conversation_id, message_id)
    turns = []
    for message in path:
        turns.append(record := _TurnRecord())
        for event in await engine.runs.events(message.run_id) if message.run_id else ():
            record.apply(event)
    last = path[-1].message_id if path else None
    visible = await engine.artifacts.list_artifacts(conversation_id, message_id=last)
    artifacts = [artifact for artifact in visible if artifact.artifact_id != TASK_PLAN_ID]
    run_id = path[-1].run_id if path else None
    texts = [*(message.response or "" for message in path), *(artifact.markdown for artifact in artifacts)]
    cited = {address for text in texts for address in addresses_of(text)}
    evidence = await engine.database.read(lambda db: load_evidence(db, run_id, cited))
    marks = await engine.database.read(lambda db: load_marks(db, run_id))
    later = {last}
    for message in await engine.conversations.messages(conversation_id):
        later |= {message.message_id} if message.parent_id in later else set()
    # The document is rendered in a thread, because rendering takes seconds.
    facts = replace(evidence, marks=marks), len(later) - 1
    return await asyncio.to_thread(_document, conversation, path, turns, artifacts, *facts)


def _document(
    conversation: Conversation,
    path: Sequence[StoredMessage],
    turns: Sequence[_TurnRecord],
    artifacts: Sequence[Artifact],
    evidence: Evidence,
    n_later: int,
) -> ExportDocument:
    title = conversation.title or translate("Untitled conversation")
    chapters = [(f"# {safe_markdown_line(title)}", "")]
    if n_later:
        left_out = translate(
            "Not in this file: {questions} of the conversation.", questions=translate_count(n_later, "later question")
        )
        chapters.append((f"*{left_out}*", ""))
    # A file with a single question does not repeat the question as the heading of the answer and of the report.
    is_single = len(path) == 1 and title == clip(path[0].content, TITLE_COLUMNS)
    written = {artifact.artifact_id: artifact.markdown for artifact in artifacts}
    for number, (message, record) in enumerate(zip(path, turns, strict=True), 1):
        heading = title if is_single else clip(message.content, _HEADING_COLUMNS)
        parts = [] if is_single else [f"## {number}. {safe_markdown_line(heading)}"]
        if heading != " ".join(message.content.split()):  # the heading is cut: quote the whole question
            parts.append("\n".join(f"> {safe_markdown_line(line)}" for line in message.content.splitlines()))
        # If an answer lists no sources, the numbers in the answer refer to the sources of the report.
        listings = [message.response or "", *(written.get(artifact_id, "") for artifact_id in record.artifacts)]
        listing = next(filter(addresses_of, listings), "")
        if message.response:
            parts.append(as_document_part(safe_markdown(message.response), heading, 1 if is_single else 2))
        if unread := unread_sentence({address for text in listings for address in addresses_of(text)}, evidence):
            parts.append(f"*{unread}*")
        if message.status != "completed":
            parts.append(f"*{translate('Run {status}.', status=status_label(message.status))}*")
        if record.sources:
            sources = (f"- {_source_line(address, title)}" for address, title in record.sources.items())
            parts += [f"**{translate('Sources read')}**", "\n".join(sources)]
        if record.artifacts:
            names = (f"{name}, {translate('v{number}', number=version)}" for name, version in record.artifacts.values())
            parts += [f"**{translate('Written')}**", "\n".join(f"- {safe_markdown_line(name)}" for name in names)]
        chapters.append(("\n\n".join(parts), listing))
    chapters += [(_chapter(artifact, title if is_single else ""), artifact.markdown) for artifact in artifacts]
    text = "\n\n".join(chapter for chapter, _ in chapters) + "\n"
    last_change = path[-1].created_at if path else conversation.created_at
    metadata: Mapping[str, object] = {
        "conversation_id": conversation.conversation_id,
        "message_id": path[-1].message_id if path else None,
        "title": title,
        "n_questions": len(path),
        "created_at": last_change.isoformat(),
    }
    identifier = conversation.conversation_id
    models = dict.fromkeys(model for record in turns for model in record.models)
    tokens = [translate_count(n_tokens, "token")] if (n_tokens := sum(record.n_tokens for record in turns)) else []
    questions = translate_count(len(path), "question")
    origin = " · ".join([identifier, questions, *models, *tokens, format_local_time(last_change)])
    name = clip(title, _HEADING_COLUMNS)
    facts = USER, last_change, identifier, origin, metadata
    return ExportDocument(name, title, text, text, *facts, evidence=evidence, chapters=chapters)


def _chapter(artifact: Artifact, page_title: str) -> str:
    """Return the text of an artifact below its title at level 2, without the title if the page has the same title."""
    text = safe_markdown(artifact.markdown)
    if artifact.title == page_title or artifact_document(artifact).has_title:
        part = as_document_part(text, page_title, 1)
    else:
        part = f"## {safe_markdown_line(artifact.title)}\n\n{as_document_part(text, artifact.title, 2)}"
    return f"---\n\n{part}"


def _source_line(address: str, title: str) -> str:
    """Return title and address; only a plain web address becomes a link, since an address may come from a model."""
    link = f"<{address}>" if _WEB_ADDRESS.fullmatch(address) else safe_markdown_line(address)
    return link if title == address else f"{safe_markdown_line(title)}: {link}"
