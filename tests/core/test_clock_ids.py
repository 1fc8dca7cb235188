from datetime import UTC, datetime, timedelta

from artifactflow_nb.core.clock_ids import RandomIds, SystemClock


def test_the_system_clock_is_aware_and_does_not_run_backwards():
    """The time of day is UTC and aware; durations come from a clock that is never set back."""
    clock = SystemClock()
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() <= clock.monotonic()


def test_random_ids_carry_their_prefix_and_do_not_repeat():
    """An id says what it names, and two are never the same."""
    ids = [RandomIds().new("run") for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert all(name.startswith("run-") and len(name) == 20 for name in ids)
