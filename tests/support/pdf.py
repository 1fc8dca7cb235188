"""Small PDF files, written by hand."""


def pdf(*pages: str, title: str = "") -> bytes:
    """A small PDF with a line of text on each page."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for n, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode()
        font = "/Resources << /Font << /F1 3 0 R >> >>"
        head = f"<< /Type /Page /Parent 2 0 R {font} /MediaBox [0 0 600 800] /Contents {5 + 2 * n} 0 R >>"
        objects += [head.encode(), b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream)]
    objects.append(f"<< /Title ({title}) >>".encode())
    out, starts = b"%PDF-1.4\n", []
    for number, written in enumerate(objects, 1):
        starts.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, written)
    table = b"".join(b"%010d 00000 n \n" % start for start in starts)
    count = len(objects) + 1
    tail = b"trailer << /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF" % (count, count - 1, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % count + table + tail
