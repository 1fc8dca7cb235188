"""The frames of projects: blocks, evaluations and runs.

Stale blocks and block positions depend on all blocks of a project together. The SQL function `project_blocks` therefore
computes the blocks of a project as JSON, and the columns of `blocks` are fields of that JSON.

A grade in `evaluations` is a version of an artifact that the grader's job wrote; later versions by a person are
skipped. The graders of one model reply run in parallel. The rows are sorted by the order of the calls, not by the
order in which the graders finished.

A row in `project_runs` has the columns of `runs`, plus the project and the results of the run. A child run has a row
of its own, with the tokens and the cost of the child run.
"""

import json
import sqlite3
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from artifactflow_nb.analysis.frames.runs import RUN_TABLES, RUNS
from artifactflow_nb.core.runs import WORK_SETTING
from artifactflow_nb.errors import NotFound, UsageError, brief
from artifactflow_nb.plugins.projects.grades import Grade
from artifactflow_nb.plugins.projects.project import PROJECT_ID, PROJECT_MEDIA_TYPE, ProjectInfo
from artifactflow_nb.plugins.projects.store import block_payloads, list_projects
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.store.frames import (
    BOOL,
    ENUM,
    IDS,
    INT,
    SCOPE_CONDITION,
    TEXT,
    TIME,
    Column,
    Frame,
    list_condition,
    reading_order,
    stored_columns,
    time_filters,
)


def _check_projects(db: sqlite3.Connection, values: Mapping[str, object]) -> None:
    names = set(json.loads(str(values.get("project", "[]"))))
    if missing := sorted(names.difference(list_projects(db) if names else ())):
        raise NotFound(f"There is no project {brief(missing[0])} in this store. wb.projects lists its projects.")


# --- blocks ----------------------------------------------------------------------------------------------------------


def _block_field(name: str) -> str:
    """Return the SQL expression for a field of a block, without SQLite's JSON functions, which cut a text at a NUL."""
    return f"block_field(b.value, '{name}')"


def _block_columns(group: str, dtype: str, **meanings: str) -> tuple[Column, ...]:
    return tuple(Column(name, group, dtype, _block_field(name), meaning) for name, meaning in meanings.items())


def _add_block_functions(db: sqlite3.Connection) -> None:
    """Register `project_blocks(conversation_id, message_id)`, the blocks as JSON, and `block_field(json, name)`."""

    def project_blocks(conversation_id: str, message_id: str | None) -> str:
        db.row_factory = sqlite3.Row  # affects new cursors, not the calling statement
        try:
            return to_json(block_payloads(db, conversation_id, message_id))
        finally:
            db.row_factory = None

    @lru_cache(maxsize=1)  # a query reads all columns of a block in succession
    def parse(block: str) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(block)
        return parsed

    db.create_function("project_blocks", 2, project_blocks)
    db.create_function("block_field", 2, lambda block, name: parse(block)[name], deterministic=True)


BLOCKS = Frame(
    "blocks",
    reading_order(
        "path phase status is_stale n_chars version updated_at created_by reason",
        *_block_columns(IDS, TEXT, block_id="Id of the block and of its artifact."),
        Column("conversation_id", IDS, TEXT, "c.conversation_id", "Conversation of the project."),
        *_block_columns(
            "what",
            TEXT,
            project="Name of the project.",
            name="Name of the block.",
            path="Names from the top level down to the block.",
        ),
        *_block_columns("what", ENUM, phase="Phase of the block."),
        *_block_columns("place", TEXT, parent_id="Id of the enclosing group; NA at the top level."),
        *_block_columns("place", INT, position="Position in the document, from 1."),
        *_block_columns("place", TEXT, depends_on_json="Ids of the blocks that it depends on, as a list."),
        *_block_columns(
            "results",
            ENUM,
            status="empty, draft, in_progress or completed; for a group derived from its blocks.",
            created_by="Author of the current version: an agent, or user.",
        ),
        *_block_columns(
            "what",
            BOOL,
            need_review="Whether a person must approve it before dependent blocks are written.",
            auto_generate="Whether it is written without a request.",
            is_group="Whether it is a group, without a text of its own.",
        ),
        *_block_columns("results", BOOL, is_stale="Whether a dependency changed after it was written."),
        *_block_columns(
            "results",
            TEXT,
            stale_because_json="Names of the changed dependencies, as a list; empty if it is not stale.",
            reason="Stated reason for the current version; NA if there is none.",
        ),
        *_block_columns("results", INT, version="Number of the current version."),
        *_block_columns("size", INT, n_chars="Characters of the text."),
        *_block_columns("time", TIME, updated_at="When the current version was written."),
    ),
    f"""
    (SELECT conversation_id, active_message_id FROM main.conversations AS a WHERE EXISTS (
        SELECT 1 FROM main.artifact_versions AS v
        WHERE v.conversation_id = a.conversation_id
            AND v.artifact_id = '{PROJECT_ID}' AND v.content_type = '{PROJECT_MEDIA_TYPE}'
    )) AS c
    JOIN json_each(project_blocks(c.conversation_id, c.active_message_id)) AS b
    """,  # noqa: S608 - constants only
    "c.conversation_id, b.key",
    {
        "project": list_condition(_block_field("project"), "project"),
        "conversation": list_condition("c.conversation_id", "conversation"),
        **time_filters(_block_field("updated_at")),
    },
    add_functions=_add_block_functions,
    check=_check_projects,
)

