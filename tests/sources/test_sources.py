"""Local sources: indexing, searching, reading."""

from pathlib import Path

import pytest
from support.cpu_time import within

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.store.database import Database


def write(root: Path, **files: str) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / name.replace("__", "/").replace("_md", ".md").replace("_txt", ".txt")).write_text(
            text, encoding="utf-8"
        )
    return root


NOTES = (
    "# Notes\n\n## Boats\n\nThe red boat leaks.\n\n```sh\n# not a heading\n```\n\n## Oars\n\nOars are made of ash.\n"
)


async def test_headings_become_sections_and_their_text_is_verbatim(sources: SourceManager, tmp_path: Path):
    """A comment in code is not a heading."""
    await sources.add_folder(write(tmp_path / "My Notes", lake_md=NOTES))
    section = await sources.read("local:My-Notes/lake.md#boats")
    assert section.title == "Notes: Boats"
    assert section.text == "## Boats\n\nThe red boat leaks.\n\n```sh\n# not a heading\n```"
    with pytest.raises(NotFound, match=r"local:My-Notes/lake\.md#oars"):
        await sources.read("local:My-Notes/lake.md#not-a-heading")


async def test_only_changed_files_are_indexed_again(sources: SourceManager, tmp_path: Path):
    """Removed files are no longer found."""
    root = write(tmp_path / "n", a_md="# A\n\nHerons stand in water.", b_md="# B\n\nOtters swim.")
    assert (await sources.add_folder(root)).added == 2
    write(root, a_md="# A\n\nStorks stand on roofs.")
    (root / "b.md").unlink()
    again = await sources.add_folder(root)
    assert (again.added, again.changed, again.unchanged, again.removed) == (0, 1, 0, 1)
    assert again.source_ids == ("n/a.md",)
    assert await sources.search("herons") == []
    assert await sources.search("otters") == []
    assert [hit.address for hit in await sources.search("stork")] == ["local:n/a.md#a"]
    assert (await sources.add_folder(root)).unchanged == 1


async def test_source_ids_are_unique_and_stable(sources: SourceManager, tmp_path: Path):
    """Two folders have one name, and a file is added later."""
    first = write(tmp_path / "x" / "docs", read_md="# One\n\nFirst text.")
    second = write(tmp_path / "y" / "docs", read_md="# Two\n\nSecond text.")
    assert (await sources.add_folder(first)).source_ids == ("docs/read.md",)
    assert (await sources.add_folder(second)).source_ids == ("docs-2/read.md",)
    write(second, more_md="# Three\n\nThird text.")
    assert (await sources.add_folder(second)).source_ids == ("docs-2/more.md", "docs-2/read.md")


async def test_scope_limits_search_and_counts(sources: SourceManager, tmp_path: Path):
    a = await sources.add_folder(write(tmp_path / "a", one_md="# One\n\nThe mill turns."))
    await sources.add_folder(write(tmp_path / "b", two_md="# Two\n\nThe mill stands still."))
    assert len(await sources.search("mill")) == 2
    assert [hit.address for hit in await sources.search("mill", scope=a.source_ids)] == ["local:a/one.md#one"]
    counts = await sources.word_counts("mill", a.source_ids)
    assert (counts.n_passages, counts.counts["mill"]) == (1, 1)
    assert await sources.search("mill", scope=[]) == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("replacing batteries", "battery"),  # stems
        ("__exit__", "exit"),  # a name
        ("exit", "exit"),
        ("shutil.rmtree", "tree"),  # dotted
        ("rmtree", "tree"),
        ("普洱", "tea"),  # two characters
    ],
)
async def test_words_are_found_by_stem_part_and_pair(sources: SourceManager, tmp_path: Path, query: str, found: str):
    """Stems, whole and partial names of code, and Chinese pairs are found."""
    await sources.add_folder(
        write(
            tmp_path / "w",
            battery_md="# Battery\n\nReplace the battery in spring.",
            exit_md="# Leaving\n\nThe method `__exit__` is called last.",
            tree_md="# Trees\n\nUse `shutil.rmtree` with care.",
            tea_md="# 茶\n\n存放普洱茶要通风。",
        )
    )
    assert (await sources.search(query))[0].address.startswith(f"local:w/{found}.md")


async def test_plain_text_is_split_at_paragraphs(sources: SourceManager, tmp_path: Path):
    paragraph = "The river rose by ten centimetres. " * 12
    added = await sources.add_folder(write(tmp_path / "t", log_txt="\n\n".join([paragraph.strip()] * 5)))
    assert added.source_ids == ("t/log.txt",)
    assert (await sources.read("local:t/log.txt#part-2")).text.startswith("The river")


async def test_single_file_can_be_added(sources: SourceManager, tmp_path: Path):
    """The name of the file is its id."""
    root = write(tmp_path / "n", a_md="# A\n\nText.", b_md="# B\n\nText.")
    assert (await sources.add_folder(root / "a.md")).source_ids == ("a.md",)


async def test_hidden_files_are_skipped(sources: SourceManager, tmp_path: Path):
    """Names that begin with a dot are hidden."""
    root = write(tmp_path / "n", a_md="# A\n\nText.")
    write(root / ".git", hidden_md="# H\n\nHidden.")
    assert (await sources.add_folder(root)).source_ids == ("n/a.md",)


async def test_path_without_readable_files_is_an_error_with_advice(sources: SourceManager, tmp_path: Path):
    """The path is missing, an empty folder, of an unknown kind or a folder of binary files."""
    empty = tmp_path / "empty"
    empty.mkdir()
    picture = tmp_path / "p.png"
    picture.write_bytes(b"x")
    broken = write(tmp_path / "broken", void_md=" \n")
    (broken / "bad.txt").write_bytes(b"\x7fELF\0\1\2")
    with pytest.raises(UsageError, match=r"nowhere does not exist"):
        await sources.add_folder(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"empty has no readable file.*\.md"):
        await sources.add_folder(empty)
    with pytest.raises(UsageError, match=r"p\.png is of a kind that cannot be read"):
        await sources.add_folder(picture)
    with pytest.raises(UsageError, match=r"2 skipped: bad\.txt is binary, not text; void\.md is empty"):
        await sources.add_folder(broken)
    assert await sources.sources() == []


@pytest.mark.timed
async def test_language_reference_is_indexed_once_within_1_5_s(sources: SourceManager):
    """The topics of the reference are sections."""
    for attempt in within(1.5, tries=1):
        with attempt:
            first = await sources.add_python_reference()
    assert first.source_id == "python-reference"
    assert "context manager" in (await sources.read("local:python-reference#with")).text
    assert (await sources.add_python_reference()).fetched_at == first.fetched_at


async def test_unknown_address_lists_the_nearest_ones(sources: SourceManager, tmp_path: Path):
    await sources.add_folder(write(tmp_path / "n", lake_md=NOTES))
    with pytest.raises(NotFound, match=r"'local:n/lake\.md#boat'.*local:n/lake\.md#boats"):
        await sources.read("local:n/lake.md#boat")
    with pytest.raises(NotFound, match=r"local:n/lake\.md#"):
        await sources.read("local:n/lakes.md#boats")


@pytest.mark.timed
async def test_second_store_indexes_the_reference_quickly(sources: SourceManager, tmp_path: Path):
    """A process splits the reference once for all stores."""
    await sources.add_python_reference()
    for number, attempt in enumerate(within(0.06)):
        database = Database(tmp_path / f"further-{number}.db")
        await database.open()
        with attempt:
            await SourceManager(database, SystemClock()).add_python_reference()
        await database.close()
