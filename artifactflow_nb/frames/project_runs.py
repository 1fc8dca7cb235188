"""The frame of the runs of projects: those in a project's conversation, and those that these began.

A row says of a run what that of `runs` says, and which project it worked for and what came of it there. What a run that
it began spent stands in the row of that one.
"""

from artifactflow_nb.evaluations import GRADE_TYPE
from artifactflow_nb.frames.columns import ENUM, IDS, INT, TEXT, WITHIN, Column, Frame, stored
from artifactflow_nb.frames.filters import of_list
from artifactflow_nb.frames.runs import RUN_TABLES, RUNS
from artifactflow_nb.projects import PROJECT, PROJECT_TYPE, WORK

_HEAD = f"""main.artifact_versions AS h ON h.conversation_id = {{}}.conversation_id
    AND h.artifact_id = '{PROJECT}' AND h.version = 1 AND h.content_type = '{PROJECT_TYPE}'"""
"""The first version of what a conversation holds as its project."""

_WORKED_FOR = f"""
WITH RECURSIVE up (run_id, conversation_id, parent_run_id) AS (
    SELECT run_id, conversation_id, parent_run_id FROM main.runs {WITHIN}
    UNION
    SELECT up.run_id, above.conversation_id, above.parent_run_id
    FROM up JOIN main.runs AS above ON above.run_id = up.parent_run_id
    WHERE NOT EXISTS (SELECT 1 FROM (SELECT up.conversation_id) AS c JOIN {_HEAD.format("c")})
)
SELECT up.run_id, up.conversation_id AS project_id, project_name(h.content) AS project
FROM up JOIN {_HEAD.format("up")} WHERE project_name(h.content) IS NOT NULL
"""  # noqa: S608 - constants only
"""The project of each run: of its own conversation, or else of that of the run that began it."""

_OF_PROJECTS = f"""
WITH RECURSIVE down (run_id) AS (
    SELECT run_id FROM (
        SELECT c.conversation_id FROM main.conversations AS c JOIN {_HEAD.format("c")}
        WHERE {of_list("project_name(h.content)", "project")}
    ) JOIN main.runs USING (conversation_id)
    UNION
    SELECT below.run_id FROM down JOIN main.runs AS below ON below.parent_run_id = down.run_id
)
SELECT run_id FROM down
"""  # noqa: S608 - constants only

_ASKED = f"json_extract(iif(json_valid(r.settings_json), r.settings_json, '{{}}'), '$.{WORK}')"
_WORK = f"""CASE
    WHEN r.parent_run_id IS NOT NULL THEN r.flow
    WHEN json_type({_ASKED}, '$.write') IS NOT NULL THEN 'write'
    WHEN json_type({_ASKED}, '$.evaluate') IS NOT NULL THEN 'evaluate'
    ELSE 'talk' END"""

PROJECT_RUNS = Frame(
    "project_runs",
    (
        *stored(IDS, TEXT, "p", project_id="The conversation of the project that it worked for."),
        *stored("what", TEXT, "p", project="That project."),
        Column("work", "what", ENUM, _WORK, "talk, write or evaluate; of a run that another one began, its flow."),
        *RUNS.columns,
        Column("n_blocks", "counts", INT, "coalesce(b.n_blocks, 0)", "Blocks that it wrote or arranged."),
        Column("n_block_versions", "counts", INT, "coalesce(b.n_block_versions, 0)", "Versions of blocks, so written."),
        Column("n_grades", "counts", INT, "coalesce(b.n_grades, 0)", "Grades that it gave."),
    ),
    f"""
    {RUN_TABLES}
    JOIN ({_WORKED_FOR}) AS p USING (run_id)
    LEFT JOIN (
        SELECT run_id,
            count(DISTINCT artifact_id) FILTER (WHERE block_json IS NOT NULL) AS n_blocks,
            count(block_json) AS n_block_versions,
            count(*) FILTER (WHERE content_type = '{GRADE_TYPE}' AND tool_call_id IS NOT NULL) AS n_grades
        FROM main.artifact_versions {WITHIN} GROUP BY run_id
    ) AS b USING (run_id)
    """,  # noqa: S608 - constants only
    RUNS.order,
    {
        **RUNS.filters,
        "project": f"r.run_id IN ({_OF_PROJECTS})",
    },
    RUNS.scope,
    RUNS.within,
)
