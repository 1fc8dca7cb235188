"""What a person asks of a document in plain words, and the calls that do it.

Which blocks and phases there are, the index tells. What fits no form is nothing that could be done without a language
model.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.blocks import Block
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.offline_audience import CONSUMER, kind_of
from artifactflow_nb.models.offline_block_read import Index
from artifactflow_nb.models.offline_edits import edits_in
from artifactflow_nb.models.offline_forms import read_forms
from artifactflow_nb.projects import GENERATE, MODIFY, RUN_RESEARCH
from artifactflow_nb.text.chinese import is_chinese

ARRANGE, ADVANCE, READ = "manage_architecture", "advance_to_phase", "read_field"

Named = Mapping[str, str]

_MOST_CHARS, _MOST_EDITED = 500, 4000  # of a message; one that quotes what is to be edited may be longer
_ENDS = " \t.!。！?？,，"
_MARKS = "“”\"'`‘’「」『』«»"
_COURTESY = re.compile(
    r"^(?:please|now|then|ok(?:ay)?|could you|can you|would you|will you|i want you to|let us|let's|let’s)[\s,]+"
    r"|^(?:请你?|請你?|帮我|幫我|麻烦你?|麻煩你?|现在|現在|让?我们|讓?我們)[\s，]*(?=.)"
    r"|[\s,]+(?:please|now|for me|thanks|thank you)$|(?:一下|吧|谢谢|謝謝|好吗|好嗎)$",
    re.IGNORECASE,
)
_KIND = "(?:block|group|section|chapter|part)"
_KIND_ZH = "(?:内容块|內容塊|区块|區塊|块|塊|分组|分組|组|組|章节|章節|部分)"
_AROUND = re.compile(
    rf"^(?:the|a|an|called|named)\s+|^{_KIND}\s+|^{_KIND_ZH}(?=.)|\s+{_KIND}$|(?:这|這)?一?[个個]?{_KIND_ZH}$",
    re.IGNORECASE,
)
_AND = re.compile(r"\s*(?:[,，]\s*and\b|[,，、]|\band\b|和|与|與|以及)\s*", re.IGNORECASE)
_BREAK = re.compile(rf"[\s,，{_MARKS}]")
_WHERE_TO = re.compile(r"[,;]? (?:for|into|in|to) (?P<kind>(?:the )?(?:block|section|chapter) )?", re.IGNORECASE)
_NOTHING = re.compile(r"(?:it|this|that|them|these|those|more)|(?:它|这|這|这个|這個|那个|那個)", re.IGNORECASE)
_GROUPS = {"group", "组", "組", "分组", "分組"}


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked.

    Attributes:
        calls: The calls that do it, in order: each a tool with its parameters. Research without a query is for what a
            block shall say.
        is_state: Whether it is asked how the project stands; the index is the answer then.
        problem: Why it cannot be done; empty if it can.
    """

    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    is_state: bool = False
    problem: str = ""


def wish_of(message: str, index: Index) -> Wish | None:
    """What a message asks for; None if that is not plain."""
    if len(message) <= _MOST_EDITED and (edit := _edit(message, index)) is not None:
        return edit
    said = " ".join(message.split()).strip(_ENDS)
    if not said or len(said) > _MOST_CHARS:
        return None
    while (shorter := _COURTESY.sub("", said).strip(_ENDS)) != said:
        said = shorter
    found = list(_wishes(said, index))
    return next((wish for wish in found if not wish.problem), found[0] if found else None)


def _wishes(said: str, index: Index) -> Iterator[Wish]:
    """What it may mean; a meaning that names what is not there has a problem."""
    for asked, named in read_forms(said):
        try:
            if (wish := _MEANINGS[asked](index, named)) is not None:
                yield wish
        except UsageError as error:
            yield Wish(problem=str(error))


# --- names -----------------------------------------------------------------------------------------------------------


def _bare(said: str) -> str:
    return said.strip(f"{_MARKS}{_ENDS}@:：")


def _plain(said: str) -> str:
    """A name without an article and words for what it names."""
    while (shorter := _AROUND.sub("", said.strip())) != said:
        said = shorter
    return _bare(said)


def _block(index: Index, said: str) -> Block:
    """The block that is meant; `UsageError` if none is, or more than one."""
    for name in (_bare(said), _plain(said)):
        with suppress(UsageError):
            return index.tree.find(name)
    return index.tree.find(_plain(said) or said)


def _is_block(index: Index, said: str) -> bool:
    try:
        _block(index, said)
    except UsageError:
        return False
    return True


def _path(index: Index, said: str) -> str:
    return index.tree.path(_block(index, said).block_id)


def _named(index: Index, said: str) -> tuple[list[str], str]:
    """The names that are said, of one block or several, and what is said behind them."""
    if _is_block(index, said):
        return [said], ""
    parts = _AND.split(said)
    if len(parts) > 1 and all(_is_block(index, part) for part in parts):
        return parts, ""
    known = {name.casefold() for block in index.tree for name in (block.name, index.tree.path(block.block_id))}
    for at in reversed([found.start() for found in _BREAK.finditer(said)]):
        rest = said[at:].strip(f"{_MARKS}{_ENDS}")
        names = {_bare(said[:at]).casefold(), _plain(said[:at]).casefold()}
        if names & known and not _AND.match(rest):
            return [said[:at]], rest
    return [said], ""


