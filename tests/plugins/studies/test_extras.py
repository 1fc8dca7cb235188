"""What needs a package that is not installed says so in one line."""

from importlib.util import find_spec

import pytest

import artifactflow_nb as af


@pytest.mark.skipif(find_spec("pyarrow") is not None, reason="the environment with the packages runs test_library.py")
def test_library_without_its_packages_says_what_to_install() -> None:
    with pytest.raises(af.errors.UsageError, match=r"needs pyarrow: pip install 'artifactflow-nb\[library\]'$"):
        af.Library("library").runs_df()
