"""What a person was shown when they were asked about a call: they agreed to that, and to nothing newer."""

import re

from artifactflow_nb.store.requests import RequestStore
from artifactflow_nb.tools.base import ToolContext

_VERSION = re.compile(r"^--- .* \(version (\d+)\)$", re.MULTILINE)


def versioned(name: str, version: int) -> str:
    """How the head of a shown difference names the text that would be replaced."""
    return f"{name} (version {version})"


async def shown_version(ctx: ToolContext, **target: str) -> int | None:
    """The version that the call's difference was shown against.

    None if nobody was asked, if nothing differed, or if the person gave the call another target than this one, which
    is given by the parameter that names it.
    """
    request = await ctx.service(RequestStore).of_call(ctx.tool_call_id)
    if request is None or any(request.params.get(name) != value for name, value in target.items()):
        return None
    head = _VERSION.search(request.preview)
    return None if head is None else int(head[1])
