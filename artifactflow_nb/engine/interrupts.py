"""Deferral of interrupts of the main thread (Ctrl+C, a notebook's Stop button) during a critical section."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self


class DeferredInterrupts:
    """Defers SIGINT within a `with` block of the main thread; at its end the usual handler is called.

    Attributes:
        interrupted_at: The time of the first interrupt, by `time.monotonic`; None without one.
    """

    def __init__(self) -> None:
        self.interrupted_at: float | None = None
        self._handler: Callable[[int, FrameType | None], Any] | None = None

    def __enter__(self) -> Self:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and threading.current_thread() is threading.main_thread():
            self._handler = handler
            signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.interrupted_at = self.interrupted_at or time.monotonic()

    def __exit__(self, *_exc: object) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            if self.interrupted_at is not None:
                self._handler(signal.SIGINT, None)
