"""In which order blocks are written: what can be written now, what a person has to review, what has to be left.

::

    empty or stale ──> written ──> completed
                          └──> draft ──> reviewed ──> completed
                                 ^           └──> to be written anew, as the person says
                                 └───────────────────┘

Values only: what comes next follows from the blocks as they are and from what was done for them in the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from artifactflow_nb.blocks import BlockTree
from artifactflow_nb.errors import UsageError

State = Literal["open", "finished", "review", "failed", "left"]


@dataclass(frozen=True, slots=True)
class Done:
    """What was done for a block in the run.

    Attributes:
        block_id: The block.
        kind: Whether it was written or reviewed.
        success: Whether it came to a text, or the person agreed.
        words: What went wrong, or what the person said.
    """

    block_id: str
    kind: Literal["write", "review"]
    success: bool
    words: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """What comes next.

    Attributes:
        write: The blocks to write now, by ids, each after those that it rests on, with what is said about how.
        review: The blocks to put before the person, if there are none to write.
        summary: What came of all, if nothing is left to do.
    """

    write: Mapping[str, str] = field(default_factory=dict)
    review: Sequence[str] = ()
    summary: str = ""


def to_generate(tree: BlockTree) -> tuple[str, ...]:
    """The blocks that write themselves and are empty, or wait for a review; each after what it rests on."""
    blocks = (tree[key] for key in tree.in_turn)
    return tuple(b.block_id for b in blocks if b.auto_generate and not b.is_usable)


def writing_of(name: str, tree: BlockTree, *, is_anew: bool) -> tuple[str, tuple[str, ...]]:
    """What a run is asked that writes, and the blocks that it writes: those that are empty, or those that are stale.

    Errors: `UsageError` if there is nothing to write in the project of this name.
    """
    wanted = tuple(tree.stale) if is_anew else to_generate(tree)
    if not wanted:
        why = "no block is stale" if is_anew else "no empty block has auto_generate set"
        raise UsageError(f"There is nothing to write in {name!r}: {why}.")
    return f"{'Write anew' if is_anew else 'Write'}: {', '.join(map(tree.path, wanted))}.", wanted


def order_of(tree: BlockTree, wanted: Sequence[str], done: Sequence[Done]) -> Order:
    """What comes next for the wanted blocks, after what was done, in order."""
    last = {one.block_id: one for one in done}
    keys = [key for key in tree.in_turn if key in set(wanted)]
    states = {key: _state(tree, key, last.get(key)) for key in keys}
    if ready := _ready(tree, states):
        return Order({key: _said(last.get(key)) for key in ready})
    if reviews := [key for key, state in states.items() if state == "review"]:
        return Order(review=reviews)
    return Order(summary=_summary(tree, states, last, [key for key in wanted if key not in tree]))


def _state(tree: BlockTree, key: str, last: Done | None) -> State:
    block = tree[key]
    waits = bool(block.sha256) and not block.is_usable
    if last is None:
        if not block.sha256 or key in tree.stale:
            return "open"
        return "review" if waits else "finished"
    if last.kind == "write":
        return "failed" if not last.success else "review" if waits else "finished"
    if last.success:
        return "finished"
    return "open" if last.words else "left"


def _said(last: Done | None) -> str:
    return last.words if last is not None and last.kind == "review" else ""


def _ready(tree: BlockTree, states: Mapping[str, State]) -> list[str]:
    """Those that can be written, or will be able to when others that are written now are."""
    found: list[str] = []
    for key, state in states.items():
        needs = (need for need in tree.rests_on(key) if need in tree)
        if state == "open" and all(_comes(tree, states, need, found) for need in needs):
            found.append(key)
    return found


def _comes(tree: BlockTree, states: Mapping[str, State], need: str, found: Sequence[str]) -> bool:
    if need in found:
        return not tree[need].need_review
    state = states.get(need, "finished")
    is_by_hand = state == "failed" and need not in tree.stale  # somebody wrote it meanwhile
    return tree[need].is_usable and (state == "finished" or is_by_hand)


def _summary(tree: BlockTree, states: Mapping[str, State], last: Mapping[str, Done], gone: Sequence[str]) -> str:
    states = {block.block_id: states[block.block_id] for block in tree if block.block_id in states}
    written = [tree.path(key) for key, state in states.items() if state == "finished" and key in last]
    left = {
        tree.path(key): _why(tree, key, state, last.get(key)) for key, state in states.items() if state != "finished"
    }
    parts = [f"Written: {', '.join(written)}." if written else "Nothing was written."]
    if left:
        parts.append("Not written:\n" + "\n".join(f"- {path}: {why}" for path, why in left.items()))
    if gone:
        parts.append(f"Deleted meanwhile: {', '.join(map(tree.name, gone))}.")
    return "\n\n".join(parts)


def _why(tree: BlockTree, key: str, state: State, last: Done | None) -> str:
    if state == "left":
        return "its draft was not agreed to"
    if state == "failed":
        return last.words if last is not None else ""
    waits = [f"{one.name} ({'to be reviewed' if one.sha256 else 'empty'})" for one in tree.waits_for(key)]
    return f"it rests on what is not ready: {', '.join(waits)}" if waits else "what it rests on was not written"
