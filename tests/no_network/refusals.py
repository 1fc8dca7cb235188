"""A pytest plugin for the guard, `-p refusals`: a session in which a connection was refused has failed."""

import os
import tempfile
from pathlib import Path

import pytest
from sitecustomize import REFUSALS


def pytest_configure(config: pytest.Config) -> None:
    """Let the processes of this session, workers and kernels too, record their refused connections."""
    if hasattr(config, "workerinput"):
        return
    file, os.environ[REFUSALS] = tempfile.mkstemp(prefix="refusals-")
    os.close(file)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if a refused connection was recorded, even if code caught the error."""
    if _noted():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was refused."""
    if noted := _noted():
        terminalreporter.section("Refused connections", red=True)
        terminalreporter.write(noted)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing."""
    if not hasattr(config, "workerinput"):
        Path(os.environ.pop(REFUSALS)).unlink()


def _noted() -> str:
    return Path(os.environ[REFUSALS]).read_text(encoding="utf-8")
