"""Tasks that are cancelled, and plain functions beside the loop, in daemon threads that no process's end waits for."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast

T = TypeVar("T")


def is_cancelled() -> bool:
    """Whether somebody asked the current task to stop, as opposed to code that raised the exception itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def in_thread(work: Callable[[], T], name: str) -> T:
    """Run a plain function in a daemon thread, `artifactflow-<name>`, which no end of the process waits for.

    It raises what the function raises.

    An exit that the function asks for ends the function, not the process.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

    def settle(outcome: tuple[T | None, BaseException | None]) -> None:
        if not done.done():
            done.set_result(outcome)

    def run() -> None:
        try:
            outcome: tuple[T | None, BaseException | None] = work(), None
        except BaseException as error:  # noqa: BLE001 - handed over, to be raised where somebody waits
            outcome = None, error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name=f"artifactflow-{name}", daemon=True).start()
    value, error = await done
    if error is not None:
        raise error
    return cast("T", value)
