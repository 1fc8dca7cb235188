"""The frame of grades: one row for each time that a block was judged by a dimension.

A grade is a version of an artifact, written by the job that judged. A text that somebody wrote over it is passed over.
What one reply asked for is judged at the same time: the rows stand in the order in which they were asked for, whichever
grader ended first.
"""

from artifactflow_nb.evaluations import GRADE_TYPE
from artifactflow_nb.frames.columns import BOOL, ENUM, IDS, INT, TEXT, TIME, Column, Frame, stored
from artifactflow_nb.frames.filters import of_list, of_time

_JSON = "iif(json_valid(content), content, '{}')"
_TOLD = {name: f"step_text(v.content, '{name}')" for name in ("block_id", "dimension", "persona", "advice")} | {
    name: f"json_extract(v.content, '$.{name}')" for name in ("block_version", "score", "evidence")
}
_JUDGED = f"""(
    SELECT title FROM main.artifact_versions AS b WHERE b.conversation_id = v.conversation_id
    AND b.artifact_id = {_TOLD["block_id"]} AND b.version = {_TOLD["block_version"]}
)"""  # noqa: S608 - constants only
_MODEL = """(
    SELECT coalesce(response_model, request_model) FROM main.llm_calls
    WHERE job_id = v.tool_call_id AND run_id = v.run_id AND error_type IS NULL ORDER BY step DESC LIMIT 1
)"""

_IS_ACTIVE = """(v.message_id IS NULL OR v.message_id IN (
    WITH RECURSIVE up (message_id) AS (
        SELECT active_message_id FROM main.conversations WHERE conversation_id = v.conversation_id
        UNION
        SELECT above.parent_id FROM up JOIN main.messages AS above USING (message_id)
    )
    SELECT message_id FROM up WHERE message_id IS NOT NULL
))"""

EVALUATIONS = Frame(
    "evaluations",
    (
        *stored(IDS, TEXT, "v", artifact_id="The artifact that the grades are versions of."),
        *stored(IDS, INT, "v", version="The grade's version."),
        *stored(IDS, TEXT, "v", conversation_id="The conversation of its project.", run_id="The run that judged."),
        *stored(IDS, TEXT, "v", tool_call_id="The call that had it judged."),
        Column("block_id", IDS, TEXT, _TOLD["block_id"], "The block."),
        Column("block_version", IDS, INT, _TOLD["block_version"], "The version of the block that was judged."),
        Column("block", "what", TEXT, _JUDGED, "What the block was called."),
        Column("dimension", "what", ENUM, _TOLD["dimension"], "By what it was judged."),
        Column("persona", "what", ENUM, f"nullif({_TOLD['persona']}, '')", "From whose view; NA for nobody's."),
        Column("score", "outcome", INT, _TOLD["score"], "From 1 to 10."),
        Column("evidence_json", "outcome", TEXT, _TOLD["evidence"], "Passages of the text that show it, as a list."),
        Column("advice", "outcome", TEXT, _TOLD["advice"], "What would make it better."),
        Column("grader_model", "what", ENUM, _MODEL, "The model that judged."),
        *stored("time", TIME, "v", created_at="When it was given."),
        Column("is_active", "tree", BOOL, _IS_ACTIVE, "Whether it is on the active branch."),
    ),
    f"""
    (SELECT * FROM main.artifact_versions
    WHERE content_type = '{GRADE_TYPE}' AND tool_call_id IS NOT NULL
        AND json_type({_JSON}, '$.score') = 'integer' AND json_type({_JSON}, '$.block_version') = 'integer') AS v
    LEFT JOIN main.tool_calls AS asked ON asked.tool_call_id = v.tool_call_id
    LEFT JOIN main.llm_calls AS asking ON asking.call_id = asked.call_id
    """,  # noqa: S608 - constants only
    "coalesce(asking.started_at, v.created_at), v.run_id, asked.position, v.created_at, v.artifact_id, v.version",
    {
        "run": of_list("v.run_id", "run"),
        "conversation": of_list("v.conversation_id", "conversation"),
        "is_active": f"{_IS_ACTIVE} = :is_active",
        **of_time("v.created_at"),
    },
)
