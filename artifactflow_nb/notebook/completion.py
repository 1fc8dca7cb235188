"""Completion of a workbench in IPython: the main methods first, and the values of arguments.

::

    wb.<tab>                   ask, chat, pending, ... before the other attributes
    wb.ask("...", flow="<tab>  the names of the flows
    wb.artifacts()["<tab>      the ids of the artifacts
    wb.plugin["<tab>           the keys of the attribute that a plugin adds to the workbench
"""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from artifactflow_nb.analysis.frames.api import Frames
from artifactflow_nb.core.runs import DEPTHS
from artifactflow_nb.errors import ArtifactFlowError

_IDENTIFIER = "artifactflow.workbench"

VERBS = ("ask", "chat", "pending", "sources", "runs", "artifacts", "conversations", "tree")
"""The methods that come first, in this order."""

_ATTRIBUTE = re.compile(r"(?<![\w.])(\w+)\.(\w*)\Z")
_ARGUMENT = re.compile(r"(?<![\w.])(\w+)\.\w+\((?:[^()]|\([^()]*\))*\b(\w+)\s*=\s*([\"'])([^\"'\n]*)\Z")
_KEY = re.compile(r"(?<![\w.])(\w+)\.(\w+)\[([\"'])([^\"'\n]*)\Z")
_ARTIFACT = re.compile(r"(?<![\w.])(\w+)\.artifacts\(([\w.]*)\)\[([\"'])([^\"'\n]*)\Z")


def complete(text: str, names: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """Return the fragment before the cursor and the completions, in order; None leaves the completion to IPython."""
    for pattern in (_ARGUMENT, _ARTIFACT, _KEY, _ATTRIBUTE):
        match = pattern.search(text)
        wb = names.get(match[1]) if match else None
        if match is None or not (isinstance(wb, Frames) and getattr(wb, "is_open", False)):
            continue
        if pattern is _ATTRIBUTE:
            public = [name for name in dir(wb) if not name.startswith("_")] if match[2][:1] != "_" else dir(wb)
            ordered = dict.fromkeys([*VERBS, *public])
            return match[2], [name for name in ordered if name.startswith(match[2])]
        try:
            if pattern is _ARGUMENT:
                candidates = _values(wb, match[2])
            elif pattern is _KEY:
                candidates = getattr(getattr(wb, match[2], None), "_ipython_key_completions_", list)()
            else:  # the artifacts of a branch that a variable names, or of the newest conversation
                candidates = list(cast(Any, wb).artifacts(names.get(match[2]) if match[2] else None))
        except ArtifactFlowError:  # for example, there may be no conversation yet
            return None
        return match[4], [name for name in candidates if name.startswith(match[4])]
    return None


def _values(wb: Any, argument: str) -> Sequence[str]:
    """Return the possible values of an argument of the workbench's methods; empty for free text."""
    match argument:
        case "flow":
            return list(wb.flows)
        case "model":
            return list(wb.models(ask_endpoint=False))
        case "depth":
            return DEPTHS
        case _:
            return ()


def add_completion() -> None:
    """Add the completion to the IPython shell, if there is one; idempotent."""
    if "IPython" not in sys.modules:
        return
    from IPython.core.completer import SimpleCompletion, context_matcher
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None or not hasattr(shell, "Completer"):
        return
    matchers = shell.Completer.custom_matchers
    if any(getattr(matcher, "matcher_identifier", "") == _IDENTIFIER for matcher in matchers):
        return

    @context_matcher(identifier=_IDENTIFIER)  # type: ignore[untyped-decorator]  # of IPython
    def match_workbench(context: Any) -> dict[str, Any]:
        fragment, completions = complete(context.text_until_cursor, shell.user_ns) or ("", [])
        return {
            "completions": [SimpleCompletion(text) for text in completions],
            "matched_fragment": fragment,
            "ordered": True,
            "suppress": bool(completions),
        }

    matchers.append(match_workbench)
