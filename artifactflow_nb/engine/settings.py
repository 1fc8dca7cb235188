"""How a workbench is set up: arguments > environment > `artifactflow.toml` in the working directory.

The environment variable of a setting is `AF_` and its name in capitals; `_OTHER_VARIABLES` has the others. Settings
of the file may need a permission by the person; see `folder_file.EFFECTS`.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self, cast

from pydantic import Field, SecretStr, SerializerFunctionWrapHandler, ValidationError, field_validator, model_serializer
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from artifactflow_nb.core.approvals import VERDICTS, Verdict
from artifactflow_nb.core.budget import Budget, Price
from artifactflow_nb.core.language import LANGUAGES, Language
from artifactflow_nb.core.local_files import absolute_path
from artifactflow_nb.core.messages import ToolProtocolChoice
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.core.runs import CLARIFIES, Clarify
from artifactflow_nb.core.text.format import did_you_mean, first_lines
from artifactflow_nb.engine.folder_file import SETTINGS_FILE, FolderFile
from artifactflow_nb.errors import UsageError, brief, describe_error
from artifactflow_nb.models.openai.errors import display_address
from artifactflow_nb.sources.formats.sections import is_installed
from artifactflow_nb.tools.mcp.config import McpServer, read_servers
from artifactflow_nb.tools.web.providers import INSTALL_DDGS
from artifactflow_nb.tools.web.services import SERVICES

LOCAL = "local"
"""The search engine of the person's own sources."""

SEARCH_NAMES = (LOCAL, "searxng", "tavily", "ddgs", *SERVICES)
"""The names of the search engines."""

DEFAULT_DATA_DIR = ".artifactflow"
"""The folder of the store in the working directory, if no setting names another one."""

_OTHER_VARIABLES: Mapping[str, str] = {
    "base_url": "OPENAI_BASE_URL",
    "api_key": "OPENAI_API_KEY",
    "tavily_key": "TAVILY_API_KEY",
    "brave_key": "BRAVE_API_KEY",
    "openalex_key": "OPENALEX_API_KEY",
}
_ALLOWED: Mapping[str, str] = {
    "base_url": "an address that begins with http:// or https://, as http://localhost:8000/v1 does",
    **dict.fromkeys(("model", "embedding_model"), "a text that is not empty"),
    "temperature": "a number from 0 to 2",
    "reasoning_effort": "a text such as 'low', 'medium' or 'high'",
    "extra_body": 'fields by name, as in {"top_p": 0.9}',
    "context_tokens": "a whole number of tokens from 1,000",
    **dict.fromkeys(("prompt_cache", "notify"), "true or false"),
    **dict.fromkeys(("timeout_s", "stall_timeout_s"), "a number of seconds above 0"),
    "tool_protocol": "'auto', 'xml' or 'native'",
    "prices": 'by model, as in {"my-model": {"input": 2.5, "output": 10, "cache_read": 1.25}}',
    "budget": 'some of these, as in {"tokens": 100000, "usd": 0.5, "seconds": 600, "when_spent": "ask"}',
    "approvals": f"one of {', '.join(map(repr, VERDICTS))}",
    "clarify": f"one of {', '.join(map(repr, CLARIFIES))}",
    "graph_config": 'the path of a YAML file, or what it would hold, as in {"executor": {"max_steps": 4}}',
    "data_dir": "the path of a folder",
    **dict.fromkeys(("record", "replay"), "the path of a cassette, as data/cassettes/report.jsonl"),
    "mode": "one of 'live', 'record', 'replay', 'auto', 'verify'",
    "search": f"one or several of {', '.join(map(repr, SEARCH_NAMES))}, with commas between",
    "searxng_url": "an address that begins with http:// or https://",
    "contact": "an e-mail address",
    "proxy": "an address that begins with http:// or https://, as http://proxy.example:3128 does",
    "allowed_hosts": "hosts such as intranet.example or localhost:8080, with commas between",
    "language": f"one of {', '.join(map(repr, LANGUAGES))}",
    "live": "one of 'auto', 'page', 'widget', 'off'",
    "mcp": 'servers by name, as in {"files": {"command": "npx", "args": ["..."]}}, or the path of a JSON file',
}
SECRET_SETTINGS = frozenset({"api_key", "tavily_key", "brave_key", "openalex_key"})
"""The settings whose values are never displayed."""

