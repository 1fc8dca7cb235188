"""What settings name, made: a model, a search engine, a cassette."""

import os
from collections.abc import Iterable

from artifactflow_nb.models.base import Model
from artifactflow_nb.models.offline import OfflineModel
from artifactflow_nb.models.openai import OpenAIModel
from artifactflow_nb.recordings.deck import Deck
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.settings import Settings
from artifactflow_nb.tools.providers import DdgsSearch, SearxngSearch, TavilySearch
from artifactflow_nb.tools.web import SearchProvider


def make_model(settings: Settings) -> Model:
    """The endpoint that the settings name; the offline model if they name none."""
    if not settings.endpoint_configured:
        return OfflineModel()
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return OpenAIModel(settings.base_url, key, settings.model or "", timeout_s=settings.timeout_s)


def make_search(settings: Settings) -> SearchProvider | None:
    """The search engine that the settings name; None for the local sources."""
    if settings.search == "searxng":
        return SearxngSearch(settings.searxng_url or "")
    if settings.search == "tavily":
        return TavilySearch(settings.tavily_key.get_secret_value() if settings.tavily_key else "")
    return DdgsSearch() if settings.search == "ddgs" else None


def keys_of(models: Iterable[object]) -> tuple[str, ...]:
    """The keys of the endpoints among them: whoever passes a model does not pass its key to the settings."""
    return tuple(dict.fromkeys(model.key for model in models if isinstance(model, OpenAIModel) and model.key))


def make_deck(settings: Settings, keys: Iterable[str] = ()) -> Deck:
    """The cassette that the settings name; an empty deck if they name none."""
    if settings.cassette is None or settings.cassette_mode == "live":
        return Deck()
    return Deck.open(settings.cassette_mode, settings.cassette, Masker.of(settings, os.environ, keys))