# --- evaluations -----------------------------------------------------------------------------------------------------

_GRADE_JSON = "iif(json_valid(content), content, '{}')"
_GRADE_FIELDS = {name: f"json_text(v.content, '{name}')" for name in ("block_id", "dimension", "persona", "advice")} | {
    name: f"json_extract(v.content, '$.{name}')" for name in ("block_version", "score", "evidence")
}
_BLOCK_TITLE = f"""(
    SELECT title FROM main.artifact_versions AS b WHERE b.conversation_id = v.conversation_id
    AND b.artifact_id = {_GRADE_FIELDS["block_id"]} AND b.version = {_GRADE_FIELDS["block_version"]}
)"""  # noqa: S608 - constants only
_GRADER_MODEL = """(
    SELECT request_model FROM main.llm_calls
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
    reading_order(
        "block dimension persona score advice evidence_json grader_model created_at",
        *stored_columns(IDS, TEXT, "v", artifact_id="Artifact whose versions are the grades."),
        *stored_columns(IDS, INT, "v", version="Version of that artifact."),
        *stored_columns(IDS, TEXT, "v", conversation_id="Conversation of the project.", run_id="Run of the grader."),
        *stored_columns(IDS, TEXT, "v", tool_call_id="Tool call that asked for the evaluation."),
        Column("block_id", IDS, TEXT, _GRADE_FIELDS["block_id"], "Id of the graded block."),
        Column("block_version", IDS, INT, _GRADE_FIELDS["block_version"], "Graded version of the block."),
        Column("block", "what", TEXT, _BLOCK_TITLE, "Title of the block in that version."),
        Column("dimension", "what", ENUM, _GRADE_FIELDS["dimension"], "Dimension of the rubric."),
        Column(
            "persona",
            "what",
            ENUM,
            f"nullif({_GRADE_FIELDS['persona']}, '')",
            "Reader persona of the grader; NA for none.",
        ),
        Column("score", "results", INT, _GRADE_FIELDS["score"], "Score from 1 to 10."),
        Column(
            "evidence_json",
            "results",
            TEXT,
            _GRADE_FIELDS["evidence"],
            "Passages of the text that support the score, as a list.",
        ),
        Column("advice", "results", TEXT, _GRADE_FIELDS["advice"], "Suggested improvement."),
        Column("grader_model", "what", ENUM, _GRADER_MODEL, "Model of the grader."),
        *stored_columns("time", TIME, "v", created_at="When the grade was stored."),
        Column("is_active", "tree", BOOL, _IS_ACTIVE, "Whether the grade is on the active branch."),
    ),
    f"""
    (SELECT * FROM main.artifact_versions
    WHERE content_type = '{Grade.media_type}' AND tool_call_id IS NOT NULL
        AND json_type({_GRADE_JSON}, '$.score') = 'integer'
        AND json_type({_GRADE_JSON}, '$.block_version') = 'integer') AS v
    LEFT JOIN main.tool_calls AS asked ON asked.tool_call_id = v.tool_call_id
    LEFT JOIN main.llm_calls AS asking ON asking.call_id = asked.call_id
    """,  # noqa: S608 - constants only
    "coalesce(asking.started_at, v.created_at), v.run_id, asked.position, v.created_at, v.artifact_id, v.version",
    {
        "run": list_condition("v.run_id", "run"),
        "conversation": list_condition("v.conversation_id", "conversation"),
        "is_active": f"{_IS_ACTIVE} = :is_active",
        **time_filters("v.created_at"),
    },
)

# --- runs of projects ------------------------------------------------------------------------------------------------

_FIRST_VERSION = f"""main.artifact_versions AS h ON h.conversation_id = {{}}.conversation_id
    AND h.artifact_id = '{PROJECT_ID}' AND h.version = 1 AND h.content_type = '{PROJECT_MEDIA_TYPE}'"""
"""Join of the first version of a conversation's project artifact; fill in the alias of the conversation's table."""

_PROJECT_OF_RUN = f"""
WITH RECURSIVE up (run_id, conversation_id, parent_run_id) AS (
    SELECT run_id, conversation_id, parent_run_id FROM main.runs {SCOPE_CONDITION}
    UNION
    SELECT up.run_id, above.conversation_id, above.parent_run_id
    FROM up JOIN main.runs AS above ON above.run_id = up.parent_run_id
    WHERE NOT EXISTS (SELECT 1 FROM (SELECT up.conversation_id) AS c JOIN {_FIRST_VERSION.format("c")})
)
SELECT up.run_id, up.conversation_id AS project_id, project_name(h.content) AS project
FROM up JOIN {_FIRST_VERSION.format("up")} WHERE project_name(h.content) IS NOT NULL
"""  # noqa: S608 - constants only
"""Project of each run: the project of the run's conversation, or else of the nearest ancestor run in a project."""

