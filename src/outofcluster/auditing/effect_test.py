r"""Is there a cluster effect for leakage to act on? A test with power, and the paper's own test by its name.

*What it answers.* Whether training on records of the held-out clusters makes a model better on them. If it does,
errors of the clustering make a cross-validated score optimistic. Whether they do, and by how much, depends on the
leakage rate: that is what the optimism of an audit says.

*The paired test*, which is the default: the effect Δ over its standard error, by Student's distribution, one-sided
(:mod:`outofcluster.sampling.effect` derives both).

*The paper's test* (Section 4), ``method="welch"``. With z and z' the mean validation losses of models trained on
records of T̂ and of V̂, m of each kind in each of K splits (:mod:`outofcluster.sampling.effect` says how they
are drawn), and s², s'² their variances around the means of their own split, the test of e(p0) ≤ e(1) against e(p0) >
e(1) rejects when

.. math:: T = \frac{\bar z - \bar z'}{\sqrt{(s^2 + s'^2)/(Km)}} > t_{1-α,ν}, \qquad
          ν = K(m-1)\,\frac{(s^2+s'^2)^2}{s^4 + s'^4} ,

which is Welch's test for K = 1. (The paper's null hypothesis is to be read as e_0 = e(p0).) It fits few models to
small disjoint folds, so that its power is low; the power against the effect that it measured is printed beside its
p-value.

What `leakage_test` returns has words that claim no more than the test has shown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb, copysign, inf, isfinite, isnan, nan, sqrt
from typing import Any, Literal, Self

import numpy as np
from scipy.special import nctdtr, nctdtrinc, stdtr, stdtrit

from outofcluster._base.arguments import check_choice, check_number
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import Chance, Finite, JsonData, KnownChance, Matrix, data_frame
from outofcluster._base.seeds import RandomState, Seeds, seed_of
from outofcluster._base.text import chance, element, fragment, percentage, printable, table
from outofcluster.auditing.fits import MODELS_OF_THE_TEST
from outofcluster.auditing.price import Announcement, announce
from outofcluster.metrics.facts import known_facts
from outofcluster.problem.account import TableAccount
from outofcluster.problem.folds import make_folds
from outofcluster.problem.problem import Task, check_n_jobs, named_columns
from outofcluster.sampling.audit_samples import EffectLosses, FoldSizes
from outofcluster.sampling.backends import count_workers
from outofcluster.sampling.effect import sample_disjoint_folds, sample_effect
from outofcluster.sampling.progress import Progress

# Level of the test by default.
ALPHA = 0.05
# Probability with which a detectable effect is found.
POWER = 0.8


@dataclass(frozen=True, eq=False)
class LeakageTest(JsonData, what="a leakage test", schema=2):
    """Result of `leakage_test`; ``print`` it to see what was shown and what was not.

    Two results are equal when all their numbers are equal.

    Attributes
    ----------
    statistic, df, pvalue : float
        T, its degrees of freedom, and the one-sided p-value.
    rejected : bool
        Whether the p-value is at most ``alpha``.
    difference : float
        By how much training on records of held-out clusters lowers their loss.
    detectable : float
        Difference that losses as noisy as these would have shown with a probability of 80 %.
    losses_train, losses_validation : array of shape (n_folds, models)
        Mean losses of models on held-out records: of models that were trained on other clusters, and of models that
        were trained on other records of the same clusters.
    sizes : FoldSizes
        Number of models of each kind in a drawing, the records that each is trained on, and those that are scored.
    n_folds : int
        Drawings of pairs of models; for the paper's test the splits that were used.
    alpha, loss : float, str
        Level of the test, and name of the loss or metric.
    method : {"paired", "welch"}
        The test with power, or the paper's own.
    units, n_units : str, int
        The independent units, "clusters" or "records", and their number; "models" for the paper's test.
    power : float
        Probability with which the test finds an effect as large as the one it measured.
    greater_is_better : bool
        Whether the losses are those of a metric of which more is better, with the sign turned.
    """

    statistic: float
    df: float
    pvalue: KnownChance
    rejected: bool
    alpha: KnownChance
    difference: Finite
    detectable: float
    losses_train: Matrix
    losses_validation: Matrix
    sizes: FoldSizes
    n_folds: int
    loss: str
    method: str = "paired"
    units: str = "clusters"
    n_units: int = 0
    power: Chance = nan
    greater_is_better: bool = False

    @property
    def _chance(self) -> str:
        """The p-value, and the power of the paper's test beside it."""
        power = (
            ""
            if self.method == "paired"
            else f", power {percentage(round(self.power, 2))} against the effect that was measured"
        )
        return f"{chance(self.pvalue)}{power}"

    @property
    def outcome(self) -> str:
        """Whether an effect was found, and the p-value, and nothing else."""
        return f"{'A' if self.rejected else 'No'} cluster effect was found ({self._chance})."

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        if self.rejected:
            return f"A cluster effect was found ({self._chance}): there is something for leakage to act on."
        if not isfinite(self.detectable):
            return f"No cluster effect was found ({self._chance}), from losses that do not vary."
        return (
            f"No cluster effect was found ({self._chance}); one of {self.detectable:.3g} would have been found "
            f"with a probability of {percentage(POWER)}."
        )

    def __read__(self) -> Self:
        if not isnan(self.statistic):
            return self
        # Losses that do not vary: a statistic that is infinite, which plain data do not hold.
        return replace(self, statistic=copysign(inf, self.difference))

    def to_frame(self) -> Any:
        """The losses of all models as a table.

        Returns
        -------
        pandas.DataFrame
            One row per model, with the columns split, trained_on and loss.
        """
        kinds = {"other clusters": self.losses_train, "the same clusters": self.losses_validation}
        rows = [
            {"split": split, "trained_on": kind, "loss": float(loss)}
            for kind, losses in kinds.items()
            for (split, _), loss in np.ndenumerate(losses)
        ]
        return data_frame(rows)

    def plot(self, ax: Any = None) -> Any:
        """Draw the losses of the models by what they were trained on; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        LeakageTestDisplay
        """
        from outofcluster.present.display import LeakageTestDisplay

        return LeakageTestDisplay.from_test(self).plot(ax)

    @property
    def _label(self) -> str:
        known = known_facts(self.loss)
        return self.loss if known is None else known.label.removeprefix("mean ")

    @property
    def _means(self) -> tuple[float, float]:
        """Mean losses of both kinds of models, as the metric shows them."""
        sign = -1 if self.greater_is_better else 1
        return sign * float(self.losses_train.mean()), sign * float(self.losses_validation.mean())

    @property
    def _lines(self) -> tuple[str, str, str, str]:
        """The verdict, what it does not show, the losses, and the numbers of the test."""
        if self.rejected:
            verdict = "A cluster effect was found: models are better on clusters that they were trained on."
            limit = (
                "So there is something for leakage to act on. This does not show that a score is inflated: that "
                "depends on the errors of the clustering, and the optimism of an audit says by how much."
            )
        else:
            power = (
                f"an effect of {self.detectable:.3g} would have been found with a probability of {percentage(POWER)}"
            )
            if not isfinite(self.detectable):
                power = "the losses do not vary, which leaves unknown what effect would have been found"
            verdict = (
                "No cluster effect was found: models are not better on clusters that they were trained on, by more "
                "than chance explains."
            )
            limit = f"This does not show that there is none: with these records {power}."
        of_others, of_same = self._means
        losses = (
            f"Mean {self._label} on held-out records: {_number(of_others, 4)} by models of other clusters, "
            f"{_number(of_same, 4)} by models of the same clusters, difference {_number(self.difference, 3)}."
        )
        size, number = f"{self.sizes.n_train:,} records", self.losses_train.size
        distribution = "Student's"
        models = f"{self.n_folds} pairs of models of {size}; the units are {self.n_units:,} {self.units}"
        if self.method == "welch":
            distribution = "Welch's"
            models = f"the paper's test, {number} + {number} models of {size}, each scored on {self.sizes.n_scored:,}"
        freedom = f"{self.df:.3g}" if self.df < 999.5 else f"{self.df:,.0f}"
        test = (
            f"{distribution} t = {_number(self.statistic, 3)} with {freedom} degrees of freedom, one-sided "
            f"{self._chance}, level {self.alpha:g}; {models}."
        )
        return verdict, limit, losses, test

    def __str__(self) -> str:
        return printable("\n".join(self._lines))

    def _repr_html_(self) -> str:
        number = str(self.losses_train.size)
        rows = zip(("other clusters", "the same clusters"), [_number(mean, 4) for mean in self._means], strict=True)
        header = ("trained on", f"mean {self._label} on held-out records", "models")
        _, limit, _, test = self._lines
        return fragment(
            element("p", element("strong", self.outcome)),
            table(header, [(*row, number) for row in rows]),
            *(element("p", line) for line in (limit, test)),
        )


