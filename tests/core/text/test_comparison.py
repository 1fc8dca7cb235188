"""Line splitting and unified diffs."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cpu_time import within

from artifactflow_nb.core.text.comparison import COARSE, MAX_LINES, split_lines, unified_diff
from artifactflow_nb.core.text.diff import diff_html

FEW_LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "a\r\n", " a\n", "c\u2028d\n", "-\n"]), max_size=12)
TEXTS = st.builds(lambda lines, end: "".join(lines) + end, FEW_LINES, st.sampled_from(["", "a", "z"]))
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")


def patched(text: str, diff: str) -> str:
    """Apply a unified diff to a text; assert that the text has the unchanged and removed lines."""
    old, new, position = split_lines(text), [], 0
    lines = split_lines(diff.replace("\n\\ No newline at end of file\n", "\r\r"))[2:]
    for line in lines:
        if head := HUNK.fullmatch(line):
            start = int(head[1]) - (head[2] != "0")
            new += old[position:start]
            position = start
            continue
        for part in re.split("(?<=\r\r)", line):
            body = part[1:].removesuffix("\r\r")
            if part[:1] in {" ", "-"}:
                assert old[position] == body
                position += 1
            if part[:1] in {" ", "+"}:
                new.append(body)
    return "".join([*new, *old[position:]])


@given(st.text())
def test_split_lines_join_to_the_text(text: str) -> None:
    """No character changes, and every line but the last ends with a line feed."""
    lines = split_lines(text)
    assert "".join(lines) == text
    assert all(line.endswith("\n") for line in lines[:-1])
    assert "" not in lines


@given(TEXTS, TEXTS)
@settings(max_examples=300)
def test_diff_transforms_one_text_into_the_other(before: str, after: str) -> None:
    """The diff applied to the old text gives the new text; the diff of equal texts is empty."""
    diff = unified_diff(before, after, "a", "b")
    assert patched(before, diff) == after
    assert (diff == "") == (before == after)


def test_diff_has_three_lines_of_context() -> None:
    """Distant changes are in hunks of their own."""
    before = "".join(f"{n}\n" for n in range(40))
    after = before.replace("\n5\n", "\nfive\n").replace("\n30\n", "\n")
    assert unified_diff(before, after, "a", "b") == (
        "--- a\n+++ b\n@@ -3,7 +3,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
        "@@ -28,7 +28,6 @@\n 27\n 28\n 29\n-30\n 31\n 32\n 33\n"
    )


@pytest.mark.parametrize("n_lines", [1_000, 4_000])
def test_coarse_diff_of_too_many_lines_has_a_remark(n_lines: int) -> None:
    """Beyond the limit, everything between the first and the last change counts as replaced."""
    lines = [f"line {n}\n" for n in range(n_lines)]
    changed = ["same\n", "first\n", *lines[1:-1], "last\n", "same\n"]
    diff = unified_diff("".join(["same\n", *lines, "same\n"]), "".join(changed), "a", "b")
    is_coarse = 2 * n_lines > MAX_LINES
    assert diff.count(COARSE) == is_coarse
    assert diff.count("\n-") == diff.count("\n+") - 1 == (n_lines if is_coarse else 2)
    heading = diff_html("".join(lines), "".join(changed)).partition("</p>")[0]
    assert (COARSE in heading) == is_coarse


def random_lines(kinds: int, n: int, seed: int) -> str:
    chance = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    return "".join(f"{chance.randrange(kinds):05d}\n" for _ in range(n))


@pytest.mark.timed
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "".join(f"old line {n} of it\n" for n in range(5_000)),
            "".join(f"new line {n} of it\n" for n in range(5_000)),
        ),
        ("\n" * 100_000, "\n" * 99_000),
        ("x\n" * 50_000, "y\n" * 50_000),
        ("x\ny\n" * 25_000, "y\ny\nx\n" * 16_000),
        (random_lines(2, 16_000, 1), random_lines(2, 16_000, 2)),
        (random_lines(1_000, 16_000, 1), random_lines(1_000, 16_000, 2)),
        (random_lines(50, 15_000, 1), "".join(sorted(split_lines(random_lines(50, 15_000, 1))))),
        ("a" * 100_000, "b" * 100_000),
    ],
    ids=["all changed", "blank", "all one", "interleaved", "two kinds", "many kinds", "sorted", "one line"],
)
def test_cost_of_a_diff_is_bounded(before: str, after: str) -> None:
    """Two texts of 100 KB take less than 200 ms of CPU time, with any content."""
    for attempt in within(0.2):
        with attempt:
            unified_diff(before, after, "a", "b")