_RUNS_OF_PROJECTS = f"""
WITH RECURSIVE down (run_id) AS (
    SELECT run_id FROM (
        SELECT c.conversation_id FROM main.conversations AS c JOIN {_FIRST_VERSION.format("c")}
        WHERE {list_condition("project_name(h.content)", "project")}
    ) JOIN main.runs USING (conversation_id)
    UNION
    SELECT below.run_id FROM down JOIN main.runs AS below ON below.parent_run_id = down.run_id
)
SELECT run_id FROM down
"""  # noqa: S608 - constants only

_REQUESTED_WORK = f"json_extract(iif(json_valid(r.settings_json), r.settings_json, '{{}}'), '$.{WORK_SETTING}')"
_WORK = f"""CASE
    WHEN r.parent_run_id IS NOT NULL THEN r.flow
    WHEN json_type({_REQUESTED_WORK}, '$.write') IS NOT NULL THEN 'write'
    WHEN json_type({_REQUESTED_WORK}, '$.evaluate') IS NOT NULL THEN 'evaluate'
    ELSE 'talk' END"""


def _add_project_functions(db: sqlite3.Connection) -> None:
    """Register `project_name(text)`: the name of the project in an artifact's text, or NULL."""

    def project_name(text: str) -> str | None:
        try:
            return ProjectInfo.from_json(text).name
        except UsageError:
            return None

    db.create_function("project_name", 1, project_name, deterministic=True)


PROJECT_RUNS = Frame(
    "project_runs",
    reading_order(
        "project work",
        *stored_columns("what", TEXT, "p", project="Name of the project."),
        Column("work", "what", ENUM, _WORK, "talk, write or evaluate; for a child run its flow."),
        *RUNS.columns,
        Column("n_blocks", "counts", INT, "coalesce(b.n_blocks, 0)", "Blocks that it wrote or rearranged."),
        Column(
            "n_block_versions", "counts", INT, "coalesce(b.n_block_versions, 0)", "Versions of blocks that it stored."
        ),
        *stored_columns(IDS, TEXT, "p", project_id="Conversation of the project."),
        Column("n_grades", "counts", INT, "coalesce(b.n_grades, 0)", "Grades that it stored."),
    ),
    f"""
    {RUN_TABLES}
    JOIN ({_PROJECT_OF_RUN}) AS p USING (run_id)
    LEFT JOIN (
        SELECT run_id,
            count(DISTINCT artifact_id) FILTER (WHERE metadata_json IS NOT NULL) AS n_blocks,
            count(metadata_json) AS n_block_versions,
            count(*) FILTER (WHERE content_type = '{Grade.media_type}' AND tool_call_id IS NOT NULL) AS n_grades
        FROM main.artifact_versions {SCOPE_CONDITION} GROUP BY run_id
    ) AS b USING (run_id)
    """,  # noqa: S608 - constants only
    RUNS.order,
    {**RUNS.filters, "project": f"r.run_id IN ({_RUNS_OF_PROJECTS})"},
    RUNS.scope,
    RUNS.scope_condition,
    _add_project_functions,
    check=_check_projects,
)
