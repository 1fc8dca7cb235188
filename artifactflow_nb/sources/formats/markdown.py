"""Markdown, reStructuredText (without docutils) and plain text as sections."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from artifactflow_nb.core.text.format import clip, width
from artifactflow_nb.sources.formats.sections import (
    AnchorAllocator,
    DocumentSection,
    ExtractedDocument,
    slug,
    title_from_path,
)
from artifactflow_nb.sources.retrieval.passages import TextBlock, is_numbered, split_blocks

_TITLE_COLUMNS = 100  # of a manual page
_PART_CHARS = 1200  # characters of a section of a plain text without headings


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a text: the title, and the offsets, which include an underline."""

    start: int
    end: int
    title: str


def split_by_headings(text: str, path: PurePath) -> ExtractedDocument:
    """Return a section for each heading, up to the next heading; the text before the first heading is `start`."""
    blocks = [block for block in split_blocks(text) if block.kind == "heading"]
    headings = [Heading(block.start, block.end, block.title) for block in blocks]
    return split_at(text, headings, path, text[: headings[0].start] if headings else text)


def split_at(text: str, headings: Sequence[Heading], path: PurePath, preamble: str) -> ExtractedDocument:
    """Split a text into a section for a preamble that is not blank, and a section for each heading with text."""
    stops = [*(heading.start for heading in headings), len(text)]
    has_own_title = headings and not preamble.strip() and not is_numbered(headings[0].title)
    title = headings[0].title if has_own_title else title_from_path(path)
    is_manual = bool(headings) and headings[0].title == "NAME"
    if is_manual:  # above the heading of a manual page is a running head, below the heading the subject
        title, preamble = clip(text[headings[0].end : stops[1]], _TITLE_COLUMNS) or title, ""
    sections = [DocumentSection("start", title, preamble.strip("\n"))] if preamble.strip() else []
    anchors = AnchorAllocator({"start"} if sections else set())
    for heading, stop in zip(headings, stops[1:], strict=True):
        section = text[heading.start : stop].strip("\n")
        if text[heading.end : stop].strip():
            # The sections of a manual page are long lists, in which distant words would seem to be together.
            parts = [part.text for part in split_by_length(section, path).sections] if is_manual else [section]
            sections += [DocumentSection(anchors.allocate(slug(heading.title)), heading.title, part) for part in parts]
    return ExtractedDocument(title, tuple(sections))


def split_plain_text(text: str, path: PurePath) -> ExtractedDocument:
    """Split a plain text at underlined headings; split a text without headings by `split_by_length`."""
    blocks = split_blocks(text)
    if any(block.kind == "heading" for block in blocks):
        return split_by_headings(text, path)
    return split_by_length(text, path, blocks)


def split_by_length(text: str, path: PurePath, blocks: Sequence[TextBlock] | None = None) -> ExtractedDocument:
    """Split a text at paragraphs into parts of about 1,200 characters, without looking for headings.

    `path` is for the title; `blocks` are the blocks of the text, or None.
    """
    groups: list[list[TextBlock]] = []
    for block in split_blocks(text) if blocks is None else blocks:
        if groups and block.end - groups[-1][0].start <= _PART_CHARS:
            groups[-1].append(block)
        else:
            groups.append([block])
    title = title_from_path(path)
    parts = (text[group[0].start : group[-1].end].strip("\n") for group in groups)
    return ExtractedDocument(title, tuple(DocumentSection(f"part-{n}", title, part) for n, part in enumerate(parts, 1)))


_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")  # any ASCII punctuation
_EXPLICIT_MARKUP = re.compile(r"(?:\.\.(?:[ \t][^\n]*)?\n(?:[ \t]+[^\n]*\n|[ \t]*\n)*|[ \t]*\n)*")
"""Comments, targets and directives, with their indented lines."""


def split_by_underlines(text: str, path: PurePath) -> ExtractedDocument:
    """Return a section for each underlined heading; comments and directives above the first heading are omitted."""
    headings: list[Heading] = []
    lines = text.splitlines(keepends=True)
    start = 0
    for n, line in enumerate(lines):
        title, end = line.rstrip(), start + len(line)
        above, below = (lines[k].rstrip() if 0 <= k < len(lines) else "" for k in (n - 1, n + 1))
        is_overlined = above == below and bool(_ADORNMENT.fullmatch(below))
        if (
            _ADORNMENT.fullmatch(below)
            and title
            and not _ADORNMENT.fullmatch(title)
            and len(below) + 2 >= width(title)  # underlines may be two short
            and (is_overlined or (not above and not line[0].isspace()))
        ):
            heading_start = start - len(lines[n - 1]) if is_overlined else start
            headings.append(Heading(heading_start, end + len(lines[n + 1]), title.strip()))
        start = end
    preamble = text[: headings[0].start] if headings else text
    return split_at(text, headings, path, "" if _EXPLICIT_MARKUP.fullmatch(preamble) else preamble)
