"""The tool calls that carry out a person's request for a document.

A request has one of the forms in `forms.py`; the names in it are those of the project's blocks and phases.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.core.document.project import GENERATE_TOOL, MODIFY_TOOL, RESEARCH_TOOL, Phase, ProjectInfo
from artifactflow_nb.core.document.tree import Block, BlockTree
from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.core.text.chinese import is_chinese
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.offline.forms import find_edits, match_forms
from artifactflow_nb.models.offline.questions import CONSUMER, GENERAL, research_kind

ARRANGE_TOOL, ADVANCE_TOOL, READ_TOOL = "manage_architecture", "advance_to_phase", "read_field"

Names = Mapping[str, str]
"""The named groups of a form."""

_MAX_CHARS, _MAX_EDIT_CHARS = 500, 4000  # of a message; an edit request that quotes text may be longer
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
_AROUND_NAME = re.compile(
    rf"^(?:the|a|an|called|named)\s+|^{_KIND}\s+|^{_KIND_ZH}(?=.)|\s+{_KIND}$|(?:这|這)?一?[个個]?{_KIND_ZH}$",
    re.IGNORECASE,
)
_AROUND_EDITED_NAME = re.compile(r"^(?:in|from|of|at)\s+|^[在从從]|(?:里面?|裡面?|中|的)$", re.IGNORECASE)
_AND = re.compile(r"\s*(?:[,，]\s*and\b|[,，、]|\band\b|和|与|與|以及)\s*", re.IGNORECASE)
_BREAK = re.compile(rf"[\s,，{_MARKS}]")
_WHERE_TO = re.compile(r"[,;]? (?:for|into|in|to) (?P<kind>(?:the )?(?:block|section|chapter) )?", re.IGNORECASE)
_NO_SUBJECT = re.compile(r"(?:it|this|that|them|these|those|more)|(?:它|这|這|这个|這個|那个|那個)", re.IGNORECASE)
_GROUPS = {"group", "组", "組", "分组", "分組"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the person.

    Attributes:
        calls: The calls that carry it out, in order.
        is_about_state: Whether the person asks for the state of the project.
        problem: The reason why it cannot be carried out; empty if it can.
    """

    calls: tuple[ToolCall, ...] = ()
    is_about_state: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ProjectView:
    """A project and its blocks, found by the names in a request."""

    info: ProjectInfo
    tree: BlockTree

    def phase(self, name: str) -> Phase | None:
        """Return the phase of this name, in any language; None if there is none."""
        known = {key.casefold(): phase for phase in self.info.phases for key in (phase.zh, phase.en, phase.name)}
        return known.get(name.casefold())

    def find(self, name: str) -> Block:
        """Return the block of this name, which may be within other words; `UsageError` for none, and for several."""
        for candidate in (_bare(name), _plain(name)):
            with suppress(UsageError):
                return self.tree.find(candidate)
        return self.tree.find(_plain(name) or name)

    def has(self, name: str) -> bool:
        """Return whether a name is that of one block."""
        try:
            self.find(name)
        except UsageError:
            return False
        return True

    def path(self, name: str) -> str:
        """Return the path of the block of this name."""
        return self.tree.path(self.find(name).block_id)

    def is_stale(self, block: Block) -> bool:
        """Return whether a dependency of a text changed after the text was written."""
        return block.block_id in self.tree.stale

    def is_open(self, block: Block) -> bool:
        """Return whether a text is empty or stale."""
        return not block.is_group and (block.status == "empty" or self.is_stale(block))

    def needs_research(self, block: Block) -> bool:
        """Return whether an empty text must be researched: its phase demands it, and no dependency was researched."""
        phases = self.info.research_phases
        if block.is_group or block.status != "empty" or block.phase not in phases:
            return False
        needs = (self.tree.get(key) for key in self.tree.dependencies(block.block_id))
        return not any(need and need.phase in phases and need.status != "empty" for need in needs)


def read_request(message: str, view: ProjectView) -> Request | None:
    """Parse a request; None if a message matches no form."""
    edits = find_edits(message if len(message) <= _MAX_EDIT_CHARS else "")
    edited_name = _AROUND_EDITED_NAME.sub("", edits.rest)
    if edits.edits and edited_name and view.has(edited_name):
        return _call(MODIFY_TOOL, field_name=view.path(edited_name), modification_instruction=edits.wish)
    words = " ".join(message.split()).strip(_ENDS)
    if not words or len(words) > _MAX_CHARS:
        return None
    while (shorter := _COURTESY.sub("", words).strip(_ENDS)) != words:
        words = shorter
    refused: Request | None = None
    for form, names in match_forms(words):
        try:
            if (request := _MEANINGS[form](view, names)) is not None:
                return request
        except UsageError as error:  # an unknown name; another form may fit better
            refused = refused or Request(problem=str(error))
    return refused


# --- names -----------------------------------------------------------------------------------------------------------


def _bare(name: str) -> str:
    return name.strip(f"{_MARKS}{_ENDS}@:：")


def _plain(name: str) -> str:
    """Remove an article and the word `block` from a name."""
    while (shorter := _AROUND_NAME.sub("", name.strip())) != name:
        name = shorter
    return _bare(name)


