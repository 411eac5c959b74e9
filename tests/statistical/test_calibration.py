"""The calibration study: the committed figures are whole, its truths are true, and a thinned run still agrees."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import calibration
from _figures import Figure, Figures
from calibration import SCHEMA, SEED, cells, covered, root_mean_square
from worlds import EntityWorld, MixedWorld, fresh_losses

pytestmark = pytest.mark.slow

CELLS = {cell.name: cell for cell in cells()}


def cells_of(start):
    return [cell for cell in CELLS.values() if cell.name.startswith(start)]


def name(cell):
    return cell.name


@pytest.fixture(scope="module")
def study():
    return json.loads(Path(calibration.__file__).with_suffix(".json").read_text())


# --- the committed study ------------------------------------------------------------------------------


def test_the_committed_study_is_whole(study):
    """Every cell with its design as it is simulated today, over all of its data sets."""
    assert (study["schema"], study["seed"]) == (SCHEMA, SEED)
    assert study["versions"].keys() == {"python", *calibration.PACKAGES}
    kept = [(cell["name"], cell["design"], cell["data_sets"]) for cell in study["cells"]]
    assert kept == [(cell.name, cell.design, cell.data_sets) for cell in CELLS.values()]
    assert all(any(figure["holds"] is not None for figure in cell["figures"]) for cell in study["cells"])


def test_every_committed_figure_holds_or_is_listed_as_short(study):
    short = []
    for cell in study["cells"]:
        for kept in cell["figures"]:
            bound = tuple(kept["bound"]) if isinstance(kept["bound"], list) else kept["bound"]
            figure = Figure(kept["what"], kept["value"], bound, kept["kind"], kept["standard_error"])
            assert math.isfinite(figure.value)
            assert kept["holds"] == figure.holds
            if figure.holds is False:
                short.append(f"{cell['name']}: {figure.what}")
    assert study["short"] == short


# --- the truths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [LinearRegression(), LinearSVC()], ids=["squared error", "zero-one"])
@pytest.mark.parametrize("n_clusters", [3, 20])
def test_the_closed_form_is_the_loss_on_many_new_clusters(estimator, n_clusters):
    """Half a million clusters of one record; models of few clusters have intercepts far from 0."""
    world = MixedWorld(classes=isinstance(estimator, LinearSVC))
    rng = np.random.default_rng(3)
    X, y, _ = world.draw(rng, n_clusters, 20)
    model = estimator.fit(X, y)
    X, y, _ = world.draw(rng, 500_000, 1)
    losses = (model.predict(X) != y) if world.classes else (model.predict(X) - y) ** 2
    assert world.population_loss(model) == pytest.approx(losses.mean(), abs=4 * losses.std() / math.sqrt(500_000))


def test_the_clean_models_truth_knows_nothing_of_the_held_out_entities():
    """One neighbour: a model that saw records of the same entities is hardly ever wrong, and one that did not often."""
    world, rng = EntityWorld(), np.random.default_rng(0)
    entities = world.clusters(rng, 100)
    _, _, entity = data = world.records(rng, entities, 4)
    held_out = (entity < 50) & (np.arange(400) % 4 == 0)
    split = [(np.flatnonzero(~held_out), np.flatnonzero(held_out))]
    clean, leaky = fresh_losses(rng, world, entities, data, split, KNeighborsClassifier(1), times=20)
    assert clean > 0.3
    assert leaky < 0.1
    apart = [(np.flatnonzero(entity >= 50), np.flatnonzero(held_out))]
    clean, leaky = fresh_losses(rng, world, entities, data, apart, KNeighborsClassifier(1), times=20)
    assert clean == leaky


# --- thinned: what a right implementation passes all but surely, and a wrong one does not ---------------


def test_any_number_of_workers_gives_the_same_numbers():
    (cell,) = cells_of("rate, from_pair_probabilities, several")
    one, two = cell.simulate(6, jobs=1), cell.simulate(6, jobs=2)
    assert all(np.array_equal(one[key], two[key]) for key in one)


def test_intervals_are_neither_too_narrow_nor_too_wide():
    """600 intervals over the 12 cells: 0.7 times too narrow would cover 83 %, 1.9 times too wide all of them."""
    runs = [cell.simulate(50) for cell in cells_of("coverage")]
    for kind in ("known", "unsure"):
        hits = np.array([covered(rows, kind).sum() for rows in runs])
        assert hits.min() >= stats.binom.ppf(1e-5, 50, 0.92)
        assert stats.binom.ppf(0.0005, 600, 0.935) <= hits.sum() <= stats.binom.ppf(0.9995, 600, 0.965)
        # The standard errors themselves, which a coverage tells only roughly.
        ratios = [root_mean_square(rows[f"{kind}_error"]) / rows[kind].std(ddof=1) for rows in runs]
        assert 0.9 < np.exp(np.mean(np.log(ratios))) < 1.3


@pytest.mark.parametrize(
    ("start", "count"),
    [("bias, records, clusters that differ in levels, LinearRegression, rate 0.2", 80), ("bias, fragments, 3", 8)],
)
def test_the_bias_is_removed(start, count):
    """Within the bounds of the study but for three and a half standard errors of so few data sets."""
    for cell in cells_of(start):
        figures = Figures()
        cell.judge(figures, cell.simulate(count))
        removed = figures.rows[0]
        assert removed.what == "share of the naive loss's bias that is removed"
        assert removed.standard_error < 0.12
        assert 0.8 - 3.5 * removed.standard_error < removed.value < 1.15 + 3.5 * removed.standard_error


@pytest.mark.parametrize("start", ["no leakage, records", "no cluster effect, records"])
def test_nothing_is_corrected_where_nothing_is_to_be(start):
    for cell in cells_of(start):
        rows = cell.simulate(40)
        assert (np.abs(rows["corrected"] - rows["naive"]) <= rows["error"]).mean() > 0.9
