"""Secret values: keys of settings, models and servers, passwords in addresses, environment variables."""

from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from artifactflow_nb.core.redaction.names import is_secret_variable
from artifactflow_nb.core.redaction.redactor import is_searchable
from artifactflow_nb.engine.settings import SECRET_SETTINGS, Settings


def known_values(settings: Settings, environment: Mapping[str, str], keys_of_models: Iterable[str]) -> frozenset[str]:
    """Collect the secret values of the settings, the MCP servers, the environment and the models."""
    keys = [key.get_secret_value() for name in SECRET_SETTINGS if (key := getattr(settings, name)) is not None]
    keys += (secret for server in settings.mcp.values() for secret in server.secrets(environment))
    for url in (settings.base_url or "", settings.searxng_url or ""):
        try:
            parts = urlsplit(url)
            user, password = unquote(parts.username or ""), unquote(parts.password or "")
        except ValueError:  # not an address: reported where it is used
            continue
        if password:
            keys += [password, f"{user}:{password}"]  # the second as HTTP's Basic scheme joins them
    variables = (value for name, value in environment.items() if is_secret_variable(name, value))
    return frozenset(value for value in (*keys, *variables, *keys_of_models) if is_searchable(value))
