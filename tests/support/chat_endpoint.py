"""A scripted chat endpoint on 127.0.0.1 that can misbehave in all the ways of real endpoints.

::

    with ChatServer([Answer("Hello"), Answer(status=503)]) as server:      a thread of this process
        client = AsyncOpenAI(base_url=server.base_url, api_key="k")

    with ChatProcess({"quick": [Answer("Hello" * 100)]}) as base_url:      a process of its own, for measurements

A script is a list of answers in order, or a function of the request; with `ChatProcess` the request's model picks a
list and the number of assistant messages in the prompt picks the answer, so that a whole tool loop can be scripted.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from support.call_styles import Calls, call_deltas, pieces
from support.loopback_server import ThreadedServer


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer.

    Attributes:
        text: The answer text, streamed in pieces of `chunk_chars`.
        reasoning: Reasoning text, streamed before it in the field `reasoning_field`.
        chunk_chars: Characters per chunk; 0 for a word per chunk.
        delay_s: Seconds before each chunk; 0 sends the whole answer in one write.
        packet_bytes: Send the response in writes of this many bytes, cut at any place.
        calls: Native tool calls after the text: for each its name and its arguments as JSON text.
        call_style: How they are streamed, one of `call_styles.STYLES`; `plain` gives the whole answer as JSON.
        usage: Where the token counts are: a last chunk without choices (if the request asked for it), the chunk with
            the finish reason, every chunk (growing), or nowhere.
        input_tokens, cached_tokens, reasoning_tokens: Counts to report; the output is counted in chunks.
        finish_reason: None leaves it out.
        done: Whether `[DONE]` ends the stream.
        status: Other than 200: the answer is `error` as JSON.
        error: The message of a failure, or the whole JSON body as a mapping.
        headers: Further response headers.
        cut_after: Close the connection after this number of chunks.
        hang_after: Send nothing more after this number of chunks, until the client leaves.
        drop: Close the connection without any answer.
        raw: The body, byte for byte, instead of all the above but the status.
        content_type: Of `raw`.
    """

    text: str = ""
    reasoning: str = ""
    chunk_chars: int = 16
    delay_s: float = 0.0
    packet_bytes: int | None = None
    calls: Calls = ()
    call_style: str = "openai"
    usage: Literal["last", "finish", "every", "none"] = "last"
    input_tokens: int = 11
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    reasoning_field: str = "reasoning_content"
    finish_reason: str | None = "stop"
    model: str = "loopback-1"
    done: bool = True
    status: int = 200
    error: str | Mapping[str, Any] = "scripted failure"
    headers: tuple[tuple[str, str], ...] = ()
    cut_after: int | None = None
    hang_after: int | None = None
    drop: bool = False
    raw: bytes | None = None
    content_type: str = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Request:
    """A received request, as JSON and as bytes; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    data: bytes = field(default=b"", repr=False)


def calling(*calls: tuple[str, Mapping[str, Any] | str], **options: Any) -> Answer:
    """An answer with native calls by name and parameters (a text is sent unchanged), ended as endpoints do."""
    written = tuple((name, params if isinstance(params, str) else json.dumps(params)) for name, params in calls)
    return Answer(**{"calls": written, "finish_reason": "tool_calls", **options})


Script = Callable[[Request], Answer]


# --- what goes over the wire ---------------------------------------------------------------------------------------


def sse(payload: object) -> bytes:
    """Encode a payload as an event of the stream."""
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"


def events(answer: Answer, *, with_usage: bool) -> list[bytes]:
    """The events of the answer, in order."""
    if answer.raw is not None:
        return [answer.raw]
    if answer.call_style == "plain":
        return [_plain(answer)]
    deltas: list[Mapping[str, Any]] = []
    deltas += [{answer.reasoning_field: piece} for piece in pieces(answer.reasoning, answer.chunk_chars)]
    deltas += [{"content": piece} for piece in pieces(answer.text, answer.chunk_chars)]
    deltas += call_deltas(answer.call_style, answer.calls, answer.chunk_chars) if answer.calls else []
    counts = [_usage(answer, i + 1) if answer.usage == "every" else None for i in range(len(deltas))]
    found = [sse(_chunk(answer, delta, None, count)) for delta, count in zip(deltas, counts, strict=True)]
    total = _usage(answer, len(deltas))
    if answer.finish_reason is not None:
        found.append(sse(_chunk(answer, {}, answer.finish_reason, total if answer.usage == "finish" else None)))
    if answer.usage == "last" and with_usage:
        found.append(sse({**_chunk(answer, {}, None, total), "choices": []}))
    return [*found, b"data: [DONE]\n\n"] if answer.done else found


def _plain(answer: Answer) -> bytes:
    calls = [{"type": "function", "function": {"name": name, "arguments": text}} for name, text in answer.calls]
    message = {"role": "assistant", "content": answer.text or None, "tool_calls": calls, "function_call": None}
    choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason}
    return json.dumps({"model": answer.model, "choices": [choice], "usage": _usage(answer, 1)}).encode()


def _chunk(answer: Answer, delta: Mapping[str, Any], finish: str | None, usage: object) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    head = {"id": "chatcmpl-loopback", "object": "chat.completion.chunk", "created": 1767225600, "model": answer.model}
    return {**head, "system_fingerprint": None, "choices": [choice], "usage": usage}


def _usage(answer: Answer, output: int) -> dict[str, Any]:
    counts: dict[str, Any] = {"prompt_tokens": answer.input_tokens, "completion_tokens": output}
    if answer.cached_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": answer.cached_tokens}
    if answer.reasoning_tokens is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": answer.reasoning_tokens}
    return counts


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode()


# --- the server ----------------------------------------------------------------------------------------------------


class ChatServer(ThreadedServer):
    """The endpoint, in a thread of this process; a context manager.

    Args:
        script: The answers in order, or a function that gives the answer to a request.

    Attributes:
        requests: Every request, in the order received.
    """

    def __init__(self, script: Iterable[Answer] | Script) -> None:
        super().__init__()
        self.requests: list[Request] = []
        self._script = script if callable(script) else _in_order(script)
        self._wire: dict[tuple[Answer, bool], list[bytes]] = {}

    @property
    def base_url(self) -> str:
        """The address for a client."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until the client leaves or an answer ends the connection."""
        while request := await _read_request(reader):
            self.requests.append(request)
            if not await self._answer(self._script(request), request, reader, writer):
                break

    async def _answer(
        self, answer: Answer, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Send the answer; return whether the connection can be used again."""
        if answer.drop:
            return False
        if answer.status != 200:
            await _send(writer, _failure(answer), answer.packet_bytes)
            return True
        sending = asyncio.ensure_future(self._stream(answer, request, writer))
        if not answer.delay_s and answer.hang_after is None:
            return await sending
        leaving = asyncio.ensure_future(reader.read(1))
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            self.client_left.set()
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        return sending.done() and not sending.cancelled() and sending.result()

    async def _stream(self, answer: Answer, request: Request, writer: asyncio.StreamWriter) -> bool:
        chunks = self._chunks(answer, with_usage=bool((request.body.get("stream_options") or {}).get("include_usage")))
        stop = min(n for n in (answer.cut_after, answer.hang_after, len(chunks)) if n is not None)
        head = _head(200, [("content-type", answer.content_type), ("transfer-encoding", "chunked"), *answer.headers])
        if not answer.delay_s:
            await _send(writer, head + b"".join(chunks[:stop]), answer.packet_bytes)
        else:
            writer.write(head)
            for chunk in chunks[:stop]:
                await asyncio.sleep(answer.delay_s)
                await _send(writer, chunk, answer.packet_bytes)
        if answer.hang_after is not None:
            await asyncio.Event().wait()
        if answer.cut_after is not None:
            return False
        await _send(writer, b"0\r\n\r\n", None)
        return True

    def _chunks(self, answer: Answer, *, with_usage: bool) -> list[bytes]:
        key = (answer, with_usage)
        if key not in self._wire:
            self._wire[key] = [_http_chunk(event) for event in events(answer, with_usage=with_usage)]
        return self._wire[key]


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request of the connection; None when the client has closed it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(first.split()[1], headers, json.loads(body or b"{}"), body)


def _failure(answer: Answer) -> bytes:
    error = (
        answer.error if isinstance(answer.error, Mapping) else {"error": {"message": answer.error, "type": "scripted"}}
    )
    body = json.dumps(error).encode() if answer.raw is None else answer.raw
    content_type = "application/json" if answer.raw is None else answer.content_type
    headers = [("content-type", content_type), ("content-length", str(len(body))), *answer.headers]
    return _head(answer.status, headers) + body


async def _send(writer: asyncio.StreamWriter, data: bytes, packet_bytes: int | None) -> None:
    size = packet_bytes or len(data)
    for start in range(0, len(data), size):
        writer.write(data[start : start + size])
        await writer.drain()
        if packet_bytes:
            await asyncio.sleep(0)


def _in_order(answers: Iterable[Answer]) -> Script:
    remaining = iter(answers)
    over = Answer(status=400, error="The script has no more answers, and another was asked for.")
    return lambda _request: next(remaining, over)


# --- in a process of its own ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class ChatProcess:
    """The endpoint in its own process, so that its work is not measured; a context manager that yields the base URL.

    Args:
        answers: For each model name the answers by turn: the first to a prompt without assistant messages, and so on;
            the last one is given to all longer prompts.
    """

    answers: Mapping[str, list[Answer]]
    _process: "subprocess.Popen[bytes] | None" = field(init=False, repr=False, default=None)

    def __enter__(self) -> str:
        script = {model: [_written(answer) for answer in turns] for model, turns in self.answers.items()}
        command = [sys.executable, "-m", "support.chat_endpoint"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("The server's process has no pipes.")
        self._process.stdin.write(json.dumps(script).encode() + b"\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().decode().strip()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.communicate()


def _written(answer: Answer) -> dict[str, Any]:
    return {key: value for key, value in asdict(answer).items() if key != "raw"}


def by_model_and_turn(answers: Mapping[str, list[Answer]]) -> Script:
    """A script by the request's model and the number of assistant messages in its prompt."""

    def script(request: Request) -> Answer:
        turns = answers.get(request.body["model"])
        if turns is None:
            return Answer(status=404, error=f"The model {request.body['model']!r} does not exist.")
        turn = sum(message["role"] == "assistant" for message in request.body["messages"])
        return turns[min(turn, len(turns) - 1)]

    return script


def _tuples(answer: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Convert lists of lists from JSON to tuples of tuples."""
    return {name: tuple(map(tuple, answer[name])) for name in names}


def main() -> None:
    """Read a script from standard input, print the base URL, serve until standard input is closed."""
    written = json.loads(sys.stdin.readline())
    turns = {
        model: [Answer(**{**answer, **_tuples(answer, "headers", "calls")}) for answer in answers]
        for model, answers in written.items()
    }
    with ChatServer(by_model_and_turn(turns)) as server:
        sys.stdout.write(server.base_url + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
