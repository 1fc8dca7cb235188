"""The choice of quoted sentences, and whether a document answers at all."""

import pytest

from artifactflow_nb.models.offline.documents import worth
from artifactflow_nb.models.offline.ranking import best_quotes, missing_words
from artifactflow_nb.sources.citations import SourceDocument, SourceQuotes, read_counts, write_counts
from artifactflow_nb.sources.retrieval.scoring import Scorer, WordCounts
from artifactflow_nb.sources.retrieval.sentences import split_sentences
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


def test_best_quote_is_first_and_further_quotes_have_the_order_of_the_text():
    """The sentence that answers is read first; other sentences of the source follow in reading order."""
    (quotes,) = ask("When is the open command of the gate ignored?", LOCK)
    assert quotes[0] == "If the gate is frozen, the command is ignored and a bell rings."
    places = [" ".join(LOCK.split()).index(quote) for quote in quotes[1:]]
    assert places == sorted(places)


def test_entries_of_parameter_lists_and_rows_of_tables_are_quoted_alone():
    """An entry needs no full stop and may begin with a small letter; the row that names the columns is not a quote."""
    docstring = (
        "Open a valve.\n\nArgs:\n    valve: The valve to open.\n    wait_s: Seconds to wait\n        before it opens"
    )
    assert [sentence.quote for sentence in split_sentences(docstring)] == [
        "Open a valve.",
        "valve: The valve to open.",
        "wait_s: Seconds to wait before it opens",
    ]
    numpy_style = (
        "Parameters\n----------\nvalve : int, optional\n    Valve to open.\n    Cannot be shut.\n"
        "wait_s : float\n    Seconds to wait"
    )
    assert [sentence.quote for sentence in split_sentences(numpy_style)] == [
        "valve : int, optional Valve to open. Cannot be shut.",
        "wait_s : float Seconds to wait",
    ]
    columns = (
        "Codes:\n\n'v'         open the old valve\n"
        "'w:b'       wait for the bell,\n            then open\n's'         shut them all at once"
    )
    assert [sentence.quote for sentence in split_sentences(columns)] == [
        "'v' open the old valve",
        "'w:b' wait for the bell, then open",
        "'s' shut them all at once",
    ]
    table = "| Code | Meaning |\n|---|---|\n| 7 | The valve of the well is stuck |\n"
    assert [sentence.quote for sentence in split_sentences(table)] == ["7 | The valve of the well is stuck"]
    grid = (
        "+-----+----------------+\n| Key | Meaning        |\n|=====|================|\n"
        "| '+' | opens a valve  |\n|     | of the well    |\n+-----+----------------+\n"
        "| off | shuts all of   |\n|     | them at once   |\n+-----+----------------+\n"
    )
    assert [sentence.quote for sentence in split_sentences(grid)] == [
        "'+' | opens a valve | | | of the well",
        "off | shuts all of | | | them at once",
    ]
    assert [sentence.quote for sentence in split_sentences("wait_s -- seconds to wait before it opens")] == [
        "wait_s -- seconds to wait before it opens"
    ]


@pytest.mark.parametrize(
    ("text", "quotes"),
    [
        ("A tandem costs 3 crowns. Dogs ride free. See below.", ["A tandem costs 3 crowns.", "Dogs ride free."]),
        ("Ticket Single\nAdult 4 crowns\nTandem 3 crowns", ["Adult 4 crowns", "Tandem 3 crowns"]),
        ("Contents\n1 Fares of the ferry ........ 2\n2 Winter .......... 3", []),
        ("- [All fares of the ferry](#fares)\n- runs in winter too", ["runs in winter too"]),
        ("Printed on recycled paper.\n\n© 2021 The ferry company. All rights reserved.", []),
        ("[... 551 characters left out ...]", []),
        ("The fares of the ferry in winter", []),
        (
            """NAME
       tac - print files in reverse

SYNOPSIS
       tac [OPTION]... [FILE]...

DESCRIPTION
       Write  each  FILE  to  standard output.

       -b, --before
              attach the separator before""",
            [
                "tac - print files in reverse",
                "Write each FILE to standard output.",
                "-b, --before attach the separator before",
            ],
        ),
        ("The  pump   of  the  well\nholds  3 litres  of  oil.\nIt  is  blue  at  night.", None),
    ],
)
def test_short_sentences_rows_and_options_are_quoted_and_contents_are_not(text: str, quotes: list[str] | None):
    """Three words are a sentence; headings, contents, imprints and synopses say nothing; justified text is no list."""
    expected = ["The pump of the well holds 3 litres of oil.", "It is blue at night."] if quotes is None else quotes
    assert [sentence.quote for sentence in split_sentences(text)] == expected


def test_known_name_outweighs_everyday_words_that_no_source_has():
    """The text about the named light answers, though it says neither strong nor fog; an unknown name is declined."""
    texts = [f"# {name}\n\nThe lamp has a range of {n + 9} miles." for n, name in enumerate(("Karrow", "Morvay"))]
    (quotes,) = ask("How strong is the beam of Karrow in fog?", *texts)
    assert quotes == ("The lamp has a range of 9 miles.",)
    assert not ask("How strong is the beam of Kinnaird in fog?", *texts)


