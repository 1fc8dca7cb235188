"""How a workbench is set up: arguments > environment > `artifactflow.toml` in the working directory.

::

    argument and file   environment
    base_url            OPENAI_BASE_URL   address of an OpenAI-compatible endpoint
    api_key             OPENAI_API_KEY    its key, if it asks for one
    model               AF_MODEL          the model's name there
    temperature         AF_TEMPERATURE    for all agents, instead of each agent's own
    timeout_s           AF_TIMEOUT_S      seconds without a byte after which a turn has failed
    tool_protocol       AF_TOOL_PROTOCOL  how models call tools: xml (in their text), native (the endpoint's way)
    prices              AF_PRICES         what models cost, in US dollars for a million tokens; as JSON
    budget              AF_BUDGET         what a run may spend: tokens, usd, seconds, when_spent; as JSON
    approvals           AF_APPROVALS      who answers in the person's place: ask (nobody), approve, deny
    graph_config        AF_GRAPH_CONFIG   a YAML file that configures agents and flows, over the packaged one
    data_dir            AF_DATA_DIR       where the store lives
    record              AF_RECORD         a cassette to record runs into
    replay              AF_REPLAY         a cassette to play runs from
    mode                AF_MODE           live, record, replay or auto, where the name of the argument does not say it
    search              AF_SEARCH         what web_search asks: local, searxng, tavily, ddgs
    searxng_url         AF_SEARXNG_URL    address of a SearXNG server
    tavily_key          TAVILY_API_KEY    key for Tavily
    allowed_hosts       AF_ALLOWED_HOSTS  hosts that may be fetched though they are not public, with commas between
    mcp                 AF_MCP            MCP servers whose tools agents may call; as JSON, or the path of a JSON file
"""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from artifactflow_nb.approvals import VERDICTS, Verdict
from artifactflow_nb.budget import Budget, Price
from artifactflow_nb.errors import UsageError
from artifactflow_nb.mcp_servers import McpServer, read_servers
from artifactflow_nb.messages import ToolProtocol
from artifactflow_nb.models.endpoint_errors import MASK, public_url
from artifactflow_nb.text.cards import Card, Cell, Code, Fold, Rows, Shown, Table

FILE = "artifactflow.toml"
VARIABLES: Mapping[str, str] = {
    "base_url": "OPENAI_BASE_URL",
    "api_key": "OPENAI_API_KEY",
    "model": "AF_MODEL",
    "temperature": "AF_TEMPERATURE",
    "timeout_s": "AF_TIMEOUT_S",
    "tool_protocol": "AF_TOOL_PROTOCOL",
    "prices": "AF_PRICES",
    "budget": "AF_BUDGET",
    "approvals": "AF_APPROVALS",
    "graph_config": "AF_GRAPH_CONFIG",
    "data_dir": "AF_DATA_DIR",
    "record": "AF_RECORD",
    "replay": "AF_REPLAY",
    "mode": "AF_MODE",
    "search": "AF_SEARCH",
    "searxng_url": "AF_SEARXNG_URL",
    "tavily_key": "TAVILY_API_KEY",
    "allowed_hosts": "AF_ALLOWED_HOSTS",
    "mcp": "AF_MCP",
}
_ALLOWED: Mapping[str, str] = {
    "base_url": "an address that begins with http:// or https://, as http://localhost:8000/v1 does",
    "api_key": "a text",
    "model": "a text that is not empty",
    "temperature": "a number from 0 to 2",
    "timeout_s": "a number of seconds above 0",
    "tool_protocol": "'xml' or 'native'",
    "prices": 'by model, as in {"my-model": {"input": 2.5, "output": 10, "cache_read": 1.25}}',
    "budget": 'some of these, as in {"tokens": 100000, "usd": 0.5, "seconds": 600, "when_spent": "ask"}',
    "approvals": f"one of {', '.join(map(repr, VERDICTS))}",
    "graph_config": 'the path of a YAML file, or what it would hold, as in {"executor": {"max_steps": 4}}',
    "data_dir": "the path of a folder",
    "record": "the path of a cassette, as data/cassettes/report.jsonl",
    "replay": "the path of a cassette, as data/cassettes/report.jsonl",
    "mode": "one of 'live', 'record', 'replay', 'auto'",
    "search": "one of 'local', 'searxng', 'tavily', 'ddgs'",
    "searxng_url": "an address that begins with http:// or https://",
    "tavily_key": "a text",
    "allowed_hosts": "hosts such as intranet.example or localhost:8080, with commas between",
    "mcp": 'servers by name, as in {"files": {"command": "npx", "args": ["..."]}}, or the path of a JSON file',
}
_SECRETS = frozenset({"api_key", "tavily_key"})
_ADDRESSES = frozenset({"base_url", "searxng_url"})