# --- meanings --------------------------------------------------------------------------------------------------------


def _edit(said: str, index: Index) -> Wish | None:
    """Edits word by word of a block that is named besides."""
    asked = edits_in(said)
    name = re.sub(r"^(?:in|from|of|at)\s+|^[在从從]|(?:里面?|裡面?|中|的)$", "", asked.rest, flags=re.IGNORECASE)
    if not asked.edits or not name or not _is_block(index, name):
        return None
    wanted = {"field_name": _path(index, name), "modification_instruction": asked.wish}
    return Wish(((MODIFY, wanted),))


def _state(index: Index, named: Named) -> Wish:
    del index, named
    return Wish(is_state=True)


def _advance(index: Index, named: Named) -> Wish | None:
    if "phase" not in named:
        return Wish(((ADVANCE, {}),))
    phase = index.phase(_bare(named["phase"]))
    return None if phase is None else Wish(((ADVANCE, {"target_phase": phase.name}),))


def _show(index: Index, named: Named) -> Wish:
    return Wish(((READ, {"field_name": _path(index, named["name"])}),))


def _write_open(index: Index, named: Named) -> Wish:
    del named
    return _written(index, [block for block in index.tree if index.is_open(block)])


def _write_stale(index: Index, named: Named) -> Wish:
    del named
    return _written(index, [block for block in index.tree if index.is_stale(block)])


def _write(index: Index, named: Named) -> Wish:
    names, style = _named(index, named["name"])
    keys = (key for name in names for key in index.tree.texts_in(_block(index, name).block_id))
    return _written(index, [index.tree[key] for key in dict.fromkeys(keys)], named.get("style", style))


def _written(index: Index, blocks: list[Block], style: str = "") -> Wish:
    how = {"style_hint": style} if style else {}
    return Wish(tuple((GENERATE, {"field_name": index.tree.path(block.block_id), **how}) for block in blocks))


def _research_open(index: Index, named: Named) -> Wish:
    del named
    return _written(index, [block for block in index.tree if index.is_to_research(block)])


def _research(index: Index, named: Named) -> Wish | None:
    """Something researched; into a block that is named behind it or in front, or for one by its own prompt."""
    query = named.get("query", f"{named.get('consumer', '')} of this document")
    query, into = (query, named["name"]) if "name" in named else _into(index, query)
    if "name" in named and "kind" not in named and not _is_block(index, into):
        return None
    where = {"field_name": _path(index, into)} if into else {}
    if not into and _is_block(index, query):
        return Wish(((RUN_RESEARCH, {"field_name": _path(index, query)}),))
    asked = _asked(query)
    if not asked or _NOTHING.fullmatch(asked):
        return None
    kind = CONSUMER if "consumer" in named else kind_of(asked)
    return Wish(((RUN_RESEARCH, {"query": asked, "research_type": kind, **where}),))


def _into(index: Index, said: str) -> tuple[str, str]:
    """What is to be researched, and the path of the block that is named behind it; `UsageError` if that is none."""
    for found in _WHERE_TO.finditer(said):
        name = said[found.end() :]
        if found["kind"] or _is_block(index, name):
            return said[: found.start()], _path(index, name)
    return said, ""


def _asked(said: str) -> str:
    """A query as a sentence begins, without the quotation marks around the whole of it."""
    said = said.strip(_ENDS.replace("?", "").replace("？", ""))
    if len(said) > 1 and said[0] in _MARKS and said[-1] in _MARKS and said[0] not in said[1:-1]:
        said = said[1:-1].strip()
    return said if is_chinese(said) else said[:1].upper() + said[1:]


def _rename(index: Index, named: Named) -> Wish:
    return _arranged("rename", _path(index, named["name"]), new_name=_bare(named["new"]))


def _remove(index: Index, named: Named) -> Wish:
    return _arranged("remove", _path(index, named["name"]))


def _add(index: Index, named: Named) -> Wish | None:
    """A new block, if the words say that it is one: by its kind, by `called`, or by quotation marks around its name."""
    name, kind, parent = named["name"], named.get("kind", ""), named.get("parent", "")
    is_said = bool(kind) or "called" in named or name[0] in _MARKS
    if not is_said or any(mark in _bare(name) for mark in _MARKS):
        return None
    more: dict[str, Any] = {"is_group": True} if kind.lower() in _GROUPS else {}
    if phase := index.phase(_bare(parent)):
        more["phase"] = phase.name
    elif parent:
        more["parent_name"] = _path(index, parent)
    return _arranged("add", _bare(name), **more)


def _arranged(action: str, name: str, **more: Any) -> Wish:
    return Wish(((ARRANGE, {"action": action, "block_name": name, **more}),))


_MEANINGS: Mapping[str, Callable[[Index, Named], Wish | None]] = {
    "state": _state,
    "advance": _advance,
    "show": _show,
    "write_open": _write_open,
    "write_stale": _write_stale,
    "write": _write,
    "research_open": _research_open,
    "research": _research,
    "rename": _rename,
    "remove": _remove,
    "add": _add,
}
