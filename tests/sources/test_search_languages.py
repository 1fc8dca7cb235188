"""What people type into a search, in several scripts: accents, forms, invisible characters, names and figures."""

import unicodedata
from pathlib import Path

import pytest

from artifactflow_nb.sources.manager import SourceManager

TEXTS = {
    "accents": "Professor Müller writes about naïve Bayes at the café in Århus.",
    "decomposed": unicodedata.normalize("NFD", "Die Größe der Bäume in Würzburg."),
    "figures": "The lake has 1,000 herons, 2.5 km² of reed and 1\u202f234 swans.",
    "japanese": "アオサギは浅い水の中で魚を待つ。東京都の湖は深い。",
    "thai": "นกกระสาคอยปลาอยู่ในน้ำตื้น",
    "korean": "왜가리는 얕은 물에서 물고기를 기다린다.",
    "turkish": "İstanbul'da balıkçıl IŞIK bekler.",
    "arabic": "مالكُ الحزينُ ينتظر السمك في الميـاه الضحلة قرب القاهرة الكبرى",
    "hebrew": "הָאֲנָפָה מחכה לדגים במים",
    "russian": "Серые цапли ждут рыбу; ёлка зелёная.",
    "greek": "Ο ερωδιός περιμένει στη λίμνη.",
    "polish": "Czapla czeka nad jeziorem Śniardwy.",
    "hyphens": "A well-known e\u00admail\u00adbox and a zero\u200bwidth space; an applica\u2010\n    tion.",
    "names": "See doi:10.1000/xyz.123_4 or ana@example.org, model GPT-4o-mini, file data_v2.csv, C++ and C#.",
}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("Muller", "accents"),
        ("naive cafe", "accents"),
        ("Arhus", "accents"),
        ("Größe Bäume", "decomposed"),
        ("WURZBURG", "decomposed"),
        ("1000", "figures"),
        ("1,234 swans", "figures"),
        ("２．５ km²", "figures"),
        ("魚を待つ", "japanese"),
        ("東京", "japanese"),
        ("ปลา", "thai"),
        ("물고기", "korean"),
        ("istanbul", "turkish"),
        ("ISTANBUL", "turkish"),
        ("مالك الحزين", "arabic"),
        ("المياه", "arabic"),
        ("القاهره", "arabic"),
        ("האנפה", "hebrew"),
        ("елка зеленая", "russian"),
        ("ερωδιος", "greek"),
        ("Sniardwy", "polish"),
        ("emailbox", "hyphens"),
        ("zerowidth", "hyphens"),
        ("application", "hyphens"),
        ("10.1000/xyz.123_4", "names"),
        ("ana@example.org", "names"),
        ("gpt-4o-mini", "names"),
        ("data_v2.csv", "names"),
        ('NEAR(a b) AND OR NOT "naive', "accents"),
        ("col:naive*", "accents"),
        ("-reed herons'", "figures"),
    ],
)
async def test_search_finds_what_people_leave_out(
    sources: SourceManager, tmp_path: Path, query: str, name: str
) -> None:
    """The text is the first result for queries with any accents, case, points, invisible characters or operators."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for stem, text in TEXTS.items():
        (folder / f"{stem}.txt").write_text(text, encoding="utf-8")
    await sources.add_folder(folder)
    hits = await sources.search(query)
    assert [hit.address.partition("#")[0] for hit in hits][:1] == [f"local:texts/{name}.txt"]
