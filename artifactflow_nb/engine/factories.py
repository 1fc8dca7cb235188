"""The model, the search engine and the secret values that settings configure."""

from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from artifactflow_nb.core.redaction.names import is_secret_variable
from artifactflow_nb.core.redaction.redactor import is_searchable
from artifactflow_nb.engine.settings import SECRET_SETTINGS, Settings
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.base import Model
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.models.openai.embeddings import EmbeddingModel
from artifactflow_nb.tools.web.providers import DdgsSearch, SearxngSearch, TavilySearch
from artifactflow_nb.tools.web.services import SERVICES, ServiceAccess, ServiceSearch
from artifactflow_nb.tools.web.tools import SearchProvider


def known_values(settings: Settings, environment: Mapping[str, str], keys_of_models: Iterable[str]) -> frozenset[str]:
    """Collect the secret values of the settings, the MCP servers, the environment and the models."""
    keys = [key.get_secret_value() for name in SECRET_SETTINGS if (key := getattr(settings, name)) is not None]
    keys += (secret for server in settings.mcp.values() for secret in server.secrets(environment))
    for url in (settings.base_url or "", settings.searxng_url or "", settings.proxy or ""):
        try:
            address = urlsplit(url)
            user, password = unquote(address.username or ""), unquote(address.password or "")
        except ValueError:  # an invalid address is reported where it is used
            continue
        if password:
            keys += [password, f"{user}:{password}"]  # HTTP's Basic scheme joins the two
    variables = (value for name, value in environment.items() if is_secret_variable(name, value))
    return frozenset(value for value in (*keys, *variables, *keys_of_models) if is_searchable(value))


def make_model(settings: Settings) -> Model:
    """Create the model of the configured endpoint, or the offline model if no endpoint is configured.

    Errors: `UsageError` for an endpoint without a model name.
    """
    if not settings.endpoint_configured:
        return OfflineModel()
    if not settings.model:
        raise UsageError(
            "An endpoint is configured (OPENAI_BASE_URL or OPENAI_API_KEY) but no model. Set AF_MODEL "
            "to the name of a model at the endpoint, or pass model= with such a name or with a model object."
        )
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return OpenAIModel(
        settings.base_url,
        key,
        settings.model,
        timeout_s=settings.timeout_s,
        stall_timeout_s=settings.stall_timeout_s,
        context_tokens=settings.context_tokens,
        prompt_cache=settings.prompt_cache,
    )


def make_embedder(settings: Settings) -> EmbeddingModel | None:
    """Create the configured embedding model; return None in a replay, or if the model or its endpoint is not set."""
    if not settings.endpoint_configured or settings.embedding_model is None or settings.cassette_mode == "replay":
        return None
    key = settings.api_key.get_secret_value() if settings.api_key else None
    endpoint = OpenAIModel(settings.base_url, key, settings.embedding_model, timeout_s=settings.timeout_s)
    return EmbeddingModel(endpoint, settings.embedding_model)


def make_search(name: str, settings: Settings) -> SearchProvider:
    """Create the search engine of this name. `local` is not allowed, since each run has its own local search."""
    if name == "searxng":
        return SearxngSearch(settings.searxng_url or "", proxy=settings.proxy)
    if name == "ddgs":
        return DdgsSearch(proxy=settings.proxy)
    key: SecretStr | None = getattr(settings, f"{name}_key", None)
    secret = key.get_secret_value() if key else ""
    if name == "tavily":
        return TavilySearch(secret, proxy=settings.proxy)
    return ServiceSearch(SERVICES[name], ServiceAccess(secret, settings.contact or "", settings.proxy))


def api_keys_of(models: Iterable[object]) -> tuple[str, ...]:
    """Return the API keys of these models; the keys of model objects are not in the settings."""
    return tuple(dict.fromkeys(model.key for model in models if isinstance(model, OpenAIModel) and model.key))
