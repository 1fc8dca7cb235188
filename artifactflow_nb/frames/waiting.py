"""Waiting for work that nobody can cut short: a signal or the end of the time ends the waiting, not the work.

SQLite answers no interrupt while one of its functions computes; so a statement runs beside whoever waits for it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def waited_for(work: Callable[[], T], name: str, timeout_s: float | None) -> T:
    """What the work gives or raises, in a daemon thread of its own, which no end of the process waits for.

    Args:
        work: What to do.
        name: The thread's name.
        timeout_s: After how many seconds the waiting ends with `TimeoutError`; None for never.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - handed over, to be raised where somebody waits
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done.result(None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))
