"""Blocking work in threads with a time limit."""

import asyncio
import threading

import pytest

from artifactflow_nb.tools.threads import run_with_timeout


async def test_a_result_comes_back_and_an_error_is_raised():
    """What the function returns is returned, and what it raises is raised where it is awaited."""
    assert await run_with_timeout(5, lambda: threading.current_thread().daemon, "daemon") is True
    with pytest.raises(ZeroDivisionError):
        await run_with_timeout(5, lambda: 1 / 0, "error")


async def test_function_runs_on_after_its_time_limit():
    """After its time the caller goes on, and what the thread gives later disturbs nobody."""
    may_end, done = threading.Event(), threading.Event()

    def slow() -> None:
        may_end.wait(5)
        done.set()

    with pytest.raises(TimeoutError):
        await run_with_timeout(0.02, slow, "slow")
    assert not done.is_set()
    may_end.set()
    await asyncio.to_thread(done.wait, 5)
    await asyncio.sleep(0.02)


def test_late_function_does_not_delay_the_end_of_a_loop():
    """A loop ends while the thread still works, and the thread that finds no loop is silent."""
    may_end = threading.Event()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await run_with_timeout(0.02, lambda: may_end.wait(5), "late")

    asyncio.run(give_up())
    (working,) = (thread for thread in threading.enumerate() if thread.name == "artifactflow-tool-late")
    may_end.set()
    working.join(5)
    assert not working.is_alive()