def _number(value: float, digits: int) -> str:
    """A number with so many digits and a true minus sign."""
    written = f"{value:.{digits}g}"
    return f"−{written[1:]}" if written.startswith("-") else written


def leakage_test(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any,
    cv: Any = None,
    loss: Any = None,
    scoring: Any = None,
    pos_label: Any = None,
    method: Literal["paired", "welch"] = "paired",
    alpha: float = ALPHA,
    params: dict[str, Any] | None = None,
    n_jobs: int | None = None,
    random_state: RandomState = None,
) -> LeakageTest:
    """Test whether training on records of the held-out clusters makes the model better on them.

    If it does, there is something for leakage to act on. Whether a score is inflated, and by how much, is another
    question, which the optimism of `audit` answers. No leakage rate is needed. `audit` runs the same test: for the same
    seed its ``test`` has the same p-value.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator or Pipeline; it is cloned, never fitted itself. Every ``random_state`` that it
        leaves open is set from the stream of random numbers.
    X, y : array, sparse matrix, or data frame; array or str
        Records and targets, or the name of the column of the targets where X is a data frame.
    groups : array of shape (n,) or str
        Observed cluster of every record, or the name of its column. A column that is named is no feature.
    cv : int, splitter or iterable, optional
        Splits that keep every cluster on one side, by default 5 folds. They say which clusters are held out.
    loss : str, callable or scorer, optional
        "zero_one" (default for classifiers), "squared_error" (for regressors), "absolute_error", "log_loss", "brier", a
        function of (y_true, y_pred), or a scikit-learn scorer.
    scoring, pos_label : optional
        A single metric in the place of ``loss``, as in `audit`, and the label that counts as positive.
    method : {"paired", "welch"}
        "paired" fits 5 pairs of models, each of which knows clusters that the other does not. "welch" is the paper's
        test, which has less power.
    alpha : float, default=0.05
        Level of the test.
    params : dict, optional
        Parameters of ``fit``; those with one entry per record are indexed along with the records.
    n_jobs : int, optional
        Workers, as in joblib. The result does not depend on it.
    random_state : int, RandomState or Generator, optional
        Seed, or where to draw one from.

    Returns
    -------
    LeakageTest

    Examples
    --------
    Ten clusters, each with a level of its own that one of the features gives away:

    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(10), 40)
    >>> X = np.column_stack([rng.standard_normal(10)[groups], rng.standard_normal(400)])
    >>> y = rng.standard_normal(10)[groups] + 0.3 * rng.standard_normal(400)
    >>> test = ooc.leakage_test(RandomForestRegressor(n_estimators=10), X, y, groups=groups, random_state=0)
    >>> print(test)
    A cluster effect was found: models are better on clusters that they were trained on.
    ...
    """
    level = check_number("alpha", alpha, least=0, strict=True)
    if level >= 1:
        raise InputError(f"alpha must lie between 0 and 1, got {level:g}.")
    check_choice("method", method, ("paired", "welch"))
    seeds = Seeds(seed_of(random_state))
    check_n_jobs(n_jobs)
    X, y, groups = named_columns(X, y, groups)
    task = Task.check(estimator, X, y, groups=groups, loss=loss, scoring=scoring, pos_label=pos_label, params=params)
    if len(task.metrics) > 1:
        names = ", ".join(repr(each.facts.name) for each in task.metrics)
        raise InputError(f"scoring must be a single metric for the test for a cluster effect, got {names}.")
    folds = make_folds(X, y, groups, cv)
    account = TableAccount.of(X, y, groups, classes=task.classifier, codes=task.clusters)
    bar = Progress(MODELS_OF_THE_TEST, show=False, workers=count_workers(n_jobs))
    announce(lambda: Announcement(task, account, MODELS_OF_THE_TEST), bar)
    drawn: dict[str, Any] = {"n_jobs": n_jobs, "progress": bar.part()}
    if method == "welch":
        losses = sample_disjoint_folds(task, folds, seed=seeds.stream("welch"), **drawn)
    else:
        # The stream of this name, as in `audit`.
        sampled = sample_effect(task, folds, seed=seeds.stream("effect"), **drawn)[0]
        if isinstance(sampled, str):
            raise InputError(sampled)
        losses = sampled
    facts = task.metrics[0].facts
    return evaluate_effect(losses, facts.name, alpha=level, greater_is_better=facts.greater_is_better)


