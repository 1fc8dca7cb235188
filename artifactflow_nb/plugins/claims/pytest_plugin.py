"""`pytest --claims paper.ipynb`: a test for each Markdown cell with figures; it fails if a figure differs."""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--claims`."""
    group = parser.getgroup("claims", "figures in the prose of notebooks")
    group.addoption("--claims", action="store_true", help="check the prose of the notebooks (.ipynb) that are named")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "ClaimsFile | None":
    """Collect a notebook if `--claims` is on."""
    is_on = parent.config.getoption("--claims") and file_path.suffix == ".ipynb"
    return ClaimsFile.from_parent(parent, path=file_path) if is_on else None


class ClaimsFile(pytest.File):
    """A notebook."""

    def collect(self) -> Iterator["ClaimsItem"]:
        """Yield an item for each Markdown cell with figures."""
        from artifactflow_nb.errors import UsageError
        from artifactflow_nb.plugins.claims.report import check_notebook

        try:
            report = check_notebook(self.path)
        except UsageError as error:
            raise self.CollectError(str(error)) from None
        for number, checks in groupby(report.checks, attrgetter("cell")):
            item = ClaimsItem.from_parent(self, name=f"cell {number}")
            item.checks = list(checks)
            yield item


class ClaimsItem(pytest.Item):
    """The figures of a cell."""

    checks: list[Any]

    def runtest(self) -> None:
        """Fail if a figure differs from its output."""
        wrong = [f"{each.text}\n    {each.reason} ({each.where})" for each in self.checks if each.status == "differs"]
        if wrong:
            pytest.fail("\n".join(wrong), pytrace=False)
