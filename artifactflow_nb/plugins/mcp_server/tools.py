"""The tools of the MCP server: coroutines over a `RunLifecycle`, without an SDK or a transport.

`tools.yaml` says which tools there are, with the schemas of their parameters and results; a method of `Tools` carries
out each. Results are values of JSON. Known secrets are masked before a long text is cut, and in every result.
"""

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib.resources import files
from sqlite3 import Connection
from traceback import format_exc
from typing import Any, cast

import yaml

from artifactflow_nb.core.approvals import CHOICES, Decision
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.language import agent_label
from artifactflow_nb.core.text.cards import escape_invisible
from artifactflow_nb.core.text.format import capitalized, clip, count, storable_text, usd
from artifactflow_nb.engine.cited_sources import load_evidence
from artifactflow_nb.errors import ArtifactFlowError, NotFound, UsageError, brief
from artifactflow_nb.server.bodies import ChatBody
from artifactflow_nb.server.lifecycle import RunLifecycle
from artifactflow_nb.sources.citation_marks import listed_sources
from artifactflow_nb.sources.cited_pages import cited_section
from artifactflow_nb.sources.manager import SCHEME
from artifactflow_nb.sources.values import Evidence
from artifactflow_nb.widgets.run.labels import activity
from artifactflow_nb.widgets.run.transcript import RunTranscript

Value = dict[str, Any]

_LONGEST_WAIT_S, _QUERY_S, _MOST_CLAIMS = 86_400, 20.0, 200
_MOST_CHARS, _MOST_CELL, _MOST_LINE, _MOST_NAME = 40_000, 2_000, 300, 60  # longer texts are cut, and say so
_CUT = re.compile(r"\n\[cut: [\d,]+ more characters?\]\s*\Z")

_RUNS = """
SELECT run_id, conversation_id, started_at, status, question, answer, iif(unpriced, NULL, cost_usd) AS cost_usd FROM (
    SELECT *, coalesce((SELECT response FROM main.messages WHERE message_id = runs.message_id), '') AS answer,
        EXISTS (SELECT 1 FROM main.llm_calls AS c WHERE c.run_id = runs.run_id AND c.cost_usd IS NULL
            AND c.input_tokens IS NOT NULL AND c.provider <> 'artifactflow') AS unpriced FROM runs
) WHERE parent_run_id IS NULL {condition} ORDER BY started_at DESC
"""

logger = logging.getLogger(__name__)