class Settings(Shown, BaseSettings):
    """The settings in force; made by `Settings.load`.

    Attributes:
        base_url: The endpoint's address; None for the default of the `openai` client.
        api_key: The endpoint's key; shown as asterisks.
        model: The model's name at the endpoint.
        temperature: Sampling temperature for all agents; None leaves each agent its own.
        timeout_s: Seconds without a byte from the endpoint after which a turn has failed.
        tool_protocol: How models call tools; a model that does not know the way is asked in its own.
        prices: What tokens cost, by the model's name.
        budget: What each run may spend unless it is given a budget of its own; None for no limit.
        approvals: Who answers where a person would be asked: `ask` for the person, or a verdict in their place.
        graph_config: What is configured for agents and flows otherwise than in the packaged `graph_config.yaml`: the
            path of a YAML file, or a mapping of what it would hold; see `GraphConfig`.
        data_dir: The folder of the store, relative to the working directory.
        record: The cassette that runs are recorded into; None for none.
        replay: The cassette that runs are played from; None for none.
        mode: What is done with the cassette, where that is not what the name says: `record` to make and record every
            run, `replay` to play every run and to ask nothing outside, `auto` to play what is recorded and record what
            is new, `live` to leave it alone. So a notebook that records is played in CI with AF_MODE=replay.
        search: What `web_search` asks.
        searxng_url: The address of a SearXNG server, for `search="searxng"`.
        tavily_key: The key for `search="tavily"`; shown as asterisks.
        allowed_hosts: Hosts that `web_fetch` may fetch though they are not public: `host` or `host:port`.
        mcp: MCP servers by their names; see `McpServer`. One that is passed takes the place of one in the file.
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid", toml_file=FILE)

    base_url: str | None = None
    api_key: SecretStr | None = None
    model: str | None = Field(default=None, min_length=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    timeout_s: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    tool_protocol: ToolProtocol = "xml"
    prices: dict[str, Price] = Field(default_factory=dict)
    budget: Budget | None = None
    approvals: Verdict = "ask"
    graph_config: Path | dict[str, Any] | None = None
    data_dir: Path = Path(".artifactflow")
    record: Path | None = None
    replay: Path | None = None
    mode: Literal["live", "record", "replay", "auto"] | None = None
    search: Literal["local", "searxng", "tavily", "ddgs"] = "local"
    searxng_url: str | None = None
    tavily_key: SecretStr | None = None
    allowed_hosts: tuple[str, ...] = ()
    mcp: dict[str, McpServer] = Field(default_factory=dict)

    @classmethod
    def load(cls, **arguments: Any) -> Self:
        """The settings from these arguments (None counts as not given), the environment and the file.

        Errors: `UsageError` names the setting, its value (never the key's) and what is allowed.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        if unknown := sorted(given.keys() - VARIABLES.keys()):
            raise UsageError(f"There is no setting {unknown[0]!r}. {_known()}")
        if "mcp" in given:
            given["mcp"] = read_servers(given["mcp"])
        try:
            settings = cls(**given)
        except ValidationError as error:
            # `from None`: the chain would show the values, and the key may be among them.
            raise UsageError("\n".join(_problem(detail) for detail in error.errors(include_url=False))) from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UsageError(f"{Path(FILE).resolve()} cannot be read: {error}") from None
        if settings.endpoint_configured and not settings.model:
            raise UsageError(
                "An endpoint is configured (OPENAI_BASE_URL or OPENAI_API_KEY) but no model: "
                "set AF_MODEL or pass model=, with a name that the endpoint knows."
            )
        settings._check_search()
        settings._check_cassette(given.get("mode"))
        return settings

    def _check_cassette(self, mode: object) -> None:
        """Refuse two cassettes, and a mode that was passed without any; AF_MODE is for workbenches that have one."""
        if self.record is not None and self.replay is not None and self.record != self.replay:
            raise UsageError(
                f"record is {self.record} and replay is {self.replay}: pass one of them, and mode='auto' to play what "
                "is recorded and to record what is new."
            )
        if mode not in {None, "live"} and self.cassette is None:
            raise UsageError(f"mode is {mode!r}, and there is no cassette: pass record= or replay= with its path.")

    @property
    def cassette(self) -> Path | None:
        """The cassette that is recorded into or played from; None for none."""
        return None if self.mode == "live" else self.record or self.replay

    @property
    def cassette_mode(self) -> Literal["live", "record", "replay", "auto"]:
        """What is done with the cassette; `live` where there is none."""
        if self.cassette is None:
            return "live"
        return self.mode or ("record" if self.record is not None else "replay")

    def _check_search(self) -> None:
        """Refuse a search engine without what it needs."""
        needed = {"searxng": "searxng_url", "tavily": "tavily_key"}.get(self.search)
        if needed and getattr(self, needed) is None:
            raise UsageError(f"search is {self.search!r}: set {VARIABLES[needed]} or pass {needed}= too.")

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """The settings as shown: an address without the user and password that may stand in it."""
        for name, value in super().__repr_args__():
            yield name, public_url(value) if name in _ADDRESSES and value else value

    def _card(self) -> Card:
        rows: Rows = [(name, self._as_shown(name)) for name in VARIABLES]
        known = [(Code(name), Code(variable), _ALLOWED[name]) for name, variable in VARIABLES.items()]
        return Card("Settings", "", rows, [Fold("What can be set", Table(("argument", "environment", "value"), known))])

    def _as_shown(self, name: str) -> Cell:
        """A setting in a line; None if it is not set, and a secret only as far as it is."""
        value = getattr(self, name)
        if value in (None, (), {}) or name in _SECRETS:
            return None if not value else MASK
        if name == "mcp":
            return Code(", ".join(value))
        return Code(public_url(value) if name in _ADDRESSES else str(value))

    @property
    def endpoint_configured(self) -> bool:
        """Whether a language model's endpoint was given: an address, a key, or both."""
        return self.base_url is not None or self.api_key is not None

    @field_validator("base_url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is None or url.startswith(("http://", "https://")):
            return url
        raise ValueError(_ALLOWED["base_url"])

    @field_validator("searxng_url")
    @classmethod
    def _check_searxng(cls, url: str | None) -> str | None:
        return cls._check_url(url)

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split_hosts(cls, hosts: Any) -> Any:
        return tuple(host.strip() for host in hosts.split(",") if host.strip()) if isinstance(hosts, str) else hosts

    @field_validator("prices", "budget", mode="before")
    @classmethod
    def _from_json(cls, told: Any) -> Any:
        return json.loads(told) if isinstance(told, str) else told

    @field_validator("mcp", mode="before")
    @classmethod
    def _read_servers(cls, told: Any) -> Any:
        return read_servers(told)

    @field_validator("data_dir", "record", "replay", "graph_config")
    @classmethod
    def _expand_home(cls, path: Any) -> Any:
        return path.expanduser() if isinstance(path, Path) else path

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - reads MODEL for AF_MODEL; see _Environment
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then the file."""
        return init_settings, _Environment(settings_cls), TomlConfigSettingsSource(settings_cls)


class _Environment(PydanticBaseSettingsSource):
    """Exactly the variables above: no other spelling, and an empty one counts as not set."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        del field
        return os.environ.get(VARIABLES[field_name]) or None, field_name, False

    def __call__(self) -> dict[str, Any]:
        return {name: value for name, variable in VARIABLES.items() if (value := os.environ.get(variable))}


def _problem(detail: Mapping[str, Any]) -> str:
    name = str(detail["loc"][0])
    if name == "mcp":
        return str(detail["ctx"]["error"])
    if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
        return f"{Path(FILE).resolve()} has an unknown key {name!r}. {_known()}"
    shown = public_url(detail["input"]) if name in _ADDRESSES and isinstance(detail["input"], str) else detail["input"]
    value = "cannot be used" if name in _SECRETS else f"is {shown!r}"
    inside = "".join(f".{part}" for part in detail["loc"][1:])
    return f"The setting {name}{inside} ({VARIABLES[name]}) {value}: it must be {_ALLOWED[name]}."


def _known() -> str:
    return f"Known are {', '.join(VARIABLES)}."
