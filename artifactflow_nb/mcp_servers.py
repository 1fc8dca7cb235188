"""The MCP servers that a person configures: values that are checked when they are made, and that show no secret.

::

    {"files":  {"command": "npx", "args": ["-y", "..."], "env": {"TOKEN": "${FILES_TOKEN}"}},
     "remote": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${REMOTE_TOKEN}"}}}

`${NAME}` stands for a variable of the environment and is put in when the server is started, so that no secret has to
stand in a notebook. The form that other programs use, with all of this below `mcpServers`, is read as it is.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from artifactflow_nb.errors import UsageError
from artifactflow_nb.text.cards import Card, Code, Rows, Shown

Permission = Literal["auto", "confirm"]

HIDDEN = "[secret]"
"""What stands for a secret in texts."""

_WRAPPER = "mcpServers"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SAYS_SECRET = re.compile(r"key|token|secret|passw|pwd|credential|auth|signature|(?:_|\b)(?:pat|sig)\b", re.IGNORECASE)
_SAY_NOTHING = frozenset({"accept", "accept-language", "content-type", "user-agent", "origin"})
_SCHEMES = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)
_SHORTEST_SECRET = 6
_LONGEST_PLAIN = 20


class McpServer(Shown, BaseModel):
    """A server and what of it is used: a program that is started (`command`), or an address that is asked (`url`).

    Attributes:
        name: What it is called here.
        command: The program.
        args: Its arguments.
        env: Variables that it gets beside PATH, HOME and the like; nothing else of the environment reaches it.
        cwd: The folder in which it is started; None for the kernel's.
        url: The address of a server that speaks streamable HTTP.
        headers: What is sent with every request.
        type: How it is spoken with, as other programs write it; it follows from the rest.
        permission: `confirm` for a person to be asked before each call, `auto` not to; or one of them by the name of
            the tool, where `confirm` holds for tools that are not named.
        tools: The names of the tools that are used; None for all.
        agents: The agents that are offered them; empty for the one that leads.
        timeout_s: Seconds after which a call has failed.
        start_timeout_s: Seconds after which it has failed to start.
        disabled: Whether it is left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str
    command: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = ()
    env: dict[str, SecretStr] = Field(default_factory=dict)
    cwd: Path | None = None
    url: str | None = None
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    type: Literal["stdio", "http", "streamable-http", "streamable_http"] | None = None
    permission: Permission | dict[str, Permission] = "confirm"
    tools: tuple[str, ...] | None = None
    agents: tuple[str, ...] = ()
    timeout_s: float = Field(default=60.0, gt=0, le=3600)
    start_timeout_s: float = Field(default=60.0, gt=0, le=3600)
    disabled: bool = False

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is None or re.match(r"https?://[^/]", url):
            return url
        raise ValueError("it must be an address that begins with http:// or https://")

    @field_validator("permission", mode="before")
    @classmethod
    def _check_permission(cls, permission: Any) -> Any:
        said = permission.values() if isinstance(permission, Mapping) else [permission]
        if all(isinstance(one, str) and one in get_args(Permission) for one in said):
            return permission
        raise ValueError("it must be 'auto' or 'confirm', or one of these by the names of tools")

    @model_validator(mode="after")
    def _check_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("it needs a command, or a url, and not both")
        foreign = ("headers",) if self.url is None else ("args", "env", "cwd")
        if given := [name for name in foreign if getattr(self, name)]:
            raise ValueError(f"{given[0]} does not go with {'a command' if self.url is None else 'a url'}")
        if self.type is not None and (self.type == "stdio") != (self.url is None):
            raise ValueError(f"type is {self.type!r}, which does not go with {'a url' if self.url else 'a command'}")
        return self

    def permission_of(self, tool: str) -> Permission:
        """Whether a person is asked before calls of the tool that the server calls so."""
        return self.permission if isinstance(self.permission, str) else self.permission.get(tool, "confirm")

    @property
    def way(self) -> str:
        """How it is reached, without what may be secret: the program's name, or the host."""
        if self.url is not None:
            return urlsplit(self.url).netloc.rpartition("@")[2]
        return Path(self.command or "").name

    def filled(self, environment: Mapping[str, str]) -> Self:
        """The same with variables of the environment put in; `UsageError` that names one that is not set."""

        def put_in(text: str) -> str:
            return _VARIABLE.sub(lambda found: environment[found[1]], text)

        try:
            changed: dict[str, Any] = {
                "command": self.command and put_in(self.command),
                "args": tuple(map(put_in, self.args)),
                "cwd": self.cwd and self.cwd.expanduser(),
                "url": self.url and put_in(self.url),
                "env": {name: SecretStr(put_in(value.get_secret_value())) for name, value in self.env.items()},
                "headers": {name: SecretStr(put_in(value.get_secret_value())) for name, value in self.headers.items()},
            }
        except KeyError as missing:
            variable = missing.args[0]
            raise UsageError(
                f"mcp.{self.name} names the variable ${{{variable}}}, and the environment has none of this name. Set "
                f'it before the kernel starts, or with os.environ["{variable}"] = ...'
            ) from None
        return self.model_copy(update=changed)

    def secrets(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """The values in it that are secret, as far as the environment has them; the longest first."""
        try:
            found = set(_secrets_in(self.filled(environment)))
        except UsageError:
            found = set(_secrets_in(self))
        known = (one for one in found if len(one) >= _SHORTEST_SECRET and not _VARIABLE.search(one))
        return tuple(sorted(known, key=lambda secret: (-len(secret), secret)))

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What it is shown as: no arguments, variables, headers or paths of addresses, since any may hold a secret."""
        yield None, self.name
        yield ("command" if self.url is None else "url"), self.way
        yield "permission", self.permission

    def _card(self) -> Card:
        asked = self.permission
        told = asked if isinstance(asked, str) else ", ".join(f"{tool}: {said}" for tool, said in asked.items())
        rows: Rows = [
            ("command" if self.url is None else "host", Code(self.way)),
            ("variables", Code(", ".join(self.env))),
            ("headers", Code(", ".join(self.headers))),
            ("permission", told),
            ("tools", "all" if self.tools is None else Code(", ".join(self.tools))),
            ("agents", Code(", ".join(self.agents)) if self.agents else "the one that leads"),
            ("stopped after", f"{self.timeout_s:g} s"),
            ("disabled", self.disabled or None),
        ]
        return Card("MCP server", self.name, rows)


def _secrets_in(server: McpServer) -> Iterator[str]:
    """Values beside a name that says that they are secret, and what nobody would write in an address otherwise."""
    yield from (value.get_secret_value() for name, value in server.env.items() if _SAYS_SECRET.search(name))
    for name, header in server.headers.items():
        if name.lower() not in _SAY_NOTHING:
            value = header.get_secret_value()
            yield from (value, _SCHEMES.sub("", value, count=1))
    for before, argument in zip(("", *server.args), server.args, strict=False):
        flag, equals, value = argument.partition("=")
        if equals and _SAYS_SECRET.search(flag):
            yield value
        elif before.startswith("-") and "=" not in before and _SAYS_SECRET.search(before):
            yield argument
    parts = urlsplit(server.url or "")
    yield from (unquote(one) for one in (parts.username, parts.password) if one)
    yield from (value for name, value in parse_qsl(parts.query) if _SAYS_SECRET.search(name))
    yield from (one for one in parts.path.split("/") if len(one) > _LONGEST_PLAIN and any(map(str.isdigit, one)))


# --- reading ---------------------------------------------------------------------------------------------------------

McpServers = Mapping[str, McpServer]


def read_servers(told: Any) -> dict[str, McpServer]:
    """Servers by their names, from a mapping, from JSON, or from the path of a JSON file.

    Errors: `UsageError` with the path to each value that does not fit, and without the value.
    """
    if isinstance(told, str | Path):
        told = _parsed(told)
    if not isinstance(told, Mapping):
        raise UsageError(f"mcp is {type(told).__name__}; it must map names to servers, or be the path of a JSON file.")
    entries = {name: value for name, value in told.items() if name != _WRAPPER}
    below = told.get(_WRAPPER, {})
    if not isinstance(below, Mapping):
        raise UsageError(f"mcp.{_WRAPPER} is {type(below).__name__}; it must map names to servers.")
    read: dict[str, McpServer] = {}
    problems: list[str] = []
    for name, value in {**below, **entries}.items():
        try:
            read[name] = value if isinstance(value, McpServer) else _server(name, value)
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise UsageError("\n".join(problems))
    return read


def _parsed(told: str | Path) -> Any:
    is_text = isinstance(told, str) and told.lstrip().startswith("{")
    path = Path(told).expanduser()
    try:
        return json.loads(str(told) if is_text else path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"mcp is the path {str(path)!r}, and that cannot be read: {error.strerror}.") from None
    except ValueError as error:  # without the text, which may hold secrets
        what = "mcp" if is_text else f"mcp, in {str(path)!r},"
        raise UsageError(f"{what} is no JSON: {str(error).splitlines()[0][:100]}.") from None


def _server(name: object, value: object) -> McpServer:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"mcp.{name!s:.60}: a server's name begins with a letter, and has letters, digits, _ . or -.")
    if not isinstance(value, Mapping):
        raise UsageError(f"mcp.{name} is {type(value).__name__}; it must be a server: {_KNOWN}.")
    if "name" in value:
        raise UsageError(f"mcp.{name}.name is not known; known are {_KNOWN}.")
    try:
        return McpServer.model_validate({"name": name, **value})
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        raise UsageError("\n".join(dict.fromkeys(_problem(name, detail) for detail in found))) from None


_KNOWN = ", ".join(name for name in McpServer.model_fields if name != "name")


def _problem(name: str, detail: Mapping[str, Any]) -> str:
    path = ".".join([f"mcp.{name}", *(str(part) for part in detail["loc"])])
    if detail["type"] == "extra_forbidden":
        return f"{path} is not known; known are {_KNOWN}."
    return f"{path}: {detail['msg'].removeprefix('Value error, ')}."