_NEEDED_FOR_SEARCH = {
    "searxng": "searxng_url",
    "tavily": "tavily_key",
    "brave": "brave_key",
    "openalex": "openalex_key",
}
_ADDRESSES = frozenset({"base_url", "searxng_url", "proxy"})


class Settings(BaseSettings):
    """The effective settings, created by `Settings.load`. Copies and pickles lack keys and MCP servers.

    Attributes:
        base_url: The endpoint's address; None for the default of the `openai` client.
        api_key: The endpoint's key; shown as asterisks.
        model: The model's name at the endpoint.
        temperature: Sampling temperature of all agents without one in `graph_config`; None for each agent's own.
        reasoning_effort: How long models think, for agents without a value of their own; None for the endpoint's own.
        extra_body: Further fields of every request; those of an agent come on top.
        context_tokens: The context window of the model in tokens; None to ask the endpoint, or to look it up by name.
        prompt_cache: Whether prompts have marks for endpoints that cache on request only; see `OpenAIModel`.
        embedding_model: Name of a model at the endpoint for `wb.sources.embed`; None to search by words only.
        timeout_s: Seconds without a byte from the endpoint after which a turn fails.
        stall_timeout_s: The same between two pieces of a reply, after its first text.
        tool_protocol: How models call tools: `native`, `xml` (in their text), or `auto` for native calls, and calls in
            the text where an endpoint refuses or ignores tools. A model that does not support it uses its own protocol.
        prices: Prices of tokens by model name.
        budget: The limits of each run without a budget of its own; None for no limit.
        approvals: `ask` to ask the person, or the verdict to use instead of asking.
        clarify: Whether the lead asks the person before research: `auto` if the question is ambiguous, `never`, or
            `always`. A quick run asks with `always` only, and the offline model never; `run.answer` answers.
        graph_config: Changes to the packaged configuration of agents and flows: the path of a YAML file, or a mapping
            with its content; see `GraphConfig`.
        data_dir: The folder of the store, relative to the working directory.
        record: The cassette that runs are recorded into; None for none.
        replay: The cassette that runs are played from; None for none.
        mode: Use of the cassette, which overrides that of its argument: `record` to execute and record every run,
            `replay` to play every run without access to the outside, `auto` to play recorded runs and record new ones,
            `live` to ignore it. For example, AF_MODE=replay plays a recording notebook in CI.
        search: The search engines of `web_search`; several are asked at once.
        searxng_url: The address of a SearXNG server, for `search="searxng"`.
        tavily_key: The key for `search="tavily"`; shown as asterisks.
        brave_key: The key for `search="brave"`; shown as asterisks.
        openalex_key: The key for `search="openalex"`; shown as asterisks.
        contact: An e-mail address that is sent to OpenAlex, Crossref and PubMed, which ask for one; None to send none.
        proxy: The proxy for `web_fetch` and searches of the web; None for none. It may have a login, which is never
            shown. Model calls use the proxies of the environment instead.
        allowed_hosts: Hosts that `web_fetch` may fetch although they are not public: `host` or `host:port`.
        notify: Whether the page says that a request waits: in its title, and in a line while no card is
            visible.
        language: The language of views, exported files and the page of a server, `en` or `zh`, not of other texts.
        live: How cells show live views: `page` over the saved output by a script of the page, `widget` as a widget in
            its place, `off` not at all; `auto` for what the front end needs.
        mcp: MCP servers by name; see `McpServer`. The argument overrides the file for each name.
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid")

    base_url: str | None = None
    api_key: SecretStr | None = None
    model: str | None = Field(default=None, min_length=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    reasoning_effort: str | None = Field(default=None, min_length=1)
    extra_body: dict[str, Any] = Field(default_factory=dict)
    context_tokens: int | None = Field(default=None, ge=1_000)
    prompt_cache: bool = False
    embedding_model: str | None = Field(default=None, min_length=1)
    timeout_s: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    stall_timeout_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    tool_protocol: ToolProtocolChoice = "auto"
    prices: dict[str, Price] = Field(default_factory=dict)
    budget: Budget | None = None
    approvals: Verdict = "ask"
    clarify: Clarify = "auto"
    graph_config: Path | dict[str, Any] | None = None
    data_dir: Path = Path(DEFAULT_DATA_DIR)
    record: Path | None = None
    replay: Path | None = None
    mode: Literal["live", "record", "replay", "auto", "verify"] | None = None
    search: tuple[str, ...] = (LOCAL,)
    searxng_url: str | None = None
    tavily_key: SecretStr | None = None
    brave_key: SecretStr | None = None
    openalex_key: SecretStr | None = None
    contact: str | None = Field(default=None, pattern=r"^[^@\s]+@[^@\s]+$")
    proxy: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    notify: bool = True
    language: Language = "en"
    live: Literal["auto", "page", "widget", "off"] = "auto"
    mcp: dict[str, McpServer] = Field(default_factory=dict)

    @classmethod
    def load(cls, **arguments: Any) -> Self:
        """Load the settings from these arguments (None is ignored), the environment and the file.

        Errors: `UsageError` with the setting, its value (never a key's) and the allowed values, or with the effects of
            the file that need a permission by the person; see `trust_folder`.
        """
        passed = {name: value for name, value in arguments.items() if value is not None}
        if unknown := sorted(passed.keys() - ENVIRONMENT_VARIABLES.keys()):
            raise UsageError(f"There is no setting {brief(unknown[0])}.{_known(unknown[0])}")
        try:
            if "mcp" in passed:
                passed["mcp"] = read_servers(passed["mcp"])
            settings = cls(**passed)
        except ValidationError as error:
            # `from None`: the chain would show the values, and the key may be among them.
            problems = [_problem(detail) for detail in error.errors(include_url=False)]
            raise UsageError("\n".join(first_lines(problems))) from None
        except (RuntimeError, TypeError, ArithmeticError) as error:  # from a method of a value
            raise UsageError(f"A setting cannot be used: {describe_error(error):.200}") from None
        for name in settings.search:
            needed = _NEEDED_FOR_SEARCH.get(name)
            if needed and getattr(settings, needed) is None:
                variable = ENVIRONMENT_VARIABLES[needed]
                raise UsageError(f"search is {brief(name)}: set {variable} or pass {needed}= too.")
        if "ddgs" in settings.search and settings.cassette_mode != "replay" and not is_installed("ddgs"):
            raise UsageError(f"search is {settings.search!r}, and the package 'ddgs' is not installed: {INSTALL_DDGS}")
        if settings.record is not None and settings.replay is not None and settings.record != settings.replay:
            raise UsageError(
                f"record is {settings.record} and replay is {settings.replay}: pass one of them, and mode='auto' to "
                "play what is recorded and to record what is new."
            )
        mode = passed.get("mode")  # AF_MODE may be set for workbenches without a cassette, too
        if mode not in {None, "live"} and settings.cassette is None:
            raise UsageError(f"mode is {brief(mode)}, and there is no cassette: pass record= or replay= with its path.")
        return settings

    @property
    def cassette(self) -> Path | None:
        """The path of the cassette to record into or to play from; None for none."""
        return None if self.mode == "live" else self.record or self.replay

    @property
    def cassette_mode(self) -> Literal["live", "record", "replay", "auto", "verify"]:
        """The mode of the cassette; `live` without one."""
        if self.cassette is None:
            return "live"
        return self.mode or ("record" if self.record is not None else "replay")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy within the process, keys included, with some values replaced."""
        del deep  # the values are frozen
        changes = dict(update or {})
        chosen = self.model_fields_set | changes.keys()
        return cast("Self", self.model_construct(_fields_set=chosen, **{**dict(self), **changes}))

    def __getstate__(self) -> dict[Any, Any]:
        """The state for copies and pickles: without keys, logins in addresses and MCP servers."""
        state = super().__getstate__()
        return {**state, "__dict__": {**_without_secrets(self), **dict.fromkeys(SECRET_SETTINGS), "mcp": {}}}

    def __copy__(self) -> Self:
        copied = type(self).__new__(type(self))
        copied.__setstate__(self.__getstate__())
        return copied

    def __deepcopy__(self, _memo: dict[int, Any] | None = None) -> Self:
        return self.__copy__()

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Return the settings for `repr`, without logins in addresses and without secrets in further fields."""
        yield from _without_secrets(self).items()

    @model_serializer(mode="wrap")
    def _dump(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        dumped: dict[str, Any] = serialize(self.model_copy(update=_without_secrets(self)))
        return dumped

    @property
    def endpoint_configured(self) -> bool:
        """True if a language model's endpoint is configured: by an address, a key, or both."""
        return self.base_url is not None or self.api_key is not None

    @field_validator("base_url", "searxng_url", "proxy")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is None or url.startswith(("http://", "https://")):
            return url
        raise ValueError(_ALLOWED["base_url"])

    @field_validator("allowed_hosts", "search", mode="before")
    @classmethod
    def _split(cls, names: Any) -> Any:
        if isinstance(names, str):
            return tuple(name.strip() for name in names.split(",") if name.strip())
        return tuple(names) if isinstance(names, list) else names

    @field_validator("search")
    @classmethod
    def _check_search(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names or not set(names) <= set(SEARCH_NAMES):
            raise ValueError(_ALLOWED["search"])
        return tuple(dict.fromkeys(names))

    @field_validator("prices", "budget", "extra_body", mode="before")
    @classmethod
    def _from_json(cls, value: Any) -> Any:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except RecursionError:
            raise ValueError("it is nested too deeply") from None

    @field_validator("mcp", mode="before")
    @classmethod
    def _read_servers(cls, value: Any) -> Any:
        return read_servers(value)

    @field_validator("graph_config", mode="before")
    @classmethod
    def _path_or_values(cls, config: Any) -> Any:
        """A path, or a mapping with its keys as texts; `GraphConfig` checks the content."""
        if isinstance(config, Mapping):
            return {str(name): value for name, value in config.items()}
        if isinstance(config, str | Path | None):
            return config
        raise ValueError(_ALLOWED["graph_config"])

    @field_validator("data_dir", "record", "replay", "graph_config")
    @classmethod
    def _absolute(cls, path: Any) -> Any:
        return absolute_path(path) if isinstance(path, Path) else path

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - reads MODEL for AF_MODEL; see _Environment
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of settings by precedence: arguments, environment, file."""
        return init_settings, _EnvironmentSource(settings_cls), _FolderSource(settings_cls)


ENVIRONMENT_VARIABLES: Mapping[str, str] = {
    name: _OTHER_VARIABLES.get(name, f"AF_{name.upper()}") for name in Settings.model_fields
}
"""The environment variable of each setting."""


class _EnvironmentSource(PydanticBaseSettingsSource):
    """The variables of `ENVIRONMENT_VARIABLES`, without other spellings; an empty variable counts as not set."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        del field
        return os.environ.get(ENVIRONMENT_VARIABLES[field_name]) or None, field_name, False

    def __call__(self) -> dict[str, Any]:
        return {name: value for name, variable in ENVIRONMENT_VARIABLES.items() if (value := os.environ.get(variable))}


class _FolderSource(PydanticBaseSettingsSource):
    """The settings file of the working directory, if the person has allowed its effects."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        del field
        return self().get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        file = FolderFile.read(Path(SETTINGS_FILE))
        if file is None:
            return {}
        file.check(self.current_state)
        return dict(file.values)


def _without_secrets(settings: Settings) -> dict[str, Any]:
    """The settings by name, with addresses without user and password, and with masked secrets in `extra_body`."""
    addresses = {name: display_address(value) for name in _ADDRESSES if (value := getattr(settings, name))}
    return {**dict(settings), **addresses, "extra_body": Redactor().redact_value(settings.extra_body)}


def _problem(detail: Mapping[str, Any]) -> str:
    name = str(detail["loc"][0])
    if name == "mcp":
        return str(detail["ctx"]["error"])
    if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
        return f"{Path(SETTINGS_FILE).resolve()} has an unknown key {brief(name)}.{_known(name)}"
    shown = (
        display_address(detail["input"]) if name in _ADDRESSES and isinstance(detail["input"], str) else detail["input"]
    )
    value = "cannot be used" if name in SECRET_SETTINGS else f"is {brief(shown)}"
    inside = "".join(f".{part!s:.80}" for part in detail["loc"][1:])
    allowed = _ALLOWED.get(name, "a text")
    return f"The setting {name}{inside} ({ENVIRONMENT_VARIABLES[name]}) {value}: it must be {allowed}."


def _known(name: str) -> str:
    return f"{did_you_mean(name, ENVIRONMENT_VARIABLES)} Known: {', '.join(ENVIRONMENT_VARIABLES)}."
