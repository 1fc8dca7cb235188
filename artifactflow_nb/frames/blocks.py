"""The frame of the blocks of projects, each on the active branch of its project.

What is stale, and where a block stands, follows from all blocks of a project together: `project_blocks` gives them as
JSON, and the columns are read from that.
"""

from artifactflow_nb.frames.columns import BOOL, ENUM, IDS, INT, TEXT, TIME, Column, Frame
from artifactflow_nb.frames.filters import of_list, of_time
from artifactflow_nb.projects import PROJECT, PROJECT_TYPE


def _field(name: str) -> str:
    """The expression for a field of a block; SQLite's own functions end a text at a NUL."""
    return f"block_field(b.value, '{name}')"


def _told(group: str, dtype: str, **meanings: str) -> tuple[Column, ...]:
    return tuple(Column(name, group, dtype, _field(name), meaning) for name, meaning in meanings.items())


BLOCKS = Frame(
    "blocks",
    (
        *_told(IDS, TEXT, block_id="The block, which is an artifact of this id."),
        Column("conversation_id", IDS, TEXT, "c.conversation_id", "The conversation of its project."),
        *_told("what", TEXT, project="Its project.", name="Its name.", path="The names from the top to it."),
        *_told("what", ENUM, phase="The phase that it belongs to."),
        *_told("place", TEXT, parent_id="The group that it is in; NA at the top."),
        *_told("place", INT, position="Its place in the document, from 1."),
        *_told("place", TEXT, depends_on_json="The ids of the blocks that it rests on."),
        *_told("outcome", ENUM, status="empty, draft, in_progress or completed; of a group what is in it comes to."),
        *_told("what", BOOL, need_review="Whether a person has to approve it before others are written from it."),
        *_told(
            "what", BOOL, auto_generate="Whether it is written by itself.", is_group="Whether it only holds others."
        ),
        *_told("outcome", BOOL, is_stale="Whether what it rests on is other than when it was written."),
        *_told("outcome", TEXT, stale_because_json="The names of what was changed; of nothing, if it is not stale."),
        *_told("outcome", INT, version="The number of its present version."),
        *_told("size", INT, n_chars="Characters of its text."),
        *_told("time", TIME, updated_at="When that version was written."),
        *_told("outcome", ENUM, created_by="Who wrote it: an agent, or user."),
        *_told("outcome", TEXT, reason="Why; NA if nobody said so."),
    ),
    f"""
    (SELECT conversation_id, active_message_id FROM main.conversations AS a WHERE EXISTS (
        SELECT 1 FROM main.artifact_versions AS v
        WHERE v.conversation_id = a.conversation_id
            AND v.artifact_id = '{PROJECT}' AND v.content_type = '{PROJECT_TYPE}'
    )) AS c
    JOIN json_each(project_blocks(c.conversation_id, c.active_message_id)) AS b
    """,  # noqa: S608 - constants only
    "c.conversation_id, b.key",
    {
        "project": of_list(_field("project"), "project"),
        "conversation": of_list("c.conversation_id", "conversation"),
        **of_time(_field("updated_at")),
    },
)
