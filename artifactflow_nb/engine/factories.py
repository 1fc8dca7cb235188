"""Factories for the model and the search engine that settings configure."""

from collections.abc import Iterable

from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.base import Model
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.tools.web.providers import DdgsSearch, SearxngSearch, TavilySearch
from artifactflow_nb.tools.web.tools import SearchProvider


def make_model(settings: Settings) -> Model:
    """Make the model of the configured endpoint; the offline model without one."""
    if not settings.endpoint_configured:
        return OfflineModel()
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return OpenAIModel(settings.base_url, key, settings.model or "", timeout_s=settings.timeout_s)


def make_search(settings: Settings) -> SearchProvider | None:
    """Make the configured search engine; None for the local sources."""
    if settings.search == "searxng":
        return SearxngSearch(settings.searxng_url or "")
    if settings.search == "tavily":
        return TavilySearch(settings.tavily_key.get_secret_value() if settings.tavily_key else "")
    return DdgsSearch() if settings.search == "ddgs" else None


def api_keys_of(models: Iterable[object]) -> tuple[str, ...]:
    """The API keys of these models: the key of a model that is passed as an object is not in the settings."""
    return tuple(dict.fromkeys(model.key for model in models if isinstance(model, OpenAIModel) and model.key))
