"""Small PDF files, assembled from strings."""

import io
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import pypdf


class Line(NamedTuple):
    """A line of text at a place of a page, in points from the lower left corner."""

    x: float
    y: float
    text: str
    size: float = 12


PICTURE = "\0"
"""A page that is a grey picture without text."""


def pdf(*pages: str | Sequence[Line], title: str = "") -> bytes:
    """A small PDF: a page is a line of text, lines with their places, or a `PICTURE`."""
    image = (
        b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 /Length 1 >>"
    )
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        image + b"\nstream\n\x80\nendstream",
    ]
    resources = "/Resources << /Font << /F1 3 0 R >> /XObject << /I1 4 0 R >> >> /MediaBox [0 0 600 800]"
    for n, page in enumerate(pages):
        if page == PICTURE:
            stream = b"q 500 0 0 700 50 50 cm /I1 Do Q"
        else:
            lines = [Line(72, 700, page)] if isinstance(page, str) else page
            stream = b"\n".join(_draw(line) for line in lines)
        packed = zlib.compress(stream)
        objects.append(f"<< /Type /Page /Parent 2 0 R {resources} /Contents {6 + 2 * n} 0 R >>".encode())
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(packed), packed))
    objects.append(f"<< /Title ({title}) >>".encode())
    return assembled(*objects, info=len(objects))


def assembled(*objects: bytes, info: int = 0) -> bytes:
    """A PDF of these objects: the first is the catalog, and `info` is the number of the one with its metadata."""
    out, starts = b"%PDF-1.4\n", []
    for number, written in enumerate(objects, 1):
        starts.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, written)
    table = b"".join(b"%010d 00000 n \n" % start for start in starts)
    count = len(objects) + 1
    about = b"/Info %d 0 R" % info if info else b""
    tail = b"trailer << /Size %d /Root 1 0 R %b >>\nstartxref\n%d\n%%%%EOF" % (count, about, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % count + table + tail


def _draw(line: Line) -> bytes:
    text = line.text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return f"BT /F1 {line.size} Tf {line.x} {line.y} Td ({text}) Tj ET".encode("cp1252")


def paragraph(*lines: str, x: float = 72, y: float = 700, leading: float = 14, size: float = 12) -> list[Line]:
    """Lines below each other."""
    return [Line(x, y - leading * n, text, size) for n, text in enumerate(lines)]


def encrypted(data: bytes, user_password: str) -> bytes:
    """The PDF with restrictions; it asks for the password to open it unless that is empty."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
    writer.encrypt(user_password=user_password, owner_password="owner", algorithm="RC4-128")  # noqa: S106 - of a test
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


HELVETICA = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"


def one_page(content: bytes, *objects: bytes, font: bytes = HELVETICA, page: str = "", catalog: str = "") -> bytes:
    """A PDF of one page with these contents; further objects have the numbers 6, 7, ..."""
    resources = "/Resources << /Font << /F1 4 0 R >> >> /MediaBox [0 0 600 800] /Contents 5 0 R"
    return assembled(
        f"<< /Type /Catalog /Pages 2 0 R {catalog} >>".encode(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R {resources} {page} >>".encode(),
        font,
        stream(content),
        *objects,
    )


def stream(content: bytes) -> bytes:
    """An object that is a stream."""
    return b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content)


def lines_of(*lines: Line) -> bytes:
    """The contents of a page with these lines."""
    return b"\n".join(_draw(line) for line in lines)
