"""The Python of a Markdown page, run cell by cell as in a notebook."""

import ast
import inspect
import re
from typing import Any

CELLS = re.compile(r"```python\n(.*?)```", re.DOTALL)


async def run_cells(page: str) -> dict[str, Any]:
    """Run the Python of a page; return the names that it defines."""
    names: dict[str, Any] = {}
    for cell in CELLS.findall(page):
        code = compile(cell, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if inspect.iscoroutine(running := eval(code, names)):  # noqa: S307 - the project's own page
            await running
    return names
