"""A store for tests of sealing: branches, sub-agents, sources, decisions and a failure."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from support.replies import call, delegate, report, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.seal import SealedParts, load_parts
from artifactflow_nb.store.database import connect

SECRET = 'sk-"plänted"-0123456789'  # noqa: S105 - it is to be found, and opens nothing
"""A text with characters that JSON escapes."""

LETTERS = "# Letters\n\nA letter is sent once.\n\n# Stamps\n\nA stamp is used once.\n"
CITED = "local:notes/letters.md#letters"


def scripted_turn(request: ModelRequest) -> str:
    """Delegates, writes with a source and a secret, asks to overwrite, answers; partly depends on the question."""
    texts = [message.content for message in request.messages[1:]]
    if requesting_agent(request) != "lead":
        return "A letter is sent once." if len(texts) > 1 else call("web_fetch", urls=[CITED])
    started = max(n for n, text in enumerate(texts) if text.startswith("Ask:"))
    question, step = texts[started], (len(texts) - started - 1) // 2
    name = "r" + "".join(filter(str.isalnum, question))
    write = report(f"{question}\n\nSee {CITED}. The key is {SECRET}.", name)
    turns = [delegate("crawl_agent", "read") + delegate("crawl_agent", "read again"), write]
    turns += [call("update_artifact", id=name, old="See", new="Read"), f"Answered with {SECRET}, see {CITED}."]
    return turns[step]


def open_workbench(folder: Path, **options: Any) -> af.Workbench:
    model = options.pop("model", None) or ScriptedModel(scripted_turn)
    asks = {"create_artifact": "ask", "update_artifact": "approve"}
    return af.Workbench(model=model, approvals=asks, data_dir=folder, interactive=False, **options)


def make(folder: Path) -> tuple[str, str, str]:
    """Create a run, a continuation and a variant of the continuation; return their ids."""
    notes = folder / "notes"
    notes.mkdir(parents=True)
    (notes / "letters.md").write_text(LETTERS, encoding="utf-8")
    with open_workbench(folder / "data") as wb:
        wb.sources.add(notes)
        first = wb.ask("Ask: one").wait()
        first.approve(note="Go on.", scope="conversation").wait()
        second = wb.ask("Ask: two", conversation_id=first.conversation_id).wait()
        sibling = wb.conversation(second).edit("Ask: three").wait()
        sibling.artifacts["rAskthree"].edit("By hand.")
        wb.ask("Ask: elsewhere").wait().deny("No.").wait()
        assert [run.status for run in (first, second, sibling)] == ["completed"] * 3
        return first.run_id, second.run_id, sibling.run_id


@contextmanager
def scratch_connection(store: Path) -> Iterator[Any]:
    """A connection to a store; all changes are rolled back at the end."""
    with closing(connect(store)) as db:
        db.execute("BEGIN")
        yield db
        db.execute("ROLLBACK")


def sealed_parts(store: Path, run_id: str, *secrets: str) -> SealedParts:
    """The parts of a sealed run, without these secrets."""
    with scratch_connection(store) as db:
        return load_parts(db, run_id, Redactor(secrets))
