"""Block tree of a project: texts that depend on each other, and the rules of the texts.

::

    Report (group) ── Method ─────┐ depends on
                   ├─ Analysis <──┘ <──┐
                   └─ Summary <────────┘        Method changes: Analysis is stale, and so is Summary

The module has values only. A block is an artifact with name and text; the other fields are in the metadata of the
artifact's versions. Staleness is computed from the hashes of the texts on which a block is based.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from heapq import heapify, heappop, heappush
from types import MappingProxyType
from typing import Any, Literal, Self

import orjson

from artifactflow_nb.core.language import EnglishText
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.errors import UsageError, brief


class DependencyGraph:
    """The ids that each block depends on (even deleted ids), by block id in document order."""

    def __init__(self, dependencies: Mapping[str, tuple[str, ...]]) -> None:
        self.dependencies = dependencies

    @cached_property
    def dependents(self) -> Mapping[str, list[str]]:
        """The direct dependents by id; ids without dependents are missing."""
        dependents: dict[str, list[str]] = {}
        for key, needs in self.dependencies.items():
            for need in needs:
                dependents.setdefault(need, []).append(key)
        return dependents

    def all_dependents(self, keys: set[str]) -> set[str]:
        """Return the ids of all direct and indirect dependents, without `keys`."""
        pending, reached = list(keys), set[str]()
        while pending:
            for key in self.dependents.get(pending.pop(), ()):
                if key not in reached:
                    reached.add(key)
                    pending.append(key)
        return reached - keys

    @cached_property
    def topological_order(self) -> tuple[str, ...]:
        """The ids without `cyclic_ids`, in document order, but each id after its dependencies."""
        keys, seen = tuple(self.dependencies), set[str]()
        for key, needs in self.dependencies.items():
            if any(need not in seen and need in self.dependencies for need in needs):
                break
            seen.add(key)
        else:  # as in most documents
            return keys
        # Kahn's algorithm; the heap keeps independent blocks in document order.
        indices = {key: n for n, key in enumerate(keys)}
        n_missing = [sum(map(indices.__contains__, needs)) for needs in self.dependencies.values()]
        ready = [n for n, missing in enumerate(n_missing) if not missing]
        heapify(ready)
        result: list[str] = []
        while ready:
            result.append(keys[heappop(ready)])
            for dependent in self.dependents.get(result[-1], ()):
                n = indices[dependent]
                n_missing[n] -= 1
                if not n_missing[n]:
                    heappush(ready, n)
        return tuple(result)

    @cached_property
    def cyclic_ids(self) -> frozenset[str]:
        """The ids of the blocks that are in a cycle or depend on a block in a cycle."""
        return frozenset(self.dependencies).difference(self.topological_order)

    def find_cycle(self) -> tuple[str, ...]:
        """Return the ids of a cycle, with the first id repeated at the end; a cycle must exist."""
        path: list[str] = []
        key = next(key for key in self.dependencies if key in self.cyclic_ids)
        while key not in path:
            path.append(key)
            key = next(need for need in self.dependencies[key] if need in self.cyclic_ids)
        return (*path[path.index(key) :], key)


MAX_NAME_CHARS = 120

RESERVED_IDS = frozenset({"project", "task_plan"})
"""Artifact ids with a fixed meaning in every conversation."""

_NO_WORD = re.compile(r"[^\w]+")


def normalize_accents(text: str) -> str:
    """Normalise a text to NFC: one character per accented letter, however the letter was typed."""
    return unicodedata.normalize("NFC", text)


def fold_name(name: str) -> str:
    """Fold a name for comparison: ignore letter case and how accents were typed."""
    return normalize_accents(normalize_accents(name).casefold())


def validate_block_name(name: str) -> str:
    """Normalise a block's name for storage; `UsageError` for an invalid name."""
    stored = " ".join(normalize_accents(storable_text(str(name))).split())
    if not stored or len(stored) > MAX_NAME_CHARS or "/" in stored or stored.startswith("@"):
        raise UsageError(
            f"A block cannot be called {brief(stored)}: a name has 1 to {MAX_NAME_CHARS} characters, contains no '/' "
            "and does not begin with '@'."
        )
    return stored


