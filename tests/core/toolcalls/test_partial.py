"""Reading a text parameter of a call that is still being written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifactflow_nb.core.toolcalls.partial import PartialParameter
from artifactflow_nb.core.toolcalls.xml import format_call


def read(call: str, size: int) -> list[str]:
    """The texts of the parameter `content` in calls that arrive in pieces of a size."""
    reader, texts = PartialParameter("content"), [""]
    for start in range(0, len(call), size):
        text, is_new = reader.read(call[start : start + size])
        if is_new:
            texts.append("")
        texts[-1] += text
    return texts[1:]


@given(content=st.text(), ascii_only=st.booleans(), size=st.integers(1, 40))
def test_json_text_is_read_in_any_pieces(content: str, ascii_only: bool, size: int) -> None:
    call = json.dumps({"id": 'a "content": "b', "content": content, "title": "<content>x"}, ensure_ascii=ascii_only)
    assert "".join(read(call, size)[:1]) == content


@given(content=st.text(), size=st.integers(1, 40))
def test_cdata_text_is_read_in_any_pieces(content: str, size: int) -> None:
    """A `]]>` in the text divides it into two sections; the text before it is displayed."""
    call = format_call("create_artifact", {"id": "a", "content": content, "title": "T"})
    assert "".join(read(call, size)[:1]) == content.partition("]]>")[0] + "]]" * ("]]>" in content)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_plain_xml_text_is_unescaped(size: int) -> None:
    assert read("<params><content> a &lt; b &amp; c</content></params>", size) == ["a < b & c"]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_second_call_starts_a_new_text(size: int) -> None:
    """Of two calls in one piece, the text of the second one is returned."""
    assert read('{"content": "one"}{"content":"two', size)[-1:] == ["two"]
