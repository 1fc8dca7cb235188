"""The person's permission for what came with a folder: its settings file, and a store that another account made.

A folder may come from somebody else. Settings that can send data, start a program, read or write outside of the folder
or decide on behalf of the person take effect only after the person has allowed the file, until the file changes.
Other settings need no permission. A key from the environment is never sent to an address in the file.
"""

import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from artifactflow_nb.core.local_files import read_bytes, reason
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

_CUSTOM_HEADERS = "OPENAI_CUSTOM_HEADERS"  # the openai client adds these headers to every request
_COMMAND_CHARS = 1000


@dataclass(frozen=True, repr=False)
class TrustedFolder:
    """A permission that was stored.

    Attributes:
        folder: The working directory, or the data folder.
        allowed: The allowed effects of the file, a line for each; empty if no setting needs a permission.
        files: SHA-256 of the file and of the files that it names, by name; the inode of a store.
        stored_in: The file of the permission; None if no permission was needed.
    """

    folder: Path
    allowed: tuple[str, ...]
    files: Mapping[str, str]
    stored_in: Path | None

    def __repr__(self) -> str:
        path = self.folder / next(iter(self.files))
        if not self.allowed:
            return f"{path} sets nothing that needs a permission."
        lines = "\n".join(f"  {line}" for line in self.allowed)
        return f"{path} may from now on, until it changes:\n{lines}"


@dataclass(frozen=True, slots=True)
class FolderFile:
    """The content of a settings file, read once, so that the same bytes are displayed, hashed and used.

    Attributes:
        values: The settings; `mcp` has servers, also if the file names a JSON file of servers.
        hashes: SHA-256 of the file, of files that the file names and of programs of the folder that the file starts.
        effects: The effects of the file that need a permission, one line each, without secrets.
    """

    path: Path
    values: Mapping[str, Any]
    hashes: Mapping[str, str]
    effects: tuple[str, ...]

    @classmethod
    def read(cls, path: Path, effect_of: Callable[[str, Any], str]) -> Self | None:
        """Read the file.

        Args:
            path: The path of the file.
            effect_of: Describes the effect of a setting with a value; empty if the setting needs no permission.

        Returns: The content, or None if there is no such file.
        Errors: `UsageError` if the file cannot be read.
        """
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
        return cls(path, values, hashes, tuple(_effects_of(values, path.parent, effect_of)))

    def trust(self) -> TrustedFolder:
        """Store the permission of the person for the file; `UsageError` if the permission cannot be stored."""
        stored_in = store_trust(self.path, self.hashes) if self.effects else None
        return TrustedFolder(self.path.parent, self.effects, self.hashes, stored_in)

    def check(self, others: Mapping[str, Any], key_variables: set[str]) -> None:
        """Check that the person has allowed the file.

        Args:
            others: The values of arguments and environment, which override the values of the file.
            key_variables: The environment variables of keys.

        Errors: `UsageError` with the effects of the file, and how to allow the file.
        """
        self._check_keys(others, key_variables)
        if not self.effects or is_trusted(self.path, self.hashes):
            return
        is_changed = permission_path(self.path).exists()
        state = "it was changed since you allowed it" if is_changed else "you have not allowed it"
        lines = "\n".join(f"  {line}" for line in self.effects)
        raise UsageError(
            f"{self.path} can send data, start programs or decide in your place, and {state}:\n{lines}\n"
            "If you want all of this, run `af.trust_folder()` once; it is valid until the file changes. Otherwise "
            f"remove these settings from the file. In CI, {TRUST_VARIABLE}=1 allows it."
        )

    def _check_keys(self, others: Mapping[str, Any], key_variables: set[str]) -> None:
        """Raise `UsageError` if a key from the environment or an argument would be sent to an address from the file."""
        if "base_url" in self.values and others.get("base_url") is None:
            has_headers = bool(os.environ.get(_CUSTOM_HEADERS))
            origin = "OPENAI_API_KEY or api_key=" if others.get("api_key") else _CUSTOM_HEADERS if has_headers else None
            if origin is not None:
                address = brief(display_address(str(self.values["base_url"])))
                raise UsageError(
                    f"{self.path} sets base_url to {address}, and the key comes from {origin}: a key is never sent to "
                    "an address that a file of the folder names. If you know the address, set OPENAI_BASE_URL or pass "
                    "base_url=. Otherwise remove base_url from the file, or unset the variable and write api_key into "
                    "the file."
                )
        overriding = others.get("mcp") or {}
        for name, server in self.values.get("mcp", {}).items():
            sent = sorted(key_variables.intersection(environment_variables(server)))
            if server.url is not None and sent and name not in overriding:
                raise UsageError(
                    f"mcp.{name}, which {self.path} configures, would send {sent[0]} of the environment to an address "
                    "that a file of the folder names. Pass this server as mcp= yourself, or let it use another "
                    "variable."
                )