def unused_id(name: str, used_ids: Iterable[str]) -> str:
    """Derive an unused artifact id from a block's name."""
    used = RESERVED_IDS.union(used_ids)
    stem = _NO_WORD.sub("_", name.casefold()).strip("_")[:60] or "block"
    candidate, n = stem, 2
    while candidate in used:
        candidate, n = f"{stem}_{n}", n + 1
    return candidate


BlockStatus = Literal["empty", "draft", "in_progress", "completed"]
STATUS_NAMES: Mapping[BlockStatus, EnglishText] = {
    "empty": "empty",
    "draft": "draft",
    "in_progress": "in progress",
    "completed": "completed",
}
BLOCK_STATUSES: tuple[BlockStatus, ...] = tuple(STATUS_NAMES)

PATH_SEPARATOR = " / "
"""Separator between the names of a path."""

_METADATA_TYPES: Mapping[str, type | tuple[type, ...]] = {
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
"""Metadata fields of a block's version and their JSON types."""

_DELETED_WITH = "deleted_with"
"""Additional metadata field of a block that was deleted with its group."""

_FIRST_WORD = re.compile(r"[^\s#>*-]")
_AROUND_SLASH = re.compile(r"\s*/\s*")


@dataclass(frozen=True, slots=True)
class Block:
    """Current state of a block.

    Attributes:
        block_id: Id of the block's artifact; independent of later names.
        name: Name, unique among the siblings.
        phase: Phase of the project; for a block in a group the phase of the group.
        parent: Id of the group; empty at the top level.
        order: Sort key among the siblings.
        depends_on: Ids of the dependencies; a group stands for all blocks in the group.
        status: `empty`, or for a block with a text `draft`, `in_progress` or `completed`.
        need_review: Whether a person must approve the text before other blocks use it.
        auto_generate: Whether the text is written automatically once the dependencies are ready.
        is_group: Whether the block only contains other blocks and has no text.
        sha256: Hash of the text; empty without a text.
        writer: Author of the text; empty without a text.
        basis: Hashes of the texts that the text is based on, by block id.
        version: Number of the current version; 0 before the first store.
        is_deleted: Whether the block was deleted; the versions remain.
        deleted_with: Id of the group with which the block was deleted; may be empty.
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
        """Whether other blocks can use the text: it exists and needs no review."""
        return bool(self.sha256) and (self.status == "completed" or not self.need_review)

    def first_line(self, most: int) -> str:
        """Return the first line with content, without leading Markdown marks, truncated to `most` characters.

        A long paragraph is not scanned to its end.
        """
        match = _FIRST_WORD.search(self.content)
        return "" if match is None else self.content[match.start() : match.start() + most].splitlines()[0].rstrip()

    @property
    def metadata_json(self) -> str:
        """Metadata of the block's artifact version, as JSON."""
        metadata = {name: getattr(self, name) for name in _METADATA_TYPES} | {"basis": dict(self.basis)}
        if self.is_deleted and self.deleted_with:
            metadata[_DELETED_WITH] = self.deleted_with
        return orjson.dumps(metadata, option=orjson.OPT_SORT_KEYS).decode()

    def without_text(self) -> "Self":
        """Copy the block without the fields of the text, to compare the positions and settings of two versions."""
        return replace(self, content="", sha256="", writer="", basis={}, version=0, created_by="", status="empty")


def parse_block(
    artifact_id: str,
    title: str,
    content: str,
    metadata_json: str,
    sha256: str = "",
    version: int = 0,
    created_by: str = "",
    *,
    is_deleted: bool = False,
) -> Block:
    """Create a block from a version of its artifact."""
    metadata: dict[str, Any] = orjson.loads(metadata_json)
    return Block(  # positional: keywords double the cost for hundreds of blocks
        artifact_id,
        title,
        metadata["phase"],
        metadata["parent"],
        metadata["order"],
        tuple(metadata["depends_on"]),
        metadata["status"],
        metadata["need_review"],
        metadata["auto_generate"],
        metadata["prompt"],
        metadata["is_group"],
        content,
        sha256,
        metadata["writer"],
        metadata["basis"],
        version,
        created_by,
        is_deleted,
        metadata.get(_DELETED_WITH, ""),
    )


def check_block_metadata(metadata_json: str) -> None:
    """Raise `ValueError` if a text is not valid block metadata."""
    metadata = orjson.loads(metadata_json)
    if not isinstance(metadata, dict) or set(metadata) - {_DELETED_WITH} != set(_METADATA_TYPES):
        raise ValueError(f"block metadata must have these fields: {', '.join(_METADATA_TYPES)}")
    for name, kind in _METADATA_TYPES.items():
        if not isinstance(metadata[name], kind) or (kind == (int, float) and isinstance(metadata[name], bool)):
            raise ValueError(f"{name} is {metadata[name]!r:.80}, which has the wrong type")
    texts = [*metadata["depends_on"], *metadata["basis"].values(), metadata.get(_DELETED_WITH, "")]
    if metadata["status"] not in BLOCK_STATUSES or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"the status is {metadata['status']!r:.80}, or a dependency is not an id")


