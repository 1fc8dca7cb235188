"""Measures the structure of the package, prints each figure with its limit, and fails if a limit is exceeded.

`make check` runs it. A limit is the goal, or what the code has reached. No commit raises one: whoever adds lines to the
core removes as many. A new plugin gets a limit of its own.
"""

import ast
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "artifactflow_nb"
sys.path.insert(0, str(ROOT))

CORE_LINES = 63_580
"""The lines of all rooms but the plugins; a commit that removes lines lowers it."""

PLUGIN_LINES = {"plugins": 165, "graphs": 2_450, "literature": 1_394, "projects": 7_380}

LATER_PLUGINS = {
    "claims": 2_850, "data": 1_150, "studies": 2_500, "mcp_server": 610, "crate": 795, "otel": 360, "acp": 470,
    "subscription": 185, "ablation": 377, "library": 400,
    "graders": 390, "rates": 190,
}  # fmt: skip
"""Lines of the plugins that came after the goal for the whole package; claims and data have 4,000 together."""

LATER_FILES = {
    ("claims", "data"): 28,
    ("studies",): 15,
    ("mcp_server",): 4,
    ("crate",): 5,
    ("otel",): 3,
    ("acp",): 3,
    ("subscription",): 1,
    ("ablation",): 1,
    ("library",): 1,
    ("graders",): 2,
    ("rates",): 1,
}
"""Files of these plugins, some together."""

Figure = tuple[str, float, float]
"""Name, value and limit of a measurement."""


def tracked() -> list[Path]:
    """The package's files that git tracks, and new files that it does not ignore."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "artifactflow_nb"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [path for name in listed if (path := ROOT / name).exists()]


def spread(name: str, values: list[int], limits: tuple[int, int, int]) -> Iterator[Figure]:
    """The median, the 90th percentile and the maximum of some lengths."""
    values = sorted(values)
    yield f"{name}, median", statistics.median(values), limits[0]
    yield f"{name}, 90th percentile", values[len(values) * 9 // 10], limits[1]
    yield f"{name}, longest", values[-1], limits[2]


def sizes(trees: dict[Path, ast.Module]) -> Iterator[Figure]:
    """Files and functions, in lines."""
    lengths = [path.read_text(encoding="utf-8").count("\n") for path in trees]
    by_room = room_lines(trees)
    later = {f"plugins/{name}" for name in LATER_PLUGINS}
    n_files = Counter(map(room_of, trees))
    yield "files", sum(n for room, n in n_files.items() if room not in later), 380
    for group, limit in LATER_FILES.items():
        yield f"files of {' and '.join(group)}", sum(n_files[f"plugins/{name}"] for name in group), limit
    yield "lines", sum(n for room, n in by_room.items() if room not in later), 75_200
    yield "lines of the core", sum(n for room, n in by_room.items() if room.partition("/")[0] != "plugins"), CORE_LINES
    for room, n in by_room.items():
        if room.startswith("plugins"):
            yield f"lines of {room}", n, (PLUGIN_LINES | LATER_PLUGINS).get(room.removeprefix("plugins/"), 0)
    yield from spread("lines of a file", lengths, (180, 395, 700))
    functions = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    yield from spread("lines of a function", functions, (7, 23, 85))


def names(trees: dict[Path, ast.Module]) -> Iterator[Figure]:
    """Class names that are defined twice, and the share of private functions that only one place calls."""
    classes = Counter(node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    yield "class names defined more than once", sum(n > 1 for n in classes.values()), 5
    private = [
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.match(r"_[a-z]", node.name)
    ]
    text = "\n".join(path.read_text(encoding="utf-8") for path in trees)
    words, calls = Counter(re.findall(r"\w+", text)), Counter(re.findall(r"(?<!def )\b(_\w+)\(", text))
    # The definition and one call, in the whole package: a callback or an entry of a table is not a hop.
    called_once = sum(words[name] == 2 and calls[name] == 1 for name in private)
    yield "private functions called in one place only, per cent", round(100 * called_once / len(private), 1), 10


def room_of(path: Path) -> str:
    """The folder or the module below the package; each plugin is a room of its own."""
    folder, *rest = path.relative_to(PACKAGE).parts
    return f"{folder}/{rest[0]}" if folder == "plugins" and len(rest) > 1 else folder


def room_lines(trees: Iterable[Path]) -> dict[str, int]:
    """The lines of each room, the largest first."""
    lines: Counter[str] = Counter()
    for path in trees:
        lines[room_of(path)] += path.read_text(encoding="utf-8").count("\n")
    return dict(lines.most_common())


def rooms(trees: Iterable[Path]) -> Iterator[str]:
    """Lines and files by room, as text."""
    files = Counter(map(room_of, trees))
    for room, n in room_lines(trees).items():
        yield f"  {room:<18}{n:>7,} lines {files[room]:>4} files"


QUESTION = "Which way does this question take?"
MOST_FIELDS = 40


def holds(value: Any, *, is_deep: bool = True) -> bool:
    """True if a value is the question or contains it as an item or a field."""
    if isinstance(value, str):
        return QUESTION in value
    if not is_deep:
        return False
    if isinstance(value, list | tuple | dict):
        items = list(value.values()) if isinstance(value, dict) else list(value)
        return any(holds(item, is_deep=False) for item in items[:MOST_FIELDS])
    fields = getattr(type(value), "__dataclass_fields__", ())
    return any(holds(getattr(value, name, None), is_deep=False) for name in fields)


class Calls:
    """Records the calls of functions of the package, in all threads, in order.

    Python also reports a `call` when a coroutine or a generator continues after an await or a yield. These are not
    counted: their instruction (`f_lasti`) lies behind that of the first report of the same function, which was a start.
    So functions are noted from the beginning, also while the counting is off.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.walked: list[tuple[str, str]] = []
        self.passed: list[tuple[str, str]] = []
        self.n_calls = 0
        self._start_of: dict[CodeType, int] = {}

    def __call__(self, frame: FrameType, event: str, _arg: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(PACKAGE)) or "<" in code.co_name:
            return
        is_start = frame.f_lasti <= self._start_of.setdefault(code, frame.f_lasti)
        if not (self.is_on and is_start):
            return
        self.n_calls += 1
        self.walked.append((code.co_filename, code.co_qualname))
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(holds(frame.f_locals.get(name)) for name in names if name != "self"):
            self.passed.append((code.co_filename, code.co_qualname))


