"""Vectors of texts from `/v1/embeddings`.

If an endpoint rejects a request with too many texts, later requests are smaller. If an endpoint asks for a delay,
the next request waits.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

from artifactflow_nb.errors import ModelError, ModelRejected, ModelUnavailable
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.models.openai.waits import MAX_WAIT_S

_BATCH = 64
_RETRIES = 3
_FIRST_DELAY_S = 1.0
_MAYBE_TOO_MANY = frozenset({400, 413, 422})
"""Statuses with which endpoints refuse a request with too many texts."""


class EmbeddingModel:
    """A model at an OpenAI-compatible endpoint that turns texts into vectors.

    `sleep` waits before a retry, in seconds.
    """

    def __init__(
        self, endpoint: OpenAIModel, name: str, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self.name = name
        self._endpoint = endpoint
        self._sleep = sleep
        self._batch = _BATCH

    def __repr__(self) -> str:
        return f"EmbeddingModel({self._endpoint!r}, {self.name!r})"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, in order.

        Errors: `ModelRejected` for a request that the endpoint refuses, and for values that are not vectors;
            `ModelUnavailable` after the last retry, and at once if nothing has ever answered at the address.
        """
        vectors: list[list[float]] = []
        while len(vectors) < len(texts):
            batch = texts[len(vectors) : len(vectors) + self._batch]
            try:
                vectors += self._checked(await self._request(batch), len(batch))
            except ModelRejected as error:
                if len(batch) == 1 or error.status not in _MAYBE_TOO_MANY:
                    self._batch = _BATCH
                    raise
                self._batch = len(batch) // 2
        return vectors

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await self._endpoint.aclose()

    async def _request(self, texts: Sequence[str]) -> list[object]:
        for attempt in range(_RETRIES):
            try:
                return await self._endpoint.embeddings(self.name, texts)
            except ModelUnavailable as error:
                is_unknown = error.is_unreached and not self._endpoint.has_answered
                if is_unknown or (error.retry_after_s or 0) > MAX_WAIT_S:
                    raise
                delay_s = _FIRST_DELAY_S * 2**attempt if error.retry_after_s is None else error.retry_after_s
            await self._sleep(delay_s)
        return await self._endpoint.embeddings(self.name, texts)

    def _checked(self, vectors: Sequence[object], n_texts: int) -> list[list[float]]:
        if len(vectors) != n_texts:
            raise ModelError(
                f"{self.name!r} returned {len(vectors)} vectors for {n_texts} texts. Choose another model."
            )
        checked: list[list[float]] = []
        for vector in vectors:
            numbers = vector if isinstance(vector, list) else []
            if not numbers or not all(isinstance(x, int | float) and math.isfinite(x) for x in numbers):
                raise ModelError(
                    f"{self.name!r} returned something that is not a vector of numbers. Choose another model."
                )
            checked.append([float(x) for x in numbers])
        return checked
