"""Export formats, file names, and writing of files; `ExportMixin` adds the `to_...` methods to handles."""

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree as ET

from markdown_it import MarkdownIt

from artifactflow_nb.core.language import EnglishText
from artifactflow_nb.core.local_files import AnyPath, absolute_path, reason
from artifactflow_nb.core.text.cards import cell_markdown
from artifactflow_nb.core.text.chinese import language_tag
from artifactflow_nb.core.text.content_style import content_style
from artifactflow_nb.core.text.markdown import escape, escape_with_language, safe_markdown
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.export.document import DocumentPart, ExportDocument
from artifactflow_nb.export.docx import to_docx
from artifactflow_nb.recording.files import write_whole

# This policy is a second barrier after the sanitiser: the browser loads and runs nothing that markup asks for.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_DISPLAY = re.compile(r'<span class="af-math af-display[^>]*(?=><span[^>]*>(<math .*?</math>))', re.DOTALL)
_PRINTED_EM = 38
"""Width of a printed page, in the size of its text."""
_CHAPTER_TAGS = {"h1", "h2"}


def to_html(document: ExportDocument) -> bytes:
    """Convert a document to an HTML page."""
    body = _DISPLAY.sub(_fitted, document.cited_html)
    style = (files("artifactflow_nb.export") / "page.css").read_text(encoding="utf-8") + content_style(body)
    heading = "" if document.has_title else f"<h1>{escape_with_language(document.title)}</h1>"
    return f"""<!doctype html>
<html lang="{language_tag(document.content[:4000]) or "en"}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{escape(document.title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
{heading}{body}
</main>
<footer>{escape(document.origin)}</footer>
</body>
</html>
""".encode()


def _fitted(formula: re.Match[str]) -> str:
    """Return a displayed formula with the factor by which it must shrink in print, where nothing scrolls."""
    width = _width_em(ET.fromstring(formula[1].replace("&nbsp;", "&#160;")))  # noqa: S314 - our own MathML, sanitised
    return formula[0] + (f' style="--af-fit: {_PRINTED_EM / width:.2f}"' if width > _PRINTED_EM else "")


def _width_em(element: ET.Element) -> float:
    """Estimate the width of MathML in the size of its text."""
    widths = [_width_em(child) for child in element]
    if element.tag in {"mfrac", "mover", "mtable", "munder", "munderover"}:
        return max(widths, default=0)
    if element.tag in {"msub", "msubsup", "msup"}:
        return widths[0] + 0.7 * max(widths[1:], default=0)
    own = len(element.text or "") * (0.9 if element.tag == "mo" else 0.55)
    return own + sum(widths) + (0.8 if element.tag == "mtd" else 0)


