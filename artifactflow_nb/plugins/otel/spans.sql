-- The facts of one run (:run_id) by operation. A name with an underscore is no fact; texts are NULL without :content.

-- invoke_workflow
WITH calls AS (
    SELECT cost_usd, cost_usd IS NULL AND input_tokens IS NOT NULL AND provider <> :computed AS is_unpriced
    FROM llm_calls WHERE run_id = :run_id
)
SELECT run_id AS _id, flow AS _name, started_at AS _start, completed_at AS _end, flow AS agent,
    conversation_id AS conversation, run_id, mode, status, outcome, error_type AS error,
    (SELECT iif(total(is_unpriced), NULL, sum(cost_usd)) FROM calls) AS cost_usd,
    (SELECT nullif(sum(is_unpriced), 0) FROM calls) AS unpriced_calls,
    CASE WHEN :content THEN question END AS input,
    CASE WHEN :content THEN (SELECT stored_text(response) FROM messages AS m WHERE m.message_id = r.message_id) END
        AS output
FROM runs AS r WHERE run_id = :run_id;

-- chat
SELECT call_id AS _id, job_id AS _job, request_model AS _name, started_at AS _start, completed_at AS _end,
    agent_name AS agent, provider, request_model, coalesce(response_model, request_model) AS response_model,
    temperature, finish_reason, ttft_ms / 1000 AS first_chunk_s, input_tokens, output_tokens, reasoning_tokens,
    cache_read_tokens, tokens_estimated, cost_usd, attempt, step, call_id, cassette, error_type AS error,
    request_base AS _base, CASE WHEN :content THEN stored_text(request_json) END AS _prompt,
    CASE WHEN :content THEN stored_text(content) END AS output
FROM llm_calls WHERE run_id = :run_id ORDER BY rowid;

-- execute_tool
SELECT tool_call_id AS _id, t.job_id AS _job, tool_name AS _name,
    -- A call that a person denied has no start.
    coalesce(called_at, t.completed_at, c.completed_at) AS _start,
    coalesce(t.completed_at, called_at, c.completed_at) AS _end,
    t.agent_name AS agent, tool_name AS tool, tool_call_id, t.call_id, t.step, t.status, approval, t.cassette,
    coalesce(t.error_type, CASE WHEN success = 0 THEN 'failed' END) AS error,
    CASE WHEN :content THEN stored_text(args_json) END AS input,
    CASE WHEN :content THEN stored_text(result) END AS output
FROM tool_calls AS t JOIN llm_calls AS c USING (call_id) WHERE t.run_id = :run_id ORDER BY t.rowid;

-- approval
SELECT job_id AS _job, asked_at AS _asked, decided_at AS _decided, tool_name AS tool, tool_call_id, kind, decision, scope
FROM approvals WHERE run_id = :run_id ORDER BY rowid;

-- caller
SELECT job_id AS _job, tool_call_id AS _id FROM plan_jobs WHERE run_id = :run_id
UNION ALL SELECT request_id, tool_call_id FROM approvals WHERE run_id = :run_id AND tool_call_id IS NOT NULL
UNION ALL SELECT tool_call_id, tool_call_id FROM tool_calls WHERE run_id = :run_id;

-- family
WITH RECURSIVE family (run_id) AS (
    SELECT :run_id UNION SELECT r.run_id FROM runs AS r JOIN family AS f ON r.parent_run_id = f.run_id
)
SELECT run_id, package_version FROM runs WHERE run_id IN family ORDER BY rowid;
