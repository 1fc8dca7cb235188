"""The person's permission for what came with a folder: its settings file, and a store that another account made.

A folder may come from somebody else. Settings that can send data, start a program, read or write outside of the folder
or decide on behalf of the person take effect only after the person has allowed the file, until it or a file that it
names changes. Other settings need no permission. A key from the environment is never sent to an address from the file.
"""

import hashlib
import json
import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from artifactflow_nb.core.local_files import AnyPath, absolute_path, read_bytes, reason
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.models.openai.errors import display_address
from artifactflow_nb.tools.mcp.config import (
    McpServer,
    config_file,
    environment_variables,
    read_config_file,
    read_servers,
)

SETTINGS_FILE = "artifactflow.toml"

STORE_FILE = "store.db"

TRUST_VARIABLE = "AF_TRUST_FOLDER"
"""The value 1 allows the files and stores of all folders: for CI, where nobody can be asked."""

_KEYS = ("OPENAI_API_KEY", "TAVILY_API_KEY", "BRAVE_API_KEY", "OPENALEX_API_KEY")
_CUSTOM_HEADERS = "OPENAI_CUSTOM_HEADERS"  # the openai client adds them to every request
_COMMAND_CHARS = 1000


def _address(value: object) -> str:
    return brief(display_address(value) if isinstance(value, str) else value)


EFFECTS: Mapping[str, Callable[[Any], str]] = {
    "base_url": lambda value: f"sends prompts, with what was read for them, to {_address(value)}",
    "api_key": lambda _value: "uses the key of somebody's account, whose owner may see what is sent with it",
    "extra_body": lambda value: f"adds fields to every request to a model: {brief(value)}",
    "embedding_model": lambda value: f"sends searches to the model {brief(value)}, and what wb.sources.embed() embeds",
    "approvals": lambda value: f"answers {brief(value)} in your place",
    "graph_config": lambda value: f"changes what agents may do and whether plans need your approval: {brief(value)}",
    "data_dir": lambda value: f"stores your work outside of this folder, in {brief(value)}",
    "record": lambda value: f"writes what runs said into {brief(value)}",
    "replay": lambda value: f"plays recorded answers and decisions instead of asking, from {brief(value)}",
    "mode": lambda value: f"changes whether runs are played, asked or recorded to {brief(value)}",
    "search": lambda value: f"changes where web_search sends its queries to {brief(value)}",
    "searxng_url": lambda value: f"sends search queries to {_address(value)}",
    **dict.fromkeys(
        ("tavily_key", "brave_key", "openalex_key"),
        lambda _value: "uses the key of somebody's account, whose owner may see the queries",
    ),
    "contact": lambda value: f"tells search services the address {brief(value)}",
    "proxy": lambda value: f"sends web requests of runs, and what they look for, through {_address(value)}",
    "allowed_hosts": lambda value: f"lets web_fetch reach hosts that are not public: {brief(value)}",
}
"""The effect of each setting of the file that needs a permission; each server of `mcp` has a line of its own."""


