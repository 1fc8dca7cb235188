"""Words that are spoken of: in questions, titles and texts."""

import pytest

from artifactflow_nb.text.mentions import is_mention, mention, mentioned, quoted
from artifactflow_nb.text.stem import stem
from artifactflow_nb.text.words import content_words, query_of, term_of, terms, title_terms


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What does the with statement do?", ["with"]),
        ("What is the difference between is and ==?", ["==", "is"]),
        ("What is the difference between == and is?", ["==", "is"]),
        ("How do and and or short-circuit?", ["and", "or"]),
        ("What does `in` do?", ["in"]),
        ("What does with do?", ["with"]),
        ("How do nested for loops work?", ["for"]),
        ("What does not in mean?", ["not", "in"]),
        ("What do << and >> do?", ["<<", ">>"]),
        ("What is None?", ["none"]),
        ("What is the finally clause for?", ["finally"]),
        ("How do I overload the plus operator with a method?", ["plus"]),
        ("In which order are the doors and windows painted?", []),
        ("Does or evaluate its right operand?", ["or"]),
        ("What does not work with it?", []),
        ("How many doors does it have and who has the keys?", []),
        ("How Do I Say No In French?", []),
        ("Whose is the guests' ' room?", []),
        ("'", []),
    ],
)
def test_a_question_tells_which_words_it_speaks_of(text: str, named: list[str]):
    """Quotation, position and joints show a word that is meant as a word; ordinary stop words are left alone."""
    assert mentioned(text) == named


def test_a_text_mentions_what_it_sets_in_quotation_marks():
    """Short quotations give mentions; a long quotation and the gap between two are none."""
    text = 'The "on" key, the `off` key, "a rather long remark of somebody" and “up”; 5" wide, 6" high.'
    assert [pieces for _, pieces in quoted(text)] == [["on"], ["off"], ["up"]]
    assert terms('the "on" key')[:3] == ["the", mention("on"), "on"]
    assert mention("with") in title_terms("The with statement")


@pytest.mark.parametrize("word", ["with", "<<", "__exit__", "=="])
def test_a_mention_is_one_word_of_the_index(word: str):
    """A mention is recognised as such, reads back from its spelling and is not the word itself."""
    assert is_mention(mention(word))
    assert not is_mention(word)
    assert term_of(f'"{word}"') == mention(word)


def test_a_query_keeps_the_words_that_are_spoken_of():
    """The words to search for hold a mentioned stop word in quotation marks, and mean the same as the question."""
    question = "What does the with statement do?"
    assert content_words(question) == '"with" statement'
    assert query_of(content_words(question)).terms == query_of(question).terms


def test_other_words_of_one_meaning_are_known():
    """A word brings the other words of its group along, by stem."""
    assert query_of("What is the price?").alike["fee"] == "price"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("keys", "key", True),
        ("used", "uses", True),
        ("lost", "lose", True),
        ("behaviour", "behavior", True),
        ("customise", "customize", True),
        ("evaluation", "evaluate", True),
        ("comparison", "compare", True),
        ("losses", "lose", True),
        ("deliveries", "delivered", True),
        ("generator", "generic", False),
        ("service", "serve", False),
        ("ide", "id", False),
    ],
)
def test_forms_of_a_word_share_a_stem(one: str, other: str, same: bool):
    """Forms and spellings of one word have one stem; words that merely begin alike have not."""
    assert (stem(one) == stem(other)) is same
