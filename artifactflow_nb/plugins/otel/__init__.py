"""OpenTelemetry: runs that have ended as traces, for programs that show traces.

Traces are made of the rows after the run, so that no collector slows a run down, and a second export is the same.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from artifactflow_nb.engine.plugin import Plugin
from artifactflow_nb.notebook.run import RunRecord, run_access
from artifactflow_nb.plugins.otel.otlp import encode, send
from artifactflow_nb.plugins.otel.spans import Dialect, Trace, load_trace
from artifactflow_nb.store.database import read_store

NOUNS = frozenset({"openinference", "otel", "otlp"})
"""Words that no identifier outside of this folder has; `tests/package/test_plugins.py` checks it."""

Runs = RunRecord | str | Iterable[RunRecord | str]


class Traces:
    """`wb.otel`, and `run.otel` of a sealed run: traces of runs. The methods take runs, sealed runs and ids of runs."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def traces(self, runs: Runs, *, content: bool = False) -> list[Trace]:
        """Return the trace of each run as a value, to see what an export has; arguments and errors as for `encode`."""
        loaded: list[Trace] = []
        for run in [runs] if isinstance(runs, RunRecord | str) else runs:
            store, run_id, redactor = run_access(self._owner, run)
            loaded += [read_store(store, partial(load_trace, run_id=run_id, redactor=redactor, with_content=content))]
        return loaded

    def encode(self, runs: Runs, *, dialect: Dialect = "genai", content: bool = False) -> bytes:
        """Return the traces of runs as a request of OTLP in protobuf (needs `artifactflow-nb[otel]`).

        Args:
            runs: A run that has ended, or several runs.
            dialect: `genai` for the semantic conventions of OpenTelemetry, `openinference` for the conventions of
                Phoenix.
            content: Whether spans have questions, prompts, replies, arguments, results and answers. Secrets are masked.

        Errors: `NotFound` for an unknown run; `Conflict` for a run that has not ended; `UsageError` for an unknown
        dialect, and without the package opentelemetry-proto.
        """
        return encode(self.traces(runs, content=content), dialect)

    def send(
        self, runs: Runs, *, to: str, dialect: Dialect = "genai", content: bool = False,
        headers: Mapping[str, str] | None = None, timeout_s: float = 10.0,
    ) -> int:  # fmt: skip
        """Send the traces of runs to a collector, and return the number of spans that the collector took.

        Args:
            runs: As for `encode`.
            dialect: As for `encode`.
            content: As for `encode`.
            to: The address of the collector, such as `http://127.0.0.1:4318`; without a path, `/v1/traces` is added.
            headers: Further headers of the request, such as a key.
            timeout_s: The longest time for the whole exchange, in seconds.

        Errors: As for `encode`, and `UsageError` if the collector does not take the spans; no run is affected.
        """
        traces = self.traces(runs, content=content)
        return sum(len(trace.spans) for trace in traces) - send(encode(traces, dialect), to, headers or {}, timeout_s)


OTEL = Plugin("otel")
