"""What can be done with the blocks of a project: each edit is a function of the tree that gives the blocks it changes.

An edit that cannot be raises `UsageError` and changes nothing; the store applies the rest in one transaction.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from artifactflow_nb.block_names import checked_name, folded, free_id, plain
from artifactflow_nb.blocks import STATUSES, Block, BlockStatus, BlockTree, text_hash
from artifactflow_nb.errors import Conflict, UsageError

_NEAR = 1e-6
"""How near two numbers may come before those in a place are numbered anew."""

BlockEdit = Callable[[BlockTree], Sequence[Block]]
"""Gives the blocks that are other than in the tree, new ones among them."""

SETTINGS = ("status", "need_review", "auto_generate", "prompt", "depends_on")
"""What can be set of a block by `configured`."""

_KINDS: Mapping[str, type] = {"need_review": bool, "auto_generate": bool, "prompt": str, "status": str}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block goes.

    Attributes:
        phase: The phase, for the top; empty for that of the group, or where the block is. In a group it can only be
            that of the group.
        parent: The group, by id; empty for the top.
        before: The block in front of which it stands, by id; empty for the end.
    """

    phase: str = ""
    parent: str = ""
    before: str = ""


@dataclass(frozen=True, slots=True)
class NewBlock:
    """A block that is to be.

    Attributes:
        name: Its name.
        place: Where it goes.
        settings: What else is said of it, by the names of `Block`.
        text: Its text, if there is one already.
        writer: Who wrote that.
    """

    name: str
    place: Place
    settings: Mapping[str, Any]
    text: str = ""
    writer: str = ""


def added(tree: BlockTree, new: NewBlock) -> tuple[Block, ...]:
    """A further block."""
    name = checked_name(new.name)
    is_group = bool(new.settings.get("is_group"))
    given = {key: value for key, value in new.settings.items() if key != "is_group"}
    if is_group and (given or new.text):
        raise UsageError(f"The group {name!r} has no text of its own: leave {', '.join(given) or 'text'} out.")
    key = free_id(tree.mask(name), tree.taken)
    block = _with_text(Block(key, name, new.place.phase, is_group=is_group), new.text, new.writer)
    placed, *others = _placed(tree, block, new.place)
    made = _checked(tree, [_set(tree, placed, given), *others])
    return (replace(made[0], basis=_tree_with(tree, made).basis(block.block_id)) if new.text else made[0], *made[1:])


def moved(tree: BlockTree, block_id: str, place: Place) -> tuple[Block, ...]:
    """A block in another place, with all that is in it."""
    block = _required(tree, block_id)
    if place.parent == block_id or place.parent in {one.block_id for one in tree.below(block_id)}:
        raise UsageError(f"{block.name!r} cannot go into itself.")
    placed = _placed(tree, block, place)
    below = [replace(one, phase=placed[0].phase) for one in tree.below(block_id)]
    return _checked(tree, [*placed, *below])


def renamed(tree: BlockTree, block_id: str, name: str) -> tuple[Block, ...]:
    """A block by another name; what rests on it does so still."""
    return _checked(tree, [replace(_required(tree, block_id), name=checked_name(name))])


def copied(tree: BlockTree, block_id: str, name: str) -> tuple[Block, ...]:
    """A copy behind a block, with all that is in it; what they depend on among themselves, the copies do, too."""
    top = _required(tree, block_id)
    used, ids = set(tree.taken), dict[str, str]()
    for block in (top, *tree.below(block_id)):
        ids[block.block_id] = free_id(tree.mask(block.name if block is not top else name), used)
        used.add(ids[block.block_id])
    copies = [_copy(block, ids) for block in tree.below(block_id)]
    first = replace(_copy(top, ids), name=checked_name(name))
    placed = _placed(tree, first, Place("" if top.parent else top.phase, top.parent, _after(tree, top)))
    return _checked(tree, [*placed, *copies])


def _copy(block: Block, ids: Mapping[str, str]) -> Block:
    return replace(
        block,
        block_id=ids[block.block_id],
        parent=ids.get(block.parent, block.parent),
        depends_on=tuple(ids.get(key, key) for key in block.depends_on),
        basis={ids.get(key, key): value for key, value in block.basis.items()},
        version=0,
    )


def deleted(tree: BlockTree, block_id: str, *, anyway: bool = False) -> tuple[Block, ...]:
    """A block gone, with all that is in it. What rested on it stays, and is stale.

    Errors: `UsageError` that names what depends on it, unless it is to go anyway.
    """
    block = _required(tree, block_id)
    if not anyway and (users := tree.dependents(block_id)):
        listed = ", ".join(repr(user.name) for user in users)
        raise UsageError(
            f"{block.name!r} is what {listed} depend{'s' if len(users) == 1 else ''} on. Nothing was deleted. "
            "Delete it anyway (anyway=True) or let them depend on something else first."
        )
    within = (replace(one, is_deleted=True, deleted_with=block_id) for one in tree.below(block_id))
    return (replace(block, is_deleted=True, deleted_with=""), *within)


