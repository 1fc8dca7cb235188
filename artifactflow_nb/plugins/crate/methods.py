"""The methods of a run as a paragraph in the past tense, and the run as an entry of `CITATION.cff`, from its rows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.core.text.format import clip, count, without_context
from artifactflow_nb.recording.rows import Row, RunRows
from artifactflow_nb.sources.citations import documents_read
from artifactflow_nb.sources.rows import SCHEME
from artifactflow_nb.store.schema import from_microseconds

_QUESTION_CHARS = 400
_OUTCOMES = {
    "partly": "The answer covered the question in part.",
    "not_in_sources": "The sources did not contain the answer.",
}
_MOST_NAMES = 5


def joined(names: Iterable[str]) -> str:
    """Return names as a list in a sentence, without duplicates, the first five by name."""
    listed = list(dict.fromkeys(names))
    more = len(listed) - _MOST_NAMES
    listed = [*listed[:_MOST_NAMES], f"{more:,} more"] if more > 0 else listed
    return " and ".join(filter(None, [", ".join(listed[:-1]), *listed[-1:]]))


def day(moment: datetime) -> str:
    """Return a date such as `28 November 2026`."""
    return f"{moment.day} {moment:%B %Y}"


def methods_text(rows: RunRows) -> str:
    """Return a paragraph about a run for the methods section of a paper.

    The paragraph names models with the days and numbers of calls, agents, searches, what was read and not found,
    requests to a person, the budget and the cost. Every figure is counted in the rows; what has no row has no sentence.
    """
    sentences = [
        question_sentence(rows),
        *model_sentences(rows),
        *source_sentences(rows),
        *decision_sentences(rows),
        *cost_sentences(rows),
        *end_sentences(rows),
    ]
    return " ".join(sentences)


def question_sentence(rows: RunRows) -> str:
    """Return the sentence about the question, the time, the release and the flow."""
    run, question = rows.run, " ".join(without_context(rows.run["question"]).split())
    start, end = (from_microseconds(run[name]) for name in ("started_at", "completed_at"))
    until = f"{end:%H:%M}" if start.date() == end.date() else f"{day(end)}, {end:%H:%M}"
    mode = " by replaying a recording" if run["mode"] == "replay" else ""
    return (
        f"On {day(start)} ({start:%H:%M} to {until} UTC), the question “{clip(question, _QUESTION_CHARS)}” was put to "
        f"ArtifactFlow NB {run['package_version']} and was worked on{mode} in the flow {run['flow']} "
        f"(run {run['run_id']})."
    )


def model_sentences(rows: RunRows) -> list[str]:
    """Return the sentences about agents and models."""
    calls = Counter((row["response_model"] or row["request_model"], row["provider"]) for row in rows["llm_calls"])
    calls = Counter({key: n for key, n in calls.items() if key[0]})
    if not calls:
        return ["No language model was called."]
    models = joined(f"{model} ({provider}, {count(n, 'call')})" for (model, provider), n in calls.most_common())
    agents = joined(sorted({row["agent_name"] for row in rows["llm_calls"]}))
    failed = sum(row["error_type"] is not None for row in rows["llm_calls"])
    text = [f"The work was done by {agents} with {models}."]
    temperatures = sorted({row["temperature"] for row in rows["llm_calls"] if row["temperature"] is not None})
    if temperatures:
        text.append(f"The sampling temperature was {joined(f'{value:g}' for value in temperatures)}.")
    return [*text, f"{count(failed, 'call')} of a model failed."] if failed else text


def _results(row: Row) -> Sequence[Any]:
    results = orjson.loads(row["metadata_json"] or "{}").get("results")
    return results if isinstance(results, list) else ()


def source_sentences(rows: RunRows) -> list[str]:
    """Return the sentences about what was searched, found and read."""
    searches = [row for row in rows["tool_calls"] if row["tool_name"] == "web_search" and row["success"]]
    text: list[str] = []
    if searches:
        scope = orjson.loads(rows.run["manifest_json"]).get("search") or "an unnamed service"
        found = sum(map(len, map(_results, searches)))
        number = f"{len(searches):,} searches" if len(searches) > 1 else "One search"
        text.append(f"{number} (provider: {scope}) returned {count(found, 'result')}.")
        if empty := [query_of(row) for row in searches if not _results(row)]:
            text.append(f"Nothing was found for {joined(f'“{query}”' for query in empty)}.")
    read = {document.address for document in documents_read(rows["tool_calls"])}
    local = {address.removeprefix(SCHEME).partition("#")[0] for address in read if address.startswith(SCHEME)}
    pages = [address for address in read if not address.startswith(SCHEME)]
    if read:
        parts = [f"{count(len(local), 'document')} of the person"] if local else []
        parts += [count(len(pages), "web page")] if pages else []
        text.append(f"The agents read {joined(parts)}.")
    failed = sum(row["tool_name"] == "web_fetch" and row["success"] == 0 for row in rows["tool_calls"])
    return [*text, f"{count(failed, 'attempt')} to read sources failed."] if failed else text


def query_of(row: Row) -> str:
    """Return the query of a search, shortened."""
    return clip(str(orjson.loads(row["args_json"] or "{}").get("query", "")), 80)


def decision_sentences(rows: RunRows) -> list[str]:
    """Return the sentence about the decisions of persons."""
    persons = [row for row in rows["approvals"] if row["decided_by"] not in {None, "policy", "reviewer"}]
    decided = Counter(row["decision"] for row in persons)
    if not decided:
        return []
    kinds = joined(f"{n:,} {decision.replace('_', ' ')}" for decision, n in sorted(decided.items()))
    return [f"Persons decided {count(decided.total(), 'request')} ({kinds})."]


def is_unpriced(call: Row) -> bool:
    """Return whether a model call used tokens whose price is unknown."""
    return call["cost_usd"] is None and call["input_tokens"] is not None and call["provider"] != COMPUTED_PROVIDER


def cost_sentences(rows: RunRows) -> list[str]:
    """Return the sentences about tokens, cost and budget."""
    n_input, n_output = (sum(row[name] or 0 for row in rows["llm_calls"]) for name in ("input_tokens", "output_tokens"))
    estimated = " (estimated)" if any(row["tokens_estimated"] for row in rows["llm_calls"]) else ""
    text = [f"The models took {n_input:,} tokens and wrote {n_output:,}{estimated}."] if rows["llm_calls"] else []
    costs = [row["cost_usd"] for row in rows["llm_calls"] if row["cost_usd"] is not None]
    n_unpriced = sum(map(is_unpriced, rows["llm_calls"]))
    amount = f"{'at least ' if n_unpriced else ''}{sum(costs):.4f} US dollars" if costs else "unknown"
    reason = f", since {count(n_unpriced, 'call')} had no known price" if n_unpriced else ""
    text += [f"The cost was {amount}{reason}."] if costs or n_unpriced else []
    budget = orjson.loads(rows.run["settings_json"]).get("budget") or {}
    limits = [f"{value:,} {name}" for name, value in budget.items() if isinstance(value, int | float) and value]
    return [*text, f"The budget was {joined(limits)}."] if limits else text


def end_sentences(rows: RunRows) -> list[str]:
    """Return the sentences about the outcome, the checks and the end."""
    text = [_OUTCOMES[rows.run["outcome"]]] if rows.run["outcome"] in _OUTCOMES else []
    statuses = Counter(row["status"] for row in rows["claims"])
    if statuses:
        kinds = joined(f"{n:,} {status}" for status, n in sorted(statuses.items()))
        text.append(f"Claims were checked against the sources {count(statuses.total(), 'time')} ({kinds}).")
    if rows.run["status"] != "completed":
        text.append(f"The run ended as {rows.run['status']}.")
    return text


def citation_text(rows: RunRows, authors: Sequence[str], sha256: str) -> str:
    """Return a run as `CITATION.cff` in version 1.2.0; without authors, the program is the author."""
    import yaml

    run, ended = rows.run, from_microseconds(rows.run["completed_at"])
    entry: Mapping[str, Any] = {
        "cff-version": "1.2.0",
        "message": "Please cite this run as below.",
        "type": "dataset",
        "title": " ".join(without_context(run["question"]).split()),
        "authors": [{"name": name} for name in authors or [f"ArtifactFlow NB {run['package_version']}"]],
        "date-released": ended.date().isoformat(),
        "version": run["run_id"],
        "identifiers": [{"type": "other", "value": f"sha256:{sha256}", "description": "SHA-256 of run.afrun"}],
        "references": [{"type": "software", "title": "ArtifactFlow NB", "version": run["package_version"],
                        "authors": [{"name": "The ArtifactFlow NB maintainers"}]}],
    }  # fmt: skip
    return yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=120)
