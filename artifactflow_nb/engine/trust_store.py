"""The folders whose settings file a person has allowed, with the hashes of its files, in one JSON file of the user.

::

    {"folders": {"/home/ada/study": {"artifactflow.toml": "9f86d0...", ".mcp.json": "2c2624..."}}}

The file is in `$XDG_CONFIG_HOME/artifactflow` or `~/.config/artifactflow`, outside of every project, so that a copied
folder does not bring its own permission. A permission is for one folder, because commands and paths in its settings
file are relative to it.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from artifactflow_nb.errors import UsageError


def trust_path() -> Path:
    """The path of the permissions."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".config"
    return base / "artifactflow" / "trusted.json"


def trusted_hashes(folder: Path) -> Mapping[str, str] | None:
    """The hashes that a person allowed for this folder, by file name; None without a permission."""
    hashes = _folders(trust_path()).get(str(folder.resolve()))
    return hashes if isinstance(hashes, dict) else None


def store_trust(folder: Path, hashes: Mapping[str, str]) -> Path:
    """Store a permission, which replaces an earlier one for this folder; return the path of the permissions.

    The file is replaced atomically, and only its owner can read it. Errors: `UsageError` with the path.
    """
    path = trust_path()
    folders = {**_folders(path), str(folder.resolve()): dict(hashes)}
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
        raise UsageError(f"The permission cannot be stored in {path}: {error.strerror}.") from None
    return path


def _folders(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"The permissions in {path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        stored = None
    folders = stored.get("folders") if isinstance(stored, dict) else None
    if not isinstance(folders, dict):
        raise UsageError(f"{path} does not hold permissions of folders. Delete it, and allow your folders once more.")
    return folders
