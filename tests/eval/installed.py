"""Collections of documentation that is installed anyway, with the questions of `installed.yaml`.

::

    man         manual pages, as `man` prints them            packages    descriptions of the installed distributions
    docs        README and FAQ files below /usr/share/doc     python      the topics of `pydoc_data`
"""

import gzip
import os
import re
import subprocess
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import yaml

_DOC = Path("/usr/share/doc")
_DOC_NAME = re.compile(r"(?:readme|faq|users-and-groups|environment|triggers|xdmcp|.*manual).*", re.IGNORECASE)
_OVERSTRUCK = re.compile(r".\x08")
_MIN_CHARS, _MAX_CHARS = 300, 200_000

KINDS = ("lay", "expert", "two", "table", "absent")
"""The kinds of questions; those of `absent` have no answer in their collection."""


def load_questions() -> Mapping[str, Mapping[str, list[tuple[list[list[str]], str]]]]:
    """Return the questions by collection and kind, each with the documents that must be cited: any of each list."""
    text = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return {name: {kind: [_read(line) for line in text[name].get(kind, [])] for kind in KINDS} for name in text}


def _read(line: str) -> tuple[list[list[str]], str]:
    names, _, question = line.rpartition(" | ")
    return [[name.strip() for name in either.split(" / ")] for either in names.split(" + ") if names], question


def write_collection(name: str, folder: Path) -> Path:
    """Write a collection as files below `folder`, one for each document; what is not installed is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    for document, text in _WRITERS[name]().items():
        if _MIN_CHARS <= len(text) <= _MAX_CHARS:
            suffix = ".md" if name == "packages" else ".txt"
            (folder / f"{document}{suffix}").write_text(text, encoding="utf-8")
    return folder


def _manual_pages() -> dict[str, str]:
    text: Any = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    environment = {**os.environ, "MANWIDTH": "80", "LANG": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    pages = {}
    for name in text["man"]["documents"].split():
        shown = subprocess.run(["man", "-P", "cat", name], capture_output=True, env=environment, check=False)
        pages[name] = _OVERSTRUCK.sub("", shown.stdout.decode(errors="replace"))
    return pages


def _descriptions() -> dict[str, str]:
    found = {}
    for distribution in distributions():
        metadata = distribution.metadata
        name = re.sub(r"[-.]+", "_", metadata["Name"] or "").lower()
        body: Any = metadata.get_payload()
        found[name] = f"# {metadata['Name']}\n\n{metadata['Summary']}\n\n{body or metadata.get('Description') or ''}"
    return found


def _doc_files() -> dict[str, str]:
    texts: dict[str, str] = {}
    for path in sorted(_DOC.glob("*/*")) if _DOC.is_dir() else []:
        if path.is_file() and _DOC_NAME.fullmatch(path.name):
            data = path.read_bytes()
            text = gzip.decompress(data) if path.suffix == ".gz" else data
            texts[f"{path.parent.name}--{path.name.replace('.', '_')}"] = text.decode(errors="replace")
    return texts


_WRITERS = {
    "man": _manual_pages,
    "packages": _descriptions,
    "docs": _doc_files,
    "python": lambda: dict(topics),
}
