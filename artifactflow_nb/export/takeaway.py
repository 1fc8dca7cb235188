"""What a person can take along as a file, in each of the forms that there are."""

from pathlib import Path

from artifactflow_nb.export.files import AnyPath


class TakenAlong:
    """Something that a person holds and can write as a file; a subclass says how that is done."""

    __slots__ = ()

    def _write(self, form: str, path: AnyPath | None, *, overwrite: bool) -> Path:
        """Write it in one of the `FORMS`."""
        raise NotImplementedError

    def to_markdown(self, path: AnyPath | None = None, *, overwrite: bool = False) -> Path:
        """Write a Markdown file: an artifact's text as it is, other texts harmless wherever they are read.

        Args:
            path: The file; a folder to have it named there after what it holds; None for the working directory.
            overwrite: Take the place of a file that is there.

        Returns:
            Where it lies.

        Errors: `UsageError` with the path if there is such a file, or if it cannot be written; `NotFound` for a
            conversation that was deleted.
        """
        return self._write("md", path, overwrite=overwrite)

    def to_html(self, path: AnyPath | None = None, *, overwrite: bool = False) -> Path:
        """Write a page that needs no network; arguments and errors as for `to_markdown`."""
        return self._write("html", path, overwrite=overwrite)

    def to_docx(self, path: AnyPath | None = None, *, overwrite: bool = False) -> Path:
        """Write a Word document, with `artifactflow-nb[docx]`; arguments and errors as for `to_markdown`."""
        return self._write("docx", path, overwrite=overwrite)

    def to_ipynb(self, path: AnyPath | None = None, *, overwrite: bool = False) -> Path:
        """Write a notebook, a Markdown cell a chapter, question or block; arguments and errors as for `to_markdown`."""
        return self._write("ipynb", path, overwrite=overwrite)
