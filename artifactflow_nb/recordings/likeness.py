"""Whether a call and its result are those that were recorded, secrets aside: a recording has masks in their place."""

import re
from dataclasses import replace

from artifactflow_nb.messages import ToolResult
from artifactflow_nb.recordings.misses import told_of_call
from artifactflow_nb.recordings.secret_names import MASK
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.recordings.tape import Calling
from artifactflow_nb.recordings.values import RecordedCall, RecordedRun

_COUNTS = re.compile(r"[0-9]+(?:,[0-9]{3})*")


def told_of_masked_call(
    masker: Masker, calling: Calling, call: RecordedCall | None, result: ToolResult | None, recording: RecordedRun
) -> str | None:
    """What is otherwise in a call, as `told_of_call` tells it, where both sides are masked in the same way."""
    question = masker.text(recording.question)
    if call is None:
        return told_of_call(replace(calling, args=masker.masked(calling.args)), None, result, question)
    args, now = masker.compared(call.args, calling.args)
    before, after = masker.compared(call.result, result) if result is not None else (call.result, None)
    return told_of_call(replace(calling, args=now), replace(call, args=args, result=before), after, question)


def count_otherwise(masker: Masker, before: ToolResult, now: ToolResult) -> bool:
    """Whether two results say the same but for the numbers in them: what is counted may have been written otherwise."""
    told, is_now = masker.compared(_uncounted(before), _uncounted(masker.masked(now)))
    return before.success == now.success and bool(told == is_now)


def has_masks(recording: RecordedRun) -> bool:
    """Whether secrets were taken from what the models of a run wrote."""
    return any(
        (turn.reply is not None and MASK in turn.reply.content) or any(MASK in str(call.args) for call in turn.calls)
        for turn in recording.turns
    )


def _uncounted(result: ToolResult) -> tuple[str, str]:
    return _COUNTS.sub("#", result.data), _COUNTS.sub("#", result.error or "")
