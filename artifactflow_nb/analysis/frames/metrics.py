"""The frame of metrics: model calls in groups, with tokens, times, cost and failures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactflow_nb.analysis.frames.reading import load_frame, schema_name
from artifactflow_nb.analysis.frames.runs import RUN_STATUS
from artifactflow_nb.core.approvals import DENIED_ERRORS
from artifactflow_nb.core.language import agent_label
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.core.text.format import did_you_mean
from artifactflow_nb.errors import RunCancelled, UsageError, brief, check_text
from artifactflow_nb.store.frames import (
    ENUM,
    FLOAT,
    INT,
    TEXT,
    TIME,
    Column,
    Frame,
    RunFilter,
    list_condition,
    time_filters,
)

if TYPE_CHECKING:
    import pandas as pd

GROUPS: Mapping[str, Sequence[str]] = {
    "agent": ["agent_name"],
    "model": ["model"],
    "flow": ["flow"],
    "conversation": ["title", "conversation_id"],
    "day": ["day"],
    "run": ["question", "run_id", "status", "started_at", "conversation_id", "message_id"],
}
"""The columns of each kind of group: first the name for readers, then the id of the group if the key is an id."""

_AS_MODEL = f"c.provider <> '{COMPUTED_PROVIDER}'"
_MODEL = f"iif({_AS_MODEL}, coalesce(c.response_model, c.request_model), NULL)"
_IS_TIMED = f"c.error_type IS NULL AND {_AS_MODEL}"
_IS_UNPRICED = f"c.cost_usd IS NULL AND c.input_tokens IS NOT NULL AND {_AS_MODEL}"
_N_FAILURES = f"coalesce(c.error_type <> '{RunCancelled.__name__}', 0) + coalesce(t.n_failed, 0)"
_TIME = "coalesce(c.started_at, s.started_at)"
_NOT_FAILED = ", ".join(f"'{name}'" for name in (*sorted(DENIED_ERRORS), RunCancelled.__name__))

_CALLS = Frame(
    "metrics",
    tuple(
        Column(name, "what", dtype, sql, "")
        for name, dtype, sql in (
            *((name, TEXT, f"r.{name}") for name in ("run_id", "conversation_id", "message_id", "question")),
            *(("status", TEXT, RUN_STATUS), ("started_at", TIME, "r.started_at"), ("title", TEXT, "v.title")),
            *(("agent_name", TEXT, "c.agent_name"), ("model", TEXT, _MODEL), ("flow", TEXT, "s.flow")),
            ("day", TEXT, f"date({_TIME} / 1000000, 'unixepoch', 'localtime')"),
            ("n_llm_calls", INT, "c.call_id IS NOT NULL AND c.error_type IS NULL"),
            *(("n_failures", INT, _N_FAILURES), ("total_tokens", INT, "c.input_tokens + c.output_tokens")),
            *(("is_estimated", INT, "coalesce(c.tokens_estimated, 0)"), ("cached", INT, "c.cache_read_tokens")),
            ("cacheable", INT, "iif(c.cache_read_tokens IS NULL, NULL, c.input_tokens)"),
            ("ttft_ms", FLOAT, f"iif({_IS_TIMED}, c.ttft_ms, NULL)"),
            ("latency_ms", FLOAT, f"iif({_IS_TIMED}, c.llm_duration_ms, NULL)"),
            *(("cost_usd", FLOAT, "c.cost_usd"), ("n_unpriced", INT, f"coalesce({_IS_UNPRICED}, 0)")),
        )
    ),
    # `s` is the run of a call, `r` the run that a person started, which includes its subruns.
    f"""
    main.runs AS s JOIN main.runs AS r ON r.run_id = coalesce(s.parent_run_id, s.run_id)
    JOIN main.conversations AS v ON v.conversation_id = r.conversation_id
    LEFT JOIN main.llm_calls AS c ON c.run_id = s.run_id
    LEFT JOIN (
        SELECT call_id, count(*) AS n_failed FROM main.tool_calls
        WHERE success = 0 AND coalesce(error_type, '') NOT IN ({_NOT_FAILED}) GROUP BY call_id
    ) AS t ON t.call_id = c.call_id
    """,  # noqa: S608 - constants only
    "r.rowid DESC, c.started_at, c.call_id",
    {
        "run": f"({list_condition('r.run_id', 'run')} OR {list_condition('s.run_id', 'run')})",
        "conversation": list_condition("r.conversation_id", "conversation"),
        "agent": list_condition("c.agent_name", "agent"),
        "model": list_condition(f"({_MODEL})", "model"),
        "flow": list_condition("s.flow", "flow"),
        **time_filters(f"({_TIME})"),
    },
)
"""One row per attempt of a model call, and one row for a run without model calls."""


def load_metrics_frame(
    store: Path, run: RunFilter, by: str, search: str, sort: str | None, *, ascending: bool, **filters: Any
) -> "pd.DataFrame":
    """Load the metrics of groups of calls; for the arguments see `Frames.metrics_df`."""
    if by not in GROUPS:
        raise UsageError(f"by is {brief(by)}; it must be one of {', '.join(GROUPS)}.")
    check_text("search", search)
    calls = load_frame(store, _CALLS, run, **filters)
    first, *others = columns = GROUPS[by]
    key = others[0] if others else first
    grouped = calls.groupby(key, sort=False)
    counts = grouped[["n_llm_calls", "n_failures", "is_estimated", "n_unpriced"]].sum()
    sums = grouped[["total_tokens", "cached", "cacheable", "cost_usd"]].sum(min_count=1)
    times = grouped[["ttft_ms", "latency_ms"]]
    shares = {"p50": times.quantile(0.5), "p95": times.quantile(0.95)}
    frame = calls.dropna(subset=key).drop_duplicates(key).set_index(key)[[name for name in columns if name != key]]
    frame = frame.assign(
        n_runs=grouped["run_id"].nunique() if by != "run" else 1,
        n_llm_calls=counts["n_llm_calls"],
        total_tokens=sums["total_tokens"],
        cached_share=sums["cached"] / sums["cacheable"].where(sums["cacheable"] > 0),
        **{f"{name}_{share}_ms": shares[share][f"{name}_ms"] for name in ("ttft", "latency") for share in shares},
        cost_usd=sums["cost_usd"],
        n_failures=counts["n_failures"],
        tokens_estimated=counts["is_estimated"] > 0,
        n_unpriced=counts["n_unpriced"],
    ).reset_index()
    frame = frame.drop(columns="n_runs") if by == "run" else frame
    names = sorted(map(str, frame), key=lambda name: (name.endswith("_id"), name != first))
    types = {"n_runs": INT, **dict.fromkeys(("agent_name", "model", "flow", "status"), ENUM)}
    frame = frame.astype({name: types[name] for name in names if name in types})[names]
    frame.attrs["schema"] = schema_name(_CALLS.name)
    texts = frame[first].astype(str)
    texts = (texts + " " + texts.map(agent_label) if by == "agent" else texts).str.casefold()
    for word in search.casefold().split():
        frame = frame[texts[frame.index].str.contains(word, regex=False)]
    sort = sort or {"run": "started_at", "day": "day"}.get(by, "total_tokens")
    if sort not in names:
        raise UsageError(f"sort is {brief(sort)}.{did_you_mean(sort, names)} The columns are {', '.join(names)}.")
    return frame.sort_values(sort, ascending=ascending, kind="stable", ignore_index=True)
