"""The offline model as a reader: fetch what the instruction names, quote what answers the question."""

from collections.abc import Collection

from artifactflow_nb.models import offline_search
from artifactflow_nb.models.offline_parts import with_parts
from artifactflow_nb.models.offline_transcript import Transcript, failure
from artifactflow_nb.models.ranking import MOST_QUOTES, best_quotes
from artifactflow_nb.text.citations import (
    Document,
    Quotes,
    addresses_in,
    read_counts,
    read_documents,
    read_hits,
    write_quotes,
)
from artifactflow_nb.text.words import Query
from artifactflow_nb.xml_calls import format_call

NOTHING = "None of the sources read answers the question."
_MOST = 8


def look(transcript: Transcript) -> str:
    """The next turn of one who may search, read, or do both: first it searches."""
    if transcript.plays("web_search") and not transcript.made("web_fetch"):
        written = offline_search.turn(transcript)
        if written is not None:
            return written
    return turn(transcript)


def turn(transcript: Transcript) -> str:
    """The reader's next turn: a fetch, or the quotes of what was fetched."""
    addresses = _addresses(transcript)
    if "web_fetch" in transcript.tools and not transcript.made("web_fetch") and addresses:
        call = format_call("web_fetch", {"urls": addresses[:_MOST], "focus": transcript.question})
        return f"Reading {min(len(addresses), _MOST)} sources.\n\n{call}"
    return _report(transcript, addresses)


def _addresses(transcript: Transcript) -> list[str]:
    """The addresses of the instruction, or those that a search of this turn gave."""
    found = [hit.address for step in transcript.of("web_search") for hit in read_hits(step.data)]
    return addresses_in(transcript.instruction) or list(dict.fromkeys(found))


def quotes_of(transcript: Transcript, most: int = MOST_QUOTES, known: Collection[str] = ()) -> list[Quotes]:
    """The sentences of what was fetched that answer the question, at most so many, and none of those that are known."""
    texts = "\n".join([transcript.instruction, *(step.data for step in transcript.of("web_search"))])
    documents, counts = _documents(transcript), read_counts(texts)

    def answer(query: Query, question: str, room: int) -> list[Quotes]:
        return best_quotes(query, documents, counts, question, most=room, known=known)

    whole = answer(transcript.query, transcript.question, most)
    return with_parts(whole, transcript.question, most, answer)


def _documents(transcript: Transcript) -> list[Document]:
    return [document for step in transcript.of("web_fetch") for document in read_documents(step.data)]


def _report(transcript: Transcript, addresses: list[str]) -> str:
    if not addresses:
        return f"{NOTHING} The instruction names no address to read."
    documents, quotes = _documents(transcript), quotes_of(transcript)
    head = f"Quotes from the sources, the most relevant first, for: {transcript.question}"
    parts = [head, write_quotes(quotes)] if quotes else [NOTHING, *_read(documents)]
    return "\n\n".join([*parts, *_problems(transcript, documents)])


def _read(documents: list[Document]) -> list[str]:
    read = [f"- {document.title} ({document.address})" for document in documents if document.error is None]
    return ["Read were:\n" + "\n".join(read)] if read else []


def _problems(transcript: Transcript, documents: list[Document]) -> list[str]:
    failed = [f"{document.address} could not be read: {document.error}" for document in documents if document.error]
    return failed + [failure(step) for step in transcript.of("web_fetch") if step.error]
