"""How a workbench is set up: arguments > environment > `artifactflow.toml` in the working directory.

Each setting is declared once, as a field of `Settings`; errors, permissions and the guide are made from the fields.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, SecretStr, SerializerFunctionWrapHandler, ValidationError, field_validator, model_serializer
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from artifactflow_nb.core.approvals import Verdict
from artifactflow_nb.core.budget import Budget, Price
from artifactflow_nb.core.language import Language
from artifactflow_nb.core.local_files import AnyPath, absolute_path
from artifactflow_nb.core.messages import ToolProtocolChoice
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.core.runs import Clarify
from artifactflow_nb.core.text.format import clip, did_you_mean, first_lines
from artifactflow_nb.engine.folder_file import SETTINGS_FILE, FolderFile, TrustedFolder, trust_store
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

Address = Annotated[str, Field(pattern=r"^https?://")]
Text = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_ADDRESS = "an address that begins with http:// or https://"
_CASSETTE = "the path of a cassette, as data/cassettes/report.jsonl"
_SECONDS = "a number of seconds above 0"
_USES_KEY = "uses the key of somebody's account, whose owner may see the queries"


def _setting(default: Any, effect: str | None, allowed: str = "", *, variable: str = "", **limits: Any) -> Any:
    """Declare a setting; the text below the setting is the description.

    Args:
        default: The default.
        effect: The effect of the setting, with `{}` for the value: a file of a folder needs the person's permission for
            the setting. None if the setting can neither send data elsewhere, start a program, read or write outside
            of the folder nor decide on behalf of the person.
        allowed: The allowed values, for errors and the guide; empty if the type lists them.
        variable: The environment variable; empty for `AF_` and the name in capitals.
        limits: Limits of the value, for `pydantic.Field`.
    """
    declared: dict[str, Any] = {"effect": effect, "allowed": allowed, "variable": variable}
    return Field(default, json_schema_extra=declared, **limits)


class Settings(BaseSettings):
    """The effective settings, created by `Settings.load`; docs/guide/settings.md has a table of the settings.

    Copies and pickles lack keys and MCP servers.
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid")

    base_url: Address | None = _setting(
        None,
        "sends prompts, with what was read for them, to {}",
        f"{_ADDRESS}, as http://localhost:8000/v1 does",
        variable="OPENAI_BASE_URL",
    )
    """Address of the endpoint; a password in it is never shown. None for the default of the `openai` client."""
    api_key: SecretStr | None = _setting(
        None,
        "uses the key of somebody's account, whose owner may see what is sent with it",
        variable="OPENAI_API_KEY",
    )
    """Key of the endpoint; never shown, stored or logged."""
    model: Text | None = _setting(None, None, "a text that is not empty")
    """Name of the model at the endpoint."""
    temperature: float | None = _setting(None, None, "a number from 0 to 2", ge=0, le=2)
    """Sampling temperature of all agents without one in `graph_config`; None for each agent's own."""
    reasoning_effort: Text | None = _setting(None, None, "a text such as 'low', 'medium' or 'high'")
    """How long models think, for agents without a value of their own; None for the endpoint's own."""
    extra_body: dict[str, Any] = _setting(
        {}, "adds fields to every request to a model: {}", 'fields by name, as in {"top_p": 0.9}'
    )
    """Further fields of every request to a model; the fields of an agent are added."""
    context_tokens: int | None = _setting(None, None, "a whole number of tokens from 1,000", ge=1_000)
    """Context window of the model, of which prompts fill at most three quarters; None to ask the endpoint, or to look
    up the model's name."""
    prompt_cache: bool = _setting(False, None, "true or false")
    """Whether prompts are marked with `cache_control`, for endpoints that cache on request only."""
    embedding_model: Text | None = _setting(
        None, "sends searches to the model {}, and what wb.sources.embed() embeds", "a text that is not empty"
    )
    """Model at the endpoint for the vectors of `wb.sources.embed()`; None to search by words only."""
    timeout_s: Seconds = _setting(600.0, None, _SECONDS)
    """Seconds without a byte from the endpoint after which a turn fails."""
    stall_timeout_s: Seconds = _setting(60.0, None, _SECONDS)
    """Seconds without a byte after the first text of a reply; more for an endpoint that sends long calls as a whole."""
    tool_protocol: ToolProtocolChoice = _setting("auto", None)
    """How models call tools: `native`, `xml` (in their text), or `auto` for native calls, and calls in the text where
    an endpoint refuses or ignores tools. A model that does not support this protocol uses its own."""
    prices: dict[str, Price] = _setting(
        {}, None, 'by model, as in {"my-model": {"input": 2.5, "output": 10, "cache_read": 1.25}}'
    )
    """Prices of models, in US dollars for a million tokens."""
    budget: Budget | None = _setting(
        None, None, 'some of these, as in {"tokens": 100000, "usd": 0.5, "seconds": 600, "when_spent": "ask"}'
    )
    """Limits of each run without a budget of its own; None for no limit."""
    approvals: Verdict = _setting("ask", "answers {} in your place")
    """The answer to every request for approval: `approve`, `deny`, or `ask` to ask the person."""
    claims: Literal["mark", "off"] = _setting("mark", None)
    """Whether the claims of artifacts are checked against their sources, and marked in the texts; or `off`."""
    clarify: Clarify = _setting("auto", None)
    """Whether the lead asks the person before research: `auto` if the question is ambiguous, `never`, or `always`. A
    quick run asks with `always` only, and the offline model never; `run.answer` answers."""
    graph_config: Path | dict[str, Any] | None = _setting(
        None,
        "changes what agents may do and whether plans need your approval: {}",
        'the path of a YAML file, or what it would hold, as in {"executor": {"max_steps": 4}}',
    )
    """Changes to the packaged rounds, tools and models of agents and flows: a YAML file, or a mapping with its content;
    see `GraphConfig`."""
    data_dir: Path = _setting(
        Path(DEFAULT_DATA_DIR), "stores your work outside of this folder, in {}", "the path of a folder"
    )
    """The folder of the store, relative to the working directory; inside of it, no permission is needed."""
    record: Path | None = _setting(None, "writes what runs said into {}", _CASSETTE)
    """The cassette that runs are recorded into; None for no cassette."""
    replay: Path | None = _setting(None, "plays recorded answers and decisions instead of asking, from {}", _CASSETTE)
    """The cassette that runs are played from, without network and key; None for no cassette."""
    mode: Literal["live", "record", "replay", "auto", "verify"] | None = _setting(
        None, "changes whether runs are played, asked or recorded to {}"
    )
    """Use of the cassette, in place of the use by its argument: `record` to execute and record every run, `replay` to
    play every run without access to the outside, `auto` to play recorded runs and record new runs, `live` for no use.
    For example, AF_MODE=replay plays a recording notebook in CI."""
    search: tuple[str, ...] = _setting(
        (LOCAL,),
        "changes where web_search sends its queries to {}",
        f"one or several of {', '.join(map(repr, SEARCH_NAMES))}, with commas between",
    )
    """The search engines of `web_search`, of which `local` has your sources; several are asked at once."""
    searxng_url: Address | None = _setting(None, "sends search queries to {}", _ADDRESS)
    """Address of a SearXNG server, for `search="searxng"`."""
    tavily_key: SecretStr | None = _setting(None, _USES_KEY, variable="TAVILY_API_KEY")
    """Key for `search="tavily"`; never shown, stored or logged."""
    brave_key: SecretStr | None = _setting(None, _USES_KEY, variable="BRAVE_API_KEY")
    """Key for `search="brave"`; never shown, stored or logged."""
    openalex_key: SecretStr | None = _setting(None, _USES_KEY, variable="OPENALEX_API_KEY")
    """Key for `search="openalex"`; never shown, stored or logged."""
    contact: str | None = _setting(
        None, "tells search services the address {}", "an e-mail address", pattern=r"^[^@\s]+@[^@\s]+$"
    )
    """An e-mail address, which OpenAlex, Crossref and PubMed ask for; None to send none."""
    proxy: Address | None = _setting(
        None,
        "sends web requests of runs, and what they look for, through {}",
        f"{_ADDRESS}, as http://proxy.example:3128 does",
    )
    """Address of a proxy for `web_fetch` and searches of the web, with a login if it needs one, which is never shown.
    Model calls use the proxies of the environment instead."""
    allowed_hosts: tuple[str, ...] = _setting(
        (),
        "lets web_fetch reach hosts that are not public: {}",
        "hosts such as intranet.example or localhost:8080, with commas between",
    )
    """Hosts that `web_fetch` may fetch although they are not public: `host` or `host:port`."""
    notify: bool = _setting(True, None, "true or false")
    """Whether the page says outside of a panel that a request waits: in its title, and, while no card is visible, in a
    notification of JupyterLab or Notebook 7 and in a line, which Escape closes."""
    language: Language = _setting("en", None)
    """Language of all views, of plots of frames, of exported files and of the server's page; your texts and texts of
    models stay as they are."""
    live: Literal["auto", "page", "widget", "off"] = _setting("auto", None)
    """How cells show live views: `page` over the saved output by a script of the page, `widget` as a widget in its
    place, `off` not at all; `auto` for what the front end needs."""
    mcp: dict[str, McpServer] = _setting(
        {},
        "starts programs, and calls tools of servers",
        'servers by name, as in {"files": {"command": "npx", "args": ["..."]}}, or the path of a JSON file',
    )
    """MCP servers whose tools agents may call, by name; the argument overrides the file for each name."""

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
            # The chain of errors would show the values, also the value of a key.
            problems = [_problem(detail) for detail in error.errors(include_url=False)]
            raise UsageError("\n".join(first_lines(problems))) from None
        except (RuntimeError, TypeError, ArithmeticError) as error:  # from a method of a value
            raise UsageError(f"A setting cannot be used: {describe_error(error):.200}") from None
        for name in settings.search:
            needed = "searxng_url" if name == "searxng" else f"{name}_key"
            if getattr(settings, needed, name) is None:
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
        """The path of the cassette to record into or to play from, or None."""
        return None if self.mode == "live" else self.record or self.replay

    @property
    def cassette_mode(self) -> Literal["live", "record", "replay", "auto", "verify"]:
        """The mode of the cassette; `live` without a cassette."""
        if self.cassette is None:
            return "live"
        return self.mode or ("record" if self.record is not None else "replay")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy for this process, including keys, with some values replaced."""
        del deep  # the values are frozen
        changes = dict(update or {})
        chosen = self.model_fields_set | changes.keys()
        return cast("Self", self.model_construct(_fields_set=chosen, **{**dict(self), **changes}))

    def __getstate__(self) -> dict[Any, Any]:
        """Return the state for copies and pickles, without keys, logins in addresses and MCP servers."""
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
            raise ValueError("there is no such search engine")
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
        """Return a path, or a mapping with all keys as texts; `GraphConfig` checks the content."""
        if isinstance(config, Mapping):
            return {str(name): value for name, value in config.items()}
        if isinstance(config, str | Path | None):
            return config
        raise ValueError("it is neither a path nor a mapping")

    @field_validator("data_dir", "record", "replay", "graph_config")
    @classmethod
    def _absolute(cls, path: Any) -> Any:
        return absolute_path(path) if isinstance(path, Path) else path

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_others: Any, **_sources: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of settings by precedence: arguments, environment, file. An empty variable is ignored.

        Errors: `UsageError` if the file has effects that the person has not permitted.
        """
        variables = {name: text for name, key in ENVIRONMENT_VARIABLES.items() if (text := os.environ.get(key))}
        file = FolderFile.read(Path(SETTINGS_FILE), _effect_of)
        if file is not None:
            file.check({**variables, **init_settings()}, {ENVIRONMENT_VARIABLES[name] for name in SECRET_SETTINGS})
        values = {} if file is None else dict(file.values)
        return init_settings, InitSettingsSource(settings_cls, variables), InitSettingsSource(settings_cls, values)


