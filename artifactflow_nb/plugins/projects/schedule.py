"""Writing schedule: the blocks that can be written now, that need a review, and that cannot be written.

::

    empty or stale ──> written ──> completed
                          └──> draft ──> reviewed ──> completed
                                 ^           └──> rewritten as the person requests
                                 └───────────────────┘

The module has values only: the schedule is a function of the current blocks and the results of the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.plugins.projects.tree import BlockTree

BlockState = Literal["open", "finished", "review", "failed", "rejected"]


@dataclass(frozen=True, slots=True)
class BlockResult:
    """Result of writing or reviewing a block in the run.

    Attributes:
        kind: `write` or `review`.
        success: True if the text was written, or approved by the person in a review.
        message: The error, or the person's instruction.
    """

    block_id: str
    kind: Literal["write", "review"]
    success: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class WritingSchedule:
    """The blocks that a run must write or review next.

    Attributes:
        write: Ids of the blocks to write now, in dependency order, with the reviewer's instruction or an empty text.
        review: Ids of the blocks to review; empty while blocks can be written.
        summary: Summary of all results, if no work remains.
    """

    write: Mapping[str, str] = field(default_factory=dict)
    review: Sequence[str] = ()
    summary: str = ""


def blocks_to_generate(tree: BlockTree) -> tuple[str, ...]:
    """List the `auto_generate` blocks that are empty or wait for a review, in dependency order."""
    blocks = (tree[key] for key in tree.topological_order)
    return tuple(b.block_id for b in blocks if b.auto_generate and not b.is_usable)


def writing_request(name: str, tree: BlockTree, *, is_refresh: bool) -> tuple[str, tuple[str, ...]]:
    """Return the question and the block ids of a writing run, for stale blocks (`is_refresh`) or empty blocks.

    Errors: `UsageError` with the project's name if there is nothing to write.
    """
    block_ids = tuple(tree.stale) if is_refresh else blocks_to_generate(tree)
    if not block_ids:
        reason = "no block is stale" if is_refresh else "no empty block has auto_generate set"
        raise UsageError(f"There is nothing to write in {brief(name)}: {reason}.")
    return f"{'Rewrite' if is_refresh else 'Write'}: {', '.join(map(tree.path, block_ids))}.", block_ids


def schedule_writing(tree: BlockTree, block_ids: Sequence[str], results: Sequence[BlockResult]) -> WritingSchedule:
    """Compute the next work on the requested blocks from the results so far, in order."""
    last = {result.block_id: result for result in results}
    keys = [key for key in tree.topological_order if key in set(block_ids)]
    states = {key: _state(tree, key, last.get(key)) for key in keys}
    ready: list[str] = []
    for key, state in states.items():
        needs = (need for need in tree.dependencies(key) if need in tree)
        if state == "open" and all(_will_be_usable(tree, states, need, ready) for need in needs):
            ready.append(key)
    if ready:
        instructions = {key: result.message for key, result in last.items() if result.kind == "review"}
        return WritingSchedule({key: instructions.get(key, "") for key in ready})
    if reviews := [key for key, state in states.items() if state == "review"]:
        return WritingSchedule(review=reviews)
    return WritingSchedule(summary=_summary(tree, states, last, [key for key in block_ids if key not in tree]))


def _state(tree: BlockTree, key: str, last: BlockResult | None) -> BlockState:
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
    return "open" if last.message else "rejected"


def _will_be_usable(tree: BlockTree, states: Mapping[str, BlockState], need: str, ready: Sequence[str]) -> bool:
    """Return whether a dependency is usable, or will be usable once the ready blocks are written."""
    if need in ready:
        return not tree[need].need_review
    state = states.get(need, "finished")
    is_manual = state == "failed" and need not in tree.stale  # a person wrote the text after the failure
    return tree[need].is_usable and (state == "finished" or is_manual)


def _summary(
    tree: BlockTree, states: Mapping[str, BlockState], last: Mapping[str, BlockResult], deleted: Sequence[str]
) -> str:
    states = {block.block_id: states[block.block_id] for block in tree if block.block_id in states}
    written = [tree.path(key) for key, state in states.items() if state == "finished" and key in last]
    problems = {
        tree.path(key): _reason(tree, key, state, last.get(key)) for key, state in states.items() if state != "finished"
    }
    sentences = [f"Written: {', '.join(written)}." if written else "Nothing was written."]
    if problems:
        sentences.append("Not written:\n" + "\n".join(f"- {path}: {reason}" for path, reason in problems.items()))
    if deleted:
        sentences.append(f"Deleted meanwhile: {', '.join(map(tree.block_name, deleted))}.")
    return "\n\n".join(sentences)


def _reason(tree: BlockTree, key: str, state: BlockState, last: BlockResult | None) -> str:
    if state == "rejected":
        return "its draft was rejected"
    if state == "failed":
        return last.message if last is not None else ""
    waits = [f"{blocker.name} ({'to be reviewed' if blocker.sha256 else 'empty'})" for blocker in tree.blockers(key)]
    return f"its dependencies are not ready: {', '.join(waits)}" if waits else "its dependencies were not written"
