"""Configuration of MCP servers: validated on creation, without secrets in any representation.

::

    {"files":  {"command": "npx", "args": ["-y", "..."], "env": {"TOKEN": "${FILES_TOKEN}"}},
     "remote": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${REMOTE_TOKEN}"}}}

`${NAME}` is replaced by an environment variable when the server starts, so that no notebook needs to contain a secret.
The form of other programs, with the servers below `mcpServers`, is accepted too.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn, Self, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from artifactflow_nb.core import local_files
from artifactflow_nb.core.redaction.names import AUTH_SCHEME, MASK
from artifactflow_nb.core.text.format import first_lines
from artifactflow_nb.errors import UsageError, brief

Permission = Literal["auto", "confirm"]

_WRAPPER = "mcpServers"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_NAME = re.compile(r"key|token|secret|passw|pwd|credential|auth|signature|(?:_|\b)(?:pat|sig)\b", re.IGNORECASE)
_PUBLIC_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent", "origin"})
_MIN_SECRET_CHARS = 6
_MAX_PLAIN_CHARS = 20


class McpServer(BaseModel):
    """A server, either a program to start (`command`) or an address (`url`), and the use of its tools.

    Attributes:
        name: Name in the workbench.
        command: The program.
        args: Arguments of the program.
        env: Environment variables of the program, which gets only PATH, HOME and similar variables of the kernel.
        cwd: Working directory; None for the kernel's working directory.
        url: Address of a streamable HTTP server.
        headers: HTTP headers of every request.
        type: Transport, as in the files of other programs; it must match `command` or `url`.
        permission: `confirm` to ask a person before each call, or `auto`; or a mapping from tool names to these values,
            with `confirm` for all other tools.
        tools: Names of the tools to use; None for all.
        agents: Agents that get the tools; empty for the lead agent.
        timeout_s: Time limit of a call in seconds.
        start_timeout_s: Time limit of the start in seconds.
        disabled: Whether to ignore the server.
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
        verdicts = permission.values() if isinstance(permission, Mapping) else [permission]
        if all(isinstance(verdict, str) and verdict in get_args(Permission) for verdict in verdicts):
            return permission
        raise ValueError("it must be 'auto' or 'confirm', or one of these by the names of tools")

    @model_validator(mode="after")
    def _check_transport(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("it needs a command, or a url, and not both")
        foreign = ("headers",) if self.url is None else ("args", "env", "cwd")
        if misplaced := [name for name in foreign if getattr(self, name)]:
            raise ValueError(f"{misplaced[0]} does not go with {'a command' if self.url is None else 'a url'}")
        if self.type is not None and (self.type == "stdio") != (self.url is None):
            raise ValueError(f"type is {self.type!r}, which does not go with {'a url' if self.url else 'a command'}")
        return self

    def permission_for(self, tool: str) -> Permission:
        """Return the permission of a tool, by the name that the server gives the tool."""
        return self.permission if isinstance(self.permission, str) else self.permission.get(tool, "confirm")

    @property
    def transport_label(self) -> str:
        """The program's name or the host, without parts that may be secret."""
        if self.url is not None:
            return urlsplit(self.url).netloc.rpartition("@")[2]
        return Path(self.command or "").name

    def with_environment(self, environment: Mapping[str, str]) -> Self:
        """Return a copy with environment variables substituted; `UsageError` with the name of an unset variable."""

        def expand(text: str) -> str:
            return _VARIABLE.sub(lambda found: environment[found[1]], text)

        try:
            changed: dict[str, Any] = {
                "command": self.command and expand(self.command),
                "args": tuple(map(expand, self.args)),
                "url": self.url and expand(self.url),
                "env": {name: SecretStr(expand(value.get_secret_value())) for name, value in self.env.items()},
                "headers": {name: SecretStr(expand(value.get_secret_value())) for name, value in self.headers.items()},
            }
        except KeyError as missing:
            variable = missing.args[0]
            raise UsageError(
                f"mcp.{self.name} refers to the variable ${{{variable}}}, which is not set in the environment. Set "
                f'it before the kernel starts, or with os.environ["{variable}"] = ...'
            ) from None
        return self.model_copy(update=changed)

    def secrets(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the secret values of the configuration, the longest first; variables that are not set are omitted."""
        try:
            values = set(_secrets_in(self.with_environment(environment)))
        except UsageError:
            values = set(_secrets_in(self))
        secrets = (value for value in values if len(value) >= _MIN_SECRET_CHARS and not _VARIABLE.search(value))
        return tuple(sorted(secrets, key=lambda secret: (-len(secret), secret)))

    @model_serializer(mode="wrap")
    def _dump(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        shown = {"url": self.url and self.masked(self.url), "args": tuple(map(self.masked, self.args))}
        dumped: dict[str, Any] = serialize(self.model_copy(update=shown))
        return dumped

    def masked(self, text: str) -> str:
        """Mask the secrets of the configuration, and the user of an address, in a text."""
        for secret in self.secrets({}):
            text = text.replace(secret, MASK)
        return re.sub(r"//[^/\s]*@", f"//{MASK}@", text)

    def __getstate__(self) -> NoReturn:
        """Refuse pickles, which would hold secrets."""
        raise UsageError("An MCP server cannot be pickled, since it may hold keys. Configure it where you need it.")

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Return the fields of the repr, without arguments, variables, headers or URL paths, which may hold secrets."""
        yield None, self.name
        yield ("command" if self.url is None else "url"), self.transport_label
        yield "permission", self.permission


def _secrets_in(server: McpServer) -> Iterator[str]:
    """Return values whose names say that they are secret, and parts of the address that look like keys."""
    yield from (value.get_secret_value() for name, value in server.env.items() if _SECRET_NAME.search(name))
    for name, header in server.headers.items():
        if name.lower() not in _PUBLIC_HEADERS:
            value = header.get_secret_value()
            yield from (value, AUTH_SCHEME.sub("", value, count=1))
    for before, argument in zip(("", *server.args), server.args, strict=False):
        flag, equals, value = argument.partition("=")
        if equals and _SECRET_NAME.search(flag):
            yield value
        elif before.startswith("-") and "=" not in before and _SECRET_NAME.search(before):
            yield argument
    url = urlsplit(server.url or "")
    yield from (unquote(part) for part in (url.username, url.password) if part)
    yield from (value for name, value in parse_qsl(url.query) if _SECRET_NAME.search(name))
    yield from (part for part in url.path.split("/") if len(part) > _MAX_PLAIN_CHARS and any(map(str.isdigit, part)))


def environment_variables(server: McpServer) -> Iterator[str]:
    """Return the names of the environment variables in the configuration, including repeated ones."""
    secret_values = [value.get_secret_value() for value in (*server.env.values(), *server.headers.values())]
    for text in (server.command or "", *server.args, server.url or "", *secret_values):
        yield from _VARIABLE.findall(text)


# --- reading ---------------------------------------------------------------------------------------------------------


def config_file(source: object) -> Path | None:
    """Return the JSON file that a value of `mcp` names, or None if the value contains the servers themselves."""
    if isinstance(source, Path) or (isinstance(source, str) and not source.lstrip().startswith("{")):
        return Path(source)
    return None


def read_config_file(path: Path, setting: str) -> bytes:
    """Read the file that a setting names; `UsageError` if that fails."""
    try:
        return local_files.read_bytes(path.expanduser())
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: no such user; ValueError: a null character
        reason = error if isinstance(error, RuntimeError) else local_files.reason(error)
        raise UsageError(f"{setting} names the file {brief(str(path))}, which cannot be read: {reason}.") from None


def read_servers(source: Any, path: Path | None = None) -> dict[str, McpServer]:
    """Read servers by name from a mapping, from JSON, or from a JSON file.

    Args:
        source: The mapping, the path of the file, or JSON as text or bytes.
        path: The origin of the JSON, for error messages.

    Errors: `UsageError` with the location of each invalid value, and without the value.
    """
    if path is None and (path := config_file(source)) is not None:
        source = read_config_file(path, "mcp")
    if isinstance(source, str | bytes):
        try:
            source = json.loads(source)
        except (ValueError, RecursionError) as error:  # the message leaves out the text, which may hold secrets
            label = "mcp" if path is None else f"mcp, in {str(path)!r},"
            is_too_deep = isinstance(error, RecursionError)
            problem = "it is nested too deeply" if is_too_deep else str(error).splitlines()[0][:100]
            raise UsageError(f"{label} is not JSON: {problem}.") from None
    if not isinstance(source, Mapping):
        raise UsageError(f"mcp is {type(source).__name__}; it must map names to servers or be the path of a JSON file.")
    entries = {name: value for name, value in source.items() if name != _WRAPPER}
    below = source.get(_WRAPPER, {})
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
        raise UsageError("\n".join(first_lines(problems)))
    return read


def _server(name: object, value: object) -> McpServer:
    """Validate one server; `UsageError` with a line for each problem."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"mcp.{name!s:.60}: a server's name begins with a letter, and has letters, digits, _ . or -.")
    if not isinstance(value, Mapping):
        raise UsageError(f"mcp.{name} is {type(value).__name__}; it must be a server: {_KNOWN}.")
    if "name" in value:
        raise UsageError(f"mcp.{name}.name is not a setting of a server. Known: {_KNOWN}.")
    try:
        return McpServer.model_validate({"name": name, **value})
    except ValidationError as error:
        problems = []
        for detail in error.errors(include_url=False, include_input=False, include_context=False):
            label = ".".join([f"mcp.{name}", *(f"{part!s:.80}" for part in detail["loc"])])
            if detail["type"] == "extra_forbidden":
                problems.append(f"{label} is not a setting of a server. Known: {_KNOWN}.")
            else:
                problems.append(f"{label}: {detail['msg'].removeprefix('Value error, ')}.")
        raise UsageError("\n".join(first_lines(list(dict.fromkeys(problems))))) from None


_KNOWN = ", ".join(name for name in McpServer.model_fields if name != "name")
