"""The blocks of a project: a tree of texts that rest on each other, and the rules that hold in it.

::

    Report (group) ── Method ─────┐ depends on
                   ├─ Analysis <──┘ <──┐
                   └─ Summary <────────┘        Method changes: Analysis is stale, and so is Summary

Values only. A block is an artifact: its text and name are the artifact's, the rest is what a version of it notes beside
them. Whether a block is stale is nowhere noted: it follows from what it was written from and what is there now.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal, Self

import orjson

from artifactflow_nb.block_names import composed, folded
from artifactflow_nb.block_needs import Needs
from artifactflow_nb.errors import UsageError

BlockStatus = Literal["empty", "draft", "in_progress", "completed"]
STATUSES: tuple[BlockStatus, ...] = ("empty", "draft", "in_progress", "completed")

SEPARATOR = " / "
"""Between the names of a path."""

_NOTED: Mapping[str, type | tuple[type, ...]] = {
    "phase": str,
    "parent": str,
    "order": (int, float),
    "depends_on": list,
    "status": str,
    "need_review": bool,
    "auto_generate": bool,
    "is_group": bool,
    "prompt": str,
    "writer": str,
    "basis": dict,
}
"""What a version notes of a block, and of what kind it is in JSON."""

_DELETED_WITH = "deleted_with"
"""What one that was deleted with its group notes besides."""

_FIRST_WORD = re.compile(r"[^\s#>*-]")
_AROUND_SLASH = re.compile(r"\s*/\s*")


@dataclass(frozen=True, slots=True)
class Block:
    """A block as it stands.

    Attributes:
        block_id: Its id, which is that of its artifact and stays as it is, whatever the block is called.
        name: Its name; no two blocks in the same place have the same.
        phase: The phase of the project that it belongs to; that of its group, if it is in one.
        parent: The id of the group that it is in; empty at the top.
        order: Where it stands among those in the same place; the lowest first.
        depends_on: The ids of the blocks that it rests on; a group stands for all that is in it.
        status: `empty` without a text; then `draft`, `in_progress` or `completed`.
        need_review: Whether a person has to approve it before others are written from it.
        auto_generate: Whether it is written by itself once what it depends on is ready.
        prompt: What it shall say, for whoever writes it.
        is_group: Whether it only holds others, and has no text of its own.
        content: Its text.
        sha256: The hash of the text; empty without one.
        writer: Who wrote the text; empty without one.
        basis: The hashes of the texts that it was written from, by their blocks' ids.
        version: The number of its present version; 0 for one that is not stored yet.
        created_by: Who wrote that version.
        is_deleted: Whether it was deleted; its versions are kept.
        deleted_with: The id of the group with which it was deleted; empty if it was on its own.
    """

    block_id: str
    name: str
    phase: str
    parent: str = ""
    order: float = 0.0
    depends_on: tuple[str, ...] = ()
    status: BlockStatus = "empty"
    need_review: bool = False
    auto_generate: bool = False
    prompt: str = ""
    is_group: bool = False
    content: str = ""
    sha256: str = ""
    writer: str = ""
    basis: Mapping[str, str] = field(default_factory=dict)
    version: int = 0
    created_by: str = ""
    is_deleted: bool = False
    deleted_with: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether others can be written from it: it has a text that waits for no review."""
        return bool(self.sha256) and (self.status == "completed" or not self.need_review)

    def first_line(self, most: int) -> str:
        """The first line of the text that says something, without the marks before it; at most so many characters.

        A long paragraph is not read to its end for that.
        """
        found = _FIRST_WORD.search(self.content)
        return "" if found is None else self.content[found.start() : found.start() + most].splitlines()[0].rstrip()

    @property
    def noted(self) -> str:
        """What a version of its artifact notes of it, as JSON."""
        held = {name: getattr(self, name) for name in _NOTED} | {"basis": dict(self.basis)}
        if self.is_deleted and self.deleted_with:
            held[_DELETED_WITH] = self.deleted_with
        return orjson.dumps(held, option=orjson.OPT_SORT_KEYS).decode()

    def place(self) -> "Self":
        """The block without what its text says: two versions of the same place are equal."""
        return replace(self, content="", sha256="", writer="", basis={}, version=0, created_by="", status="empty")


def block_of(
    artifact_id: str,
    title: str,
    content: str,
    noted: str,
    sha256: str = "",
    version: int = 0,
    created_by: str = "",
    *,
    is_deleted: bool = False,
) -> Block:
    """The block that a version of an artifact is."""
    held: dict[str, Any] = orjson.loads(noted)
    return Block(  # by their places: a prompt has hundreds of blocks made, and names cost as much again
        artifact_id,
        title,
        held["phase"],
        held["parent"],
        held["order"],
        tuple(held["depends_on"]),
        held["status"],
        held["need_review"],
        held["auto_generate"],
        held["prompt"],
        held["is_group"],
        content,
        sha256,
        held["writer"],
        held["basis"],
        version,
        created_by,
        is_deleted,
        held.get(_DELETED_WITH, ""),
    )