@dataclass(frozen=True, slots=True)
class FolderFile:
    """The content of a settings file, read once, so that the same bytes are displayed, hashed and used.

    Attributes:
        values: The settings; `mcp` as servers, also if the file names a JSON file of them.
        hashes: SHA-256 of the file, of files that it names and of programs of the folder that it starts, by name.
    """

    path: Path
    values: Mapping[str, Any]
    hashes: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read the file; None if there is none. `UsageError` if it cannot be read."""
        if not os.path.lexists(path):
            return None
        path = path.parent.resolve() / path.name  # the file may be a link; the permission is for this folder
        try:
            content = read_bytes(path)
            values = tomllib.loads(content.decode("utf-8"))
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {reason(error)}.") from None
        except RecursionError:
            raise UsageError(f"{path} cannot be read: it is nested too deeply.") from None
        except ValueError as error:  # beyond TOML's own, an integer of thousands of digits
            raise UsageError(f"{path} cannot be read: {error}") from None
        hashes = {path.name: _hash(content)}
        if (named := config_file(values.get("mcp"))) is not None:
            servers = read_config_file(named, "mcp")
            hashes[str(values["mcp"])] = _hash(servers)
            values["mcp"] = read_servers(servers, named)
        elif "mcp" in values:
            values["mcp"] = read_servers(values["mcp"])
        if isinstance(configured := values.get("graph_config"), str):
            hashes[configured] = _hash(read_config_file(Path(configured), "graph_config"))
        for server in values.get("mcp", {}).values():
            for part in (server.command or "", *server.args):
                with suppress(OSError, RuntimeError, ValueError):  # no file, or no path
                    program = (path.parent / (server.cwd or ".") / part).resolve()
                    if program.is_relative_to(path.parent) and program.is_file():
                        hashes[str(program.relative_to(path.parent))] = _hash(read_bytes(program))
        return cls(path, values, hashes)

    @property
    def effects(self) -> tuple[str, ...]:
        """The effects of the file that need a permission, one line each, without secrets."""
        folder = self.path.parent
        try:
            store = folder / Path(str(self.values.get("data_dir", "."))).expanduser()
            is_inside = store.resolve().is_relative_to(folder)  # as the default is
        except (OSError, RuntimeError, ValueError):  # links in a circle, no such user, a null character
            is_inside = False
        lines = [
            f"{name}: {describe(self.values[name])}"
            for name, describe in EFFECTS.items()
            if name in self.values and not (name == "data_dir" and is_inside)
        ]
        servers = self.values.get("mcp", {}).values()
        return (*lines, *(f"mcp.{server.name}: {describe_server(server)}" for server in servers))

    def check(self, others: Mapping[str, Any]) -> None:
        """Check that the person has allowed the file.

        Args:
            others: The values of arguments and environment, which override those of the file.

        Errors: `UsageError` with the effects of the file and how to allow them.
        """
        self._check_keys(others)
        if not self.effects or os.environ.get(TRUST_VARIABLE) == "1":
            return
        allowed = trusted_hashes(self.path.parent)
        if allowed == self.hashes:
            return
        state = "you have not allowed it" if allowed is None else "it was changed since you allowed it"
        lines = "\n".join(f"  {line}" for line in self.effects)
        raise UsageError(
            f"{self.path} can send data, start programs or decide in your place, and {state}:\n{lines}\n"
            "If you want all of this, run `af.trust_folder()` once; it is valid until the file changes. Otherwise "
            f"remove these settings from the file. In CI, {TRUST_VARIABLE}=1 allows it."
        )

    def _check_keys(self, others: Mapping[str, Any]) -> None:
        """Raise `UsageError` if a key from the environment or an argument would be sent to an address from the file."""
        if "base_url" in self.values and others.get("base_url") is None:
            has_headers = bool(os.environ.get(_CUSTOM_HEADERS))
            origin = "OPENAI_API_KEY or api_key=" if others.get("api_key") else _CUSTOM_HEADERS if has_headers else None
            if origin is not None:
                raise UsageError(
                    f"{self.path} sets base_url to {_address(self.values['base_url'])}, and the key comes from "
                    f"{origin}: a key is never sent to an address that a file of the folder names. If you know the "
                    "address, set OPENAI_BASE_URL or pass base_url=. Otherwise remove base_url from the file, or unset "
                    "the variable and write api_key into the file."
                )
        overriding = others.get("mcp") or {}
        for name, server in self.values.get("mcp", {}).items():
            sent = sorted({*_KEYS}.intersection(environment_variables(server)))
            if server.url is not None and sent and name not in overriding:
                raise UsageError(
                    f"mcp.{name}, which {self.path} configures, would send {sent[0]} of the environment to an address "
                    "that a file of the folder names. Pass this server as mcp= yourself, or let it use another "
                    "variable."
                )


def describe_server(server: McpServer) -> str:
    """Describe what a server does, with its whole command but without secrets."""
    if server.url is not None:
        line = f"calls tools of the server {brief(server.masked(display_address(server.url)))}"
    else:
        command = [brief(server.masked(part), _COMMAND_CHARS) for part in (server.command or "", *server.args)]
        line = f"starts the program {' '.join(command)}"
        line = line if len(line) <= _COMMAND_CHARS else f"{line[:_COMMAND_CHARS]}…"
        line += f", in {brief(str(server.cwd))}" if server.cwd is not None else ""
    variables = sorted(set(environment_variables(server)))
    line += f", with {', '.join(variables)} of the environment" if variables else ""
    verdicts = {server.permission} if isinstance(server.permission, str) else {*server.permission.values()}
    return line + (", and its tools run without asking you" if "auto" in verdicts else "")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- the permission --------------------------------------------------------------------------------------------------


def trust_path() -> Path:
    """The path of the permissions of all folders: a JSON file below `$XDG_CONFIG_HOME` or `~/.config`.

    ::

        {"folders": {"/home/ada/study": {"artifactflow.toml": "9f86d0...", ".mcp.json": "2c2624..."}}}

    The file is outside of every project, so that a copied folder cannot contain its own permission. A permission
    applies to one folder, because commands and paths in its settings file are relative to it.
    """
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".config"
    return base / "artifactflow" / "trusted.json"


def trusted_hashes(folder: Path) -> Mapping[str, str] | None:
    """Return the hashes that the person allowed for this folder, by file name; None without a permission."""
    hashes = _folders(trust_path()).get(str(folder.resolve()))
    return hashes if isinstance(hashes, dict) else None


def store_trust(folder: Path, hashes: Mapping[str, str]) -> Path:
    """Store a permission, which replaces an earlier one for this folder; return the path of the permissions.

    The file is replaced atomically, and only its owner can read it. Errors: `UsageError` with the path.
    """
    path = trust_path()
    folders = {name: stored for name, stored in _folders(path).items() if os.path.isdir(name)}  # noqa: PTH112 - a long name
    folders[str(folder.resolve())] = dict(hashes)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file, name = tempfile.mkstemp(dir=path.parent, prefix=".trusted-")  # mkstemp makes it 0600
        try:
            with os.fdopen(file, "w", encoding="utf-8") as stream:
                json.dump({"folders": folders}, stream, indent=2, ensure_ascii=False)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"The permission cannot be stored in {path}: {error.strerror}. Make it writable.") from None
    return path


def _folders(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"The permissions in {path} cannot be read: {error.strerror}. Make it readable.") from None
    except (ValueError, RecursionError):
        stored = None
    folders = stored.get("folders") if isinstance(stored, dict) else None
    if not isinstance(folders, dict):
        raise UsageError(f"{path} is not a list of permissions for folders. Delete it, and allow your folders again.")
    return folders


# --- stores ----------------------------------------------------------------------------------------------------------


def check_links(folder: Path) -> None:
    """Raise `UsageError` if a data folder, or an entry of it, is a link that leads out of the folder that holds it."""
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    for path in (folder, *entries):
        target = os.path.realpath(path)  # `Path.resolve` raises for links in a circle
        if path.is_symlink() and not Path(target).is_relative_to(os.path.realpath(path.parent)):
            raise UsageError(
                f"{path} is a link that leads out of its folder, to {target}, and a store is not written "
                "through such a link. Pass that folder as data_dir if you know it, or remove the link."
            )


def has_store(folder: Path) -> bool:
    """Return whether a data folder has a store."""
    return os.path.lexists(folder / STORE_FILE)


def _store_hashes(folder: Path) -> dict[str, str]:
    """Return what identifies a store for a permission: its file. A copy is another file."""
    return {STORE_FILE: str((folder / STORE_FILE).stat().st_ino)}


def remember_store(folder: Path) -> None:
    """Store that this account made the store of a data folder; without a place for permissions it counts as foreign."""
    if os.environ.get(TRUST_VARIABLE) != "1":
        with suppress(UsageError, OSError):
            store_trust(folder, _store_hashes(folder))


def store_problem(folder: Path) -> str:
    """Return why a store continues nothing and gives no grants; empty if this account made or allowed it."""
    if os.environ.get(TRUST_VARIABLE) == "1":
        return ""
    with suppress(UsageError, OSError):
        if trusted_hashes(folder) == _store_hashes(folder):
            return ""
    return (
        f"This account did not make the store {folder / STORE_FILE}, so its runs are not continued and its grants do "
        f"not count. If you know where it comes from, run `af.trust_folder({str(folder)!r})` once."
    )


class TrustedFolder:
    """A permission that was stored.

    Attributes:
        folder: The working directory, or the data folder.
        allowed: The allowed effects of the file, a line for each; empty if no setting needs a permission.
        files: SHA-256 of the file and of the files that it names, by name.
        stored_in: The file of permissions; None if none was needed.
    """

    def __init__(self, path: Path, allowed: tuple[str, ...], files: Mapping[str, str], stored_in: Path | None) -> None:
        self.folder = path.parent
        self.allowed = allowed
        self.files = dict(files)
        self.stored_in = stored_in
        self._path = path

    def __repr__(self) -> str:
        if not self.allowed:
            return f"{self._path} sets nothing that needs a permission."
        lines = "\n".join(f"  {line}" for line in self.allowed)
        return f"{self._path} may from now on, until it changes:\n{lines}"


def trust_folder(data_dir: AnyPath | None = None) -> TrustedFolder:
    """Allow what came with a folder, until it changes.

    Without an argument, these are the effects of `artifactflow.toml` in the working directory, with the files that it
    names and the programs of the folder that it starts. With the folder of a store that another account made, runs of
    the store may continue, and its grants count.

    The return value lists what is allowed. Call it once and remove the call from the notebook: otherwise it allows each
    later change unseen.

    Errors: `UsageError` if there is no such file, if it cannot be read or if the permission cannot be stored.
    """
    if data_dir is not None:
        store = absolute_path(data_dir) / STORE_FILE
        if not store.is_file():
            raise UsageError(f"There is no store {store}: nothing needs a permission.")
        check_links(store.parent)
        hashes = _store_hashes(store.parent)
        effects = ("continue runs, and use the permissions that were given in it",)
        return TrustedFolder(store, effects, hashes, store_trust(store.parent, hashes))
    file = FolderFile.read(Path(SETTINGS_FILE))
    if file is None:
        raise UsageError(f"There is no {SETTINGS_FILE} in {Path.cwd()}: nothing needs a permission.")
    stored_in = store_trust(file.path.parent, file.hashes) if file.effects else None
    return TrustedFolder(file.path, file.effects, file.hashes, stored_in)
