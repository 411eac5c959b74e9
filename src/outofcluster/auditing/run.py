"""``audit``: the call that leads from records and folds to the loss on new clusters.

Everything is checked first. Then every fold is scored as the user would score it, and sampled, and all folds are put
into one `AuditSamples`. What needs no further fit (another leakage rate, curve or level of confidence) is a method of
the result. A fold that cannot be audited is named in a finding, and the others are audited without it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from outofcluster._base.arguments import short
from outofcluster._base.exceptions import FitError, InputError
from outofcluster._base.rows import check_same_order
from outofcluster._base.seeds import RandomState, seed_of
from outofcluster.auditing.account import TableAccount
from outofcluster.auditing.beginning import Beginning, announce
from outofcluster.auditing.choices import (
    asks_the_data,
    choose_error_model,
    choose_units,
    law_of_pieces,
    read_confidence,
    read_curve,
    read_leakage,
    read_record_rates,
    read_unmix,
    read_validation_leakage,
)
from outofcluster.auditing.findings import CODES
from outofcluster.auditing.jobs import (
    Job,
    check_folds,
    data_leakage,
    likely_entities,
    of_common_sizes,
    of_defined_metrics,
    planned,
    prepared,
    side_facts,
    stored_units,
    told_apart,
    unmixed,
    unmixed_by_rates,
    with_exchanged_sides,
    with_pieces_left_out,
    without_unmixing,
)
from outofcluster.auditing.once import (
    by_fold,
    effect_arrays,
    ending,
    identity,
    of_fold,
    random_arrays,
    read_effect,
    sound_effect,
    sound_folds,
    sound_random,
    sound_train,
    sound_varied,
    train_arrays,
    varied_arrays,
)
from outofcluster.auditing.result import Audit
from outofcluster.curves.base import Curve
from outofcluster.evidence.entities import EntitySuspects
from outofcluster.inference.pooled import Pooled
from outofcluster.leakage.records import rate_of_records
from outofcluster.problem.columns import named_columns
from outofcluster.problem.folds import Clusters, ClusterSizes, count_clusters, make_folds
from outofcluster.problem.problem import Task, check_n_jobs
from outofcluster.sampling.audit_samples import AuditSamples, FoldSamples, RandomFolds
from outofcluster.sampling.baselines import fold_losses
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.store import BaselineStore, Place, keeping_work

_MODELS_OF_THE_TEST = 60


@keeping_work
def audit(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any,
    leakage: Any = None,
    validation_leakage: float | None = None,
    error_model: Literal["auto", "records", "fragments"] = "auto",
    cv: Any = None,
    loss: Any = None,
    scoring: Any = None,
    pool: Literal["records", "folds"] | None = None,
    pos_label: Any = None,
    score_weight: Any = None,
    curve: Literal["auto"] | Curve = "auto",
    n_fits: int | None = None,
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
    leakage : float, Leakage, one for each fold, array with one probability per record, or "data", optional
        The leakage rate. A plain number is the share of training records that truly belong to validation clusters for
        ``error_model="records"``, and the share of validation records whose cluster also trains for
        ``error_model="fragments"``. "data" estimates it from the records themselves, for ``error_model="records"``; it
        can be trusted where the two sides of a split can be told apart. Without a rate there is no corrected loss.
        An array with as many entries as there are records holds, for ``error_model="records"``, the probability of
        each record that it truly belongs to a held-out cluster while it trains; with one row per fold these may differ
        between folds. With as many folds as records, an array of that length has one rate per fold.
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
    curve : Curve, optional
        Curve method; by default `AutoCurve` for records, a line for fragments.
    n_fits : int, optional
        Models to fit, over all folds: by default 3000 for records, of which 1200 with small training sets, and 1000
        more below the leakage rate (``unmix``); 400 for fragments, where the curve is a line, and 100 more without
        likely pieces. ``validation_leakage`` takes a fifth more, to score training records.
    n_train : int, optional
        Size of a resample, by default that of the smallest training set.
    units : {"auto", "clusters", "records"}
        What the intervals are about: new clusters of the population, or these held-out clusters.
    params : dict, optional
        Parameters of ``fit``; those with one entry per record are indexed along with the records.
    unmix : {"auto", False} or classifier
        Whether some of the models are fitted without the training records that look leaked, so that the loss is seen
        below the leakage rate (for ``error_model="records"``, from 150 fits per fold on; for "fragments" without the
        training clusters that are probably pieces of held-out entities, from 60 on). A classifier with
        ``predict_proba`` replaces the one that tells the two sides of a split apart.
    confidence_level : float, default=0.95
        Confidence level of the intervals.
    mute : sequence of str
        Codes of findings to leave out.
    kernel : {"auto", True, False}
        Whether a compiled kernel is used where there is one, as in `sample_losses`.
    n_jobs : int, optional
        Workers, as in joblib. The result does not depend on it.
    random_state : int, RandomState or Generator, optional
        Seed, or where to draw one from.
    progress : bool, default=False
        Show a bar, on a terminal or in a notebook.
    checkpoint : path, optional
        Beginning of the names of files in which finished work is kept, one for every fold and size of training sets;
        the same call goes on from there, and fits nothing if all was done.

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
    >>> result = ooc.audit(LogisticRegression(), X, y, groups=groups, leakage=0.1, n_fits=300, random_state=0)
    >>> abs(result.corrected.value - result.naive.value) < 2 * result.corrected.se_data
    True
    """
    X, y, groups = named_columns(X, y, groups)
    folds = make_folds(X, y, groups, cv)
    metrics: Any = {"scoring": scoring, "pool": pool, "pos_label": pos_label, "score_weight": score_weight}
    task = Task.check(estimator, X, y, groups=groups, loss=loss, params=params, **metrics)
    assert task.clusters is not None
    # A frame has one row per fold, and the records in its columns.
    by_record = (
        {"leakage.T": leakage.T} if hasattr(leakage, "columns") and hasattr(leakage, "T") else {"leakage": leakage}
    )
    check_same_order(X=X, y=y, groups=groups, **by_record)
    check_folds(len(folds), task.n_records)
    account = TableAccount.of(X, y, groups, classes=task.classifier, codes=task.clusters)
    muted = _check_mute(mute)
    check_n_jobs(n_jobs)
    level = read_confidence(confidence_level)
    model, reason = choose_error_model(error_model, leakage, folds, task.clusters)
    from_data = asks_the_data(leakage, model)
    record_rates = None if from_data else read_record_rates(leakage, model, folds, task.n_records)
    if record_rates is not None:
        leakage = [rate_of_records(record_rates[fold.index]) for fold in folds]
    rates = None if leakage is None or from_data else read_leakage(leakage, model, len(folds))
    reverse = read_validation_leakage(validation_leakage, model, task.losses, rates)
    methods = [read_curve(curve, model, each.range) for each in task.losses]
    trained = [count_clusters(task.clusters[fold.train]) for fold in folds]
    unit_kind = choose_units(units, [task.clusters[fold.validation] for fold in folds], trained)
    design = planned(task, folds, methods[0], model, n_fits, n_train, kernel)
    design = replace(design, settings=replace(design.settings, law=law_of_pieces(leakage)))
    if reverse is not None:
        design = with_exchanged_sides(design, spend=n_fits is not None)
    classifier = read_unmix(unmix)
    assert checkpoint is None or isinstance(checkpoint, Place)
    place = checkpoint if checkpoint is not None and checkpoint.begin() else None
    store = BaselineStore(place)
    seed = seed_of(random_state)
    root = np.random.SeedSequence(store.stored_seed if seed is None else seed)
    own_seed, random_seed, test_seed, *fold_seeds = root.spawn(3 + len(folds))
    design = replace(design, settings=replace(design.settings, units=stored_units(unit_kind, design, task, len(folds))))
    wanted = design.unmixed_fits > 0 and unmix is not False
    if wanted or from_data:
        design = replace(design, sides=told_apart(task, folds, classifier, fold_seeds))
    if not wanted:
        design = without_unmixing(design, spend=n_fits is not None)
    elif record_rates is not None and any(own.any() for own in record_rates.values()):
        design = unmixed_by_rates(design, folds, record_rates)
    else:
        design = unmixed(design)
    entities = dict[int, EntitySuspects]()
    if model == "fragments" and unmix is not False:
        entities, pieces = likely_entities(task, folds, root)
        # The records that lose a piece say nothing about a metric that is no mean over records.
        if all(each.kind == "per_record" and each.measure is None for each in task.losses):
            design = with_pieces_left_out(design, pieces, spend=n_fits is not None)
    jobs, left_out = prepared(task, folds, design, fold_seeds, place)
    announce(lambda: _beginning(task, jobs, account))
    # Made before the fits, so that a missing package for it is said before any work.
    bar = Progress(sum(job.budget for job in jobs), show=bool(progress))
    store.open(identity(task, folds, root))
    parts = {index: own.part for index, own in design.weights.items()} if len(design.fractions) else {}
    n_metrics = len(task.losses)
    own = store.part(
        "own",
        lambda: by_fold(fold_losses(task, folds, seed=own_seed, parts=parts, n_jobs=n_jobs)),
        lambda arrays: sound_folds(arrays, folds, n_metrics),
    )
    jobs, without_value = of_defined_metrics(jobs, task, own)
    left_out |= without_value
    if not jobs:
        index, why = next(iter(left_out.items()))
        raise FitError(f"No fold could be audited; the first: Fold {index} could not be audited: {why}")
    if without_value:
        bar = Progress(sum(job.budget for job in jobs), show=bool(progress))
    random = store.part(
        "random",
        lambda: random_arrays(task, max(2, len(folds)), random_seed, n_jobs),
        lambda arrays: sound_random(arrays, task.n_records, n_metrics),
    )
    effects = store.part(
        "effect",
        lambda: effect_arrays(task, folds, test_seed, n_jobs),
        lambda arrays: sound_effect(arrays, n_metrics),
    )
    varied = np.zeros(n_metrics)
    if model == "fragments" and n_train is None:
        # With T̂ as it is in every resample, other fits must show what other training clusters would do.
        training_seed = np.random.SeedSequence([*root.generate_state(4).tolist(), 3])
        again = partial(varied_arrays, task, folds, own, training_seed, n_jobs)
        varied = store.part("training", again, lambda arrays: sound_varied(arrays, n_metrics))["shares"]
    on_training = dict[str, Any]()
    if reverse is not None:
        train_seed = np.random.SeedSequence([*root.generate_state(4).tolist(), 4])
        on_training = store.part(
            "train",
            lambda: train_arrays(task, folds, train_seed, n_jobs),
            lambda arrays: sound_train(arrays, folds, n_metrics),
        )
    samples = dict[int, tuple[FoldSamples, ...]]()
    failure = None
    with bar:
        # Each job goes when it is done: the rows and units of all folds together would be a large part of the memory.
        while jobs:
            job = jobs.pop(0)
            index = job.fold.index
            try:
                losses = [of_fold(own, index, place) for place in range(len(task.losses))]
                of_train = (
                    [on_training[f"{index}{ending(place)}"] for place in range(len(losses))] if on_training else []
                )
                sampled = job.run(task.clusters, losses, bar, n_jobs, of_train)
                sides = side_facts(task, job.fold, design.sides.get(index), (record_rates or {}).get(index))
                samples[index] = tuple(replace(each, sides=sides, entities=entities.get(index)) for each in sampled)
            except FitError as error:
                left_out[index] = str(error)
                failure = failure or error
            job.fold.forget()
    if not samples:
        index, why = next(iter(left_out.items()))
        raise FitError(
            f"No fold could be audited; the first: Fold {index} could not be audited: {why}",
            failure and failure.samples,
        ) from failure
    everything = tuple(
        AuditSamples(
            folds=of_common_sizes(tuple(by_metric[place] for by_metric in samples.values())),
            random_folds=RandomFolds(random[f"rows{ending(place)}"], random[f"losses{ending(place)}"]),
            effect=read_effect(effects, place),
            effect_problem=str(effects.get(f"problem{ending(place)}", "")),
            left_out=left_out,
            error_model=model,
            metric=each.facts,
            training_share=float(varied[place]),
            observed=ClusterSizes.of(task.clusters),
            fold_sizes=tuple(len(fold.validation) for fold in folds),
            cluster_names=tuple(str(name) for name in Clusters.of(groups, None).names)
            if design.sides or entities
            else (),
        )
        for place, each in enumerate(task.losses)
    )
    by_data = None
    if design.sides:
        by_data = data_leakage([design.sides[index] for index in samples])
    if from_data:
        assert by_data is not None
        rates = (by_data,) * len(folds)
    if rates is not None:
        rates = tuple(rates[index] for index in samples)
    first, *others = (
        Audit(
            Pooled(each, unit_kind, reverse or 0.0),
            rates,
            method,
            level,
            muted,
            reason,
            units,
            by_data,
            table=account,
        )
        for each, method in zip(everything, methods, strict=True)
    )
    return replace(first, others=tuple(others))


def _beginning(task: Task, jobs: Sequence[Job], account: TableAccount) -> Beginning:
    compiled = sum(job.compiled_fits for job in jobs)
    fits = sum(job.budget for job in jobs) - compiled
    return Beginning(task, jobs[0].fold, account, fits + 2 * len(jobs) + _MODELS_OF_THE_TEST, compiled)


def _check_mute(mute: Any) -> tuple[str, ...]:
    known = f"mute must hold codes of findings ({', '.join(CODES)})"
    if not isinstance(mute, str | Sequence | Set):
        raise InputError(f"{known}, got {short(mute)}.")
    codes = (mute,) if isinstance(mute, str) else tuple(mute)
    unknown = [code for code in codes if not isinstance(code, str) or code not in CODES]
    if unknown:
        raise InputError(f"{known}, got {short(unknown[0])}.")
    return codes