@cache
def definitions() -> Value:
    """Return `tools.yaml`, which has the tools by name in the form of the protocol, and sentences for clients."""
    return cast("Value", yaml.safe_load((files(__package__) / "tools.yaml").read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True)
class Client:
    """The client of a call: its name, and functions for the phases of a run and for a cancellation by the client."""

    name: str
    report: Callable[[int, str], Awaitable[None]] | None = None
    has_cancelled: Callable[[], bool] = lambda: False


class Tools:
    """The tools over the runs of a data folder; `names` has those that the server offers.

    A read-only lifecycle has no tool that changes the store. `decides=False` leaves out `decide`, for servers without
    a token.
    """

    def __init__(self, lifecycle: RunLifecycle, *, decides: bool = True) -> None:
        self.lifecycle = lifecycle
        self._engine = lifecycle.thread.engine
        tools = {
            name: tool["annotations"] for name, tool in definitions()["tools"].items() if decides or name != "decide"
        }
        self.names = [name for name in tools if tools[name]["readOnlyHint"] or not lifecycle.read_only]

    async def call(self, name: str, arguments: Mapping[str, Any], client: Client) -> tuple[str, Value | None]:
        """Call a tool, and return its result as text and as a value; for an error, the message and None."""
        secrets = self._engine.secrets
        try:
            if name not in self.names:
                raise NotFound(f"There is no tool {brief(name)}. Tools: {', '.join(self.names)}.")
            fields = checked(arguments, definitions()["tools"][name]["inputSchema"])
            value: Value = await getattr(self, name)(client, **fields)
        except (ArtifactFlowError, TimeoutError) as error:
            message = _cut(secrets.redact(str(error)), _MOST_CELL)
            for call, instead in definitions()["calls"].items():
                message = message.replace(call, instead)
            return message, None
        except Exception as error:  # noqa: BLE001 - the client gets nothing but its type
            logger.error("The tool %s failed. %s", name, secrets.redact(format_exc()))  # noqa: TRY400 - redacted
            return f"The tool failed with an error of its own ({type(error).__name__}); the server has logged it.", None
        value = secrets.refresh().value(value)
        return run_text(value) if "next" in value else json.dumps(value, ensure_ascii=False, indent=1), value

    async def research(self, client: Client, question: str = "", run_id: str | None = None, **options: Any) -> Value:
        """Ask a question, or take a run, and wait for the answer."""
        wait_s = options.pop("wait_s", _LONGEST_WAIT_S)
        if bool(question.strip()) == (run_id is not None):
            raise UsageError("Pass either a question, or the run_id of a run to wait for.")
        if run_id is None:
            run_id = (await self.lifecycle.ask(ChatBody(content=question, **options))).run_id
        return await self._follow(client, run_id, wait_s)

    async def decide(self, client: Client, request_id: str, decision: str, **options: Any) -> Value:
        """Store the decision of the person, and wait for the rest of the run."""
        request = await self.lifecycle.call(self._engine.approvals.get(request_id))
        by = f"mcp:{clip(escape_invisible(client.name), _MOST_NAME) or 'unnamed'}"
        masked, params = self._engine.secrets.current.value, options.get("params")
        values = options.get("text", ""), by, None if params is None else edited(request.params, params, masked)
        choice = Decision(decision == "approved", *values, replaces_call=decision == "instructed")
        await self.lifecycle.call(self.lifecycle.decide(request_id, choice))
        return await self._follow(client, request.run_id, options.get("wait_s", _LONGEST_WAIT_S))

    async def pending(self, _client: Client, request_id: str | None = None) -> Value:
        """List the open requests, or show one with longer texts."""
        most = _MOST_CELL if request_id is None else _MOST_CHARS
        requests = [each for each in await self.lifecycle.pending() if request_id in {None, each["id"]}]
        return {"requests": [_request(each, most) for each in self._engine.secrets.refresh().value(requests)]}

    async def _follow(self, client: Client, run_id: str, wait_s: float) -> Value:
        """Report the phases of a run until the run ends or waits, at most `wait_s` seconds."""
        transcript, sentences = RunTranscript(), [""]
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    if (batches := await self.lifecycle.stream(run_id)) is not None:
                        async with aclosing(cast("Any", batches)):
                            async for batch in batches:
                                for sent in batch:
                                    if sent.event.type is not StreamEventType.LLM_CHUNK:
                                        transcript.apply(sent.event)
                                sentence = phase_of(transcript) or sentences[-1]
                                if client.report and sentence != sentences[-1]:
                                    await client.report(len(sentences), sentence)
                                    sentences.append(sentence)
        except asyncio.CancelledError:
            if client.has_cancelled():
                self.lifecycle.thread.submit(self._engine.controller.cancel(run_id))
            raise
        return await self._report(run_id)

    async def read_run(self, _client: Client, run_id: str, start: int = 0) -> Value:
        """Read a run so far, with a part of the answer."""
        return await self._report(run_id, start)

    async def _report(self, run_id: str, start: int = 0) -> Value:
        """Return a run so far, in the form of the definition `run`, with the answer from a character on."""
        result = await self.lifecycle.result(run_id)
        run_id, answer, masked = result["run_id"], result["response"] or "", self._engine.secrets.refresh().value
        cited = listed_sources(answer).values()
        addresses = [source.address for source in cited]
        evidence = await self._engine.database.read(lambda db: load_evidence(db, run_id, addresses))
        costs = await asyncio.to_thread(self.lifecycle.frames.metrics_df, run_id, by="run")
        written = await self.lifecycle.frame("artifacts", {"run": run_id})
        is_priced = len(costs) > 0 and not costs["n_unpriced"].sum()
        return {
            **{name: result[name] for name in ("run_id", "conversation_id", "status", "outcome")},
            "answer": _cut(masked(answer)[start:]),
            "citations": [asdict(each) | {"was_read": bool(evidence.text(each.address))} for each in cited],
            "artifacts": sorted({*written["artifact_id"]}),
            "tokens": int(costs["total_tokens"].sum()),
            "cost_usd": float(costs["cost_usd"].sum()) if is_priced else None,
            "requests": [_request(each) for each in masked(result["pending"])],
            "next": result["error_message"] or definitions()["next"].get(result["status"], ""),
        }

    async def search_runs(self, _client: Client, words: str = "", limit: int = 10) -> Value:
        """Search questions and answers."""
        condition = "AND instr(lower(question || ' ' || answer), lower(?))" * len(words.split())
        runs, has_more = await self._rows(_RUNS.format(condition=condition), limit, words.split())
        for run in runs:
            run |= {name: clip(run[name], _MOST_LINE) for name in ("question", "answer")}
        return {"runs": runs, "has_more": has_more}

    async def query_runs(self, _client: Client, sql: str, limit: int = 100) -> Value:
        """Query the frames."""
        rows, has_more = await self._rows(sql.strip().rstrip(";"), limit)
        return {"rows": rows, "has_more": has_more}

    async def _rows(self, sql: str, limit: int, params: Sequence[str] = ()) -> tuple[list[Value], bool]:
        """Return the first rows of a query, and whether there are more."""
        limited = f"SELECT * FROM (\n{sql}\n) LIMIT {limit + 1}"  # noqa: S608 - the connection only reads
        frame = await asyncio.to_thread(self.lifecycle.frames.query, limited, params, timeout_s=_QUERY_S)
        for name in frame.select_dtypes(["object", "string"]).columns:
            frame[name] = frame[name].map(self._engine.secrets.refresh().value).map(_short)
        return json.loads(frame.head(limit).to_json(orient="records", date_format="iso")), len(frame) > limit

    async def search_sources(self, _client: Client, query: str, limit: int = 10) -> Value:
        """Search the documents of the person."""
        hits = await self.lifecycle.call(self._engine.search_sources(query, limit))
        sources = [{"title": hit.title, "address": hit.address, "snippet": _short(hit.snippet)} for hit in hits]
        return {"sources": sources}

    async def read_artifact(self, _client: Client, run_id: str, artifact_id: str, start: int = 0) -> Value:
        """Read a part of an artifact."""
        run = await self.lifecycle.result(run_id)
        artifact = await self.lifecycle.artifact(run["conversation_id"], artifact_id, run["message_id"])
        content, end = self._engine.secrets.refresh().text(artifact["content"]), start + _MOST_CHARS
        return {
            **{name: artifact[name] for name in ("artifact_id", "version", "title", "content_type")},
            "content": content[start:end],
            "n_chars": len(content),
            "next_start": end if end < len(content) else None,
        }

    async def check_claims(
        self, _client: Client, text: str = "", run_id: str | None = None, artifact_id: str | None = None
    ) -> Value:
        """Check a text, the answer of a run, or an artifact."""
        if (not text.strip() and run_id is None) or (artifact_id is not None and (text or run_id is None)):
            raise UsageError("Pass a text, or a run_id, or a run_id with an artifact_id.")
        run = None if run_id is None else await self.lifecycle.result(run_id)
        if run is not None and artifact_id is not None:
            text = (await self.lifecycle.artifact(run["conversation_id"], artifact_id, run["message_id"]))["content"]
        elif run is not None:
            text = text or run["response"] or ""
        rows = await self._engine.database.read(lambda db: check_text(db, text, run_id))
        names = ("text", "status", "reason", "quote", "address")
        claims = [{name: row[name] for name in names} for row in rows[:_MOST_CLAIMS]]
        counts = Counter(row["status"] for row in rows)
        return {"counts": dict(counts), "claims": claims, "has_more": len(rows) > _MOST_CLAIMS}


def phase_of(transcript: RunTranscript) -> str:
    """Describe what the newest busy agent of a run does, with the calls so far; empty if no agent is busy."""
    totals = transcript.totals
    calls = f"{count(totals.n_llm_calls, 'model call')}, {count(totals.n_tool_calls, 'tool call')}"
    busy = [(job.agent, text) for job in transcript.jobs if (text := activity(job))]
    return f"{capitalized(agent_label(busy[-1][0]))}: {busy[-1][1]} ({calls})" if busy else ""


def check_text(db: Connection, text: str, run_id: str | None) -> list[Value]:
    """Check a text against the texts that a run has read, and against local sources as they are in the index."""
    from artifactflow_nb.plugins.claims.versions import claim_rows  # the plugin may be missing

    def load(cited: Sequence[str]) -> Evidence:
        evidence = load_evidence(db, run_id, cited)
        texts = dict(evidence.texts)
        for address in cited:
            if address.startswith(SCHEME) and not evidence.text(address):
                with suppress(NotFound):
                    texts[address] = cited_section(db, address).text
        return replace(evidence, texts=texts)

    rows = list(claim_rows(text, load))
    for row in rows:
        row["quote"] = row["quote"] or (row["text"] if row["start"] is not None else None)
        if run_id is None:
            row["reason"] = row["reason"].replace("This run has not read", "Pass the run_id of a run that has read")
    return rows


def number(text: str) -> float:
    """Return a number of JSON; `5.0` is an integer, for tools as for schemas."""
    return int(value) if (value := float(text)).is_integer() else value


def edited(stored: Mapping[str, Any], params: Mapping[str, Any], masked: Callable[[Any], Any]) -> Value | None:
    """Return the parameters of a request with the edits of a person; None if all are as they were.

    A parameter that is missing, or is as a result shows it, cut or masked, keeps the stored value.

    Errors: `UsageError` for another text that ends with the mark of a cut text.
    """
    changed = dict(stored)
    for name, value in params.items():
        if name in stored and value in [_short(masked(stored[name]), most) for most in (_MOST_CELL, _MOST_CHARS)]:
            continue
        if isinstance(value, str) and _CUT.search(value):
            raise UsageError(
                f"The parameter {name!r} ends with the mark of a cut text. Pass the whole text, which `pending` with "
                "the request_id shows, or leave the parameter out to keep the text."
            )
        changed[name] = value
    return changed if changed != stored else None


def checked(arguments: Mapping[str, Any], schema: Value) -> Value:
    """Return arguments without nulls, and with the numbers and objects that a client sent as texts; or `UsageError`."""
    from jsonschema import Draft202012Validator

    present = {name: value for name, value in arguments.items() if value is not None}
    read = partial(json.loads, parse_float=number, parse_constant=str)  # the schema refuses NaN as a text
    fields: Value = read(storable_text(json.dumps(present, ensure_ascii=False)))
    for name, value in fields.items():
        if isinstance(value, str) and schema["properties"].get(name, {}).get("type") in {"integer", "object"}:
            with suppress(ValueError, RecursionError):
                fields[name] = read(value)
    for error in Draft202012Validator(schema).iter_errors(fields):
        place = ".".join(map(str, error.absolute_path))
        rule = error.message if len(error.message) <= _MOST_LINE else f"{error.validator} is {error.validator_value}"
        raise UsageError(f"The arguments do not fit the schema{f' at {place}' if place else ''}: {rule}.")
    return fields


def _request(request: Mapping[str, Any], most: int = _MOST_CELL) -> Value:
    """Return a request in the form of the definition `request`."""
    params = {name: _short(value, most) for name, value in request["params"].items()}
    texts = {"title": clip(request["title"], _MOST_LINE), "preview": _cut(request["preview"], most)}
    return {**request, **texts, "params": params}


def request_text(request: Value) -> str:
    """Return a request as text: title, reason, possible decisions, what would be written, and parameters."""
    parts = [
        f"Request {request['id']}: {request['title']}",
        request["message"],
        f"Possible decisions: {', '.join(request['allowed'] or CHOICES)}.",
        request["preview"],
        f"Parameters: {json.dumps(request['params'], ensure_ascii=False)}" if request["params"] else "",
    ]
    return "\n\n".join(filter(None, parts))


def run_text(run: Value) -> str:
    """Return a run as text: the answer, the requests, a line about the run, and what to do next."""
    cost = "without a known price" if run["cost_usd"] is None else usd(run["cost_usd"])
    unread = ", ".join(str(each["number"]) for each in run["citations"] if not each["was_read"])
    artifacts = ", ".join(run["artifacts"])
    parts = [
        run["answer"],
        unread and f"The run has not read the text of these cited sources: {unread}.",
        *map(request_text, run["requests"]),
        f"Run {run['run_id']}: {run['status']}, {count(run['tokens'], 'token')}, {cost}.",
        artifacts and f"Artifacts: {artifacts}.",
        run["next"],
    ]
    return "\n\n".join(filter(None, parts))


def _cut(text: str, most: int = _MOST_CHARS) -> str:
    n_more = len(text) - most
    return text if n_more <= 0 else f"{text[:most]}\n[cut: {count(n_more, 'more character')}]"


def _short(value: Any, most: int = _MOST_CELL) -> Any:
    """Return a value of a cell or a parameter; a long value becomes a text that is cut."""
    if isinstance(value, bytes):
        return f"<{count(len(value), 'byte')}>"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return value if len(text) <= most else _cut(text, most)
