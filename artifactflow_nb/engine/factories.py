"""Factories for the model and the search engine that settings configure."""

from collections.abc import Iterable

from pydantic import SecretStr

from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.base import Model
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.models.openai.embeddings import EmbeddingModel
from artifactflow_nb.tools.web.providers import DdgsSearch, SearxngSearch, TavilySearch
from artifactflow_nb.tools.web.services import SERVICES, ServiceAccess, ServiceSearch
from artifactflow_nb.tools.web.tools import SearchProvider


def make_model(settings: Settings) -> Model:
    """Make the model of the configured endpoint; the offline model without one."""
    if not settings.endpoint_configured:
        return OfflineModel()
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return OpenAIModel(
        settings.base_url,
        key,
        settings.model or "",
        timeout_s=settings.timeout_s,
        context_tokens=settings.context_tokens,
        prompt_cache=settings.prompt_cache,
    )


def make_embedder(settings: Settings) -> EmbeddingModel | None:
    """Make the configured embedding model; None without one, without an endpoint, and in a replay."""
    if not settings.endpoint_configured or settings.embedding_model is None or settings.cassette_mode == "replay":
        return None
    key = settings.api_key.get_secret_value() if settings.api_key else None
    endpoint = OpenAIModel(settings.base_url, key, settings.embedding_model, timeout_s=settings.timeout_s)
    return EmbeddingModel(endpoint, settings.embedding_model)


def make_search(name: str, settings: Settings) -> SearchProvider:
    """Make the search engine of this name; the local sources are no engine, since each run has its own."""
    if name == "searxng":
        return SearxngSearch(settings.searxng_url or "")
    if name == "ddgs":
        return DdgsSearch()
    key: SecretStr | None = getattr(settings, f"{name}_key", None)
    secret = key.get_secret_value() if key else ""
    if name == "tavily":
        return TavilySearch(secret)
    return ServiceSearch(SERVICES[name], ServiceAccess(secret, settings.contact or ""))


def api_keys_of(models: Iterable[object]) -> tuple[str, ...]:
    """The API keys of these models: the key of a model that is passed as an object is not in the settings."""
    return tuple(dict.fromkeys(model.key for model in models if isinstance(model, OpenAIModel) and model.key))
