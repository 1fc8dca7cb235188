from datetime import UTC, datetime, timedelta

from artifactflow_nb.core.clock_ids import RandomIds, SystemClock


def test_system_clock_is_aware_and_monotonic():
    """`now` is aware and in UTC; `monotonic` never decreases."""
    clock = SystemClock()
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() <= clock.monotonic()


def test_random_ids_have_their_prefix_and_are_unique():
    """An id starts with its prefix, and two ids differ."""
    ids = [RandomIds().new("run") for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert all(name.startswith("run-") and len(name) == 20 for name in ids)