# --- meanings --------------------------------------------------------------------------------------------------------


def _call(tool: str, **params: Any) -> Request:
    return Request((ToolCall(tool, params),))


def _advance(view: ProjectView, names: Names) -> Request | None:
    """Create the call that changes to the named phase, by default to the next one."""
    if "phase" not in names:
        return _call(ADVANCE_TOOL)
    phase = view.phase(_bare(names["phase"]))
    return None if phase is None else _call(ADVANCE_TOOL, target_phase=phase.name)


def _write(view: ProjectView, names: Names) -> Request:
    """Create the calls that write blocks: one name or several, and the words after them as the style."""
    text, style = names["name"], ""
    written, parts = [text], _AND.split(text)
    if not view.has(text) and len(parts) > 1 and all(map(view.has, parts)):
        written = parts
    elif not view.has(text):
        known = {name.casefold() for block in view.tree for name in (block.name, view.tree.path(block.block_id))}
        for at in reversed([match.start() for match in _BREAK.finditer(text)]):
            rest = text[at:].strip(f"{_MARKS}{_ENDS}")
            if known & {_bare(text[:at]).casefold(), _plain(text[:at]).casefold()} and not _AND.match(rest):
                written, style = [text[:at]], rest
                break
    keys = dict.fromkeys(key for name in written for key in view.tree.text_ids(view.find(name).block_id))
    return _write_blocks(view, [view.tree[key] for key in keys], names.get("style", style))


def _write_blocks(view: ProjectView, blocks: list[Block], style: str = "") -> Request:
    hint = {"style_hint": style} if style else {}
    return Request(
        tuple(
            _research_block(view, block, style)
            if view.needs_research(block)
            else ToolCall(GENERATE_TOOL, {"field_name": view.tree.path(block.block_id), **hint})
            for block in blocks
        )
    )


def _research_block(view: ProjectView, block: Block, style: str = "") -> ToolCall:
    """Create the call that researches a block by its prompt, or by its name if it has none."""
    kind = CONSUMER if CONSUMER in {research_kind(block.name), research_kind(block.prompt)} else GENERAL
    query = "\n\n".join(filter(None, [block.prompt.strip() or block.name, style]))
    path = view.tree.path(block.block_id)
    return ToolCall(RESEARCH_TOOL, {"query": query, "research_type": kind, "field_name": path})


def _research(view: ProjectView, names: Names) -> Request | None:
    """Create the research call for a block that is named before or after the query; the default query is its prompt."""
    query, target = names.get("query", f"{names.get('consumer', '')} of this document"), names.get("name", "")
    if target and "kind" not in names and not view.has(target):
        return None
    if not target:
        for match in _WHERE_TO.finditer(query):
            name = query[match.end() :]
            if match["kind"] or view.has(name):
                query, target = query[: match.start()], name
                break
    where = {"field_name": view.path(target)} if target else {}
    if not target and view.has(query):
        return Request((_research_block(view, view.find(query)),))
    query = query.strip(_ENDS.replace("?", "").replace("？", ""))
    if len(query) > 1 and query[0] in _MARKS and query[-1] in _MARKS and query[0] not in query[1:-1]:
        query = query[1:-1].strip()
    if not query or _NO_SUBJECT.fullmatch(query):
        return None
    question = query if is_chinese(query) else query[0].upper() + query[1:]
    kind = CONSUMER if "consumer" in names else research_kind(question)
    return _call(RESEARCH_TOOL, query=question, research_type=kind, **where)


def _add(view: ProjectView, names: Names) -> Request | None:
    """Create the call that adds a block, if the words `block` or `called` or quotation marks announce its name."""
    name, kind, parent = names["name"], names.get("kind", ""), names.get("parent", "")
    is_announced = bool(kind) or "called" in names or name[0] in _MARKS
    if not is_announced or any(mark in _bare(name) for mark in _MARKS):
        return None
    place: dict[str, Any] = {"is_group": True} if kind.lower() in _GROUPS else {}
    if phase := view.phase(_bare(parent)):
        place["phase"] = phase.name
    elif parent:
        place["parent_name"] = view.path(parent)
    return _arrange("add", _bare(name), **place)


def _arrange(action: str, name: str, **params: Any) -> Request:
    return _call(ARRANGE_TOOL, action=action, block_name=name, **params)


_MEANINGS: Mapping[str, Callable[[ProjectView, Names], Request | None]] = {
    "state": lambda _view, _names: Request(is_about_state=True),
    "advance": _advance,
    "show": lambda view, names: _call(READ_TOOL, field_name=view.path(names["name"])),
    "write_open": lambda view, _names: _write_blocks(view, list(filter(view.is_open, view.tree))),
    "write_stale": lambda view, _names: _write_blocks(view, list(filter(view.is_stale, view.tree))),
    "write": _write,
    "research_open": lambda view, _names: _write_blocks(view, list(filter(view.needs_research, view.tree))),
    "research": _research,
    "rename": lambda view, names: _arrange("rename", view.path(names["name"]), new_name=_bare(names["new"])),
    "remove": lambda view, names: _arrange("remove", view.path(names["name"])),
    "add": _add,
}
