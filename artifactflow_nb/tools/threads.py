"""Blocking functions in daemon threads, with or without a time limit, and a check for cancellation.

`asyncio.to_thread` is not used, because the interpreter joins the threads of its pool at exit, so a blocked function
would keep the process alive. A thread cannot be stopped; after the time limit it continues and its result is dropped.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast

T = TypeVar("T")


def is_task_cancelled() -> bool:
    """Return whether the current task was cancelled, as opposed to code that raised `CancelledError` itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def run_in_thread(work: Callable[[], T], name: str) -> T:
    """Run a plain function in a daemon thread named `artifactflow-<name>`; return its value or raise its exception.

    `SystemExit` ends the function and is raised to the caller like any other exception.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

    def settle(outcome: tuple[T | None, BaseException | None]) -> None:
        if not done.done():
            done.set_result(outcome)

    def run() -> None:
        try:
            outcome: tuple[T | None, BaseException | None] = work(), None
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's task
            outcome = None, error
        with suppress(RuntimeError):  # the loop is closed, so nobody waits for the outcome
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name=f"artifactflow-{name}", daemon=True).start()
    value, error = await done
    if error is not None:
        raise error
    return cast("T", value)


async def run_with_timeout(timeout_s: float, work: Callable[[], T], name: str) -> T:
    """Run a plain function in a daemon thread named after `name`; `TimeoutError` after `timeout_s` seconds."""
    async with asyncio.timeout(timeout_s):
        return await run_in_thread(work, f"tool-{name}")
