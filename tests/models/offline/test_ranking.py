"""The choice of quoted sentences, and whether a document answers at all."""

import pytest

from artifactflow_nb.models.offline.documents import parse_document, worth
from artifactflow_nb.models.offline.ranking import best_quotes, judge, related_words
from artifactflow_nb.sources.citations import SourceDocument
from artifactflow_nb.sources.retrieval.scoring import Scorer, WordCounts, count_words
from artifactflow_nb.sources.retrieval.terms import parse_query

LOCK = """The "open" command
==================

The "open" command unlocks the gate for ten seconds. It may be given twice.

For more information on the open command, see section Gates.

If the gate is frozen, the command is ignored and a bell rings.

Changed in version 2: The open command accepts a number.

See also:

  **Note 7** - The "open" command
     The history of the open command and of its gate.
"""


def ask(question: str, *texts: str, **titles: str) -> list[tuple[str, ...]]:
    documents = [SourceDocument(f"local:d/{n}#part", f"D: {n}", text) for n, text in enumerate(texts)]
    documents += [SourceDocument(f"local:d#{name}", f"D: {name}", text) for name, text in titles.items()]
    return [quotes.sentences for quotes in best_quotes(parse_query(question), documents, question=question)]


def test_definition_is_quoted_before_references_and_history():
    """A statement about the subject counts more than a reference to another place."""
    (quotes,) = ask("What does the open command do?", LOCK)
    assert quotes[0] == 'The "open" command unlocks the gate for ten seconds.'
    assert not any("section Gates" in quote or "history" in quote for quote in quotes)


def test_quotes_have_the_order_of_the_text():
    """The sentences of one source are in reading order."""
    (quotes,) = ask("When is the open command of the gate ignored?", LOCK)
    assert "If the gate is frozen, the command is ignored and a bell rings." in quotes
    places = [" ".join(LOCK.split()).index(quote) for quote in quotes]
    assert places == sorted(places)


def test_sentence_that_refers_back_is_quoted_with_the_previous_one():
    """It is not quoted without the sentence that it refers to."""
    text = (
        "# Pump\n\nWhere lamps glow red, wait. Otherwise, the pump of the well may be switched on by hand at any hour."
    )
    (quotes,) = ask("When may the pump of the well be switched on?", text)
    assert quotes == (
        "Where lamps glow red, wait.",
        "Otherwise, the pump of the well may be switched on by hand at any hour.",
    )


def test_related_words_are_found_in_the_text():
    """A word that always occurs beside a word of the question is related to it; one that does so once is not."""
    lines = [f"In valley {n} winter brings frost to every field." for n in range(4)]
    document = parse_document(
        SourceDocument("local:d#w", "D: W", "\n\n".join([*lines, "The winter of that year had no snow."]))
    )
    query = parse_query("What does winter bring?")
    related = related_words(Scorer(query, count_words(query, document.words)), [document])
    assert related["frost"] > 0
    assert "snow" not in related


def test_shortest_of_repeating_documents_is_cited():
    """A passage in several documents counts only for the shortest of them."""
    gate = "The gate is painted green in spring."
    other = "\n\n".join(f"## Part {n}\n\nNothing but {n} stones lie here in a row." for n in range(5))
    whole = f"## Gate\n\n{gate}\n\n{other}"
    documents = [
        SourceDocument("local:d#all", "D: all", whole),
        SourceDocument("local:d#gate", "D: gate", f"## Gate\n\n{gate}"),
    ]
    (quotes,) = best_quotes(parse_query("When is the gate painted?"), documents)
    assert (quotes.address, quotes.sentences) == ("local:d#gate", (gate,))


@pytest.mark.parametrize(("n_passages", "answered"), [(20, True), (900, False)])
def test_unknown_word_counts_more_in_large_sources(n_passages: int, answered: bool):
    """In a small folder a word of the question may be missing by chance."""
    text = "# Bees\n\nThe hives are opened in the morning, and bees that swarm are given another box."
    counts = WordCounts(n_passages, {"hive": 1, "swarm": 1, "vacat": 0, "weekend": 0})
    found = best_quotes(
        parse_query("Do hives swarm at the weekend?"), [SourceDocument("local:d#b", "D: b", text)], counts
    )
    assert bool(found) is answered


@pytest.mark.parametrize(
    ("better", "worse", "question"),
    [
        ("The pump needs oil.", "See section Pumps for the oil of the pump.", "What does the pump need?"),
        ("If the pump stops, add oil.", "The pump needs oil.", "What happens when the pump stops?"),
        ("The pump holds 3 litres.", "The pump holds some water.", "How much does the pump hold?"),
        ("The pump needs oil.", "It needs oil.", "What does the pump need?"),
        ("The pump needs oil.", "Oil for a pump.", "What does the pump need?"),
        ("The pump needs oil.", "Does the pump need oil?", "What does the pump need?"),
        ("The pump needs oil and water:", "The pump needs the following things:", "What does the pump need?"),
        ("水泵每天加油两次。", "水泵需要经常加油。", "水泵每天加油几次？"),
    ],
)
def test_kind_of_sentence_changes_its_worth(better: str, worse: str, question: str):
    """Statements, conditions and figures are worth more than references, fragments and questions."""
    assert worth(better, "", question) > worth(worse, "", question)


def test_history_is_worth_less():
    """A sentence labelled as a change of some version is worth less than the same without."""
    assert worth("The pump takes oil.", "Changed in version 3:", "?") < worth("The pump takes oil.", "", "?")


def test_excerpt_is_judged_by_its_original_length():
    """Of two equal excerpts, that of the longer text has the lower score."""
    text = "# Pumps\n\nThe pump of the well is switched on by hand.\n\n[... {} characters left out ...]\n"
    query = parse_query("How is the pump of the well switched on?")
    short, long = (
        parse_document(SourceDocument("local:d#a", "D: a", text.format(left_out))) for left_out in ("90", "30,000")
    )
    scorer = Scorer(query, count_words(query, [*short.words, *long.words]))
    assert judge(scorer, long).score < judge(scorer, short).score
