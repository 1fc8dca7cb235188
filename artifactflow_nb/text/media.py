"""What stands in a text for what is no text: of what kind it is, and how much of it there is."""

from artifactflow_nb.text.figures import count


def media(kind: str, media_type: str, base64: str) -> str:
    """`[image, image/png, 1,204 bytes; it cannot be shown here]`, of what is given in base64."""
    return f"[{kind}, {media_type}, {size_of(base64)}; it cannot be shown here]"


def size_of(base64: str) -> str:
    """How much a text in base64 holds: `1,204 bytes`."""
    return count(len(base64) * 3 // 4 - base64[-2:].count("="), "byte")
