"""Today's numbers and texts are those of the golden files, which tests/golden/write.py writes."""

import pytest

import ooc_test_golden as golden
from ooc_test_golden_cases import CASES

# One case of every kind; CI runs the others as well.
EVERYDAY = {
    "records_plain",
    "records_below_two_metrics",
    "records_probabilities",
    "records_rate_from_data",
    "records_both_ways_below",
    "records_resumed",
    "records_rate_per_fold",
    "pieces_seen",
    "pieces_looked_up",
    "pieces_of_audited_entities",
    "pieces_rate_per_fold",
    "comparison",
    "losses_alone",
    "rates",
    "command_help",
    "command_leakage",
    "command_refusals",
}


@pytest.mark.parametrize(
    "name", [name if name in EVERYDAY else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_the_result_is_that_of_the_golden_file(name):
    differences = golden.differences(name, CASES[name]())
    more = f"\n… and {len(differences) - 12} more" if len(differences) > 12 else ""
    assert not differences, f"{len(differences)} differences:\n" + "\n".join(differences[:12]) + more


def test_every_golden_file_has_a_case():
    assert {path.stem for path in golden.path_of("").parent.glob("*.json")} == set(CASES)


def test_the_golden_files_stay_small():
    assert sum(path.stat().st_size for path in golden.path_of("").parent.glob("*.json")) < 600_000