def restored(tree: BlockTree, block_id: str) -> tuple[Block, ...]:
    """A deleted block back in its place, at the top of its phase if its group is gone.

    What went with it comes back with it; what had been deleted before stays so.
    """
    if block_id not in tree.deleted:
        raise UsageError(f"{block_id!r} is no deleted block. Deleted are: {', '.join(tree.deleted) or 'none'}.")
    found, new = [block_id], set[str]()
    while found:
        key = found.pop()
        new.add(key)
        within = (one for one in tree.deleted.values() if one.parent == key and one.block_id not in new)
        found += [one.block_id for one in within if _went_with(one) == _went_with(tree.deleted[block_id])]
    back = [_back(tree, tree.deleted[key], new) for key in sorted(new)]
    return _checked(tree, back)


def _went_with(block: Block) -> str:
    """The id of the block whose deletion a block's was."""
    return block.deleted_with or block.block_id


def _back(tree: BlockTree, block: Block, new: Container[str]) -> Block:
    """A block that was deleted, where it belongs now; its group may be gone, or of another phase."""
    top = block
    while top.parent in new:
        top = tree.deleted[top.parent]
    group = tree.get(top.parent)
    parent = "" if group is None and top is block else block.parent
    phase = top.phase if group is None else group.phase
    return replace(block, is_deleted=False, deleted_with="", parent=parent, phase=phase)


def configured(tree: BlockTree, block_id: str, settings: Mapping[str, Any]) -> tuple[Block, ...]:
    """A block of which something is set that is no text. What it does no longer depend on cannot make it stale."""
    block = _set(tree, _required(tree, block_id), settings)
    needs = {key for one in block.depends_on for key in tree.texts_in(one)}
    gone = {key for one in set(tree[block_id].depends_on) - set(block.depends_on) for key in tree.texts_in(one)}
    basis = {key: value for key, value in block.basis.items() if key in needs or key not in gone}
    return _checked(tree, [replace(block, basis=basis)])


def written(
    tree: BlockTree,
    block_id: str,
    text: str,
    writer: str,
    *,
    basis: Mapping[str, str] | None = None,
    expected: str | None = None,
    is_finished: bool = False,
) -> tuple[Block, ...]:
    """A block with another text.

    Args:
        tree: The tree.
        block_id: The block.
        text: Its text from now on; an empty one makes it empty.
        writer: Who wrote it.
        basis: The hashes of the texts that it was written from; None for those that are there now.
        expected: The text that was seen when it was written, if that must still be there.
        is_finished: Whether it is completed with that, unless it has to be reviewed.

    Errors: `Conflict` if it is not.
    """
    block = _required(tree, block_id)
    if block.is_group:
        raise UsageError(f"The group {block.name!r} has no text of its own. Write one of the blocks in it.")
    if expected is not None and block.content != expected:
        raise Conflict(
            f"The text of {block.name!r} is another by now (version {block.version}, by {block.created_by}). "
            "Read it again and repeat the change."
        )
    from_now = tree.basis(block_id) if basis is None else dict(basis)
    return (replace(_with_text(block, text, writer, is_finished=is_finished), basis=from_now),)


def _with_text(block: Block, text: Any, writer: str, *, is_finished: bool = False) -> Block:
    if not isinstance(text, str):
        raise UsageError(f"The text of {block.name!r} is {type(text).__name__}, not text.")
    stored = plain(text)
    status, who = _status_after(block, stored, is_finished=is_finished), writer if stored.strip() else ""
    return replace(block, content=stored, sha256=text_hash(stored), status=status, writer=who)


def _status_after(block: Block, text: str, *, is_finished: bool) -> BlockStatus:
    """The status of a block that was just written: as it was, but what has to be reviewed is a draft again."""
    if not text.strip():
        return "empty"
    if is_finished:
        return "draft" if block.need_review else "completed"
    is_open = block.status == "empty" or (block.status == "completed" and block.need_review)
    return "draft" if is_open else block.status


def kept(tree: BlockTree, block_id: str) -> tuple[Block, ...]:
    """A stale block whose text holds all the same: it counts as written from what is there now."""
    return (replace(_required(tree, block_id), basis=tree.basis(block_id)),)


# --- parts -----------------------------------------------------------------------------------------------------------


def _required(tree: BlockTree, block_id: str) -> Block:
    if (block := tree.get(block_id)) is None:
        raise UsageError(f"There is no block with the id {block_id!r} any more.")
    return block


