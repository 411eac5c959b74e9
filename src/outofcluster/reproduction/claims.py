"""The claims of the paper's Section 6, each with what was measured and a verdict that follows from it by rule.

A claim is judged over the studies that were run. The verdicts are "holds", "holds in part", "does not hold" and "not
checked"; the reason says what is missing in a few words, and the sentence says it in figures. Both protocols are judged
where both can be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["judge"]

_SMALL = 0.01
"""Share of e_0 below which a fall from p = 0 to 1 counts as none."""

_COMPARABLE = 1.5
"""Ratio of two median errors up to which methods count as comparable."""

_NEGLIGIBLE = 0.001
"""Share of e_0 below which an error counts as that much: no fight over the third digit."""

Claim = dict[str, Any]
Studies = Mapping[str, Mapping[str, Any]]


def judge(studies: Studies, timing: Mapping[str, Any] | None) -> list[Claim]:
    """Every claim that the studies at hand can tell something about.

    Each is a dict with the claim in short, where in the paper it is made, the verdict, its reason in a few words (empty
    where the claim simply holds), a sentence that says why in figures, and the figures that were measured.
    """
    claims = []
    if studies:
        claims += [_shape(studies, "decreasing", "Theorem 3.1"), _shape(studies, "convex", "Theorem 3.2")]
        claims += [_effect(studies), _bias(studies), _correction(studies), _comparable(studies), _test(studies)]
    if timing is not None:
        claims += [_fastest(timing), _scaling(timing)]
    return claims


def _claim(claim: str, where: str, verdict: str, reason: str, sentence: str, measured: Any) -> Claim:
    return {
        "claim": claim,
        "where": where,
        "verdict": verdict,
        "reason": reason,
        "sentence": sentence,
        "measured": measured,
    }


def _listed(names: Sequence[str]) -> str:
    """Names in a sentence, each once."""
    *first, last = dict.fromkeys(names)
    return f"{', '.join(first)} and {last}" if first else last


def _verdict(good: int, total: int) -> str:
    return "holds" if good == total else "does not hold" if good == 0 else "holds in part"


def _shape(studies: Studies, shape: str, theorem: str) -> Claim:
    measured: dict[str, Any] = {}
    broken: list[str] = []
    shapeless: dict[str, float] = {}
    for name, study in studies.items():
        paper, field = study["protocols"]["paper"], study["protocols"]["field"]
        measured[name] = {}
        for where, e0, check in (
            ("paper protocol", paper["e0"], paper["shape"][shape]),
            ("paper protocol from p = 0", paper["e0"], paper["true_shape"][shape]),
            ("field protocol", field["e0"], field["shape"][shape]),
        ):
            worst = max((violation["size"] for violation in check["violations"]), default=0.0)
            figures = {key: check[key] for key in ("holds", "exceeds_noise", "pvalue", "sentence")}
            measured[name][where] = figures | {"largest_violation": worst, "relative_to_e0": worst / e0}
            if check["exceeds_noise"]:
                broken.append(f"{name} ({where}, by {100 * worst / e0:.2g} % of e_0)")
                shapeless[name] = max(shapeless.get(name, 0.0), worst / e0)
    sentence = f"No violation beyond the noise in any of {len(studies)} studies, in either protocol."
    if broken:
        sentence = f"More than noise explains, the losses are not {shape} in {', '.join(broken)}."
    reason = ""
    if shapeless:
        reason = f"not on {_listed(list(shapeless))}, by up to {100 * max(shapeless.values()):.2g} % of e_0"
    return _claim(
        f"The loss is {shape} in the leakage p, on all data sets.",
        f"Section 6, Interaction characteristics; {theorem}; Figures 2 and 4",
        _verdict(3 * len(studies) - len(broken), 3 * len(studies)),
        reason,
        sentence,
        measured,
    )


def _effect(studies: Studies) -> Claim:
    measured, without = {}, []
    for name, study in studies.items():
        paper = study["protocols"]["paper"]
        fall, error, relative = (paper[key] for key in ("fall", "fall_standard_error", "relative_fall"))
        shown = relative > _SMALL and (not error or fall / error > 3)
        measured[name] = {"fall": fall, "standard_error": error, "relative_fall": relative, "effect": shown}
        if not shown:
            without.append(f"{name} ({100 * relative:.2g} % of e_0)")
    sentence = f"Between p = 0 and 1 the loss falls by more than {100 * _SMALL:.0f} % of e_0 in every study."
    if without:
        sentence = f"No fall of more than {100 * _SMALL:.0f} % of e_0 between p = 0 and 1: {', '.join(without)}."
    return _claim(
        "There is an interaction between clustering and prediction on every data set.",
        "Section 6, Interaction characteristics",
        _verdict(len(studies) - len(without), len(studies)),
        f"none on {_listed(without)}" if without else "",
        sentence,
        measured,
    )


def _bias(studies: Studies) -> Claim:
    measured = {
        name: {
            "paper": study["protocols"]["paper"]["relative_naive_bias"],
            "field": study["protocols"]["field"]["relative_naive_bias"],
            "whole_fall": study["protocols"]["paper"]["relative_fall"],
        }
        for name, study in studies.items()
    }
    real = {name: biases for name, biases in measured.items() if name != "synthetic"} or measured
    largest = max(real, key=lambda name: real[name]["paper"])
    at_p0, in_field, whole = real[largest].values()
    return _claim(
        "The interaction biases cross-validation by up to 25 %.",
        "Section 6, Interaction characteristics",
        "holds" if at_p0 >= 0.2 else "holds in part" if max(at_p0, whole) >= 0.2 else "does not hold",
        f"{100 * at_p0:.0f} % at the leakage rate of the experiments, and {100 * whole:.0f} % if all records leak",
        f"Largest on {largest}: the loss at p0 is {100 * at_p0:.0f} % below e_0 (paper protocol; "
        f"{100 * in_field:.0f} % in the field protocol), that at p = 1 is {100 * whole:.0f} % below it.",
        measured,
    )


def _ratios(study: Mapping[str, Any], over: str, methods: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Median absolute errors of methods over that of another, by protocol.

    An error counts as at least a thousandth of e_0, and as infinite where the solver never found an estimate.
    """

    def error(protocol: Mapping[str, Any], method: str) -> float:
        median = protocol["methods"][method]["median_absolute_error"]
        return math.inf if median is None else max(float(median), _NEGLIGIBLE * float(protocol["e0"]))

    return {
        name: {
            method: error(study["protocols"][name], method) / error(study["protocols"][name], over)
            for method in methods
        }
        for name in ("paper", "field")
    }