DECLARED: Mapping[str, Any] = {name: field.json_schema_extra for name, field in Settings.model_fields.items()}
"""What `_setting` adds to each field: `effect`, `allowed`, `variable`."""

ENVIRONMENT_VARIABLES: Mapping[str, str] = {
    name: declared["variable"] or f"AF_{name.upper()}" for name, declared in DECLARED.items()
}
"""The environment variable of each setting."""

SECRET_SETTINGS, _ADDRESSES = (
    frozenset(name for name, field in Settings.model_fields.items() if field.annotation == kind | None)
    for kind in (SecretStr, Address)
)
"""The settings whose values are never displayed, and the settings with addresses whose logins are never displayed."""


def _without_secrets(settings: Settings) -> dict[str, Any]:
    """Return the settings by name, without logins in addresses, and with masked secrets in `extra_body`."""
    addresses = {name: display_address(value) for name in _ADDRESSES if (value := getattr(settings, name))}
    return {**dict(settings), **addresses, "extra_body": Redactor().redact_value(settings.extra_body)}


def _shown(name: str, value: object) -> str:
    """Shorten the value of a setting, without the login of an address and without values next to names of secrets."""
    if name in _ADDRESSES and isinstance(value, str):
        return brief(display_address(value))
    return clip(Redactor().text(brief(value, 1_000)), 200)


