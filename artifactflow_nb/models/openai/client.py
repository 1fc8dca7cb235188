"""OpenAI-compatible endpoints: the `openai` client sends the request, our own reader parses the response stream.

::

    request ──> openai client ──> bytes ──> SseReader ──> chunks ──> StreamedReply ──> ModelDelta ..., ModelReply

The reader takes about a seventh of the time that the client's own parser needs for each chunk. Retries are implemented
here as well, because they must be visible to the person and must cover a stream that breaks. The module also has the
context windows of models, and marks the messages that an endpoint must cache.
"""

import asyncio
import os
import re
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from artifactflow_nb.core.messages import ToolProtocol
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.core.toolcalls.marks import CALL_BEGINNING
from artifactflow_nb.errors import ModelError, ModelRejected, ModelUnavailable, ToolsRefused, check_text
from artifactflow_nb.models.base import (
    AttemptStart,
    ModelDelta,
    ModelEvent,
    ModelReply,
    ModelRequest,
    RetryNotice,
    estimate_usage,
)
from artifactflow_nb.models.openai.errors import (
    AZURE_VERSION,
    FAILED_REASON,
    RATE_LIMIT_ADVICE,
    REDACTED_KEY,
    BadSample,
    Endpoint,
    display_address,
    environment_proxy,
    finish_reason,
    http_library,
    public_url,
    split_login,
    split_query,
    transport_errors,
    validate_key,
    validate_url,
)
from artifactflow_nb.models.openai.native_calls import (
    NativeCallReader,
    ProviderFields,
    stored_fields,
    tool_fields,
    wire_messages,
)
from artifactflow_nb.models.openai.reasoning import AnswerText, split_delta
from artifactflow_nb.models.openai.refusals import (
    FieldRefused,
    Refused,
    demand,
    has_own_temperature,
    refuse,
    refused_field,
    without_refused,
)
from artifactflow_nb.models.openai.sse import SseReader
from artifactflow_nb.models.openai.usage import cut_prompt_notice, read_usage
from artifactflow_nb.models.openai.waits import MAX_WAIT_S

if TYPE_CHECKING:
    from openai import AsyncOpenAI

FAMILIES: Mapping[str, int] = {
    r"gpt-5": 400_000,
    r"gpt-4\.1": 1_000_000,
    r"gpt-4o|gpt-4-turbo|chatgpt-4o": 128_000,
    r"gpt-4": 8_192,
    r"gpt-3\.5": 16_385,
    r"gpt-oss": 131_072,
    r"o[134](-|$)": 200_000,
    r"claude": 200_000,
    r"gemini": 1_000_000,
    r"gemma-?3": 128_000,
    r"deepseek": 128_000,
    r"llama-?4": 1_000_000,
    r"llama-?3[.-][123]": 128_000,
    r"llama-?3": 8_192,
    r"mistral|ministral|magistral|devstral": 128_000,
    r"qwen-?3": 131_072,
    r"qwen-?2\.5": 32_768,
    r"kimi-k2": 128_000,
    r"glm-4": 128_000,
    r"phi-?4": 16_384,
    r"smollm2": 8_192,
}
"""Context windows in tokens by the beginning of a model's name, the most specific first; as of autumn 2026."""

_FIELDS = ("context_length", "max_model_len", "context_window", "max_context_length", "n_ctx", "n_ctx_train")
_PREFIXES = re.compile(r"^(?:[\w.-]+/)*")


def known_window(name: str) -> int | None:
    """Return the context window of the model family with which a name begins, or None for an unknown family."""
    plain = _PREFIXES.sub("", name.lower())
    return next((tokens for family, tokens in FAMILIES.items() if re.match(family, plain)), None)


def listed_window(model: Mapping[str, object]) -> int | None:
    """Return the context window in an entry of `/v1/models`, or None; the name of the field differs between servers."""
    nested = model.get("meta")  # llama.cpp nests the field
    for fields in (model, nested if isinstance(nested, Mapping) else {}):
        for name in _FIELDS:
            if isinstance(tokens := fields.get(name), int) and tokens > 0:
                return tokens
    return None


_CONNECT_TIMEOUT_S = 10.0
_CONNECTIONS = 1_000  # the default of the client
_IDLE_CONNECTIONS = 20  # the pool walks through all idle connections whenever a request starts or ends
_DRAIN_S = 0.1  # some endpoints leave the stream open after its end; do not wait for them
_NO_KEY = "none"  # the client requires a key, local servers do not


