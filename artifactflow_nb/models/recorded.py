"""The model of a replay: it has the name that was recorded, and is never asked."""

from collections.abc import AsyncIterator, Sequence

from artifactflow_nb.errors import CassetteMiss
from artifactflow_nb.messages import ToolProtocol
from artifactflow_nb.models.base import ModelEvent, ModelRequest, model_card
from artifactflow_nb.text.cards import Card, Shown


class RecordedModel(Shown):
    """Stands for the model that took the turns when they were recorded.

    Args:
        name: Its name.
        provider: Who answered.
        models: The names of all models that were recorded.
    """

    tool_protocols: tuple[ToolProtocol, ...] = ("xml", "native")

    def __init__(self, name: str, provider: str, models: Sequence[str] = ()) -> None:
        self.default_model = name
        self.provider = provider
        self._models = list(dict.fromkeys([name, *models]))

    def __repr__(self) -> str:
        return f"RecordedModel({self.default_model!r}, provider={self.provider!r})"

    def _card(self) -> Card:
        return model_card(self, answers="from a recording")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Nothing: what is recorded is given without it."""
        raise CassetteMiss(f"{request.model or self.default_model} was asked for what is not recorded.")
        yield  # an iterator, as every model's stream is

    async def list_models(self) -> list[str]:
        """The names of the models that were recorded."""
        return list(self._models)

    async def aclose(self) -> None:
        """Nothing to free."""