def evaluate_effect(
    losses: EffectLosses, loss: str, *, alpha: float = ALPHA, greater_is_better: bool = False
) -> LeakageTest:
    """The test for a cluster effect on losses that were sampled for it."""
    z, zv = losses.train, losses.validation
    k, m = z.shape
    paired = len(losses.numbers) > 0
    if paired:
        difference, error, df, units = (float(number) for number in losses.numbers)
    else:
        # Variances of the means of all, from the spread around the means of the splits.
        a, b = (float(side.var(axis=1, ddof=1).mean()) / side.size for side in (z, zv))
        share = a / (a + b) if a + b > 0 else 0.5
        error, df = sqrt(a + b), k * (m - 1) / (share**2 + (1 - share) ** 2)
        difference, units = float(z.mean() - zv.mean()), 2.0 * k * m
    rounding = 1e-12 * float(np.abs([z, zv]).max())
    if error > rounding:
        statistic, critical = difference / error, stdtrit(df, 1 - alpha)
        pvalue = float(stdtr(df, -statistic))
        detectable = error * float(nctdtrinc(df, 1 - max(POWER, alpha), critical))
        # The probability that the test finds an effect as large as the measured one.
        power = float(1 - nctdtr(df, max(statistic, 0.0), critical))
    else:
        # No spread at all: the chance that random signs, or random labels of the models, are as these are.
        statistic, detectable = 0.0 if abs(difference) <= rounding else float(np.copysign(np.inf, difference)), np.nan
        chance = 0.5**units if paired else float(comb(2 * m, m)) ** -k
        pvalue, power = (chance, 1.0) if statistic > 0 else (1.0, 0.0)
    return LeakageTest(
        statistic=statistic,
        df=df,
        pvalue=pvalue,
        rejected=pvalue <= alpha,
        alpha=alpha,
        difference=difference,
        detectable=detectable,
        losses_train=z,
        losses_validation=zv,
        sizes=losses.sizes,
        n_folds=k,
        loss=loss,
        method="paired" if paired else "welch",
        units=losses.units if paired else "models",
        n_units=int(units),
        power=power,
        greater_is_better=greater_is_better,
    )