@cache
def client_modules() -> tuple[str, ...]:
    """Return the names of the modules that the first request of a process imports."""
    transport = "httpcore2" if find_spec("httpcore2") else "httpcore"  # `openai` 3 uses the former
    names = ("openai", "openai.resources.chat.chat", "openai.resources.chat.completions.completions")
    return (*names, transport, f"{transport}._backends.auto")


class OpenAIModel:
    """Model behind an OpenAI-compatible endpoint.

    Args:
        base_url: The address, usually ending in `/v1`; None for the `openai` client's default. A user name and password
            in the address are sent as basic authentication instead of the key, and never displayed or logged.
        api_key: The key; None for endpoints without authentication.
        default_model: The model for requests without a model name.
        timeout_s: Maximum seconds without a byte from the endpoint.
        stall_timeout_s: Maximum seconds between two pieces of a reply, after its first text. An endpoint that sends the
            arguments of a native call as a whole is silent while it writes the arguments.
        extra_body: Further fields of every request, for example `max_tokens` or `chat_template_kwargs`.
        context_tokens: The context window of the models in tokens; None to ask the endpoint, or to
            look up the name of the model if the endpoint reports no window.
        prompt_cache: Whether to mark the beginnings of prompts with `cache_control`, for endpoints that cache on
            request only, such as Anthropic's models behind OpenRouter. Other endpoints may reject the marks.
        sleep: Async function that waits before a retry, in seconds.

    Attributes:
        has_answered: Whether anything has answered at the address; until then a refused connection is not retried.
        limiter: Waits before each attempt, `await limiter.acquire(endpoint, model, request)`, which returns an object
            with `report(tokens, error)`; None for no limit.

    One object can be used in several workbenches and event loops.

    Errors: `UsageError` for an invalid address or key. A turn raises `ModelRejected` or, after the last retry,
    `ModelUnavailable`. Both have the text received so far in `partial`, and never contain the key. A copy or pickle
    of a model with a key has no key, and rejects each request.
    """

    provider = "openai"
    tool_protocols: tuple[ToolProtocol, ...] = ("native", "xml")

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        default_model: str,
        *,
        timeout_s: float = 600.0,
        stall_timeout_s: float = 60.0,
        extra_body: Mapping[str, Any] | None = None,
        context_tokens: int | None = None,
        prompt_cache: bool = False,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._base_url: str | None = None
        self._login: tuple[str, str] | None = None
        self._query: dict[str, str] = {}
        if (url := validate_url(base_url)) is not None:
            self._base_url, self._login = split_login(url)
            self._base_url, self._query = split_query(self._base_url)
        self._key = validate_key(api_key) or _NO_KEY
        check_text("default_model", default_model)
        self._model = default_model
        self._timeout_s = timeout_s
        self._stall_timeout_s = stall_timeout_s
        self._extra_body = dict(extra_body or {})
        self._context_tokens = context_tokens
        self._prompt_cache = prompt_cache
        self._windows: dict[str, int] | None = None
        self.has_answered = False
        self._sleep = sleep
        self._refused: dict[str, Refused] = {}  # for each model, the fields to leave out or to rename from now on
        # Connections belong to the event loop that opened them.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, SharedClient] = WeakKeyDictionary()
        self._lacks_key = False
        self.limiter: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies and pickles, without secrets and connections."""
        had_key = self.key is not None or self._login is not None or self._lacks_key
        public: dict[str, Any] = {"_key": _NO_KEY, "_login": None, "_lacks_key": had_key}
        secret_query = self._query.keys() - {AZURE_VERSION}  # a query may hold a key
        public |= {"_query": {}, "_lacks_key": True} if secret_query else {}
        public |= {"_extra_body": Redactor().redact_value(self._extra_body), "_clients": None, "limiter": None}
        return {**self.__dict__, **public}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _clients=WeakKeyDictionary())

    def __repr__(self) -> str:
        address = self._base_url and public_url(self._base_url)
        return f"OpenAIModel({address!r}, {REDACTED_KEY!r}, {self._model!r})"

    @property
    def key(self) -> str | None:
        """The API key, for redaction, or None."""
        return None if self._key == _NO_KEY else self._key

    @property
    def address(self) -> str:
        """The address for display, without credentials."""
        return public_url(self._base_url) if self._base_url else "the openai client's default"

    @property
    def endpoint(self) -> str:
        """The address of the requests without credentials, by which prices are looked up."""
        address = self._base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        return public_url(address)

    @property
    def default_model(self) -> str:
        """Name of the model for requests without a model name."""
        return self._model

    def takes_temperature(self, name: str) -> bool | None:
        """Return whether a model takes a temperature, or None if unknown."""
        if "temperature" in self._refused.get(name, {}):
            return False
        return True if known_window(name) and not has_own_temperature(name) else None

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Run one turn with retries; `ttft_ms` of the reply counts from the start of the successful attempt.

        A field that the endpoint refuses is left out or renamed in the next attempt, which is not counted as a retry.
        """
        attempt, n_refused, is_second_sample = 1, 0, False
        while True:
            endpoint = self._endpoint(request)
            for name in client_modules():  # otherwise the measured time includes the imports
                import_module(name)
            model = request.model or self._model
            grant = None if self.limiter is None else await self.limiter.acquire(self.endpoint, model, request)
            yield AttemptStart()
            turn = StreamedReply(endpoint)
            try:
                async with aclosing(self._attempt(request, turn)) as deltas:
                    async for delta in deltas:
                        yield delta
                break
            except ModelError as error:
                error.partial = turn.text.content
                if grant is not None:
                    grant.report(error=error)
                n_failed = attempt - n_refused
                if isinstance(error, FieldRefused):
                    n_refused += 1
                elif is_second_sample and isinstance(error, BadSample):
                    offers_tools = request.tool_protocol == "native" and request.tools
                    if offers_tools and error.is_call:
                        raise ToolsRefused(str(error), partial=error.partial) from None
                    raise
                elif (
                    not isinstance(error, ModelUnavailable)
                    or (error.is_unreached and not self.has_answered)  # nothing is running there yet
                    or n_failed > request.max_retries
                    or (error.retry_after_s or 0) > MAX_WAIT_S
                ):
                    raise
                is_second_sample |= isinstance(error, BadSample)
                backoff = request.retry_delay_s * 2 ** (n_failed - 1)
                requested = error.retry_after_s if isinstance(error, ModelUnavailable) else None
                delay_s = min(backoff, MAX_WAIT_S) if requested is None else requested
                notice = RetryNotice(attempt, delay_s, str(error).removesuffix(RATE_LIMIT_ADVICE).rstrip())
            yield notice
            await self._sleep(notice.delay_s)
            attempt += 1
        reply = turn.reply(request, self._origin(request), default_model=self._model, attempts=attempt)
        if grant is not None:
            grant.report(reply.usage.input_tokens + reply.usage.output_tokens)
        yield reply

    async def list_models(self) -> list[str]:
        """Return the sorted names of the endpoint's models; `ModelError` if the endpoint does not list models."""
        async with self._request("models") as client:
            answer = await client.get("/models", cast_to=object)
        payload: object = answer
        for name in ("data", "models"):
            payload = payload.get(name, payload) if isinstance(payload, Mapping) else payload
        entries = payload if isinstance(payload, list) else [None]
        names: list[Any] = [
            entry.get("id") or entry.get("name") if isinstance(entry, Mapping) else entry for entry in entries
        ]
        if not all(isinstance(name, str) for name in names):
            raise self._endpoint(path="models").unexpected_payload_error(answer, "a list of models")
        return sorted(names)

    async def embeddings(self, model: str, texts: Sequence[str]) -> list[object]:
        """Return the unchecked vectors of these texts, in order; `ModelError` if the request fails."""
        body = {"model": model, "input": list(texts), "encoding_format": "float"}
        async with self._request("embeddings") as client:
            answer = await client.post("/embeddings", cast_to=object, body=body)
        data = answer.get("data") if isinstance(answer, Mapping) else None
        entries = [entry for entry in data if isinstance(entry, Mapping)] if isinstance(data, list) else []
        entries.sort(key=lambda entry: index if isinstance(index := entry.get("index"), int) else 0)
        return [entry.get("embedding") for entry in entries]

    @asynccontextmanager
    async def _request(self, path: str) -> AsyncIterator["AsyncOpenAI"]:
        """Yield the client for a request to this path; errors of the client are raised as `ModelError`."""
        from openai import APIConnectionError, APIStatusError

        try:
            async with self._client() as client:
                yield client
            self.has_answered = True
        except APIStatusError as error:
            self.has_answered = True
            payload = error.body or error.message
            raise self._endpoint(path=path).status_error(error.status_code, payload, error.response.headers) from None
        except APIConnectionError as error:
            raise self._endpoint(path=path).transport_error(error, self._timeout_s) from None
        except (ValueError, RecursionError) as error:  # the body is not what its content type says
            raise self._endpoint(path=path).unexpected_payload_error(str(error), "JSON") from None

    async def context_tokens(self, name: str) -> int | None:
        """Return the context window of a model; see `OpenAIModel`. The endpoint is asked once."""
        if self._context_tokens is not None:
            return self._context_tokens
        if self._windows is None:
            self._windows = {}
            with suppress(Exception):  # many endpoints list no models; the prompt is sent all the same
                async with asyncio.timeout(_CONNECT_TIMEOUT_S), self._client() as client:
                    async for model in client.models.list():
                        if (tokens := listed_window(model.model_dump())) is not None:
                            self._windows[model.id] = tokens
        return self._windows.get(name) or known_window(name)

    async def aclose(self) -> None:
        """Close the connections of this event loop; running turns keep their connections until they end.

        The model can be used again and then opens new connections.
        """
        if (client := self._clients.pop(asyncio.get_running_loop(), None)) is not None:
            await client.release()

    async def _attempt(self, request: ModelRequest, turn: "StreamedReply") -> AsyncGenerator[ModelDelta]:
        """Send one request and stream its response; closing the iteration closes the connection."""
        try:
            async with AsyncExitStack() as connection:
                response = await self._open(request, connection)
                turn.headers = response.headers
                body = await connection.enter_async_context(aclosing(response.aiter_bytes()))
                while data := await self._read(body, turn):
                    for delta in turn.feed(data):
                        yield delta
                    if turn.is_done:
                        # Read the rest of the stream, so that the pool can reuse the connection.
                        with suppress(TimeoutError):
                            async with asyncio.timeout(_DRAIN_S):
                                async for _ in body:
                                    pass
                        break
        except transport_errors() as error:
            if not turn.finish_reason:  # a complete reply survives a broken connection
                raise self._endpoint().transport_error(error, self._timeout_s) from None
        for delta in turn.finish():
            yield delta

    async def _read(self, body: AsyncGenerator[bytes], turn: "StreamedReply") -> bytes:
        """Return the next bytes, empty at the end; `ModelUnavailable` if the endpoint stops within a reply."""
        if turn.ttft_ms is None:
            return await anext(body, b"")
        try:
            async with asyncio.timeout(self._stall_timeout_s):
                return await anext(body, b"")
        except TimeoutError:
            if turn.finish_reason:  # some endpoints leave the stream open after its end
                return b""
            raise self._endpoint().stall_error(self._stall_timeout_s) from None

    async def _open(self, request: ModelRequest, connection: AsyncExitStack) -> Any:
        """Send the request and register the response with `connection`, which closes the response."""
        from openai import APIConnectionError, APIStatusError, AsyncStream

        body = self._body(request)
        try:
            client = await connection.enter_async_context(self._client())
            # `chat.completions.create` is not used: it walks through the messages recursively, which takes longer than
            # sending the messages.
            stream = await client.post(
                "/chat/completions", cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
            )
            self.has_answered = True
            return await connection.enter_async_context(aclosing(stream.response))
        # `from None`: the message has the cause, and the chain may contain the key in a request header.
        except APIStatusError as error:
            self.has_answered = True
            payload = error.body or error.message
            endpoint = self._endpoint(request)
            refused = self._refused.setdefault(body["model"], {})
            field = refused_field(error.status_code, payload, body)
            if change := refuse(field, refused) if field else demand(error.status_code, payload, refused):
                raise FieldRefused(endpoint, change, payload) from None
            raise endpoint.status_error(error.status_code, payload, error.response.headers) from None
        except APIConnectionError as error:
            raise self._endpoint().transport_error(error, self._timeout_s) from None

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        messages = wire_messages(request.messages, self._origin(request))
        body: dict[str, Any] = {
            "model": request.model or self._model,
            "messages": with_cache_marks(messages, request.stable_chars) if self._prompt_cache else messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            **tool_fields(request),
        }
        if request.temperature is not None:
            body["temperature"] = request.temperature
        body |= {**self._extra_body, **request.extra_body}
        return without_refused(body, self._refused.get(body["model"], {}))

    def _origin(self, request: ModelRequest) -> str:
        """Return the name of the model at its endpoint; only the same model gets back the fields of a reply."""
        return f"{self.address} {request.model or self._model}"

    def _client(self) -> "SharedClient":
        """Return the client of the running event loop."""
        if self._lacks_key:
            raise ModelRejected(
                f"This copy of {self!r} has no key, because copies and pickles contain no key. "
                "Create the model where it is used: af.OpenAIModel(base_url, api_key, name)."
            )
        loop = asyncio.get_running_loop()
        if (client := self._clients.get(loop)) is None:
            from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

            timeout = Timeout(self._timeout_s, connect=min(self._timeout_s, _CONNECT_TIMEOUT_S))
            limits = http_library().Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_IDLE_CONNECTIONS)
            # Credentials in the address override the key, as in curl.
            login = None if self._login is None else http_library().BasicAuth(*self._login)
            # The library fails at IPv6 networks in NO_PROXY, whatever the address of the endpoint.
            variable, proxy = environment_proxy(self.endpoint) or ("", "")
            try:
                transport = http_library().AsyncHTTPTransport(limits=limits, proxy=proxy or None)
            except Exception as error:  # noqa: BLE001 - the library raises several kinds for a broken address
                shown = display_address(proxy)
                raise ModelRejected(f"The proxy {shown}, which {variable} sets, cannot be used: {error}") from None
            client = self._clients[loop] = SharedClient(
                AsyncOpenAI(
                    base_url=self._base_url,
                    api_key=self._key,
                    timeout=timeout,
                    max_retries=0,  # see the module docstring
                    default_query=self._query,
                    default_headers={"api-key": self._key} if AZURE_VERSION in self._query else None,
                    http_client=DefaultAsyncHttpxClient(timeout=timeout, auth=login, transport=transport),
                )
            )
        return client

    def _endpoint(self, request: ModelRequest | None = None, *, path: str = "chat/completions") -> Endpoint:
        base = str(self._client().client.base_url).rstrip("/")
        offers_tools = request is not None and request.tool_protocol == "native"
        secrets: tuple[str, ...] = ()
        if self._login is not None:
            user, password = self._login
            # The password also occurs encoded, in the header of basic authentication, which an endpoint may repeat.
            secrets = (b64encode(f"{user}:{password}".encode()).decode(), password or user)
        return Endpoint(f"{base}/{path}", self.key or "", offers_tools, secrets)


