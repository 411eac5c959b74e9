"""Simulations of probabilities of single records, and of leakage both ways."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import directions


@pytest.mark.slow
def test_probabilities_of_records_leave_less_of_the_error_than_their_mean():
    errors = {"naive": [], "given": [], "alone": [], "doubled": []}
    for seed in range(400, 404):
        data = directions.split(Ridge(), seed, 0.1)
        q = directions.probabilities(data, seed, 2.0)
        audits = {
            "given": data.audit(Ridge(), seed, leakage=q),
            "alone": data.audit(Ridge(), seed, leakage=float(q[data.train].mean())),
            "doubled": data.audit(Ridge(), seed, leakage=2 * q / (1 + q)),
        }
        errors["naive"].append(audits["given"].naive.value - data.truth)
        for name, result in audits.items():
            errors[name].append(result.corrected.value - data.truth)
    left = {name: directions.rmse(values) for name, values in errors.items()}
    assert left["given"] < 0.8 * left["alone"]
    assert left["given"] < 0.25 * left["naive"]
    assert left["doubled"] < left["naive"]


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "reverse"), [(0.05, 0.15), (0.15, 0.05)])
def test_most_of_the_bias_of_both_ways_is_removed(rate, reverse):
    naive, corrected = [], []
    for seed in range(600, 604):
        data = directions.split(Ridge(), seed, rate, reverse, apart=True)
        result = data.audit(Ridge(), seed, leakage=data.rate, validation_leakage=data.reverse)
        naive.append(result.naive.value - data.truth)
        corrected.append(result.corrected.value - data.truth)
    assert abs(np.mean(corrected)) < 0.2 * abs(np.mean(naive))