def _effect_of(name: str, value: object) -> str:
    """Describe the effect of a setting in the file of a folder; empty for a setting that needs no permission."""
    effect = DECLARED[name]["effect"] if name in DECLARED else None
    return effect.format(_shown(name, value)) if effect else ""


def _problem(detail: Mapping[str, Any]) -> str:
    name = str(detail["loc"][0])
    if name == "mcp":
        return str(detail["ctx"]["error"])
    if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
        return f"{Path(SETTINGS_FILE).resolve()} has an unknown key {brief(name)}.{_known(name)}"
    value = "cannot be used" if name in SECRET_SETTINGS else f"is {_shown(name, detail['input'])}"
    inside = "".join(f".{part!s:.80}" for part in detail["loc"][1:])
    allowed = DECLARED[name]["allowed"] or detail.get("ctx", {}).get("expected", "a text")
    return f"The setting {name}{inside} ({ENVIRONMENT_VARIABLES[name]}) {value}: it must be {allowed}."


def _known(name: str) -> str:
    return f"{did_you_mean(name, ENVIRONMENT_VARIABLES)} Known: {', '.join(ENVIRONMENT_VARIABLES)}."


def trust_folder(data_dir: AnyPath | None = None) -> TrustedFolder:
    """Allow the settings file or the store of a folder from somebody else, until the file changes.

    Without an argument, allow the effects of `artifactflow.toml` in the working directory, of the files that it names
    and of the programs of the folder that it starts. With the folder of a store that another account made, allow the
    runs of the store to continue and its grants to count.

    The return value lists the allowed effects. Call this function once and remove the call from the notebook: a call
    that stays there allows each later change unseen.

    Errors: `UsageError` if there is no such file, if it cannot be read or if the permission cannot be stored.
    """
    if data_dir is not None:
        return trust_store(absolute_path(data_dir))
    file = FolderFile.read(Path(SETTINGS_FILE), _effect_of)
    if file is None:
        raise UsageError(f"There is no {SETTINGS_FILE} in {Path.cwd()}: nothing needs a permission.")
    return file.trust()
