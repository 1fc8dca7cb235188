"""Network file systems, on which SQLite's write-ahead log does not work and file locks may not reach other hosts."""

import re
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")
"""The table of mounted file systems on Linux, a line each: device, folder, type. Other systems have no such file."""

_TYPES = frozenset({
    "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "afs", "coda", "9p", "davfs", "sshfs", "s3fs", "gcsfuse",
    "rclone", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "panfs", "wekafs", "orangefs",
})  # fmt: skip


def network_file_system(folder: Path, mounts: Path | None = None) -> str | None:
    """The type of the network file system that contains a folder; None for a local or an unknown file system.

    Args:
        folder: The folder, which need not exist.
        mounts: A file like `/proc/self/mounts`; None for this one.
    """
    try:
        table = (mounts or MOUNTS).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    path, best, name = folder.resolve(), -1, ""
    for line in table.splitlines():
        _, mount, kind, *_ = line.split(" ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), mount))
        if path.is_relative_to(point) and len(point.parts) >= best:  # of two on one folder, the later one is visible
            best, name = len(point.parts), kind
    return name if name.removeprefix("fuse.") in _TYPES else None
