"""Losses below the leakage rate: what the automatic curve reads off them, against sums written out by hand."""

from dataclasses import dataclass

import numpy as np
import pytest

import outofcluster as ooc
from outofcluster.curves.unmixing import Unmixed, injected_of_mass, mass_of_injected

P = np.array([0.1, 0.13, 0.2, 0.35, 0.6])
B = 0.2 + 0.1 / (1 + 100 * P / 12)
SE = np.full(5, 1e-4)


@dataclass
class Run:
    """The part of loss samples that a curve reads."""

    injected: np.ndarray
    means: np.ndarray
    standard_errors: np.ndarray
    kept: np.ndarray

    size = 100

    def levels(self, leakage):
        return leakage + (1 - leakage) * self.injected


def rising(mass):
    """A loss that is linear in the removed mass, so that interpolation is exact."""
    return B[0] + 0.8 * mass


def fitted(masses=(0.05, 0.1, 0.2), losses=None, kept=None, largest=1.0, remixed=None, b=B):
    masses = np.array(masses)
    losses = rising(masses) if losses is None else np.array(losses)
    kept = np.zeros(len(masses)) if kept is None else np.array(kept)
    if remixed is not None:
        masses, losses, kept = (
            np.insert(values, 0, value) for values, value in zip((masses, losses, kept), remixed, strict=True)
        )
    below = Unmixed(masses, losses, np.full(len(masses), 1e-4), kept)
    return ooc.AutoCurve(largest).fit_points(P, b, 100, standard_errors=SE, unmixed=below)


def test_mass_and_injected_fraction_are_inverse_to_each_other():
    masses = np.array([-0.3, 0.0, 0.1, 0.6])
    np.testing.assert_allclose(mass_of_injected(injected_of_mass(masses)), masses)
    # With the true ratio, the level at a = -p0/(1-p0) is 0.
    p0 = 0.2
    a = injected_of_mass(p0)
    assert p0 + (1 - p0) * a == pytest.approx(0)


def test_without_remixing_the_optimism_is_the_mean_over_the_efficiency():
    """Prior odds of 19 to 1; by hand: η at 0.9 - 0.1√3, 0.9 and 0.9 + 0.1√3 with weights 1/6, 4/6 and 1/6."""
    curve = fitted()
    eta = 0.9 + 0.1 * np.sqrt(3) * np.array([-1, 0, 1])
    by_node = 0.8 * 0.1 / (0.1 + eta * 0.9)
    by_mass = by_node @ [1 / 6, 4 / 6, 1 / 6]
    by_share = by_node[1]  # nothing is left of leaked records: kept is 0
    assert curve.unmixing_.mass_probability == pytest.approx(0.95)
    assert curve.optimism_ == pytest.approx(0.95 * by_mass + 0.05 * by_share)
    within = 0.95 * ((by_node - by_mass) ** 2 @ [1 / 6, 4 / 6, 1 / 6])
    between = 0.95 * 0.05 * (by_mass - by_share) ** 2
    assert curve.choice_variance_ == pytest.approx(within + between, rel=1e-6)


def test_samples_of_negative_fractions_are_losses_below_the_leakage_rate():
    """Increasing fractions are decreasing masses; the runs may lie apart or be one."""
    masses = np.array([0.2, 0.1, 0.05])
    injected, above = injected_of_mass(masses), (P - 0.1) / 0.9
    below = Run(injected, rising(masses), np.full(3, 1e-4), np.zeros(3))
    apart = ooc.AutoCurve(1.0).fit([Run(above, B, SE, np.ones(5)), below], 0.1)
    columns = zip(vars(below).values(), (above, B, SE, np.ones(5)), strict=True)
    together = ooc.AutoCurve(1.0).fit(Run(*(np.concatenate(pair) for pair in columns)), 0.1)
    assert apart.e0_ == pytest.approx(fitted().e0_)
    assert together.e0_ == pytest.approx(fitted().e0_)


def test_what_is_left_of_leaked_records_is_taken_from_the_curve_above():
    above = ooc.AutoCurve(1.0).fit_points(P, B, 100, standard_errors=SE)
    curve = fitted(kept=[0.5, 0.5, 0.5])
    assert curve.unmixing_.optimism_above == pytest.approx(above.optimism_)
    eta = 0.9
    assert curve.unmixing_.by_share == pytest.approx(0.8 * 0.1 / (0.1 + eta * 0.9) + 0.5 * above.optimism_)


def test_remixing_tells_the_two_readings_apart():
    """Adding mass that lowers the loss as an injection to the level by mass does speaks for unmixing, else against."""
    above = np.interp(0.1 + 0.9 * 0.9 * 0.15 / 1.15, P, B)
    works = fitted(remixed=(-0.15, above, 1.0)).unmixing_.mass_probability
    fails = fitted(remixed=(-0.15, B[0], 1.0)).unmixing_.mass_probability
    assert works > 0.95 > fails


def test_losses_cannot_exceed_what_is_possible():
    curve = fitted(losses=[0.6, 0.9, 1.0], largest=0.5)
    assert curve.e0_ <= 0.5 + 1e-9


def test_no_leakage_no_correction():
    curve = ooc.AutoCurve(1.0).fit_points(
        P - 0.1, B, 100, standard_errors=SE, unmixed=Unmixed([0.1, 0.2], [0.3, 0.4], [1e-3, 1e-3], [0.5, 0.2])
    )
    assert curve.optimism_ == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("own", [False, True])
def test_derivatives_against_differences(own):
    """With the probability of the readings held, which does not depend on the losses that remove mass here."""
    masses, losses, kept = np.array([0.05, 0.1, 0.2]), np.array([0.29, 0.32, 0.33]), np.array([0.6, 0.4, 0.1])
    if own:
        masses, losses, kept = np.insert(masses, 0, 0.0), np.insert(losses, 0, 0.26), np.insert(kept, 0, 1.0)
    curve = fitted(masses, losses, kept)
    derivative = curve.optimism_derivative_[len(P) :]
    for i in range(len(masses)):
        moved = losses.copy()
        moved[i] += 1e-6
        assert (fitted(masses, moved, kept).optimism_ - curve.optimism_) / 1e-6 == pytest.approx(
            derivative[i], abs=1e-6
        )
    assert curve.optimism_derivative_.sum() == pytest.approx(0, abs=1e-9)
    assert len(curve.derivative_) == len(P) + len(masses)


def test_the_user_s_own_loss_is_where_removal_starts():
    """A loss of the user's model that differs from that of resamples: the rise counts from it."""
    masses = np.array([0.0, 0.05, 0.1, 0.2])
    curve = fitted(masses, 0.5 + 0.8 * masses, np.array([1.0, 0.0, 0.0, 0.0]))
    same = fitted()
    assert curve.optimism_ == pytest.approx(same.optimism_)


def test_the_curve_that_is_drawn_starts_at_e0():
    curve = fitted()
    assert curve.values(0) == pytest.approx(curve.e0_)
    above = ooc.AutoCurve(1.0).fit_points(P, B, 100, standard_errors=SE)
    assert curve.values(50) == pytest.approx(above.values(50))


@pytest.mark.parametrize(
    ("masses", "message"),
    [
        ([0.2, 0.1], "masses must increase"),
        ([0.2, 1.0], "masses must increase and stay below 1"),
        ([-0.2, -0.1], "masses must hold at least one above 0"),
    ],
)
def test_bad_input(masses, message):
    with pytest.raises(ooc.InputError, match=message):
        Unmixed(masses, [0.1, 0.2], [0.0, 0.0], [1.0, 1.0])
