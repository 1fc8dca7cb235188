from datetime import UTC, datetime, timedelta

from artifactflow_nb.ambient import CountingIds, RandomIds, SteppingClock, SystemClock


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


def test_a_stepping_clock_gives_the_same_times_in_every_run():
    """Each reading is one step later, whichever of the two readings it is."""
    clock = SteppingClock(step_ms=10)
    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=10)
    assert clock.monotonic() == 0.02
    assert SteppingClock(step_ms=10).now() == SteppingClock(step_ms=10).now()


def test_counting_ids_count_for_each_prefix():
    """Ids repeat from run to run, and prefixes do not disturb each other."""
    ids = CountingIds()
    assert [ids.new("run"), ids.new("msg"), ids.new("run")] == ["run-0001", "msg-0001", "run-0002"]
