"""Markdown and plain text as sections."""

from collections.abc import Iterator
from pathlib import PurePath

from artifactflow_nb.formats.parts import Anchors, Extracted, Part, name_of, slug
from artifactflow_nb.text.blocks import Block, blocks, is_numbered

_PART_CHARS = 1200  # characters of a section of a plain text without headings


def by_headings(text: str, path: PurePath) -> Extracted:
    """A section for each heading, from its line up to the next heading; text before the first one is `start`."""
    heads = [block for block in blocks(text) if block.kind == "heading"]
    title = _document_title(path, text, heads)
    anchors = Anchors()
    parts = []
    for head, start, end in _stretches(text, heads):
        if text[head.end if head else start : end].strip():
            words = head.title if head else title
            parts.append(Part(anchors.unused(slug(words) if head else "start"), words, text[start:end].strip("\n")))
    return Extracted(title, tuple(parts))


def _document_title(path: PurePath, text: str, heads: list[Block]) -> str:
    if heads and not text[: heads[0].start].strip() and not is_numbered(heads[0].title):
        return heads[0].title
    return name_of(path)


def _stretches(text: str, heads: list[Block]) -> Iterator[tuple[Block | None, int, int]]:
    stops = [*(head.start for head in heads), len(text)]
    if text[: stops[0]].strip():
        yield None, 0, stops[0]
    for head, stop in zip(heads, stops[1:], strict=True):
        yield head, head.start, stop


def plain(text: str, path: PurePath) -> Extracted:
    """A plain text: by its underlined headings if it has any, else in parts of some 1,200 characters at paragraphs."""
    found = blocks(text)
    if any(block.kind == "heading" for block in found):
        return by_headings(text, path)
    return Extracted(name_of(path), tuple(_in_parts(text, name_of(path), found)))


def in_parts(text: str, path: PurePath) -> Extracted:
    """A text whose lines are no headings, whatever they look like: in parts of some 1,200 characters."""
    return Extracted(name_of(path), tuple(_in_parts(text, name_of(path), blocks(text))))


def _in_parts(text: str, title: str, found: list[Block]) -> Iterator[Part]:
    groups: list[list[Block]] = []
    for block in found:
        if groups and block.end - groups[-1][0].start <= _PART_CHARS:
            groups[-1].append(block)
        else:
            groups.append([block])
    for n, group in enumerate(groups, 1):
        yield Part(f"part-{n}", title, text[group[0].start : group[-1].end].strip("\n"))
