"""The offline model as the editor of a block: it makes edits that are given word by word, and says so of all others."""

from artifactflow_nb.models.offline_block_read import wish_in
from artifactflow_nb.models.offline_block_words import block_words
from artifactflow_nb.models.offline_edits import edits_in
from artifactflow_nb.models.offline_transcript import Transcript
from artifactflow_nb.xml_calls import format_call

PROPOSE = "propose_edits"


def turn(transcript: Transcript) -> str:
    """The editor's next turn: the edits, or what came of them."""
    wish = wish_in(transcript.instruction)
    say, asked = block_words(wish), edits_in(wish)
    proposed = transcript.of(PROPOSE)
    if asked.edits and not proposed and PROPOSE in transcript.tools:
        return format_call(PROPOSE, {"edits": list(asked.edits)})
    if not proposed:
        return say["cannot_edit"]
    said = [say["edited"] if proposed[-1].done else say["unedited"].format(error=proposed[-1].error)]
    return "\n\n".join([*said, *([say["left_undone"].format(rest=asked.rest)] if asked.rest else [])])