def _effects_of(values: Mapping[str, Any], folder: Path, effect_of: Callable[[str, Any], str]) -> Iterator[str]:
    """Describe the effect of each setting in a folder's file that needs a permission."""
    try:
        store = folder / Path(str(values.get("data_dir", "."))).expanduser()
        is_inside = store.resolve().is_relative_to(folder)  # as the default is
    except (OSError, RuntimeError, ValueError):  # links in a circle, no such user, a null character
        is_inside = False
    for name, value in values.items():
        if name != "mcp" and not (name == "data_dir" and is_inside) and (effect := effect_of(name, value)):
            yield f"{name}: {effect}"
    yield from (f"mcp.{server.name}: {describe_server(server)}" for server in values.get("mcp", {}).values())


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


def permission_path(file: Path) -> Path:
    """Return the path of the permission for a settings file or a store, in `$XDG_CONFIG_HOME` or `~/.config`.

    The permission is outside of every project, so that a copied folder cannot contain its permission. It is for one
    folder, because commands and paths in a settings file are relative to the folder.
    """
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".config"
    return base / "artifactflow" / "trusted" / _hash(bytes(file.parent.resolve() / file.name))


def _permission(file: Path, hashes: Mapping[str, str]) -> bytes:
    """Return the content of a permission: a line with the folder, and the hashes by file name, both as JSON."""
    return f"{json.dumps(str(file.parent.resolve()))}\n{json.dumps(hashes, indent=2)}".encode()


def is_trusted(file: Path, hashes: Mapping[str, str]) -> bool:
    """Return whether the person, or the variable for CI, allowed a file with these hashes of files."""
    with suppress(OSError):
        return os.environ.get(TRUST_VARIABLE) == "1" or permission_path(file).read_bytes() == _permission(file, hashes)
    return False


def store_trust(file: Path, hashes: Mapping[str, str]) -> Path:
    """Store a permission, also in place of an earlier one for this file; delete permissions of deleted folders.

    Returns: The path of the permission. Errors: `UsageError` with the path.
    """
    path = permission_path(file)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(_permission(file, hashes))  # a permission that is cut off allows nothing
    except OSError as error:
        raise UsageError(f"The permission cannot be stored in {path}: {error.strerror}. Make it writable.") from None
    for stored in path.parent.iterdir():
        with suppress(OSError, ValueError):  # another process may be writing the permission
            if not os.path.isdir(json.loads(stored.read_bytes().partition(b"\n")[0])):  # noqa: PTH112 - a long name
                stored.unlink()
    return path


# --- stores ----------------------------------------------------------------------------------------------------------


def check_links(folder: Path) -> None:
    """Raise `UsageError` if a data folder, or an entry of the folder, is a link that leads out of its parent folder."""
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
    """Return the identity of a store's file for a permission; a copy of the file has another identity."""
    return {STORE_FILE: str((folder / STORE_FILE).stat().st_ino)}


def remember_store(folder: Path) -> None:
    """Store that this account made the store of a folder; if this cannot be stored, the store counts as foreign."""
    if os.environ.get(TRUST_VARIABLE) != "1":
        with suppress(UsageError, OSError):
            store_trust(folder / STORE_FILE, _store_hashes(folder))


def store_problem(folder: Path) -> str:
    """Return why a store continues no run and grants nothing; empty if this account made or allowed the store."""
    with suppress(OSError):
        if is_trusted(folder / STORE_FILE, _store_hashes(folder)):
            return ""
    return (
        f"This account did not make the store {folder / STORE_FILE}, so its runs are not continued and its grants do "
        f"not count. If you know where it comes from, run `af.trust_folder({str(folder)!r})` once."
    )


def trust_store(folder: Path) -> TrustedFolder:
    """Store the permission of the person for a store that another account made; `UsageError` if no store exists."""
    store = folder / STORE_FILE
    if not store.is_file():
        raise UsageError(f"There is no store {store}: nothing needs a permission.")
    check_links(folder)
    hashes = _store_hashes(folder)
    effects = ("continue runs, and use the permissions that were given in it",)
    return TrustedFolder(folder, effects, hashes, store_trust(store, hashes))
