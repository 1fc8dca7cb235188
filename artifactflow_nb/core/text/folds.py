"""Folds in Markdown: `<details>` with a `<summary>`, whose content is Markdown; attributes of the tags are dropped."""

import re

from markdown_it.rules_block import StateBlock

_SUMMARY = r"<summary\b[^<>]*>"
_FENCED = r"^[ \t]*(?P<fence>`{3,}|~{3,})[^`\n]*\n.*?(?:^[ \t]*(?P=fence)|\Z)"
_TAGS = re.compile(rf"{_FENCED}|`[^`\n]*`|<(?P<end>/?)details\b[^<>]*>", re.IGNORECASE | re.DOTALL | re.MULTILINE)
"""Code, which is skipped, or a tag of a fold."""
_START = re.compile(rf"<details\b[^<>]*>(?:\s*{_SUMMARY}(.*?)(?:</summary\s*>|\Z))?", re.IGNORECASE | re.DOTALL)
_HEAD = re.compile(rf"<details\b[^<>]*>(?:\s*{_SUMMARY}[^<>\n]{{0,200}}</summary>)?", re.IGNORECASE)
_INNER_TAG = re.compile(r"</?[a-z]\w*>", re.IGNORECASE)


def starts_fold(line: str) -> bool:
    """Return whether a line begins a fold."""
    return _HEAD.match(line) is not None


def depth_after(depth: int, line: str) -> int:
    """Return how many folds are open after a line outside fenced code."""
    for tag in _TAGS.finditer(line):
        depth += 0 if tag["end"] is None else -1 if tag["end"] else 1
    return depth


def repeated_head(fold: str, depth: int) -> str:
    """Return the tags that open a split fold again, with its summary."""
    opening = _HEAD.match(fold)
    return f"{opening[0] if opening else ''}\n{'<details>' * (depth - 1)}\n"


def fold_rule(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Block rule of markdown-it: parse a fold up to its closing tag, or to the end of the text."""
    begin, end_of_text = state.bMarks[first] + state.tShift[first], state.eMarks[end - 1]
    start = _START.match(state.src, begin, end_of_text)
    if start is None or silent:
        return start is not None
    depth, close, after = 1, end_of_text, end_of_text
    for tag in _TAGS.finditer(state.src, start.end(), end_of_text):
        depth += 0 if tag["end"] is None else -1 if tag["end"] else 1
        if not depth:
            close, after = tag.span()
            break
    state.push("fold_open", "details", 1)
    if start[1] is not None:
        state.push("summary_open", "summary", 1)
        summary = state.push("inline", "", 0)
        summary.content, summary.children, summary.map = _INNER_TAG.sub("", start[1]).strip(), [], [first, first + 1]
        state.push("summary_close", "summary", -1)
    _parse(state, first, start.end(), close)
    state.push("fold_close", "details", -1)
    state.level += 1  # bounds how many folds of one line are parsed within each other
    line = _parse(state, first, after, state.eMarks[_line_of(state, first, after)])
    state.level -= 1
    state.line = line + 1
    return True


def _line_of(state: StateBlock, first: int, position: int) -> int:
    """Return the line of a position; the search begins at a line before the position."""
    while state.eMarks[first] < position:
        first += 1
    return first


def _parse(state: StateBlock, first: int, begin: int, end: int) -> int:
    """Parse the text between two positions, which may lie within lines; return the line of the second position."""
    first = _line_of(state, first, begin)
    last = _line_of(state, first, end)
    outer = state.bMarks[first], state.tShift[first], state.sCount[first], state.eMarks[last]
    if begin > outer[0] + outer[1]:
        state.bMarks[first], state.tShift[first], state.sCount[first] = begin, 0, state.blkIndent
    state.eMarks[last] = end
    state.md.block.tokenize(state, first, last + 1)
    state.bMarks[first], state.tShift[first], state.sCount[first], state.eMarks[last] = outer
    return last