def to_ipynb(document: ExportDocument) -> bytes:
    """Convert a document to a notebook in format 4.5; equal documents give equal bytes."""
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    origin = {**document.metadata, "sha256": document.sha256}
    notebook = {
        "cells": [
            {
                "cell_type": "markdown",
                "id": f"{document.sha256[:12]}-{n}",
                "metadata": {"artifactflow": part.metadata} if part.metadata else {},
                "source": part.markdown.splitlines(keepends=True),
            }
            for n, part in enumerate(document.parts or _parts(document))
        ],
        "metadata": {"artifactflow": origin, "kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")


def _parts(document: ExportDocument) -> list[DocumentPart]:
    """Split the text before each heading of level 1 or 2, except in lists and quotations, and put the title first."""
    markdown = safe_markdown(document.marked_markdown)
    lines = markdown.split("\n")
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    heads = [token.map[0] for token in tokens if token.tag in _CHAPTER_TAGS and token.map and token.level == 0]
    chapters = [] if document.has_title else [f"# {cell_markdown(document.title)}"]
    for start, end in zip([0, *heads], [*heads, len(lines)], strict=True):
        chapters.append("\n".join(lines[start:end]).strip("\n"))
    return [DocumentPart(chapter, {}) for chapter in chapters if chapter]


_MAX_NAME_CHARS = 80
_MAX_NAME_BYTES = 200  # file systems limit a name to 255 bytes, extension included


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """An export format; its key in `EXPORT_FORMATS` is the file extension.

    Attributes:
        make: Converts a document to the bytes of a file.
    """

    label: EnglishText
    media_type: str
    make: Callable[[ExportDocument], bytes]


EXPORT_FORMATS: Mapping[str, ExportFormat] = {
    # Lone surrogates, which UTF-8 cannot encode, become `?`.
    "md": ExportFormat(
        "Markdown", "text/markdown", lambda document: document.marked_markdown.encode("utf-8", "replace")
    ),
    "html": ExportFormat("HTML", "text/html", to_html),
    "docx": ExportFormat("Word", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", to_docx),
    "ipynb": ExportFormat("Notebook", "application/x-ipynb+json", to_ipynb),
}


def document_bytes(document: ExportDocument, form: str) -> bytes:
    """Convert a document to the bytes of a file. `form` is `md`, `html`, `docx` or `ipynb`.

    Errors: `UsageError` for an unknown format, and for docx if python-docx is not installed.
    """
    if form not in EXPORT_FORMATS:
        raise UsageError(f"Unknown export format {brief(form)}. Pass one of: {', '.join(EXPORT_FORMATS)}.")
    return EXPORT_FORMATS[form].make(document)


def document_name(document: ExportDocument, form: str) -> str:
    """Make a safe file name from the name of a document: letters, digits, `-`, `_`, and a dot before the extension."""
    name = re.sub(r"[^\w-]+", "_", document.name.replace(".", "_"))[:_MAX_NAME_CHARS].strip("_")
    name = name.encode("utf-8", "replace")[:_MAX_NAME_BYTES].decode("utf-8", "ignore")
    return f"{name or 'artifact'}.{form}"


def write_document(
    document: ExportDocument, form: str, path: AnyPath | None = None, *, overwrite: bool = False
) -> Path:
    """Write the file of a document.

    Args:
        document: The document.
        form: The format, as for `document_bytes`.
        path: Path of the file, or of a folder, in which the file is named after the document; None for the working
            directory.
        overwrite: Replace an existing file.

    Returns:
        Path of the file.

    Errors: `UsageError` as for `document_bytes`, and if the file exists or cannot be written.
    """
    target = absolute_path(path or ".")
    if os.path.isdir(target):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
        target /= document_name(document, form)
    exists_message = f"There is a file {str(target)!r} already. Pass overwrite=True to replace it, or another path."
    if os.path.exists(target) and not overwrite:  # noqa: PTH110 - the same
        raise UsageError(exists_message)
    content = document_bytes(document, form)  # before the file is created, because the conversion may fail
    try:
        write_whole(target.resolve() if overwrite else target, content, replace=overwrite)
    except FileExistsError:
        raise UsageError(exists_message) from None
    except (OSError, ValueError, RuntimeError) as error:  # a path with a NUL, links in a circle
        raise UsageError(f"{brief(str(target))} cannot be written: {reason(error)}. Pass another path.") from error
    return target


class ExportMixin(ABC):
    """Adds `to_markdown`, `to_html`, `to_docx` and `to_ipynb` to a handle; subclasses implement `_write`."""

    __slots__ = ()

    @abstractmethod
    def _write(self, form: str, path: AnyPath | None, *, overwrite: bool) -> Path:
        """Write a file in one of the `EXPORT_FORMATS`."""

    def to_markdown(self, path: AnyPath | None = None, *, overwrite: bool = False) -> Path:
        """Write a Markdown file: the text of an artifact unchanged, other texts sanitised.

        Args:
            path: Path of the file, or of a folder, in which the file is named after its content; None for the working
                directory.
            overwrite: Replace an existing file.

        Returns:
            Path of the file.

        Errors: `UsageError` if the file exists or cannot be written; `NotFound` for a deleted conversation.
        """
        return self._write("md", path, overwrite=overwrite)

    def to_html(self, path: AnyPath | None = None, *, overwrite: bool = False) -> Path:
        """Write an HTML page that needs no network; arguments and errors as for `to_markdown`."""
        return self._write("html", path, overwrite=overwrite)

    def to_docx(self, path: AnyPath | None = None, *, overwrite: bool = False) -> Path:
        """Write a Word document (needs `artifactflow-nb[docx]`); arguments and errors as for `to_markdown`."""
        return self._write("docx", path, overwrite=overwrite)

    def to_ipynb(self, path: AnyPath | None = None, *, overwrite: bool = False) -> Path:
        """Write a notebook with a cell per chapter, question or block; arguments and errors as for `to_markdown`."""
        return self._write("ipynb", path, overwrite=overwrite)
