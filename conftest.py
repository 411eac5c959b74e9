"""What every test and every docstring's example shares."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _short_arrays(doctest_namespace):
    doctest_namespace["np"] = np
    with np.printoptions(precision=6, suppress=True):
        yield


@pytest.fixture(autouse=True)
def _own_folder(request):
    """Examples may write files, and leave none in the folder where the tests run."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