def text_hash(content: str) -> str:
    """Return the hash of a text; empty for a blank text."""
    return hashlib.sha256(content.encode()).hexdigest() if content.strip() else ""


def normalize_path(path: str) -> str:
    """Normalise a path, or a text with paths: NFC, and one space on each side of a slash."""
    return _AROUND_SLASH.sub(PATH_SEPARATOR, normalize_accents(path))


class BlockTree:
    """The blocks of a project in document order.

    Every block appears once, even in an inconsistent state: if branches of the conversation were changed independently,
    a group may contain itself (the tree moves the group to the top level), and blocks may form dependency cycles (the
    blocks are stale).

    Args:
        blocks: The blocks, in any order, including deleted blocks.
        phases: Names of the project's phases, in order.
        used_ids: Ids of other artifacts of the conversation.
        redact: Removes secrets from a name before an id is derived from the name, because ids are never redacted.
        phases_by_label: Names of phases by their labels in lower case; see `template.phases_by_label`.

    Attributes:
        used_ids: Ids that a new block cannot have.
        deleted: Deleted blocks by id.
    """

    def __init__(
        self,
        blocks: Iterable[Block],
        phases: Sequence[str],
        used_ids: Iterable[str] = (),
        redact: Callable[[str], str] = str,
        phases_by_label: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.redact = redact
        self.phases_by_label = phases_by_label
        by_id = {block.block_id: block for block in blocks}
        self.phases = tuple(phases)
        self.used_ids = frozenset({*used_ids, *by_id})
        self.deleted = {key: block for key, block in by_id.items() if block.is_deleted}
        self._by_id = {key: block for key, block in by_id.items() if not block.is_deleted}
        self._below: dict[str, list[Block]] = {}
        rank = {phase: n for n, phase in enumerate(self.phases)}
        for block in sorted(self._by_id.values(), key=lambda b: (rank.get(b.phase, len(rank)), b.order, b.block_id)):
            self._below.setdefault(block.parent if block.parent in self._by_id else "", []).append(block)
        self._ordered = {block.block_id: block for block in self._walk("")}
        while lost := next((block for key, block in self._by_id.items() if key not in self._ordered), None):
            # Break a containment cycle by moving one of its groups to the top level.
            top = replace(lost, parent="")
            self._below[lost.parent].remove(lost)
            self._below.setdefault("", []).append(top)
            self._by_id[lost.block_id] = top
            self._ordered = {block.block_id: block for block in self._walk("")}

    def _walk(self, top: str) -> Iterator[Block]:
        pending = list(reversed(self._below.get(top, ())))
        while pending:
            block = pending.pop()
            yield block
            pending.extend(reversed(self._below.get(block.block_id, ())))

    def __iter__(self) -> Iterator[Block]:
        return iter(self._ordered.values())

    def __len__(self) -> int:
        return len(self._ordered)

    def __contains__(self, block_id: object) -> bool:
        return block_id in self._ordered

    def __getitem__(self, block_id: str) -> Block:
        return self._ordered[block_id]

    def get(self, block_id: str) -> Block | None:
        """Return the block with this id, or None."""
        return self._ordered.get(block_id)

    def with_blocks(self, blocks: Iterable[Block]) -> Self:
        """Return a copy in which these blocks are added or replaced."""
        return type(self)(
            (*self, *self.deleted.values(), *blocks), self.phases, self.used_ids, self.redact, self.phases_by_label
        )

    # --- places ------------------------------------------------------------------------------------------------------

    def children(self, block_id: str = "") -> tuple[Block, ...]:
        """Return the blocks directly in a group, or at the top level for an empty id."""
        return tuple(self._below.get(block_id, ()))

    def descendants(self, block_id: str) -> tuple[Block, ...]:
        """Return all blocks in a group and its nested groups, in order."""
        return tuple(self._walk(block_id))

    def path(self, block_id: str) -> str:
        """Return the path of names from the top level to a block."""
        names, block = [], self._ordered.get(block_id)
        while block is not None:
            names.append(block.name)
            block = self._ordered.get(block.parent)
        return PATH_SEPARATOR.join(reversed(names))

    def blocks_in_phase(self, phase: str) -> tuple[Block, ...]:
        """Return the blocks of a phase, in order."""
        return tuple(block for block in self if block.phase == phase)

    def find(self, name: str) -> Block:
        """Find a block by name, path (`Report / Method`) or id; exact matches take precedence over folded matches.

        Errors: `UsageError` with similar names for no match, and with the paths for several matches.
        """
        label = normalize_path(str(name).strip().removeprefix("@"))
        folded, paths = fold_name(label), {key: self.path(key) for key in self._ordered}
        for matches in (
            [key for key, path in paths.items() if path == label],
            [block.block_id for block in self if block.name == label],
            [key for key in self._ordered if key == label],
            [key for key, path in paths.items() if fold_name(path) == folded],
            [block.block_id for block in self if fold_name(block.name) == folded],
        ):
            if len(matches) == 1:
                return self._ordered[matches[0]]
            if matches:
                quoted = ", ".join(repr(paths[key]) for key in matches)
                raise UsageError(f"{len(matches)} blocks are called {brief(label)}. Name one by its path: {quoted}.")
        names = list(dict.fromkeys(block.name for block in self))
        near = get_close_matches(label, names, n=5, cutoff=0.5) or names[:20]
        raise UsageError(f"There is no block {brief(label)}. There are: {', '.join(near) or 'none yet'}.")

    # --- dependencies ------------------------------------------------------------------------------------------

    def text_ids(self, block_id: str) -> tuple[str, ...]:
        """Return the ids of the texts that a block stands for: the block itself, or the descendants of a group."""
        block = self._ordered.get(block_id)
        if block is None or not block.is_group:
            return (block_id,)
        return tuple(block.block_id for block in self.descendants(block_id) if not block.is_group)

    @cached_property
    def _needs(self) -> DependencyGraph:
        groups = {block.block_id: self.text_ids(block.block_id) for block in self if block.is_group}
        dependencies = {block.block_id: block.depends_on for block in self if not block.is_group}
        for key, needs in dependencies.items():
            if not groups.keys().isdisjoint(needs):
                dependencies[key] = tuple(dict.fromkeys(text for need in needs for text in groups.get(need, (need,))))
        return DependencyGraph(dependencies)

    def dependencies(self, block_id: str) -> tuple[str, ...]:
        """Return the ids of the texts that a block depends on, including deleted texts."""
        return self._needs.dependencies.get(block_id, ())

    def dependents(self, block_id: str) -> tuple[Block, ...]:
        """Return all direct and indirect dependents of a block or group, in document order."""
        ids = self._needs.all_dependents(set(self.text_ids(block_id)))
        return tuple(block for block in self if block.block_id in ids)

    def basis(self, block_id: str) -> dict[str, str]:
        """Return the current hashes of a block's dependencies; empty for missing texts."""
        return {key: self._ordered[key].sha256 if key in self._ordered else "" for key in self.dependencies(block_id)}

    @property
    def topological_order(self) -> tuple[str, ...]:
        """The ids of the texts in document order, but each id after its dependencies.

        Errors: `UsageError` with the cycle of cyclic dependencies.
        """
        if self._needs.cyclic_ids:
            cycle = " -> ".join(map(self.block_name, self._needs.find_cycle()))
            raise UsageError(f"Blocks would depend on themselves: {cycle}.")
        return self._needs.topological_order

    @cached_property
    def stale(self) -> Mapping[str, tuple[str, ...]]:
        """The stale blocks by id, with the names of the causes, in topological order.

        A text is stale if a dependency is stale or differs from the version on which the text is based, or if it is
        based on a text that its groups no longer contain. A text whose dependencies are restored is no longer stale.
        """
        stale: dict[str, tuple[str, ...]] = {}
        dependencies, cyclic = self._needs.dependencies, self._needs.cyclic_ids
        hashes = {key: block.sha256 for key, block in self._ordered.items()}
        for key in (*self._needs.topological_order, *(key for key in dependencies if key in cyclic)):
            block = self._ordered[key]
            needs, basis = dependencies[key], block.basis
            if not block.sha256 or not (needs or basis):
                continue
            causes = [n for n in needs if n in stale or n in cyclic or basis.get(n) != hashes.get(n, "")]
            removed = basis.keys() - set(needs)
            causes += [need for need in basis if need in removed]
            if causes:
                stale[key] = tuple(map(self.block_name, causes))
        return stale

    def block_name(self, block_id: str) -> str:
        """Return the name of a block, even of a deleted block; for an unknown id, return the id."""
        block = self._ordered.get(block_id) or self.deleted.get(block_id)
        return block_id if block is None else block.name

    def status(self, block_id: str) -> BlockStatus:
        """Return the status of a block; a group has the common status of its blocks, or `in_progress`."""
        block = self._ordered[block_id]
        if not block.is_group:
            return block.status
        statuses = {child.status for child in self.descendants(block_id) if not child.is_group}
        if len(statuses) == 1:
            return statuses.pop()
        return "in_progress" if statuses else "empty"

    # --- unfinished blocks ---------------------------------------------------------------------------------------

    def marks(self, block_id: str) -> list[EnglishText]:
        """Return the marks of a block beside its status: `stale`, `to be reviewed`, both or none."""
        block = self._ordered.get(block_id)
        needs_review = block is not None and bool(block.sha256) and not block.is_usable
        marks: dict[EnglishText, bool] = {"stale": block_id in self.stale, "to be reviewed": needs_review}
        return [mark for mark, applies in marks.items() if applies]

    def blockers(self, block_id: str) -> tuple[Block, ...]:
        """Return the dependencies that must be written or reviewed before a block can be written."""
        needs = (self._ordered.get(key) for key in self.dependencies(block_id))
        return tuple(need for need in needs if need is not None and not need.is_usable)

    def unfinished(self, phases: Iterable[str]) -> dict[str, str]:
        """List the unfinished blocks of the phases by path, each block with its problem."""
        problems_by_path = {}
        for block in (block for phase in phases for block in self.blocks_in_phase(phase) if not block.is_group):
            problems = [] if block.status == "completed" else [STATUS_NAMES[block.status]]
            if problems := [*problems, *(["stale"] if block.block_id in self.stale else [])]:
                problems_by_path[self.path(block.block_id)] = ", ".join(problems)
        return problems_by_path

    def __repr__(self) -> str:
        return f"BlockTree({len(self)} blocks)"
