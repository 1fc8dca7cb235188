"""A generated folder of notes: Markdown, Python and text of 2 to 6 KB.

It has as many common and rare words as language has, and some of it is Chinese. The same seed gives the same files.
"""

import random
from itertools import accumulate
from pathlib import Path

_COMMON = (
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
    "not",
    "this",
)
_SYLLABLES = [start + end for start in "bdfgklmnprstvz" for end in ("a", "e", "i", "o", "u", "ai", "or", "en")]
_HAN = [chr(0x4E00 + 7 * n) for n in range(1500)]
_LEAST, _MOST = 2000, 6000  # characters of a file
_PER_FOLDER = 100


class Writer:
    """Writes files and asks questions about them.

    Args:
        seed: Which files.
        vocabulary: How many different words there are.
    """

    def __init__(self, seed: int = 7, vocabulary: int = 30_000) -> None:
        self._random = random.Random(seed)  # noqa: S311 - the same each time is what is wanted
        words: dict[str, None] = {}
        while len(words) < vocabulary:
            words["".join(self._random.choices(_SYLLABLES, k=self._random.choice((2, 2, 3, 3, 4))))] = None
        self._words = [*_COMMON, *words]
        self._by_use = list(accumulate(1 / (n + 2) for n in range(len(self._words))))
        self._han_by_use = list(accumulate(1 / (n + 3) for n in range(len(_HAN))))

    def write(self, root: Path, n: int) -> None:
        """Write `n` files below the root, a hundred to a folder."""
        for i in range(n):
            kind, text = ((".md", self._markdown), (".txt", self._plain), (".py", self._python))[i * 7 % 3]
            path = root / f"d{i // _PER_FOLDER:03}" / f"f{i:05}{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text(self._random.randint(_LEAST, _MOST)), encoding="utf-8")

    def questions(self, n: int) -> list[str]:
        """Questions of 1 to 10 words each, common, middling and rare ones; every fifth in Chinese."""
        questions = []
        for i in range(n):
            if i % 5 == 4:
                questions.append("".join(self._random.choices(_HAN, cum_weights=self._han_by_use, k=2 + i % 8)))
                continue
            top = (20, 300, len(self._words) - len(_COMMON))[i % 3]
            words = [self._words[len(_COMMON) + self._random.randrange(top)] for _ in range(1 + i % 10)]
            questions.append(" ".join(words))
        return questions

    def text(self, size: int) -> str:
        """Paragraphs of at least `size` characters."""
        return self._plain(size)

    def _some(self, n: int) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._by_use, k=n))

    def _sentence(self) -> str:
        return f"{self._some(self._random.randint(8, 20)).capitalize()}."

    def _paragraph(self) -> str:
        if self._random.random() < 0.05:
            return "".join(self._chinese() for _ in range(6))
        return " ".join(self._sentence() for _ in range(self._random.randint(3, 6)))

    def _chinese(self) -> str:
        return "".join(self._random.choices(_HAN, cum_weights=self._han_by_use, k=self._random.randint(12, 30))) + "。"

    def _plain(self, size: int) -> str:
        pieces = [self._paragraph()]
        while sum(map(len, pieces)) < size:
            pieces.append(self._paragraph())
        return "\n\n".join(pieces) + "\n"

    def _markdown(self, size: int) -> str:
        pieces = [f"# {self._some(5).capitalize()}"]
        while sum(map(len, pieces)) < size:
            pieces += [f"## {self._some(4).capitalize()}"] * (self._random.random() < 0.35)
            pieces.append(self._paragraph())
        return "\n\n".join(pieces) + "\n"

    def _python(self, size: int) -> str:
        pieces = [f'"""{self._sentence()}"""\n\nimport os']
        while sum(map(len, pieces)) < size:
            name = self._some(2).replace(" ", "_")
            message = f'    """{self._sentence()}\n\n    {self._sentence()}\n    """'
            pieces.append(f"def {name}(value):\n{message}\n    # {self._sentence()}\n    return value + len(os.sep)")
        return "\n\n\n".join(pieces) + "\n"
