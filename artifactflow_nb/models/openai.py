"""Any OpenAI-compatible endpoint: the `openai` client asks, our own line reader takes the answer from its connection.

::

    request ──> openai client ──> bytes ──> SseReader ──> chunks ──> Turn ──> ModelDelta ..., ModelReply

Reading the stream here and not through the client's own parser costs about a seventh of the time for each chunk.
Retries are made here, too, because a person should see them and because they have to cover a stream that breaks.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from typing import TYPE_CHECKING, Any

from artifactflow_nb.errors import ModelError, ModelUnavailable
from artifactflow_nb.messages import ToolProtocol, Usage
from artifactflow_nb.models.base import (
    ModelDelta,
    ModelEvent,
    ModelReply,
    ModelRequest,
    RetryNotice,
    estimate_usage,
    model_card,
)
from artifactflow_nb.models.endpoint_errors import (
    MASK,
    Endpoint,
    checked_key,
    checked_url,
    http_library,
    public_url,
    refused_field,
    transport_errors,
)
from artifactflow_nb.models.native_calls import CallReader, tool_fields, wire_messages
from artifactflow_nb.models.reasoning import AnswerText
from artifactflow_nb.models.sse import SseReader
from artifactflow_nb.text.cards import Card, Code, Shown

if TYPE_CHECKING:
    from openai import AsyncOpenAI

LONGEST_DELAY_S = 60.0
"""A retry waits no longer than this, whatever the endpoint asks for."""

_CONNECT_TIMEOUT_S = 10.0
_CONNECTIONS = 1_000  # as many as the client opens by itself
_IDLE_CONNECTIONS = 20  # each idle one is looked at whenever another request begins or ends
_DRAIN_S = 0.1  # an endpoint that leaves the stream open after its end is not waited for
_NO_KEY = "none"  # the client insists on a key; servers on one's own machine do not


class OpenAIModel(Shown):
    """Takes turns at an OpenAI-compatible endpoint.

    Args:
        base_url: The address, usually ending in `/v1`; None for the `openai` client's default.
        api_key: None for endpoints that ask for none.
        default_model: The model for requests that name none.
        timeout_s: Seconds without a byte from the endpoint after which a turn has failed.
        extra_body: Fields that go into every request as they are, for what only this endpoint knows, such as
            `max_tokens` or `chat_template_kwargs`.
        sleep: Waits before a retry.

    Errors: `UsageError` for an address or a key that cannot be sent. A turn raises `ModelRejected` or, when the
    retries are used up, `ModelUnavailable`; both hold the text that had arrived in `partial`, and never the key.
    """

    provider = "openai"
    tool_protocols: tuple[ToolProtocol, ...] = ("xml", "native")

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        default_model: str,
        *,
        timeout_s: float = 600.0,
        extra_body: Mapping[str, Any] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._base_url = checked_url(base_url)
        self._key = checked_key(api_key) or _NO_KEY
        self._model = default_model
        self._timeout_s = timeout_s
        self._extra_body = dict(extra_body or {})
        self._sleep = sleep
        self._refused: set[str] = set()  # fields that this endpoint does not take
        self._client: AsyncOpenAI | None = None

    def __repr__(self) -> str:
        address = self._base_url and public_url(self._base_url)
        return f"OpenAIModel({address!r}, {MASK!r}, {self._model!r})"

    def _card(self) -> Card:
        return model_card(self, endpoint=Code(self.address), key="none" if self._key == _NO_KEY else MASK)

    @property
    def key(self) -> str | None:
        """Its key, to keep it out of what is written; None if it has none."""
        return None if self._key == _NO_KEY else self._key

    @property
    def address(self) -> str:
        """Where it asks, as it may be shown: without a user or password that stands in the address."""
        return public_url(self._base_url) if self._base_url else "the openai client's default"

    @property
    def default_model(self) -> str:
        """The model for requests that name none."""
        return self._model

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Take a turn; `ttft_ms` of its reply counts from the attempt that succeeded."""
        attempt = 1
        while True:
            turn = Turn(self._endpoint(request))
            try:
                async with aclosing(self._attempt(request, turn)) as deltas:
                    async for delta in deltas:
                        yield delta
                break
            except ModelError as error:
                error.partial = turn.text.content
                if attempt > request.max_retries or not isinstance(error, ModelUnavailable):
                    raise
                notice = RetryNotice(attempt, _delay_s(request, attempt, error), str(error))
            yield notice
            await self._sleep(notice.delay_s)
            attempt += 1
        yield turn.reply(request, default_model=self._model, attempts=attempt)

    async def list_models(self) -> list[str]:
        """The names of the models that the endpoint offers; `ModelError` if it does not say."""
        from openai import APIConnectionError, APIStatusError

        try:
            listed = [model.id async for model in self._connected().models.list()]
        except APIStatusError as error:
            body = error.body or error.message
            raise self._endpoint(path="models").status_error(error.status_code, body, error.response.headers) from None
        except APIConnectionError as error:
            raise self._endpoint(path="models").transport_error(error, self._timeout_s) from None
        return sorted(listed)

    async def aclose(self) -> None:
        """Close the connections; the model opens new ones if it is used again."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _attempt(self, request: ModelRequest, turn: "Turn") -> AsyncGenerator[ModelDelta]:
        """One request and its stream; closing the iteration closes the connection."""
        try:
            async with AsyncExitStack() as connection:
                response = await self._open(request, connection)
                body = await connection.enter_async_context(aclosing(response.iter_bytes()))
                async for data in body:
                    for delta in turn.feed(data):
                        yield delta
                    if turn.done:
                        await _drain(body)
                        break
        except transport_errors() as error:
            if not turn.finish_reason:  # an answer that is complete is not lost with its connection
                raise self._endpoint().transport_error(error, self._timeout_s) from None
        for delta in turn.finish():
            yield delta

    async def _open(self, request: ModelRequest, connection: AsyncExitStack) -> Any:
        """Send the request; the response is closed with the connection.

        `from None` below: what led to an error is told in its message, and the chain may hold the key in a header.
        """
        from openai import APIConnectionError, APIStatusError

        body = self._body(request)
        try:
            create = self._connected().chat.completions.with_streaming_response.create
            # What is in `extra_body` the client merges into the JSON as it is; fields that go the other way it walks
            # through one by one, which takes longer than sending them.
            sent = create(model=body["model"], messages=(), stream=True, extra_body={**body, **self._extra_body})
            return await connection.enter_async_context(sent)
        except APIStatusError as error:
            told = error.body or error.message
            if field := refused_field(error.status_code, told, body):
                self._refused.add(field)
                return await self._open(request, connection)
            raise self._endpoint(request).status_error(error.status_code, told, error.response.headers) from None
        except APIConnectionError as error:
            raise self._endpoint().transport_error(error, self._timeout_s) from None

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": request.model or self._model,
            "messages": wire_messages(request.messages),
            "stream_options": {"include_usage": True},
            **tool_fields(request),
        }
        if request.temperature is not None:
            body["temperature"] = request.temperature
        return {field: value for field, value in body.items() if field not in self._refused}

    def _connected(self) -> "AsyncOpenAI":
        if self._client is None:
            from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

            timeout = Timeout(self._timeout_s, connect=min(self._timeout_s, _CONNECT_TIMEOUT_S))
            limits = http_library().Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_IDLE_CONNECTIONS)
            self._client = AsyncOpenAI(
                base_url=self._base_url,
                api_key=self._key,
                timeout=timeout,
                max_retries=0,
                http_client=DefaultAsyncHttpxClient(timeout=timeout, limits=limits),
            )
        return self._client

    def _endpoint(self, request: ModelRequest | None = None, *, path: str = "chat/completions") -> Endpoint:
        base = str(self._connected().base_url).rstrip("/")
        tools = request is not None and request.tool_protocol == "native"
        return Endpoint(f"{base}/{path}", "" if self._key == _NO_KEY else self._key, tools)


class Turn:
    """What one stream says, put together.

    Attributes:
        text: Answer and reasoning so far.
        calls: The native calls so far.
        finish_reason: The endpoint's word for why it stopped; empty as long as it has not said.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.text = AnswerText()
        self.calls = CallReader()
        self.finish_reason = ""
        self._endpoint = endpoint
        self._reader = SseReader()
        self._usage: Mapping[str, Any] | None = None
        self._model = ""
        self._started = time.perf_counter()
        self._ttft_ms: float | None = None

    @property
    def done(self) -> bool:
        """Whether the stream said that it is over."""
        return self._reader.done

    def feed(self, data: bytes) -> list[ModelDelta]:
        """Read bytes; give the text that they complete. Raises `ModelError` for an error told in the stream."""
        return self._take_all(self._reader.feed(data))

    def finish(self) -> list[ModelDelta]:
        """The stream is over: give what is left, or raise `ModelUnavailable` if it broke off."""
        deltas = self._take_all(self._reader.finish()) + self.text.finish()
        if not self.finish_reason and not self.done:
            raise ModelUnavailable(f"{self._endpoint.shown} broke off: its stream ended without a finish reason.")
        return deltas

    def reply(self, request: ModelRequest, *, default_model: str, attempts: int) -> ModelReply:
        """The turn, complete."""
        content, reasoning = self.text.content, self.text.reasoning
        calls = self.calls.calls(self.finish_reason)
        return ModelReply(
            content=content,
            calls=calls,
            usage=_read_usage(self._usage) or estimate_usage(request, reasoning + content, calls),
            finish_reason=self.finish_reason or "stop",
            model=self._model or request.model or default_model,
            reasoning=reasoning,
            ttft_ms=self._ttft_ms,
            attempts=attempts,
        )

    def _take_all(self, chunks: list[Any]) -> list[ModelDelta]:
        deltas: list[ModelDelta] = []
        for chunk in chunks:
            try:
                self._take(chunk, deltas)
            except (AttributeError, KeyError, TypeError):  # some level of it is not what a chat endpoint sends
                raise self._endpoint.not_a_chunk(chunk) from None
        if deltas and self._ttft_ms is None:
            self._ttft_ms = (time.perf_counter() - self._started) * 1000
        return deltas

    def _take(self, chunk: Mapping[str, Any], deltas: list[ModelDelta]) -> None:
        if error := chunk.get("error"):
            raise self._endpoint.stream_error(error)
        if usage := chunk.get("usage"):
            self._usage = usage
        if not self._model:
            self._model = chunk.get("model") or ""
        for choice in chunk.get("choices") or ():
            if choice:
                self._take_choice(choice, deltas)

    def _take_choice(self, choice: Mapping[str, Any], deltas: list[ModelDelta]) -> None:
        """Read a choice: with a `delta` in a stream, with a `message` where plain JSON came instead."""
        if delta := choice.get("delta") or choice.get("message"):
            if thought := delta.get("reasoning_content") or delta.get("reasoning"):
                deltas.append(self.text.add_reasoning(_plain(thought)))
            if text := delta.get("content") or delta.get("refusal"):
                deltas += self.text.add(_plain(text))
            deltas += [ModelDelta(text, "call", name) for name, text in self.calls.add(delta)]
        if reason := choice.get("finish_reason"):
            self.finish_reason = reason


def _plain(text: Any) -> str:
    """The text; some endpoints give it as a list of parts."""
    return text if isinstance(text, str) else "".join(part.get("text") or "" for part in text)


def _read_usage(told: Mapping[str, Any] | None) -> Usage | None:
    if not told or not isinstance(told.get("prompt_tokens"), int) or not isinstance(told.get("completion_tokens"), int):
        return None
    return Usage(
        told["prompt_tokens"],
        told["completion_tokens"],
        reasoning_tokens=(told.get("completion_tokens_details") or {}).get("reasoning_tokens"),
        cache_read_tokens=(told.get("prompt_tokens_details") or {}).get("cached_tokens"),
    )


def _delay_s(request: ModelRequest, attempt: int, error: ModelUnavailable) -> float:
    own = request.retry_delay_s * 2 ** (attempt - 1)
    return min(own if error.retry_after_s is None else error.retry_after_s, LONGEST_DELAY_S)


async def _drain(body: AsyncIterator[bytes]) -> None:
    """Read the rest of a stream that is over: a connection that is read to its end can be used again."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in body:
                pass
