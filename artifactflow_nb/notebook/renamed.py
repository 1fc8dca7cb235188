"""Earlier names of the members of a workbench, which work until the release 0.3, with a warning."""

from collections.abc import Callable
from typing import Any


def _asking(wb: Any, request_id: str) -> Any:
    return next(wb.run(request.run_id) for request in wb.pending() if request.id == request_id)


RENAMED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "add_sources": ("wb.sources.add", lambda wb: wb.sources.add),
    "embed_sources": ("wb.sources.embed", lambda wb: wb.sources.embed),
    "check_retrieval": ("wb.sources.choose_ranking", lambda wb: wb.sources.choose_ranking),
    "search_df": ("wb.sources.search_df", lambda wb: wb.sources.search_df),
    "refresh": ("wb.sources.refresh", lambda wb: wb.sources.refresh),
    "works_df": ("wb.literature.works_df", lambda wb: wb.literature.works_df),
    "backup": ("wb.store.backup", lambda wb: wb.store.backup),
    "prune": ("wb.store.prune", lambda wb: wb.store.prune),
    "storage_df": ("wb.store.storage_df", lambda wb: wb.store.storage_df),
    "import_run": ("wb.store.import_run", lambda wb: wb.store.import_run),
    "withdraw": ("wb.store.withdraw", lambda wb: wb.store.withdraw),
    "regenerate": ("wb.conversation(run).regenerate", lambda wb: lambda of, **o: wb.conversation(of).regenerate(**o)),
    "edit": ("wb.conversation(run).edit", lambda wb: lambda of, *q, **o: wb.conversation(of).edit(*q, **o)),
    "activate_branch": ("wb.conversation(run).activate", lambda wb: lambda of: wb.conversation(of).activate()),
    "delete_branch": ("wb.conversation(run).delete_branch", lambda wb: lambda of: wb.conversation(of).delete_branch()),
    "delete_conversation": ("wb.conversation(run).delete", lambda wb: lambda of: wb.conversation(of).delete()),
    "rename_conversation": ("wb.conversation(run).rename", lambda wb: lambda of, to: wb.conversation(of).rename(to)),
    "unfinished": ("wb.runs(unfinished=True)", lambda wb: lambda: wb.runs(unfinished=True)),
    "known_models": ("wb.models(ask_endpoint=False)", lambda wb: lambda: wb.models(ask_endpoint=False)),
    "register_tool": ("wb.tool", lambda wb: wb.tool),
    "approve": ("run.approve", lambda wb: lambda key: _asking(wb, key).approve(key)),
    "deny": ("run.deny", lambda wb: lambda key, reason="": _asking(wb, key).deny(reason, key)),
    "answer": ("run.answer", lambda wb: lambda key, answer: _asking(wb, key).answer(answer, key)),
}
"""The new name in code, and a function that returns the member, by the old name."""
