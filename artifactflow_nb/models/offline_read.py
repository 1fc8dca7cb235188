"""The offline model as a reader: fetch what the instruction names, quote what answers the question."""

from artifactflow_nb.models import offline_search
from artifactflow_nb.models.offline_transcript import Transcript, failure
from artifactflow_nb.models.ranking import best_quotes
from artifactflow_nb.text.citations import (
    Document,
    addresses_in,
    read_counts,
    read_documents,
    read_hits,
    write_quotes,
)
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


def _report(transcript: Transcript, addresses: list[str]) -> str:
    if not addresses:
        return f"{NOTHING} The instruction names no address to read."
    documents = [document for step in transcript.of("web_fetch") for document in read_documents(step.data)]
    texts = "\n".join([transcript.instruction, *(step.data for step in transcript.of("web_search"))])
    quotes = best_quotes(transcript.query, documents, read_counts(texts), transcript.question)
    head = f"Quotes from the sources, the most relevant first, for: {transcript.question}"
    parts = [head, write_quotes(quotes)] if quotes else [NOTHING, *_read(documents)]
    return "\n\n".join([*parts, *_problems(transcript, documents)])


def _read(documents: list[Document]) -> list[str]:
    read = [f"- {document.title} ({document.address})" for document in documents if document.error is None]
    return ["Read were:\n" + "\n".join(read)] if read else []


def _problems(transcript: Transcript, documents: list[Document]) -> list[str]:
    failed = [f"{document.address} could not be read: {document.error}" for document in documents if document.error]
    return failed + [failure(step) for step in transcript.of("web_fetch") if step.error]