def _correction(studies: Studies) -> Claim:
    methods = ("trend", "sketch", "basis")
    measured = {name: _ratios(study, "naive", (*methods, "default")) for name, study in studies.items()}
    ratios = [ratios[method] for study in measured.values() for ratios in study.values() for method in methods]
    good, total = sum(ratio < 1 for ratio in ratios), len(ratios)
    return _claim(
        "T4+mono, Sketch and Basis largely correct the bias.",
        "Section 6, Interaction characteristics and Estimator error; Figure 3",
        "holds" if good == total else "holds in part" if good > total / 2 else "does not hold",
        f"in {good} of {total} cases the error is smaller than without a correction",
        f"Their median error is below the uncorrected loss’s in {good} of {total} cases (study, protocol and method).",
        measured,
    )


def _comparable(studies: Studies) -> Claim:
    measured = {name: _ratios(study, "trend", ("sketch", "basis")) for name, study in studies.items()}
    worse = [
        f"{method} on {name} ({protocol} protocol, {ratio:.1f} times)"
        for name, study in measured.items()
        for protocol, ratios in study.items()
        for method, ratio in ratios.items()
        if ratio > _COMPARABLE
    ]
    sentence = f"No median error exceeds {_COMPARABLE} times that of T4+mono."
    if worse:
        sentence = f"The median error exceeds {_COMPARABLE} times that of T4+mono for {', '.join(worse)}."
    return _claim(
        "Sketch and Basis err no more than T4+mono does.",
        "Section 6, Estimator error; Figure 3",
        _verdict(4 * len(studies) - len(worse), 4 * len(studies)),
        f"in {len(worse)} of {4 * len(studies)} cases the error is more than {_COMPARABLE} times as large"
        if worse
        else "",
        sentence,
        measured,
    )


