"""The helper for processor time tells expensive from cheap work."""

import time

import pytest
from support.cpu_time import check_linear, within


def busy(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_expensive_work_fails_and_cheap_work_is_tried_once() -> None:
    """Work above the limit is tried `tries` times and then fails with its time."""
    n_tries = 0

    def work(limit_s: float, spent_s: float) -> None:
        nonlocal n_tries
        for attempt in within(limit_s, tries=3):
            with attempt:
                n_tries += 1
                busy(spent_s)

    work(0.05, 0)
    assert n_tries == 1
    with pytest.raises(pytest.fail.Exception, match=r"takes 0\.0\d+ s"):
        work(0.001, 0.03)
    assert n_tries == 4


def test_quadratic_work_is_not_linear() -> None:
    """Work whose time is the square of its size fails; work in proportion to its size does not."""

    def seconds(size: int, power: int) -> float:
        return 0.002 * (size / 1_000) ** power

    check_linear(lambda size: seconds(size, 1))
    with pytest.raises(pytest.fail.Exception, match="four times as much"):
        check_linear(lambda size: seconds(size, 2))
