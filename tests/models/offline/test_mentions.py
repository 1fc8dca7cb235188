"""Words that questions, titles and texts mention as words."""

import pytest

from artifactflow_nb.sources.retrieval.mentions import find_mentions, find_quotations, is_mention_term, mention_term
from artifactflow_nb.sources.retrieval.stem import stem
from artifactflow_nb.sources.retrieval.terms import content_words, parse_query, split_terms, title_terms


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
        ("Does or always evaluate its right operand?", ["or"]),
        ("Which function is the valve called in?", []),
        ("What does not work with it?", []),
        ("How many doors does it have and who has the keys?", []),
        ("How Do I Say No In French?", []),
        ("When does finally blink?", ["finally"]),
        ("When does else blink?", ["else"]),
        ("When does the light finally blink?", []),
        ("Whose is the guests' ' room?", []),
        ("'", []),
    ],
)
def test_mentioned_words_are_recognised(text: str, named: list[str]):
    """Quotation marks, position and joints mark a word that is mentioned; ordinary stop words are ignored."""
    assert find_mentions(text) == named


def test_short_quotations_are_mentions():
    """A long quotation, and the gap between two quotations, are not mentions."""
    text = 'The "on" key, the `off` key, "a rather long remark of somebody" and “up”; 5" wide, 6" high.'
    assert [pieces for _, pieces in find_quotations(text)] == [["on"], ["off"], ["up"]]
    assert split_terms('the "on" key')[:3] == ["the", mention_term("on"), "on"]
    assert mention_term("with") in title_terms("The with statement")


@pytest.mark.parametrize("word", ["with", "<<", "__exit__", "=="])
def test_mention_is_one_word_of_the_index(word: str):
    """A mention is recognised and differs from the word itself."""
    assert is_mention_term(mention_term(word))
    assert not is_mention_term(word)


def test_query_keeps_mentioned_words():
    """The search words contain a mentioned stop word in quotation marks, and mean the same as the question."""
    question = "What does the with statement do?"
    assert content_words(question) == '"with" statement'
    assert parse_query(content_words(question)).terms == parse_query(question).terms


def test_synonyms_are_known_by_stem():
    """A word brings the other words of its group along."""
    assert parse_query("What is the price?").synonyms["fee"] == "price"


@pytest.mark.parametrize(
    ("entry", "other", "same"),
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
def test_forms_of_a_word_share_a_stem(entry: str, other: str, same: bool):
    """Forms and spellings of a word have one stem; words with the same beginning have not."""
    assert (stem(entry) == stem(other)) is same