def _set(tree: BlockTree, block: Block, settings: Mapping[str, Any]) -> Block:
    if unknown := [name for name in settings if name not in SETTINGS]:
        raise UsageError(f"A block has no setting {unknown[0]!r}. There are: {', '.join(SETTINGS)}.")
    if block.is_group and settings:
        raise UsageError(f"The group {block.name!r} has no text of its own: {', '.join(settings)} cannot be set.")
    for name, kind in _KINDS.items():
        if name in settings and not isinstance(settings[name], kind):
            raise UsageError(f"{name} of {block.name!r} is {settings[name]!r:.80}; it must be a {kind.__name__}.")
    given = dict(settings)
    if "prompt" in given:
        given["prompt"] = plain(given["prompt"])
    if "depends_on" in given:
        given["depends_on"] = _needs(tree, block, given["depends_on"])
    status = given.get("status", block.status)
    if status not in STATUSES:
        raise UsageError(f"status of {block.name!r} is {status!r:.80}; it must be one of {', '.join(STATUSES)}.")
    if (status == "empty") is bool(block.content.strip()) and "status" in given:
        what = "has a text: it is not empty" if status == "empty" else f"has no text: it cannot be {status}"
        raise UsageError(f"{block.name!r} {what}.")
    return replace(block, **given)


def _needs(tree: BlockTree, block: Block, names: Any) -> tuple[str, ...]:
    if isinstance(names, str | Block):
        names = [names]
    if not isinstance(names, Iterable):
        raise UsageError(f"depends_on of {block.name!r} is {names!r:.80}; it must be a list of blocks.")
    held = (_required(tree, name.block_id) if isinstance(name, Block) else tree.find(name) for name in names)
    ids = tuple(dict.fromkeys(one.block_id for one in held))
    if any(block.block_id in {key, *tree.texts_in(key)} for key in ids):
        raise UsageError(f"{block.name!r} cannot depend on itself, or on a group that it is in.")
    return ids


def _placed(tree: BlockTree, block: Block, place: Place) -> list[Block]:
    """The block in a place, and those beside it that have to move up for that."""
    group = tree.get(place.parent) if place.parent else None
    if place.parent and (group is None or not group.is_group):
        told = "is gone" if group is None else "is no group"
        raise UsageError(f"{place.parent if group is None else group.name!r} {told}: nothing can be put into it.")
    if group is not None and place.phase not in {"", group.phase}:
        raise UsageError(
            f"{block.name!r} is to go into {group.name!r}, which is of the phase {group.phase!r}: it cannot be of "
            f"{place.phase!r}. Leave its phase out, or put it elsewhere."
        )
    phase = group.phase if group is not None else place.phase or block.phase or next(iter(tree.phases), "")
    if phase not in tree.phases:
        raise UsageError(f"There is no phase {phase!r}. There are: {', '.join(tree.phases)}.")
    others = [b for b in tree.children(place.parent) if b.phase == phase and b.block_id != block.block_id]
    ids = [one.block_id for one in others]
    if place.before and place.before not in ids:
        raise UsageError(f"{tree.name(place.before)!r} does not stand where {block.name!r} is to go.")
    at = ids.index(place.before) if place.before else len(others)
    low = others[at - 1].order if at else (others[0].order - 2 if others else -1.0)
    high = others[at].order if at < len(others) else low + 2
    placed = replace(block, phase=phase, parent=place.parent, order=(low + high) / 2)
    if high - low > _NEAR:
        return [placed]
    in_row = [*others[:at], placed, *others[at:]]
    numbered = [replace(one, order=float(n)) for n, one in enumerate(in_row)]
    return [numbered[at], *numbered[:at], *numbered[at + 1 :]]


def _after(tree: BlockTree, block: Block) -> str:
    """The id of the block behind a block in its place; empty if it is the last."""
    here = [one.block_id for one in tree.children(block.parent) if one.phase == block.phase]
    return next(iter(here[here.index(block.block_id) + 1 :]), "")


def _checked(tree: BlockTree, changed: Sequence[Block]) -> tuple[Block, ...]:
    """What is changed, if the tree can be so: nothing rests on itself, and names in a place differ."""
    after = _tree_with(tree, changed)
    _ = after.in_turn
    for block in changed:
        same = [one for one in after.children(block.parent) if folded(one.name) == folded(block.name)]
        if len(same) > 1 and block.block_id in after:
            where = f"in {after.path(block.parent)!r}" if block.parent else "at the top"
            raise UsageError(f"There is a block {block.name!r} {where} already. Choose another name or another place.")
    return tuple(changed)


def _tree_with(tree: BlockTree, changed: Iterable[Block]) -> BlockTree:
    return BlockTree((*tree, *tree.deleted.values(), *changed), tree.phases)
