"""What a person reads when an error ends a cell or a command."""

import artifactflow_nb as af


def test_lines_of_an_error_break_between_words() -> None:
    """JupyterLab and terminals break long lines within words; addresses stay whole, and short lines as they are."""
    address = "https://example.org/" + "path/" * 20
    message = f"The value 'x' is not known. {'Use one of these values. ' * 9}\n  indented\n{address}"
    [shown] = af.errors.UsageError(message)._render_traceback_()
    lines = shown.split("\n")
    assert "  indented" in lines
    assert f"{address}" in lines
    assert max(len(line) for line in lines if address not in line) <= 79
    assert shown.split() == f"{message} (UsageError)".split()
