"""``audit``: the call that leads from records and folds to the loss on new clusters.

Everything is checked first. Then every fold is scored as the user would score it, and sampled, and all folds are put
into one `AuditSamples`. What needs no further fit (another leakage rate, curve or level of confidence) is a method of
the result. A fold that cannot be audited is named in a finding, and the others are audited without it.

``corrected_cross_validate``: corrected scores in the form of scikit-learn's ``cross_validate``, for code that already
reads its results.

A scorer cannot give a corrected score: it sees one fitted model and the held-out records of one fold, and the
correction comes from many models that are fitted with other training records, over all folds. A splitter cannot
either, since it fits nothing. So this is a function with the arguments of ``cross_validate``, which audits and then
writes the result in that form: greater is better, and one value per fold. The optimism is estimated from all folds
together, so every fold is corrected by the same amount.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from outofcluster._base.exceptions import InputError
from outofcluster._base.seeds import RandomState, Seeds
from outofcluster.auditing.checks import read_mute
from outofcluster.auditing.choices import (
    PRECISION,
    check_order,
    choose_units,
    read_classifier,
    read_confidence,
    read_curve,
    read_look_ups,
    read_precision,
    read_rates,
    read_time_limit,
)
from outofcluster.auditing.fits import AuditFits, check_folds
from outofcluster.auditing.price import Announcement, announce, progress_of
from outofcluster.auditing.result import Audit
from outofcluster.curves.base import Curve
from outofcluster.errormodels.base import Choices
from outofcluster.errormodels.choose import choose_error_model
from outofcluster.errormodels.two_way import read_validation_leakage
from outofcluster.metrics.resolve import is_a
from outofcluster.problem.account import TableAccount
from outofcluster.problem.folds import count_clusters, make_folds
from outofcluster.problem.problem import Task, check_n_jobs, identity_columns, named_columns
from outofcluster.sampling.backends import count_workers
from outofcluster.sampling.baselines import SECONDS
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.run import check_kernel
from outofcluster.sampling.store import Store


def audit(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any,
    leakage: Any = "data",
    validation_leakage: float | None = None,
    error_model: Literal["auto", "records", "fragments"] = "auto",
    cv: Any = None,
    loss: Any = None,
    scoring: Any = None,
    pool: Literal["records", "folds"] | None = None,
    pos_label: Any = None,
    score_weight: Any = None,
    reviewed: Any = None,
    reviewer_error: float = 0.0,
    identity: Any = None,
    curve: Literal["auto"] | Curve = "auto",
    precision: float = PRECISION,
    n_fits: int | None = None,
    time_limit: float | None = None,
    n_train: int | None = None,
    units: Literal["auto", "clusters", "records"] = "auto",
    params: dict[str, Any] | None = None,
    unmix: Any = "auto",
    confidence_level: float = 0.95,
    mute: Sequence[str] = (),
    kernel: bool | Literal["auto"] = "auto",
    n_jobs: int | None = None,
    random_state: RandomState = None,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Audit:
    """Audit a cross-validation for leakage through clustering errors.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator or Pipeline; it is cloned, never fitted itself.
    X, y : array, sparse matrix, or data frame; array or str
        Records and targets, or the name of the column of the targets where X is a data frame.
    groups : array or str
        Approximate cluster of every record, or the name of its column. A column that is named is no feature.
    leakage : "data", float, Leakage, one for each fold, array with one probability per record, or None
        How much leaks. You need to know nothing: "data" goes by what the records themselves show. For
        ``error_model="fragments"`` models are fitted without the training clusters that are probably pieces of
        held-out entities; for "records" the rate is estimated, which can be trusted where the two sides of a split
        can be told apart. A plain number is the share of training records that truly belong to validation clusters
        for ``error_model="records"``, and the share of validation records whose cluster also trains for
        ``error_model="fragments"``. None asks for no correction. An array with as many entries as there are records
        holds, for ``error_model="records"``, the probability of each record that it truly belongs to a held-out
        cluster while it trains; with one row per fold these may differ between folds. With as many folds as records,
        an array of that length has one rate per fold.
    validation_leakage : float, optional
        The share of the held-out records that truly belong to training clusters: errors in the other direction, for
        ``error_model="records"`` and losses per record. (This is not the share of held-out records whose cluster also
        trains, which is ``Leakage.validation``.) Give ``leakage=0`` where only these errors happen. By default held-out
        records are taken to be what they seem; 0 is the same, but another share can be asked for afterwards.
    error_model : {"auto", "records", "fragments"}
        How clustering errors happen: single records leak, or pieces of clusters. "auto" goes by what the rate is
        a share of, else by the sizes of the clusters, and says so in a finding.
    cv : int, splitter or iterable, optional
        Folds that keep every approximate cluster on one side; 5 group folds by default.
    loss : str, callable or scorer, optional
        A loss per record, as in `sample_losses`.
    scoring : str, scorer, callable, or a list or dict of these, optional
        A metric in the place of ``loss``: a name of scikit-learn such as "roc_auc", "sensitivity", "specificity",
        "concordance", "calibration_slope" or "calibration_intercept", a scorer, or a function of (estimator, X, y).
        Several metrics are measured from the same fits: the result is that of the first one, which decides where fits
        are spent, and ``result.metrics`` holds all of them by name.
    pool : {"records", "folds"}, optional
        Whether a metric is that of all held-out records together, or the mean of those of the folds; by default means
        over records such as the accuracy are taken over records, and all others, such as AUC, over folds.
    pos_label : label, optional
        The positive one of two classes, for metrics that need one; the last in sorted order by default.
    score_weight : array, optional
        Weight of every record in scoring; weights for ``fit`` belong in ``params``.
    reviewed : data frame, optional
        A review list (`Audit.review_list`) in which somebody has filled in which clusters are one entity, for
        ``error_model="fragments"``. The pieces that it names are left out of training, which corrects what the records
        themselves show. A list that is filled in in part is used as far as it goes.
    reviewer_error : float, default=0.0
        Share of the answers in ``reviewed`` that are wrong, in [0, 0.5); it widens the interval.
    identity : array, data frame, or names of columns, optional
        What tells who is who and no model sees: embeddings of images, dates, devices. It helps to find pieces of
        held-out entities. Columns of X that are named are no features. Columns by which clusters were linked tell
        little about what the linkage missed.
    curve : Curve, optional
        Curve method; by default `AutoCurve` for records, a line for fragments.
    precision : float, default=0.25
        Models are fitted in rounds until the Monte-Carlo standard error of the optimism is this share of its standard
        error, in (0, 1]. A fourth adds 3 % to the standard error; half of it takes four times the fits.
    n_fits : int, optional
        A fixed number of models to fit to resamples, over all folds, in the place of rounds; at least two for every
        level and fold. ``validation_leakage`` takes a sixth of them to score training records.
    time_limit : float, optional
        Seconds after which no further round begins. The answer is then that of the rounds so far, and a finding says
        so; the first round is always fitted.
    n_train : int, optional
        Size of a resample, by default that of the smallest training set.
    units : {"auto", "clusters", "records"}
        What the intervals are about: new clusters of the population, or these held-out clusters.
    params : dict, optional
        Parameters of ``fit``; those with one entry per record are indexed along with the records.
    unmix : {"auto", False} or classifier
        Whether some of the models are fitted without the training records that look leaked, so that the loss is seen
        below the leakage rate: for ``error_model="records"`` where the two sides of a split can be told apart, and from
        27 fits per fold on where their number is fixed; for "fragments" without the training clusters that are probably
        pieces of held-out entities. A classifier with ``predict_proba`` replaces the one that tells the two sides of a
        split apart.
    confidence_level : float, default=0.95
        Confidence level of the intervals.
    mute : sequence of str
        Codes of findings to leave out.
    kernel : {"auto", True, False}
        Whether a compiled kernel is used where there is one, as in `sample_losses`; "auto" never compiles by default.
    n_jobs : int, optional
        Workers, as in joblib. The result does not depend on it.
    random_state : int, RandomState or Generator, optional
        Seed, or where to draw one from.
    progress : bool, default=False
        Say how many models will be fitted and about how long that takes, and show a bar on a terminal or in a
        notebook.
    checkpoint : path, optional
        Beginning of the names of files in which finished work is kept, one for every fold, kind of training sets and
        round; the same call goes on from there, and fits nothing if all was done.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(30), 10)
    >>> X = rng.standard_normal((300, 3))
    >>> y = X[:, 0] + rng.standard_normal(300) > 0
    >>> result = ooc.audit(LogisticRegression(), X, y, groups=groups, leakage=0.1, random_state=0)
    >>> abs(result.corrected.value - result.naive.value) < 2 * result.corrected.se_data
    True
    """
    records = X if hasattr(X, "columns") else None
    X, y, groups = named_columns(X, y, groups)
    X, identity = identity_columns(X, identity)
    folds = make_folds(X, y, groups, cv)
    metrics: Any = {"scoring": scoring, "pool": pool, "pos_label": pos_label, "score_weight": score_weight}
    task = Task.check(estimator, X, y, groups=groups, loss=loss, params=params, **metrics)
    check_folds(len(folds), task.n_records)
    check_n_jobs(n_jobs)
    account = TableAccount.of(X, y, groups, classes=task.classifier, codes=task.clusters)
    muted, clusters = read_mute(mute), task.clusters
    assert clusters is not None
    check_order(task, leakage)
    level, both_ways = read_confidence(confidence_level), validation_leakage is not None
    model, reason = choose_error_model(error_model, leakage, folds, clusters, both_ways=both_ways)
    rates = read_rates(leakage, model, folds, task.n_records)
    look_ups = read_look_ups(model, task, rates, reviewed, reviewer_error)
    check_kernel(kernel)
    trained = [count_clusters(clusters[fold.train]) for fold in folds]
    choices = Choices(
        model=model,
        reason=reason,
        rates=rates,
        reverse=read_validation_leakage(validation_leakage, model, task, rates.by_fold) if both_ways else 0.0,
        curves=tuple(read_curve(curve, model, metric.facts.loss_range) for metric in task.metrics),
        units=choose_units(units, [clusters[fold.validation] for fold in folds], trained),
        units_asked=units,
        confidence_level=level,
        mute=muted,
        n_fits=n_fits,
        precision=read_precision(precision, n_fits),
        time_limit=read_time_limit(time_limit),
        n_train=n_train,
        unmix=unmix is not False,
        classifier=read_classifier(unmix),
        kernel=kernel,
        look_ups=look_ups,
        identity=identity,
    )
    began, bar = time.monotonic(), Progress(show=bool(progress), workers=count_workers(n_jobs))
    with Store.at(checkpoint) as store, bar:
        seeds = Seeds(store.seed(random_state))
        bar.say("comparing the records")
        evidence = model.look(task, folds, choices, seeds)
        fits = AuditFits(task, folds, choices, evidence, seeds, store, n_jobs, bar, began)
        plan = fits.plan()
        finished = fits.finished_as(plan)
        announce(lambda: Announcement.of(task, plan, choices, account, finished=store.holds(finished)), bar)
        fits.expect(plan)
        own = fits.own_models()
        plan = plan.where_defined(task, own)
        result_of = partial(Audit.of, choices=choices, evidence=fits.evidence, table=account)
        samples = fits.samples(plan, fits.baselines(own), lambda some: progress_of(result_of(some), choices.precision))
        fits.finish(finished, samples[0])
    took = np.array([own[0][fold.index][SECONDS] for fold in samples[0].folds])
    return replace(result_of(samples), records=records, seconds=fits.seconds, own_seconds=took)


def corrected_cross_validate(
    estimator: Any, X: Any, y: Any, *, groups: Any, leakage: Any = "data", scoring: Any = None, **options: Any
) -> dict[str, Any]:
    """Cross-validate as scikit-learn's ``cross_validate`` does, with the corrected scores beside the others.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator or Pipeline; it is cloned, never fitted itself.
    X, y : array, sparse matrix, or data frame; array
        Records and targets.
    groups : array
        Approximate cluster of every record.
    leakage : "data", float, Leakage, or one for each fold
        How much leaks, as `audit` takes it.
    scoring : str, scorer, callable, or a list or dict of these, optional
        What to measure; by default what the estimator's own ``score`` gives, the accuracy or R².
    **options : dict
        Further options of `audit`, among them ``cv``, ``n_jobs`` and ``params``, which ``cross_validate`` has as well,
        and ``random_state``.

    Returns
    -------
    dict
        For one metric, arrays ``test_score``, which are those of ``cross_validate``, and ``corrected_score``, with one
        value per fold; for several, ``test_NAME`` and ``corrected_NAME``. Greater is better, as in scikit-learn:
        "neg_mean_squared_error" is negative. ``fit_time`` and ``score_time`` are the seconds of your own model, fold by
        fold; the score time is that of all metrics. ``audit`` is the whole `Audit`, with its intervals and findings. A
        fold that could not be audited is left out, and a finding names it. Where nothing can be corrected, corrected
        scores are NaN, and a finding says why.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> patients = ooc.datasets.make_patients(random_state=0)
    >>> options = {"groups": patients.groups, "random_state": 0}
    >>> scores = ooc.corrected_cross_validate(KNeighborsClassifier(3), patients.data, patients.target, **options)
    >>> print(scores["test_score"].mean().round(2), scores["corrected_score"].mean().round(2))
    0.67 0.62
    """
    if leakage is None:
        raise InputError("leakage must be a rate, a Leakage or 'data' for a corrected score, got None.")
    wanted = _score_of(estimator) if scoring is None else scoring
    result = audit(estimator, X, y, groups=groups, leakage=leakage, scoring=wanted, **options)
    several = isinstance(scoring, Mapping | list | tuple | set)
    assert result.own_seconds is not None
    scores: dict[str, Any] = dict(zip(("fit_time", "score_time"), result.own_seconds.T, strict=True))
    for name, by_metric in result.metrics.items():
        # The records may be too few to show how much leaks.
        of_loss = by_metric.solution.optimism
        optimism = np.nan if of_loss is None else of_loss.value
        # Inside the package everything is a loss, of which scikit-learn's scores are the negative.
        values = np.array([-float(fold.own_losses.mean()) for fold in by_metric.samples.folds]) + 0.0
        scores[f"test_{name if several else 'score'}"] = values
        scores[f"corrected_{name if several else 'score'}"] = values - optimism
    return scores | {"audit": result}


def _score_of(estimator: Any) -> str:
    """What the method ``score`` of an estimator measures."""
    if is_a("classifier", estimator):
        return "accuracy"
    if is_a("regressor", estimator):
        return "r2"
    name = type(estimator).__name__
    raise InputError(f"scoring must be given for {name}, which is neither classifier nor regressor, got None.")
