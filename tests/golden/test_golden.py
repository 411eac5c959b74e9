"""Today's numbers and texts are those of the golden files, which tests/golden/write.py writes."""

import pytest

import ooc_test_golden as golden
from ooc_test_golden_cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_that_of_the_golden_file(name):
    found = golden.differences(name, CASES[name]())
    more = f"\n… and {len(found) - 12} more" if len(found) > 12 else ""
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:12]) + more


def test_every_golden_file_has_a_case():
    assert {path.stem for path in golden.path_of("").parent.glob("*.json")} == set(CASES)


def test_the_golden_files_stay_small():
    assert sum(path.stat().st_size for path in golden.path_of("").parent.glob("*.json")) < 600_000