def test_rare_words_that_no_quote_has_are_named():
    """These are names, the rarest word, and words of no source beside a known name, in the spelling of the question."""
    quotes = [SourceQuotes("Ferry", "local:d#f", ("A car costs 9 crowns.",))]
    query = parse_query("What does a tandem cost in stormy weather?")
    counts = WordCounts(90, {"tandem": 1, "cost": 9, "stormi": 0, "weather": 9})
    assert missing_words(query, counts, quotes) == ("tandem",)
    assert missing_words(query, WordCounts(9, counts.counts), quotes) == ()
    assert missing_words(query, counts, []) == ()
    query = parse_query("What does a stormy crossing to Hove cost?")
    assert missing_words(query, WordCounts(90, {"hove": 1, "cost": 9}), quotes) == ("stormy", "crossing", "Hove")
    assert missing_words(query, WordCounts(90, {"cost": 9}), quotes) == ("Hove",)


def test_sentence_may_begin_with_a_name_of_code():
    """A docstring often begins with the name that it explains; other small letters begin the rest of a sentence."""
    text = "open_valve(name) returns the pressure of the well.\n\nand shuts the valve of the well again."
    assert [sentence.quote for sentence in split_sentences(text)] == [
        "open_valve(name) returns the pressure of the well."
    ]


def test_first_source_leaves_room_for_the_second():
    """At most four of six quotes are from the first source, because another source may answer."""
    places = ("well", "mill", "farm", "lock", "pond")
    pumps = " ".join(f"The pump of the {place} takes oil in {place} hours." for place in places)
    first, second = ask("When does the pump take oil?", pumps, "The pump of the barn takes oil. It is noisy.")
    assert len(first) == 4
    assert second[0] == "The pump of the barn takes oil."


@pytest.mark.parametrize(("n", "passages"), [(1, "1 passage"), (9, "9 passages"), (1234, "1,234 passages")])
def test_counts_are_written_with_the_words_of_the_question_and_read_by_stem(n: int, passages: str):
    """A reader gets the counts of the stems, whatever the number of passages."""
    written = write_counts({"pump": "pumps", "leav": "leaves"}, WordCounts(n, {"pump": 1, "leav": 0}))
    assert written == f"Words in the {passages} searched: ‘pumps’ in 1, ‘leaves’ in 0"
    assert read_counts(written) == WordCounts(n, {"pump": 1, "leav": 0})


@pytest.mark.parametrize(
    ("question", "answered"),
    [("Do hives swarm at the weekend?", True), ("Do hives attract tourists at the weekend?", False)],
)
def test_question_of_mostly_unknown_words_is_declined(question: str, answered: bool):
    """One word of a question may be missing in the sources, but not most of them."""
    text = "# Bees\n\nThe hives are opened in the morning, and bees that swarm are given another box."
    counts = WordCounts(900, {"hive": 1, "swarm": 1})
    found = best_quotes(parse_query(question), [SourceDocument("local:d#b", "D: b", text)], counts)
    assert bool(found) is answered


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("The pump needs oil.", "See section Pumps for the oil of the pump."),
        ("The pump needs oil.", "Does the pump need oil?"),
        ("The pump needs oil and water:", "The pump needs the following things:"),
    ],
)
def test_kind_of_sentence_changes_its_worth(better: str, worse: str):
    """Statements are worth more than references, lead-ins and questions."""
    assert worth(better, "") > worth(worse, "")


def test_history_is_worth_less():
    """A sentence labelled as a change of some version is worth less than the same sentence without the label."""
    assert worth("The pump takes oil.", "Changed in version 3:") < worth("The pump takes oil.", "")


PATH = "The brook washed the path away. The committee will do the work itself on two Saturdays in July."


def test_large_source_needs_more_evidence():
    """In a large text, words occur together by chance; half of a question is enough only in a small folder."""
    query, source = parse_query("Who will repair the path?"), SourceDocument("local:d#may", "D: May", PATH)
    counts = {"repair": 0, "path": 1}
    assert best_quotes(query, [source], WordCounts(10, counts))
    assert not best_quotes(query, [source], WordCounts(1000, counts))


def test_question_for_a_figure_needs_a_sentence_with_a_figure():
    """A sentence without a figure does not say how fast something is."""
    kestrel = "The kestrel is a small falcon of open country."
    assert not ask("How fast is a kestrel?", kestrel)
    assert ask("How fast is a kestrel?", f"{kestrel[:-1]} that reaches 60 kilometres an hour.")


def test_unknown_name_counts_double():
    """A name is not paraphrased, so a text without it answers less of the question."""
    known = ["pump"]
    name, word = (parse_query(f"Who has the pump of {maker}?") for maker in ("Siemens", "siemens"))
    counts = WordCounts(100, {"pump": 1, next(iter(name.names)): 0})
    assert Scorer(word, counts).coverage(known) == pytest.approx(1 / 2)
    assert Scorer(name, counts).coverage(known) == pytest.approx(1 / 3)
