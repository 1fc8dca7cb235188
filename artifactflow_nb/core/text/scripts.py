"""Rules of scripts in rendered Markdown: emphasis beside Chinese, Japanese and Korean, and text from right to left."""

import re

from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token
from markdown_it.utils import EnvType

from artifactflow_nb.core.text.chinese import CJK

WITHOUT_SPACES = re.compile(rf"[{CJK}\u3000-\u303f\ufe30-\ufe4f\uff00-\uffef]")
"""A character of a script that writes no space between words, or a punctuation mark of such a script."""
_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_STRONG = re.compile(rf"([{_RIGHT_TO_LEFT}])|[^\W\d_]")
_BLOCK_OF_TEXT = re.compile(r"<(p|h[1-6]|li|blockquote|t[dh]|summary)\b([^>]*)>")
_LAID_OUT = re.compile(r"<(ul|ol|table)\b([^>]*)>")
_LEFT_TO_RIGHT = re.compile(r"<(pre|code|math)\b([^>]*)>")
_TAG = re.compile(r"<[^>]*>")


class InlineParser(ParserInline):
    """Inline parser of markdown-it in which emphasis may begin and end beside scripts without spaces.

    CommonMark asks for a space between a word and a mark that follows punctuation, so `**注意：**正文` would stay text.
    """

    def parse(self, src: str, md: "object", env: EnvType, tokens: list[Token]) -> list[Token]:
        """Parse the content of a block."""
        state = _State(src, md, env, tokens)  # type: ignore[arg-type]
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


class _State(StateInline):
    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:  # noqa: N802, N803 - names of markdown-it
        """Count the marks at a position, and say whether they may open and close emphasis."""
        scanned = super().scanDelims(start, canSplitWord)
        before, after = self.src[start - 1 : start], self.src[start + scanned.length :][:1]
        if not canSplitWord or (not WITHOUT_SPACES.match(before) and not WITHOUT_SPACES.match(after)):
            return scanned
        opens, closes = (bool(char) and not char.isspace() for char in (after, before))
        return Scanned(scanned.can_open or opens, scanned.can_close or closes, scanned.length)


def is_right_to_left(text: str) -> bool:
    """Return whether the first letter of a text belongs to a script that is written from right to left."""
    first = _STRONG.search(text)
    return first is not None and first[1] is not None


def with_directions(markup: str) -> str:
    """Give each block of text in sanitised HTML its own direction if a script from right to left occurs.

    Code and formulas stay left to right. HTML without such a script has the direction of the page and is unchanged.
    """
    if not re.search(f"[{_RIGHT_TO_LEFT}]", markup):
        return markup
    markup = _BLOCK_OF_TEXT.sub(r'<\1\2 dir="auto">', markup)
    if is_right_to_left(_TAG.sub("", markup)):
        markup = _LAID_OUT.sub(r'<\1\2 dir="rtl">', markup)
    return _LEFT_TO_RIGHT.sub(r'<\1\2 dir="ltr">', markup)
