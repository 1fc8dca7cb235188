"""A document as a file: which forms there are, what a file is called, and how it gets onto the disk."""

import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from artifactflow_nb.errors import UsageError
from artifactflow_nb.export.cells import to_ipynb
from artifactflow_nb.export.document import Document, artifact_document
from artifactflow_nb.export.page import to_html
from artifactflow_nb.export.word import to_docx
from artifactflow_nb.store.artifact_versions import Artifact

AnyPath = str | os.PathLike[str]
_MOST_NAME = 80
_MOST_NAME_BYTES = 200
"""Disks count a name in bytes, and take 255 of them."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form that a document can be exported to; its name is the ending of its files.

    Attributes:
        label: What people call it.
        media_type: Its media type.
        make: Makes the bytes of the file.
    """

    label: str
    media_type: str
    make: Callable[[Document], bytes]


def _to_markdown(document: Document) -> bytes:
    """The text to the byte, if it is Markdown."""
    return document.markdown.encode("utf-8", "replace")


FORMS: Mapping[str, Form] = {
    "md": Form("Markdown", "text/markdown", _to_markdown),
    "html": Form("HTML", "text/html", to_html),
    "docx": Form("Word", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", to_docx),
    "ipynb": Form("Notebook", "application/x-ipynb+json", to_ipynb),
}


def document_bytes(document: Document, form: str) -> bytes:
    """The file of a document.

    Args:
        document: The document.
        form: `md`, `html`, `docx` or `ipynb`.

    Errors: `UsageError` for another form, and for docx where its library is not installed.
    """
    if form not in FORMS:
        raise UsageError(f"There is no form {form!r}; known are: {', '.join(FORMS)}.")
    return FORMS[form].make(document)


def artifact_bytes(artifact: Artifact, form: str) -> bytes:
    """The file of a version of an artifact; `form` and errors as for `document_bytes`."""
    return document_bytes(artifact_document(artifact), form)


def document_name(document: Document, form: str) -> str:
    """A name for the file, made of the document's: letters, digits, `-`, `_` and single dots."""
    name = re.sub(r"[^\w-]+", "_", document.name.replace(".", "_"))[:_MOST_NAME].strip("_")
    name = name.encode("utf-8", "replace")[:_MOST_NAME_BYTES].decode("utf-8", "ignore")
    return f"{name or 'artifact'}.{form}"


def file_name(artifact: Artifact, form: str) -> str:
    """A name for the file of a version of an artifact, made of its id as by `document_name`."""
    return document_name(artifact_document(artifact), form)


def write_artifact(artifact: Artifact, form: str, path: AnyPath | None = None, *, overwrite: bool = False) -> Path:
    """Write the file of a version of an artifact; arguments and errors as for `write_document`."""
    return write_document(artifact_document(artifact), form, path, overwrite=overwrite)


def write_document(document: Document, form: str, path: AnyPath | None = None, *, overwrite: bool = False) -> Path:
    """Write the file of a document.

    Args:
        document: The document.
        form: As for `document_bytes`.
        path: The file; a folder to have it named after the document there; None for the working directory.
        overwrite: Take the place of a file that is there.

    Returns:
        Where it lies.

    Errors: `UsageError` as for `document_bytes`, if there is such a file, or if it cannot be written.
    """
    target = Path(path) if path is not None else Path()
    if os.path.isdir(target):  # noqa: PTH112 - a path's own questions raise for a name that is too long
        target /= document_name(document, form)
    taken = f"There is a file {str(target)!r} already. Pass overwrite=True to replace it, or another path."
    if os.path.exists(target) and not overwrite:  # noqa: PTH110 - the same
        raise UsageError(taken)
    content = document_bytes(document, form)  # before the file is touched
    try:
        _put(content, target, overwrite=overwrite)
    except FileExistsError:
        raise UsageError(taken) from None
    except (OSError, ValueError) as error:  # a ValueError for characters that no path can have
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{str(target)!r} cannot be written: {why}. Pass another path.") from error
    return target


def _put(content: bytes, target: Path, *, overwrite: bool) -> None:
    """Write a file whole or not at all: on a full disk, what was there stays."""
    if overwrite and os.path.isfile(target):  # noqa: PTH113 - as above
        place = target.resolve()  # a link stays one
        place.open("r+b").close()  # raises for a file that is protected against writing
        draft = place.with_name(f"{secrets.token_hex(8)}.part")
        _put(content, draft, overwrite=False)
        shutil.copymode(place, draft)
        draft.replace(place)
        return
    with target.open("wb" if overwrite else "xb") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            if not overwrite:  # it was made here, and is no device
                target.unlink()
            raise