class SharedClient:
    """A client that the turns of an event loop share; closed when the model and all turns have released it."""

    def __init__(self, client: "AsyncOpenAI") -> None:
        self.client = client
        self._uses = 1

    async def __aenter__(self) -> "AsyncOpenAI":
        self._uses += 1
        return self.client

    async def __aexit__(self, *_exc: object) -> None:
        await self.release()

    async def release(self) -> None:
        """Release the client once; the last release closes the client."""
        self._uses -= 1
        if not self._uses:
            await self.client.close()


class StreamedReply:
    """Reply assembled from the chunks of one stream.

    Attributes:
        text: Answer and reasoning so far.
        calls: The native calls so far.
        fields: The unknown fields of the message so far.
        finish_reason: The endpoint's reason for the end of the reply; empty before the end.
        ttft_ms: Milliseconds until the first delta, or None before the first delta.
        headers: The headers of the response.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.text = AnswerText()
        self.calls = NativeCallReader()
        self.fields = ProviderFields()
        self.finish_reason = ""
        self._endpoint = endpoint
        self._reader = SseReader()
        self._usage: Mapping[str, Any] | None = None
        self._model = ""
        self._has_choices = self._has_deltas = False
        self._started = time.perf_counter()
        self.ttft_ms: float | None = None
        self.headers: Mapping[str, str] = {}

    @property
    def is_done(self) -> bool:
        """Whether the end marker of the stream has arrived."""
        return self._reader.done

    def feed(self, data: bytes) -> list[ModelDelta]:
        """Read bytes and return the resulting deltas; `ModelError` for an error object in the stream."""
        return self._read_chunks(self._reader.feed(data))

    def finish(self) -> list[ModelDelta]:
        """Return the last deltas after the end of the stream; `ModelUnavailable` if the stream is incomplete."""
        deltas = self._read_chunks(self._reader.finish(), is_plain=self._reader.is_plain) + self.text.finish()
        if self.finish_reason and finish_reason(self.finish_reason) is None:
            raise self._endpoint.finish_error(self.finish_reason)
        if not self.finish_reason and not self.is_done:
            raise ModelUnavailable(f"{self._endpoint.display_url} broke off: its stream ended without a finish reason.")
        if not self._has_choices:
            raise ModelUnavailable(f"{self._endpoint.display_url} sent no answer: its stream ended at once.")
        content = self.text.content.strip()
        if not CALL_BEGINNING.search(content) and not self.calls.calls("stop"):
            match finish_reason(self.finish_reason):
                case "tool_calls" if self._endpoint.offers_tools:  # the endpoint's parser has lost the call
                    raise self._endpoint.empty_error("a call that it did not send")
                case "stop" if not content:
                    raise self._endpoint.empty_error(
                        "nothing but reasoning" if self.text.reasoning else "an empty answer"
                    )
        return deltas

    def reply(self, request: ModelRequest, origin: str, *, default_model: str, attempts: int) -> ModelReply:
        """Return the complete reply; usage that the endpoint does not report is estimated."""
        content, reasoning = self.text.content, self.text.reasoning
        entries = self.calls.calls_with_fields(finish_reason(self.finish_reason) or "")
        calls = tuple(call for call, _ in entries)
        estimated = estimate_usage(request, reasoning + content, calls)
        usage = read_usage(self._usage or {}, self.headers) or estimated
        return ModelReply(
            content=content,
            calls=calls,
            usage=usage,
            finish_reason=finish_reason(self.finish_reason) or "stop",
            model=self._model or request.model or default_model,
            reasoning=reasoning,
            ttft_ms=self.ttft_ms,
            attempts=attempts,
            notice=cut_prompt_notice(usage, estimated),
            provider_fields=stored_fields(origin, self.fields, [fields for _, fields in entries]),
        )

    def _read_chunks(self, chunks: list[Any], *, is_plain: bool = False) -> list[ModelDelta]:
        deltas: list[ModelDelta] = []
        for chunk in chunks:
            try:
                if is_plain and (chunk.get("error") or not chunk.get("choices")):
                    raise self._endpoint.body_error(chunk)
                if error := chunk.get("error"):
                    raise self._endpoint.stream_error(error)
                self._usage = chunk.get("usage") or self._usage
                self._model = self._model or chunk.get("model") or ""
                for choice in filter(None, chunk.get("choices") or ()):
                    self._has_choices = True
                    if error := choice.get("error"):
                        raise self._endpoint.stream_error(error)
                    # `delta` in a stream, `message` in a response without streaming; some streams end with both
                    delta = choice.get("delta")
                    self._has_deltas = self._has_deltas or bool(delta)
                    if delta := delta or (None if self._has_deltas else choice.get("message")):
                        reasoning, text = split_delta(delta)
                        if reasoning:
                            deltas.append(self.text.add_reasoning(reasoning))
                        if text:
                            deltas += self.text.add(text)
                        deltas += [ModelDelta(text, "call", name) for name, text in self.calls.add(delta)]
                        self.fields.add(delta)
                    if reason := choice.get("finish_reason"):
                        native = str(choice.get("native_finish_reason"))  # OpenRouter's `stop` may be a failure
                        self.finish_reason = native if FAILED_REASON.search(native) else reason
            except (AttributeError, KeyError, TypeError):  # the chunk has another structure
                make_error = self._endpoint.body_error if is_plain else self._endpoint.unexpected_payload_error
                raise make_error(chunk) from None
        if deltas and self.ttft_ms is None:
            self.ttft_ms = (time.perf_counter() - self._started) * 1000
        return deltas


_MARK = {"cache_control": {"type": "ephemeral"}}


def with_cache_marks(messages: Sequence[dict[str, Any]], stable_chars: int) -> list[dict[str, Any]]:
    """Copy messages of the wire format with marks in the system message and the last message that may have a mark.

    Args:
        messages: The messages; their contents are texts.
        stable_chars: Characters at the start of the system message that do not change; 0 for the whole message.
    """
    marked = [dict(message) for message in messages]
    last = next((message for message in reversed(marked) if message["role"] != "tool" and message["content"]), None)
    for message in (marked[0], last) if last is not None and last is not marked[0] else marked[:1]:
        text = message["content"]
        cut = stable_chars if message["role"] == "system" else 0
        parts = [part for part in (text[:cut], text[cut:]) if part]  # endpoints reject empty parts
        if parts:
            message["content"] = [{"type": "text", "text": part, **_MARK} for part in parts]
    return marked
