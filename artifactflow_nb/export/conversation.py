"""A branch of a conversation as a document: each question with its answer, what was read for it and what was written.

What models and the web said is made harmless piece by piece, so that one answer cannot change how the next one reads.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from artifactflow_nb.events import StreamEvent, StreamEventType
from artifactflow_nb.export.document import Document, artifact_document
from artifactflow_nb.store.artifact_versions import TASK_PLAN, Artifact
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.text.figures import count, moment
from artifactflow_nb.text.markdown import portable, portable_line
from artifactflow_nb.text.width import clip

if TYPE_CHECKING:
    from artifactflow_nb.engine import Engine

READING = "web_fetch"
_HEADING_COLUMNS = 120
_WEB_ADDRESS = re.compile(r"https?://[^\s<>\"\\^`{|}]+")


@dataclass(slots=True)
class _Work:
    """What the run of a question read, title by address, and wrote, as its titles by id."""

    sources: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)

    def take(self, event: StreamEvent) -> None:
        """Note what an event says of either."""
        data = event.data
        if event.type == StreamEventType.TOOL_COMPLETE and event.tool == READING and data.get("success"):
            for result in (data.get("metadata") or {}).get("results", ()):
                self.sources.setdefault(str(result["address"]), str(result["title"] or result["address"]))
        elif event.type == StreamEventType.ARTIFACT_CHANGED and data["artifact_id"] != TASK_PLAN:
            self.written[str(data["artifact_id"])] = f"{data.get('title') or data['artifact_id']}, v{data['version']}"


async def conversation_document(engine: "Engine", conversation_id: str, message_id: str | None = None) -> Document:
    """The document of a branch, with the artifacts that it has at its end.

    Args:
        engine: Whose store holds it; to be awaited on its loop.
        conversation_id: The conversation.
        message_id: The last message of the branch; None for the active branch.

    Errors: `NotFound` for an unknown conversation or message.
    """
    conversation = await engine.conversations.get(conversation_id)
    path = await engine.conversations.path(conversation_id, message_id)
    works = [await _work(engine, message) for message in path]
    last = path[-1].message_id if path else None
    seen = await engine.artifacts.list_artifacts(conversation_id, message_id=last)
    artifacts = [artifact for artifact in seen if artifact.artifact_id != TASK_PLAN]
    return _document(conversation, path, works, artifacts)


async def _work(engine: "Engine", message: StoredMessage) -> _Work:
    work = _Work()
    for event in await engine.runs.events(message.run_id) if message.run_id else ():
        work.take(event)
    return work


def _document(
    conversation: Conversation, path: Sequence[StoredMessage], works: Sequence[_Work], artifacts: Sequence[Artifact]
) -> Document:
    title = conversation.title or "Conversation"
    turns = [_turn(number, *turn) for number, turn in enumerate(zip(path, works, strict=True), 1)]
    text = "\n\n".join([f"# {portable_line(title)}", *turns, *map(_chapter, artifacts)]) + "\n"
    asked = path[-1].created_at if path else conversation.created_at
    about: Mapping[str, object] = {
        "conversation_id": conversation.conversation_id,
        "message_id": path[-1].message_id if path else None,
        "title": title,
        "n_questions": len(path),
        "created_at": asked.isoformat(),
    }
    known = conversation.conversation_id
    origin = f"{known} · {count(len(path), 'question')} · {moment(asked)}"
    return Document(clip(title, _HEADING_COLUMNS), title, text, text, USER, asked, known, origin, about)


def _chapter(artifact: Artifact) -> str:
    heading = "" if artifact_document(artifact).has_title else f"## {portable_line(artifact.title)}\n\n"
    return f"---\n\n{heading}{portable(artifact.markdown)}"


def _turn(number: int, message: StoredMessage, work: _Work) -> str:
    return "\n\n".join(_told(number, message, work))


def _told(number: int, message: StoredMessage, work: _Work) -> Iterator[str]:
    asked = clip(message.content, _HEADING_COLUMNS)
    yield f"## {number}. {portable_line(asked)}"
    if asked != " ".join(message.content.split()):
        yield "\n".join(f"> {portable_line(line)}" for line in message.content.splitlines())
    if message.response:
        yield portable(message.response)
    if message.status != "completed":
        yield f"*{message.status.capitalize()}.*"
    if work.sources:
        yield "**Sources read**"
        yield "\n".join(f"- {_source(address, title)}" for address, title in work.sources.items())
    if work.written:
        yield "**Written**"
        yield "\n".join(f"- {portable_line(said)}" for said in work.written.values())


def _source(address: str, title: str) -> str:
    shown = f"<{address}>" if _WEB_ADDRESS.fullmatch(address) else portable_line(address)
    return shown if title == address else f"{portable_line(title)}: {shown}"