def _test(studies: Studies) -> Claim:
    measured = {}
    for name, study in studies.items():
        test, field = study["test"], study["protocols"]["field"]["test"]
        measured[name] = {
            "pvalue": test["first"]["pvalue"],
            "rejected": test["rejected"],
            "deals": test["deals"],
            "field_rejected": field["rejected"],
            "field_draws": field["draws"],
            "mean_difference": test["mean_difference"],
            "median_detectable": test["median_detectable"],
        }
    counts = ", ".join(f"{name} {test['rejected']} of {test['deals']}" for name, test in measured.items())
    missed = [name for name, test in measured.items() if 2 * test["rejected"] <= test["deals"]]
    return _claim(
        "The hypothesis test finds the interaction.",
        "Section 4 (no figure in the paper)",
        _verdict(sum(2 * test["rejected"] > test["deals"] for test in measured.values()), len(measured)),
        f"not on {_listed(missed)}, where most tests find nothing" if missed else "",
        f"Rejections at level 0.05 with the folds dealt anew: {counts}.",
        measured,
    )


def _fastest(timing: Mapping[str, Any]) -> Claim:
    times: dict[str, dict[str, float]] = {}
    for row in timing["table"]:
        times.setdefault(row["study"], {})[row["method"]] = row["seconds"]
    measured: dict[str, Any] = {
        name: {f"{method}_over_basis": seconds[method] / seconds["basis"] for method in ("trend", "sketch")}
        for name, seconds in times.items()
    }
    good = sum(min(ratios.values()) > 1 for ratios in measured.values())
    trend, sketch = zip(*(ratios.values() for ratios in measured.values()), strict=True)
    orders = good == len(measured) and min(trend + sketch) >= 100
    return _claim(
        "Basis is the fastest, by several orders of magnitude.",
        "Section 6, Computational scalability; Table 1",
        "holds" if orders else "holds in part" if good else "does not hold",
        "" if orders else f"it is {min(trend + sketch):.0f} to {max(trend + sketch):.0f} times faster",
        f"Solve times over that of Basis: T4+mono {min(trend):.0f} to {max(trend):.0f} times, "
        f"Sketch {min(sketch):.0f} to {max(sketch):.0f} times.",
        measured | {"seconds": times},
    )


def _scaling(timing: Mapping[str, Any]) -> Claim:
    by_cvxpy, ours = (
        [row for row in timing["scaling"] if row["solver"] == solver] for solver in ("cvxpy", "outofcluster")
    )
    missed = sorted(row["n"] for row in by_cvxpy if row["moved"])
    largest = max(row["n"] for row in ours)
    last = [row for row in ours if row["n"] == largest]
    good = [row for row in last if not row["moved"]]
    sentence = "cvxpy is not installed."
    if by_cvxpy:
        sentence = f"T4+mono by cvxpy finds e_0 up to n = {max(row['n'] for row in by_cvxpy):,}, the largest tried."
    if missed:
        sentence = f"T4+mono by cvxpy misses e_0 from n = {missed[0]:,} on, though it reports a solution."
    times = ", ".join(f"{row['method']} {1000 * row['seconds']:.2g} ms" for row in good)
    return _claim(
        "On the largest problems every method but Basis fails.",
        "Section 6, Computational scalability; Figure 1",
        "not checked" if not by_cvxpy else "holds in part" if missed else "does not hold",
        f"the paper's solver fails, and {len(good)} of the {len(last)} methods of this package do not",
        f"{sentence} At n = {largest:,} {len(good)} of our {len(last)} methods that go so far find it: {times}.",
        {"cvxpy": by_cvxpy, "ours": ours},
    )
