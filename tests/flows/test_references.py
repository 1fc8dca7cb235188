"""References to blocks in a text, `@name` and `@path`, in any script, and their errors."""

import pytest
from support.cpu_time import within

import artifactflow_nb as af
from artifactflow_nb.plugins.projects.agents import format_block_index, referenced_blocks
from artifactflow_nb.plugins.projects.tree import Block, BlockTree, text_hash


def tree(*paths: str) -> BlockTree:
    """Blocks with these paths as ids; a block with blocks below is a group."""
    return BlockTree(
        (
            Block(path, path.rpartition("/")[2], "p", path.rpartition("/")[0], is_group=f"{path}/" in "\n".join(paths))
            for path in paths
        ),
        ["p"],
    )


KNOWN = tree("Report", "Report/Method", "Report/Methods", "方法", "方法论", "Café", "Q. 1 (new)?", "Caf", "ß")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("See @Method.", ["Report/Method"]),
        ("See @methods, and @METHOD's.", ["Report/Methods", "Report/Method"]),
        ("@Report/Method and @Report /Methods", ["Report/Method", "Report/Methods"]),
        ("@Report and/or @Report", ["Report"]),
        ("按@方法写,@方法论也要", ["方法", "方法论"]),
        ("In @Cafe\u0301 and @Café: two ways", ["Café"]),
        ("Is it @Q. 1 (new)? and (@Caf)", ["Q. 1 (new)?", "Caf"]),
        ("`@Nothing` and ```\n@None\n``` and a@b.c", []),
        ("@ alone, @@ twice, @skill:formal", []),
    ],
)
def test_references_are_found_in_a_text(text: str, named: list[str]) -> None:
    """The longest matching name wins, in any letter case, spacing of slashes and accent form."""
    assert [block.block_id for block in referenced_blocks(KNOWN, text)] == named


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@Methodical", "@Methodical names no block: There is no block 'Methodical'. There are: Method"),
        ("@Cafés", "@Cafés names no block: There is no block 'Cafés'. There are: Café"),
        ("@Report_2", "@Report_2 names no block: .* Write an address or a handle without @, or in `code`"),
        ("@X", "2 blocks are called 'X'. Name one by its path: 'A / X', 'B / X'"),
    ],
)
def test_invalid_reference_is_reported(text: str, message: str) -> None:
    """A word that only begins with a name is unknown; an ambiguous name is reported with its paths."""
    known = tree("A", "A/X", "B", "B/X") if text == "@X" else KNOWN
    with pytest.raises(af.errors.UsageError, match=message):
        referenced_blocks(known, text)
    assert referenced_blocks(known, text, strict=False) == ()
    assert [block.block_id for block in referenced_blocks(tree("A", "A/X", "B", "B/X"), "@B / X")] == ["B/X"]


def test_index_names_only_some_changed_dependencies() -> None:
    """The index names five of a hundred changed dependencies, so that the prompt stays short."""
    texts = [Block(f"t{n}", f"T{n}", "p", content="x", sha256=text_hash("x")) for n in range(100)]
    needs = tuple(block.block_id for block in texts)
    summary = Block("s", "Summary", "p", depends_on=needs, status="draft", content="Sum.", sha256=text_hash("Sum."))
    line = format_block_index(BlockTree([*texts, summary], ["p"])).splitlines()[0]
    assert line == "- Summary [p, draft, STALE: T0, T1, T2, T3, T4 and 95 more changed] Sum."


@pytest.mark.timed
def test_large_tree_is_indexed_quickly() -> None:
    """2,000 blocks, 50 levels deep and in one chain of dependencies, are indexed and searched within a second."""
    groups = [Block(f"g{n}", f"Part {n}", "p", f"g{n - 1}" if n else "", is_group=True) for n in range(50)]
    texts = [
        Block(
            f"b{n}", f"方法 {n}", "p", f"g{n % 50}", float(n), (f"b{n - 1}",) if n else (), "draft",
            content="一段文字。" * 200, sha256="1", basis={f"b{n - 1}": "1"} if n else {},
        )
        for n in range(1950)
    ]  # fmt: skip
    for attempt in within(1.0):
        with attempt:
            known = BlockTree([*groups, *texts], ["p"])
            assert not known.stale
            assert len(known.path("b49").split(" / ")) == 51
            assert len(format_block_index(known).splitlines()) == 2000
            assert [block.block_id for block in referenced_blocks(known, "@方法 1949。")] == ["b1949"]
            assert len(known.dependents("b0")) == 1949
