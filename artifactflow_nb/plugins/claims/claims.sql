-- The table with the checks of claims: `check_id` is the id of the claim and a number. The tool call gives the version,
-- because a fork gives versions other numbers. `version` is the number of a version that a person wrote, and
-- `checked_at` is NULL for a check at the time of the version. A quote that equals its claim is stored once.
-- The standing check of each claim counts: a person's last verdict, else the last check.
-- columns
check_id TEXT NOT NULL, claim_id TEXT NOT NULL, tool_call_id TEXT,
conversation_id TEXT NOT NULL, artifact_id TEXT NOT NULL, version INTEGER, n INTEGER NOT NULL,
text TEXT NOT NULL, kind TEXT NOT NULL, n_figures INTEGER NOT NULL,
status TEXT NOT NULL, method TEXT, reason TEXT, score INTEGER,
address TEXT, source_title TEXT, quote TEXT, "start" INTEGER, "end" INTEGER, page INTEGER,
checker TEXT NOT NULL, source_sha256 TEXT, checked_at INTEGER;
-- standing
main.claims AS c JOIN main.artifact_versions AS v ON v.conversation_id = c.conversation_id
AND v.artifact_id = c.artifact_id AND (v.tool_call_id = c.tool_call_id OR v.version = c.version)
AND c.rowid = (SELECT d.rowid FROM main.claims AS d WHERE d.check_id BETWEEN c.claim_id || '/' AND c.claim_id || '0'
ORDER BY d.method IS 'person' DESC, d.rowid DESC LIMIT 1);
