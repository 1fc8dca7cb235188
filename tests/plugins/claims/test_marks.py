"""The marks of claims in rendered texts: in the output of a cell, the panel, exports, runs and sealed runs."""

import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.survey_run import survey_run

import artifactflow_nb as af
from artifactflow_nb.core.language import in_language
from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.core.text.rendered_text import RenderedText, key_of
from artifactflow_nb.plugins.claims.marks import ClaimMarks
from artifactflow_nb.plugins.claims.versions import RULES, claim_rows
from artifactflow_nb.sources.citation_marks import Citations, listed_sources
from artifactflow_nb.sources.values import Evidence

NOTES = """# Survey

The survey took 9,340 casts in 2021 at the northern site. Herring made up 45 % of the catch.

The reserve was opened on 3 May 2014 by Nora Lind.
"""
SOURCES = "\n\n## Sources\n\n1. Survey: Survey — local:notes/survey.md#survey\n2. Otters — https://otters.example/\n"
REPORT = f"""# Survey

The survey took **9,430 casts** in 2021 at the _northern_ site [1]. Herring made up 45 % of the catch [1].

- The harbour has 77 berths [1].
- Otters sleep late [2].{SOURCES}"""
HEAD = "4 claims: ✓ 1 supported, ✗ 1 contradicted, ? 1 unsupported, 1 unchecked"