def check_noted(noted: str) -> None:
    """Raise `ValueError` unless a text is what a version of a block can note."""
    held = orjson.loads(noted)
    if not isinstance(held, dict) or set(held) - {_DELETED_WITH} != set(_NOTED):
        raise ValueError(f"it does not note what a block does: {', '.join(_NOTED)}")
    for name, kind in _NOTED.items():
        if not isinstance(held[name], kind) or (kind == (int, float) and isinstance(held[name], bool)):
            raise ValueError(f"{name} is {held[name]!r:.80}")
    texts = [*held["depends_on"], *held["basis"].values(), held.get(_DELETED_WITH, "")]
    if held["status"] not in STATUSES or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"a block cannot have the status {held['status']!r:.80}, or rest on what is no id")


def text_hash(content: str) -> str:
    """The hash of a text; empty for one that says nothing."""
    return hashlib.sha256(content.encode()).hexdigest() if content.strip() else ""


def with_even_slashes(path: str) -> str:
    """A path of names, or a text that holds some, with a space at each side of a slash, as paths are told."""
    return _AROUND_SLASH.sub(SEPARATOR, composed(path))


class BlockTree:
    """The blocks of a project, in the order of the document.

    Each is there once, whatever the blocks say: where branches of the conversation were changed apart, a group may come
    to be in itself, which then stands at the top, and blocks to rest on themselves, which then are stale.

    Args:
        blocks: The blocks, in any order; deleted ones are kept apart.
        phases: The names of the project's phases, in order.
        taken: The ids of the artifacts beside them.
        mask: Takes secrets out of a name before an id is made of it: an id stands where nothing is masked.

    Attributes:
        mask: The same.
        phases: The names of the phases.
        taken: The ids that no further block can have.
        deleted: The blocks that were deleted, by id.
    """

    def __init__(
        self,
        blocks: Iterable[Block],
        phases: Sequence[str],
        taken: Iterable[str] = (),
        mask: Callable[[str], str] = str,
    ) -> None:
        self.mask = mask
        found = {block.block_id: block for block in blocks}
        self.phases = tuple(phases)
        self.taken = frozenset({*taken, *found})
        self.deleted = {key: block for key, block in found.items() if block.is_deleted}
        self._by_id = {key: block for key, block in found.items() if not block.is_deleted}
        self._below: dict[str, list[Block]] = {}
        rank = {phase: n for n, phase in enumerate(self.phases)}
        for block in sorted(self._by_id.values(), key=lambda b: (rank.get(b.phase, len(rank)), b.order, b.block_id)):
            self._below.setdefault(block.parent if block.parent in self._by_id else "", []).append(block)
        self._ordered = {block.block_id: block for block in self._walk("")}
        while lost := next((block for key, block in self._by_id.items() if key not in self._ordered), None):
            self._put_at_top(lost)

    def _put_at_top(self, block: Block) -> None:
        """Take a block out of the group that it is in, at whatever depth, and that is in it."""
        top = replace(block, parent="")
        self._below[block.parent].remove(block)
        self._below.setdefault("", []).append(top)
        self._by_id[block.block_id] = top
        self._ordered = {one.block_id: one for one in self._walk("")}

    def _walk(self, top: str) -> Iterator[Block]:
        left = list(reversed(self._below.get(top, ())))
        while left:
            block = left.pop()
            yield block
            left.extend(reversed(self._below.get(block.block_id, ())))

    def __iter__(self) -> Iterator[Block]:
        return iter(self._ordered.values())

    def __len__(self) -> int:
        return len(self._ordered)

    def __contains__(self, block_id: object) -> bool:
        return block_id in self._ordered

    def __getitem__(self, block_id: str) -> Block:
        return self._ordered[block_id]

    def get(self, block_id: str) -> Block | None:
        """The block of an id; None if there is none."""
        return self._ordered.get(block_id)

    # --- places ------------------------------------------------------------------------------------------------------

    def children(self, block_id: str = "") -> tuple[Block, ...]:
        """The blocks in a group, in order; those at the top for an empty id."""
        return tuple(self._below.get(block_id, ()))

    def below(self, block_id: str) -> tuple[Block, ...]:
        """All blocks in a group, and in the groups in it, in order."""
        return tuple(self._walk(block_id))

    def path(self, block_id: str) -> str:
        """The names from the top to a block."""
        names, block = [], self._ordered.get(block_id)
        while block is not None:
            names.append(block.name)
            block = self._ordered.get(block.parent)
        return SEPARATOR.join(reversed(names))

    def of_phase(self, phase: str) -> tuple[Block, ...]:
        """The blocks of a phase, in order."""
        return tuple(block for block in self if block.phase == phase)

    def find(self, name: str) -> Block:
        """The block that is meant by a name, a path of names (`Report / Method`) or an id.

        Errors: `UsageError` for none, with the nearest names, and for more than one, with their paths.
        """
        wanted = with_even_slashes(str(name).strip().removeprefix("@"))
        like, paths = folded(wanted), {key: self.path(key) for key in self._ordered}
        for found in (
            [key for key, path in paths.items() if path == wanted],
            [block.block_id for block in self if block.name == wanted],
            [key for key in self._ordered if key == wanted],
            [key for key, path in paths.items() if folded(path) == like],
            [block.block_id for block in self if folded(block.name) == like],
        ):
            if len(found) == 1:
                return self._ordered[found[0]]
            if found:
                listed = ", ".join(repr(paths[key]) for key in found)
                raise UsageError(f"{len(found)} blocks are called {wanted!r}. Say which by its path: {listed}.")
        names = list(dict.fromkeys(block.name for block in self))
        near = get_close_matches(wanted, names, n=5, cutoff=0.5) or names[:20]
        raise UsageError(f"There is no block {wanted!r:.140}. There are: {', '.join(near) or 'none yet'}.")

    # --- what rests on what ------------------------------------------------------------------------------------------

    def texts_in(self, block_id: str) -> tuple[str, ...]:
        """The ids of the texts that a block stands for: its own, or of a group those that are in it."""
        block = self._ordered.get(block_id)
        if block is None or not block.is_group:
            return (block_id,)
        return tuple(one.block_id for one in self.below(block_id) if not one.is_group)

    @cached_property
    def _needs(self) -> Needs:
        groups = {block.block_id: self.texts_in(block.block_id) for block in self if block.is_group}
        found = {block.block_id: block.depends_on for block in self if not block.is_group}
        for key, needs in found.items():
            if not groups.keys().isdisjoint(needs):
                found[key] = tuple(dict.fromkeys(text for need in needs for text in groups.get(need, (need,))))
        return Needs(found)

    def rests_on(self, block_id: str) -> tuple[str, ...]:
        """The ids of the texts that a block is written from; of ids that are gone, too."""
        return self._needs.of.get(block_id, ())

    def dependents(self, block_id: str) -> tuple[Block, ...]:
        """The blocks that rest on a block or on one in it, at first or at second hand, in the order of the document."""
        found = self._needs.rests_on_any(set(self.texts_in(block_id)))
        return tuple(block for block in self if block.block_id in found)

    def basis(self, block_id: str) -> dict[str, str]:
        """The hashes of the texts that a block rests on as they are now; empty for what has no text or is gone."""
        return {key: self._ordered[key].sha256 if key in self._ordered else "" for key in self.rests_on(block_id)}

    @property
    def in_turn(self) -> tuple[str, ...]:
        """The ids of the texts, each after those that it rests on, else in the order of the document.

        Errors: `UsageError` that names a circle.
        """
        if self._needs.in_circles:
            circle = " -> ".join(map(self.name, self._needs.circle()))
            raise UsageError(f"Blocks would rest on themselves: {circle}.")
        return self._needs.in_turn

    @cached_property
    def stale(self) -> Mapping[str, tuple[str, ...]]:
        """The blocks that are stale, by id, each with the names of what is behind it, in the order of `in_turn`.

        A text is stale if a text that it rests on is not the one that it was written from, or is stale itself; also if
        it was written from one that its groups have no longer. One that was brought back to what it was is so no more.
        """
        found: dict[str, tuple[str, ...]] = {}
        rests_on, left = self._needs.of, self._needs.in_circles
        now = {key: block.sha256 for key, block in self._ordered.items()}
        for key in (*self._needs.in_turn, *(key for key in rests_on if key in left)):
            block = self._ordered[key]
            needs, basis = rests_on[key], block.basis
            if not block.sha256 or not (needs or basis):
                continue
            behind = [need for need in needs if need in found or need in left or basis.get(need) != now.get(need, "")]
            no_more = basis.keys() - set(needs)
            behind += [need for need in basis if need in no_more]
            if behind:
                found[key] = tuple(map(self.name, behind))
        return found

    def name(self, block_id: str) -> str:
        """The name of a block, also of a deleted one; its id if there is none."""
        block = self._ordered.get(block_id) or self.deleted.get(block_id)
        return block_id if block is None else block.name

    def status(self, block_id: str) -> BlockStatus:
        """The status of a block; of a group what those in it come to."""
        block = self._ordered[block_id]
        if not block.is_group:
            return block.status
        found = {one.status for one in self.below(block_id) if not one.is_group}
        if len(found) == 1:
            return found.pop()
        return "in_progress" if found else "empty"

    # --- what is to be written ---------------------------------------------------------------------------------------

    def waits_for(self, block_id: str) -> tuple[Block, ...]:
        """The blocks that have to be written or reviewed before a block can be written; none if it is ready."""
        needs = (self._ordered.get(key) for key in self.rests_on(block_id))
        return tuple(need for need in needs if need is not None and not need.is_usable)

    def left_open(self, phases: Iterable[str]) -> dict[str, str]:
        """The blocks of these phases that are not done with, by their paths, each with what is missing."""
        found = {}
        for block in (block for phase in phases for block in self.of_phase(phase) if not block.is_group):
            said = [] if block.status == "completed" else [block.status.replace("_", " ")]
            if said := [*said, *(["stale"] if block.block_id in self.stale else [])]:
                found[self.path(block.block_id)] = ", ".join(said)
        return found

    def __repr__(self) -> str:
        return f"BlockTree({len(self)} blocks)"
