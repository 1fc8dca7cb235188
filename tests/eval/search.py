"""First results of searches in texts of others: `python tests/eval/search.py`.

The questions of `installed.yaml` with one document, and generated ones, which nobody fitted a rule to: the description
of a manual page or a package, searched in the texts without these descriptions.
"""

import asyncio
import re
import statistics
import sys
import tempfile
import time
from importlib.metadata import distributions
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

from eval.installed import load_questions, write_collection

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.store.database import Database

_NAME = re.compile(r"^NAME\n\s+\S.*? +(?:-|–|—) +(.+?)\n\n", re.MULTILINE | re.DOTALL)
_MIN_WORDS = 4

Questions = list[tuple[str, list[str]]]
"""Each question with the names of the documents that answer it."""


def written(name: str) -> Questions:
    """Return the questions of a person about a collection."""
    kinds = load_questions()[name]
    return [(question, needed[0]) for kind in ("lay", "expert", "table") for needed, question in kinds[kind]]


def without_names(folder: Path) -> Questions:
    """Remove the description of each manual page from its text, and return the descriptions as questions."""
    questions = []
    for path in sorted(folder.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        if match := _NAME.search(text):
            path.write_text(text.replace(match[0], ""), encoding="utf-8")
            questions.append((" ".join(match[1].split()), [path.stem]))
    return questions


def without_summaries(folder: Path) -> Questions:
    """Remove the summary of each package from its description, and return the summaries as questions."""
    questions = []
    for metadata in (distribution.metadata for distribution in distributions()):
        path = folder / f"{re.sub(r'[-.]+', '_', metadata['Name'] or '').lower()}.md"
        summary = metadata["Summary"] or ""
        if path.exists() and len(summary.split()) >= _MIN_WORDS:
            path.write_text(path.read_text(encoding="utf-8").replace(summary, ""), encoding="utf-8")
            questions.append((summary, [path.stem]))
    return questions


def _is_one_of(path: str, names: list[str]) -> bool:
    """Whether a file is one of these documents; one of /usr/share/doc begins with the name of its package."""
    stem = Path(path).stem
    return any(stem == name or stem.startswith(f"{name}-") for name in names)


async def measure(folder: Path, questions: Questions) -> tuple[int, float]:
    """Return how many first results are right, and the median of the milliseconds of a search."""
    database = Database(folder.with_suffix(".db"))
    await database.open()
    sources = SourceManager(database, SystemClock())
    await sources.add_folder(folder)
    right, durations = 0, []
    for question, names in questions:
        started = time.perf_counter()
        hits = await sources.search(question, 1)
        durations.append((time.perf_counter() - started) * 1000)
        right += any(_is_one_of(hit.address.partition("#")[0], names) for hit in hits)
    await database.close()
    return right, statistics.median(durations)


def main() -> None:
    """Print a line for each collection."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        sets = {
            name: (folder, written(name))
            for name in ("man", "packages", "docs", "python")
            if any((folder := write_collection(name, root / name)).iterdir())
        }
        for name, generate in (("man", without_names), ("packages", without_summaries)):
            folder = write_collection(name, root / f"generated-{name}")
            sets[folder.name] = folder, generate(folder)
        for name, (folder, all_questions) in sets.items():
            files = [path.name for path in folder.iterdir()]
            questions = [(text, names) for text, names in all_questions if any(_is_one_of(f, names) for f in files)]
            if not questions:  # what is not installed
                continue
            right, ms = asyncio.run(measure(folder, questions))
            print(f"{name:<20} {right:4} of {len(questions):4} first results are right, median {ms:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
