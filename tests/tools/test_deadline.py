"""Blocking work in threads with a time limit."""

import asyncio
import threading

import pytest

from artifactflow_nb.tools.threads import run_with_timeout


async def test_result_is_returned_and_error_is_raised():
    """The caller gets the function's result or its exception."""
    assert await run_with_timeout(5, lambda: threading.current_thread().daemon, "daemon") is True
    with pytest.raises(ZeroDivisionError):
        await run_with_timeout(5, lambda: 1 / 0, "error")


async def test_function_runs_on_after_its_time_limit():
    """The caller continues after the limit, and the thread's later result is ignored."""
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
    """A loop ends while the thread still runs, and the thread raises no error after the end of the loop."""
    may_end = threading.Event()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await run_with_timeout(0.02, lambda: may_end.wait(5), "late")

    asyncio.run(give_up())
    (working,) = (thread for thread in threading.enumerate() if thread.name == "artifactflow-tool-late")
    may_end.set()
    working.join(5)
    assert not working.is_alive()