class MarkReader(HTMLParser):
    """Reads HTML: the text of each status below a line, the names and texts of the signs, and the visible text."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.underlined: dict[str, str] = {}
        self.signs: list[tuple[str, str]] = []
        self.visible = ""
        self._open: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        css = values.get("class") or ""
        if "af-sign" in css:
            self.signs.append((values.get("aria-label") or "", ""))
        if tag not in {"br", "hr", "img", "input", "meta"}:
            self._open.append(f"{tag} {css}")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().split()[0] == tag, "the elements are nested"

    def handle_data(self, data: str) -> None:
        around = " ".join(self._open)
        if "af-passage" in around:
            return
        if "af-sign" in around:
            self.signs[-1] = (self.signs[-1][0], self.signs[-1][1] + data)
            return
        self.visible += data
        if "af-said-head" not in around and (status := re.search(r"af-said-(\w+)", around)):
            self.underlined[status[1]] = self.underlined.get(status[1], "") + data


def marked(markdown: str, source: str) -> MarkReader:
    """Check a text against one source, and read the marks of the rendered text."""
    rows = list(claim_rows(markdown, lambda _cited: Evidence({"https://a.example/": source})))
    marks = ClaimMarks(
        [{**row, "artifact_id": "a", "version": 1, "passage": row["quote"] or row["text"]} for row in rows]
    )
    evidence = Evidence({"https://a.example/": source}, is_complete=True, marks=marks)
    citations = Citations(listed_sources(markdown), evidence)
    plain = MarkdownRenderer().html(markdown)
    html = citations.apply(plain)
    unmarked = Citations(listed_sources(markdown), Evidence(evidence.texts)).apply(plain)
    assert MarkReader(html).visible == MarkReader(unmarked).visible, "marks change no word"
    return MarkReader(html)


def cited(text: str) -> str:
    return f"{text}\n\n## Sources\n\n1. A: https://a.example/\n"


@pytest.fixture
def reported(tmp_path: Path) -> Iterator[tuple[af.Workbench, af.Run]]:
    answer = "See the report. The survey took 9,430 casts in 2021 at the northern site [1]."
    with survey_run(tmp_path, NOTES, REPORT, answer) as opened:
        yield opened


def test_each_checked_sentence_has_a_line_a_sign_and_a_name_for_screen_readers(
    reported: tuple[af.Workbench, af.Run],
) -> None:
    """Markup and citations within a sentence do not matter, and an unchecked claim is counted without a mark."""
    _, run = reported
    html = run.artifacts["report"]._repr_html_()
    reader = MarkReader(html)
    assert HEAD in reader.visible
    assert reader.underlined == {
        "contradicted": "The survey took 9,430 casts in 2021 at the northern site",
        "supported": "Herring made up 45 % of the catch",
        "unsupported": "The harbour has 77 berths",
    }
    assert reader.signs == [
        ("Contradicted: 9,340 there, not 9,430.", "✗ 9,340 there"),
        ("Supported: The source says it in these words.", "✓"),
        ("Unsupported: 77 is nowhere in the source.", "?"),
    ]
    passage = "The survey took 9,340 casts in 2021 at the northern site."
    assert f"<mark>{passage}</mark></q><small>Survey: Survey · local:notes/survey.md#survey</small>" in html
    assert ".af-said-contradicted{" in html


def test_marks_are_in_exports_the_answer_and_sealed_runs(reported: tuple[af.Workbench, af.Run], tmp_path: Path) -> None:
    wb, run = reported
    expected = MarkReader(run.artifacts["report"]._repr_html_())
    page = run.artifacts["report"].to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    assert (MarkReader(page).underlined, MarkReader(page).signs) == (expected.underlined, expected.signs)
    assert HEAD in MarkReader(page).visible
    conversation = wb.conversation(run).to_html(tmp_path / "all.html").read_text(encoding="utf-8")
    assert [name for name, _ in MarkReader(conversation).signs].count(expected.signs[0][0]) == 2  # answer and report
    with af.open_run(run.seal(tmp_path / "run.afrun")) as sealed:
        assert MarkReader(sealed.artifacts["report"]._repr_html_()).signs == expected.signs
    assert "af-sign" not in run.artifacts["report"].to_markdown(tmp_path / "report.md").read_text(encoding="utf-8")


def test_versions_have_marks_of_their_own(reported: tuple[af.Workbench, af.Run]) -> None:
    _, run = reported
    new = run.artifacts["report"].edit(REPORT.replace("9,430", "9,340"))
    assert "contradicted" not in MarkReader(new._repr_html_()).underlined
    assert "contradicted" in MarkReader(new.versions[1]._repr_html_()).underlined


def test_texts_without_claims_are_rendered_as_before(tmp_path: Path) -> None:
    call = af.ToolCall("create_artifact", {"id": "poem", "title": "Poem", "content": "Two herons wait here."})
    model = af.ScriptedModel([call, "Here."])
    with af.Workbench(model=model, data_dir=tmp_path / "data", approvals="approve", interactive=False) as wb:
        assert "af-said" not in wb.ask("Write a poem.").wait().artifacts["poem"]._repr_html_()


@pytest.mark.parametrize(
    ("text", "source", "sentence"),
    [
        ("It has `n_rows 3` and **9** [rooms](https://a.example/) & more [1].", "It has 8 rooms.", "n_rows 3"),
        ("Its area [1] is $x^2$ and it has 9 rooms.[1]", "It has 8 rooms.", "Its area"),
        ("“It has 9 rooms,” she said [1]. It has 7 doors [1].", "It has 8 rooms and 6 doors.", "It has 9 rooms"),
        ("湖深 9 米，鱼有 **45** 条。湖在山里有 7 个岛[1]。", "湖深 8 米。", "湖深 9 米，鱼有 45 条"),
        ("העיר Haifa נוסדה בשנת 1911 ויש בה 9 גשרים [1].", "העיר Haifa נוסדה בשנת 1909.", "העיר"),
        ("> It has 9 rooms\n> and 7 doors. [1]", "It has 8 rooms.", "It has 9 rooms\nand 7 doors"),
    ],
)
def test_sentence_is_found_whatever_stands_in_it(text: str, source: str, sentence: str) -> None:
    reader = marked(cited(text), source)
    assert sentence in "".join(reader.underlined.values())
    assert reader.signs


def test_cells_are_found_by_their_row_and_column_in_each_table() -> None:
    """Equal cells of two tables have marks of their own, and the first column has none."""
    table = "| lake | depth | source |\n|---|---|---|\n| {} | 9 m | [1] |\n| 9 m | 7 m | [1] |\n"
    text = cited(f"{table.format('Ohrid')}\nThen.\n\n{table.format('Prespa').replace('depth', 'width')}")
    rows = list(claim_rows(text, lambda _cited: Evidence({"https://a.example/": "Nothing."})))
    assert [row["text"] for row in rows][:2] == ["Ohrid | depth: 9 m", "9 m | depth: 7 m"]
    assert len(marked(text, "Nothing.").signs) == 4


def test_sentence_within_another_sentence_is_not_marked() -> None:
    reader = marked(cited("It has 9 rooms [1].\n\nNobody says that It has 9 rooms or more."), "It has 8 rooms.")
    assert "".join(reader.underlined.values()).count("It has 9 rooms") == 2
    assert len(reader.signs) == 2


def test_sentence_that_stands_twice_has_the_worse_mark() -> None:
    text = f"It has 9 rooms [1].\n\nWords.\n\nIt has 9 rooms [2].{SOURCES}".replace(
        "local:notes/survey.md#survey", "https://a.example/"
    )
    texts = {"https://a.example/": "It has 9 rooms.", "https://otters.example/": "It has 8 rooms."}
    rows = [
        {**row, "passage": "", "artifact_id": "a", "version": 1} for row in claim_rows(text, lambda _: Evidence(texts))
    ]
    assert {row["status"] for row in rows} >= {"supported", "contradicted"}
    assert "✓" not in ClaimMarks(rows).apply("<p>It has 9 rooms.</p>")


HOSTILE: Mapping[str, str] = {
    "note": '<img src=x onerror="alert(1)"> there, not 9.',
    "title": '"><script>alert(1)</script>',
    "passage": "</span></span><script>alert(1)</script>",
}


def test_hostile_passages_titles_and_reasons_are_text() -> None:
    row = {
        **dict.fromkeys(("page", "quote"), None),
        "artifact_id": "a",
        "version": 1,
        "text": "It has 9 rooms.",
        "status": "contradicted",
        "checker": RULES,
        "reason": HOSTILE["note"],
        "source_title": HOSTILE["title"],
        "passage": HOSTILE["passage"],
        "start": 0,
        "address": 'javascript:alert("1")',
    }
    html = ClaimMarks([row]).apply("<p>It has 9 rooms.</p>")
    assert "<script" not in html
    assert "<img" not in html
    assert MarkReader(html).signs == [(f"Contradicted: {HOSTILE['note']}", '✗ <img src=x onerror="alert(1)"> there')]


@pytest.mark.parametrize(
    "markup", ["<p>It has 9 rooms", "</td></tr>It has 9 rooms.", "<td>1", "<tr><td>", "a<b>&amp;&#x110000;"]
)
def test_broken_markup_ends_in_markup(markup: str) -> None:
    rows = [
        {**row, "passage": "", "artifact_id": "a", "version": 1}
        for row in claim_rows(cited("It has 9 rooms [1]."), lambda _: Evidence())
    ]
    assert re.sub("<[^>]*>", "", ClaimMarks(rows).apply(markup)) == re.sub("<[^>]*>", "", markup)


def test_reasons_and_counts_are_in_the_language_of_the_interface() -> None:
    text = cited("The house has 9 rooms [1].")
    rows = [
        {**row, "passage": row["quote"], "artifact_id": "a", "version": 1}
        for row in claim_rows(text, lambda _: Evidence({"https://a.example/": "The house has 8 rooms."}))
    ]
    with in_language("zh"):
        html = ClaimMarks(rows).head() + ClaimMarks(rows).apply("<p>The house has 9 rooms.</p>")
    reader = MarkReader(html)
    assert reader.visible.startswith("1 条陈述：✗ 1 条与来源矛盾")
    assert reader.signs == [("与来源矛盾：来源为 8，而不是 9。", "✗ 来源为 8")]


@pytest.mark.parametrize(
    ("statement", "rendered", "is_same"),
    [
        ("It is 15 m deep.", "It is 1.5 m deep.", False),
        ("5 m deep.", "It is 1.5 m deep.", False),
        ("It is 5 °C.", "It is -5 °C.", False),
        ("It is -5 °C.", "It is <b>-5</b> °C.", True),
        ("It took 9,340 casts, 3-5 a day.", "It took 9,340 casts, 3-5 a day.", True),
    ],
)
def test_signs_and_points_of_numbers_tell_statements_apart(statement: str, rendered: str, is_same: bool) -> None:
    places = RenderedText(f"<p>{rendered}</p>", str).find({key_of(statement)})
    assert bool(list(places)) == is_same
