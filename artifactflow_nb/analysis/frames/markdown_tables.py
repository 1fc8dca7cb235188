"""The tables of a Markdown text as frames."""

from itertools import pairwise

import pandas as pd
from markdown_it import MarkdownIt

TableFrames = list[pd.DataFrame]


def markdown_tables(text: str) -> TableFrames:
    """Return the tables of a text, in order; columns that contain only numbers are numeric."""
    tables: list[list[list[str]]] = []
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for before, token in pairwise(tokens):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif before.type in {"th_open", "td_open"}:
            tables[-1][-1].append("".join(child.content for child in token.children or ()).strip())
    frames = []
    for head, *rows in tables:
        frame = pd.DataFrame(rows, columns=head)
        for position in range(len(head)):
            numbers = pd.to_numeric(frame.iloc[:, position].str.replace(",", ""), errors="coerce")
            if len(frame) and numbers.notna().all():
                frame.isetitem(position, numbers.to_numpy())
        frames.append(frame)
    return frames