def hops(calls: Calls) -> Iterator[Figure]:
    """The functions that receive a question before the model request, and the calls for one streamed chunk."""
    import artifactflow_nb as af

    n_chunks = 2_000
    n_passed: list[int] = []

    def answer(_request: Any) -> str:
        n_passed.append(len(calls.passed))
        calls.n_calls = 0
        return "word " * n_chunks

    with tempfile.TemporaryDirectory() as folder:
        model = af.ScriptedModel(answer, chunk_chars=len("word "))
        wb = af.Workbench(model=model, data_dir=folder, interactive=False)
        wb.ask("Warm up.").wait()
        calls.is_on = True
        wb.ask(QUESTION).wait()
        calls.is_on = False
        wb.close()
    passed = set(calls.passed[: n_passed[1]])
    yield "files that a question passes through before the model", len({name for name, _ in passed}), 15
    yield "functions that a question passes through before the model", len(passed), 40
    yield "calls that a streamed chunk causes", round(calls.n_calls / n_chunks, 1), 10


def distinct(walk: list[tuple[str, str]], name: str, n_files: int, n_functions: int) -> Iterator[Figure]:
    """The functions of a walk and their files, each counted once."""
    yield f"files {name}", len({path for path, _ in walk}), n_files
    yield f"functions {name}", len(set(walk)), n_functions


def walks(calls: Calls) -> Iterator[Figure]:
    """The functions from a question to the model request, and from `run.approve()` to the row of the decision."""
    import artifactflow_nb as af

    numbers = count()
    params = "<id>text{}</id><title>T</title><content>T</content>"
    write = f"<tool_call><name>create_artifact</name><params>{params}</params></tool_call>"
    question: list[list[tuple[str, str]]] = []
    is_asked = threading.Event()

    def reply(_request: Any) -> str:
        calls.is_on = False
        question.append(calls.walked.copy())
        calls.walked.clear()
        is_asked.set()
        return write.format(n) if (n := next(numbers)) % 2 == 0 else "It is written."

    with tempfile.TemporaryDirectory() as folder:
        model = af.ScriptedModel(reply)
        with af.Workbench(model=model, data_dir=folder, approvals={"create_artifact": "ask"}) as wb:
            for is_measured in (False, True):  # the first run loads what the second does not load again
                time.sleep(0.5)  # what the run before has left behind is over
                calls.walked.clear()
                calls.is_on = is_measured
                is_asked.clear()
                run = wb.ask(QUESTION)
                is_asked.wait()  # the main thread calls nothing that would be counted
                while not run.pending:
                    time.sleep(0.01)
                time.sleep(0.5)  # the task of the run ends after it has stored the request
                calls.walked.clear()
                calls.is_on = is_measured
                run.approve()
                run.wait()
    decision = question[3]
    row = next(i for i, (_, name) in enumerate(decision) if name == "ApprovalStore.decide.<locals>.work")
    yield from distinct(question[2], "from a question to the model request", 60, 212)
    yield from distinct(decision[: row + 1], "from run.approve() to the row", 21, 62)


def main() -> int:
    """Print all figures; 1 if a limit is passed."""
    files = tracked()
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files if path.suffix == ".py"}
    entries = {path.relative_to(PACKAGE).parts[0] for path in files}
    calls = Calls()  # for all threads: the thread of the engine lives as long as the process
    threading.setprofile(calls)
    sys.setprofile(calls)
    walked = [*hops(calls), *walks(calls)]
    sys.setprofile(None)
    threading.setprofile(None)
    figures = [("entries of the package folder", float(len(entries)), 20.0), *sizes(trees), *names(trees), *walked]
    for name, value, limit in figures:
        print(f"{name:<60}{value:>9,.10g}  limit {limit:,.10g}{'' if value <= limit else '  OVER THE LIMIT'}")
    print("\n".join(rooms(trees)))
    over = [name for name, value, limit in figures if value > limit]
    if over:
        print(
            f"\nOver the limit: {', '.join(over)}. The limits are in tests/package/structure.py, and no commit raises "
            "them. A new plugin gets a limit of its own."
        )
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
