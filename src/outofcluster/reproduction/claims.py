"""The claims of the paper's Section 6, each with what was measured and a verdict that follows from it by rule.

A claim is judged over the studies that were run. The verdicts are "holds", "holds in part", "does not hold" and "not
checked"; the sentence says why, in figures. Both protocols are judged where both can be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Claim", "judge"]

_SMALL = 0.01
"""Share of e_0 below which a fall from p = 0 to 1 counts as none."""

_COMPARABLE = 1.5
"""Ratio of two median errors up to which methods count as comparable."""

_NEGLIGIBLE = 0.001
"""Share of e_0 below which an error counts as that much: no fight over the third digit."""

Studies = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Claim:
    """What the paper says, what we found, and what follows.

    Attributes
    ----------
    claim, where : str
        The claim in short, and its place in the paper.
    verdict : {"holds", "holds in part", "does not hold", "not checked"}
        What follows.
    sentence : str
        Why, in figures.
    measured : dict
        The figures.
    """

    claim: str
    where: str
    verdict: str
    sentence: str
    measured: dict[str, Any]


def judge(studies: Studies, timing: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Every claim that the studies at hand can tell something about."""
    claims = []
    if studies:
        claims += [_shape(studies, "decreasing", "Theorem 3.1"), _shape(studies, "convex", "Theorem 3.2")]
        claims += [_effect(studies), _bias(studies), _correction(studies), _comparable(studies), _test(studies)]
    if timing is not None:
        claims += [_fastest(timing), _scaling(timing)]
    return [asdict(claim) for claim in claims]


def _verdict(good: int, total: int) -> str:
    return "holds" if good == total else "does not hold" if good == 0 else "holds in part"


def _shape(studies: Studies, shape: str, theorem: str) -> Claim:
    measured: dict[str, Any] = {}
    broken: list[str] = []
    for name, study in studies.items():
        paper, field = study["protocols"]["paper"], study["protocols"]["field"]
        for where, e0, found in (
            ("paper protocol", paper["e0"], paper["shape"][shape]),
            ("paper protocol from p = 0", paper["e0"], paper["true_shape"][shape]),
            ("field protocol", field["e0"], field["shape"][shape]),
        ):
            worst = max((violation["size"] for violation in found["violations"]), default=0.0)
            measured.setdefault(name, {})[where] = {
                key: found[key] for key in ("holds", "exceeds_noise", "pvalue", "sentence")
            } | {"largest_violation": worst, "relative_to_e0": worst / e0}
            if found["exceeds_noise"]:
                broken.append(f"{name} ({where}, by {100 * worst / e0:.2g} % of e_0)")
    total = sum(len(found) for found in measured.values())
    sentence = f"No violation beyond the noise in any of {len(studies)} studies, in either protocol."
    if broken:
        sentence = f"More than noise explains, the losses are not {shape} in {', '.join(broken)}."
    return Claim(
        f"The loss is {shape} in the leakage p, on all data sets.",
        f"Section 6, Interaction characteristics; {theorem}; Figures 2 and 4",
        _verdict(total - len(broken), total),
        sentence,
        measured,
    )


def _effect(studies: Studies) -> Claim:
    measured, none = {}, []
    for name, study in studies.items():
        paper = study["protocols"]["paper"]
        z = paper["fall"] / paper["fall_standard_error"] if paper["fall_standard_error"] else None
        shown = paper["relative_fall"] > _SMALL and (z is None or z > 3)
        measured[name] = {
            "fall": paper["fall"],
            "standard_error": paper["fall_standard_error"],
            "relative_fall": paper["relative_fall"],
            "effect": shown,
        }
        if not shown:
            none.append(f"{name} ({100 * paper['relative_fall']:.2g} % of e_0)")
    sentence = f"Between p = 0 and 1 the loss falls by more than {_SMALL:.0%} of e_0 in every study."
    if none:
        sentence = f"No fall of more than {_SMALL:.0%} of e_0 between p = 0 and 1: {', '.join(none)}."
    return Claim(
        "There is an interaction between clustering and prediction on every data set.",
        "Section 6, Interaction characteristics",
        _verdict(len(studies) - len(none), len(studies)),
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
    real = {name: found for name, found in measured.items() if name != "synthetic"} or measured
    largest = max(real, key=lambda name: real[name]["paper"])
    at_p0, whole = real[largest]["paper"], real[largest]["whole_fall"]
    verdict = "holds" if at_p0 >= 0.2 else "holds in part" if max(at_p0, whole) >= 0.2 else "does not hold"
    return Claim(
        "The interaction biases cross-validation by up to 25 %.",
        "Section 6, Interaction characteristics",
        verdict,
        f"Largest on {largest}: the loss at p0 is {at_p0:.0%} below e_0 (paper protocol; "
        f"{real[largest]['field']:.0%} in the field protocol), that at p = 1 is {whole:.0%} below it.",
        measured,
    )


def _error(study: Mapping[str, Any], protocol: str, method: str) -> float:
    """Median absolute error, at least a thousandth of e_0; infinite where the solver never found an estimate."""
    found = study["protocols"][protocol]
    error = found["methods"][method]["median_absolute_error"]
    return math.inf if error is None else max(float(error), _NEGLIGIBLE * float(found["e0"]))


def _correction(studies: Studies) -> Claim:
    measured: dict[str, Any] = {}
    good, total = 0, 0
    for name, study in studies.items():
        for protocol in ("paper", "field"):
            naive = _error(study, protocol, "naive")
            ratios = {m: _error(study, protocol, m) / naive for m in ("trend", "sketch", "basis", "default")}
            measured.setdefault(name, {})[protocol] = ratios
            good += sum(ratio < 1 for method, ratio in ratios.items() if method != "default")
            total += 3
    return Claim(
        "T4+mono, Sketch and Basis largely correct the bias.",
        "Section 6, Interaction characteristics and Estimator error; Figure 3",
        "holds" if good == total else "holds in part" if good > total / 2 else "does not hold",
        f"Their median error is below the uncorrected loss’s in {good} of {total} cases (study, protocol and method).",
        measured,
    )


def _comparable(studies: Studies) -> Claim:
    measured: dict[str, Any] = {}
    worse = []
    for name, study in studies.items():
        for protocol in ("paper", "field"):
            trend = _error(study, protocol, "trend")
            for method in ("sketch", "basis"):
                ratio = _error(study, protocol, method) / trend
                measured.setdefault(name, {}).setdefault(protocol, {})[method] = ratio
                if ratio > _COMPARABLE:
                    worse.append(f"{method} on {name} ({protocol} protocol, {ratio:.1f} times)")
    total = 4 * len(studies)
    sentence = f"No median error exceeds {_COMPARABLE} times that of T4+mono."
    if worse:
        sentence = f"The median error exceeds {_COMPARABLE} times that of T4+mono for {', '.join(worse)}."
    return Claim(
        "Sketch and Basis err no more than T4+mono does.",
        "Section 6, Estimator error; Figure 3",
        _verdict(total - len(worse), total),
        sentence,
        measured,
    )


def _test(studies: Studies) -> Claim:
    measured = {}
    said = []
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
        said.append(f"{name} {test['rejected']} of {test['deals']}")
    good = sum(2 * found["rejected"] > found["deals"] for found in measured.values())
    return Claim(
        "The hypothesis test finds the interaction.",
        "Section 4 (no figure in the paper)",
        _verdict(good, len(measured)),
        f"Rejections at level 0.05 with the folds dealt anew: {', '.join(said)}.",
        measured,
    )


def _fastest(timing: Mapping[str, Any]) -> Claim:
    times: dict[str, dict[str, float]] = {}
    for row in timing["table"]:
        times.setdefault(row["study"], {})[row["method"]] = row["seconds"]
    measured = {
        name: {
            "trend_over_basis": found["trend"] / found["basis"],
            "sketch_over_basis": found["sketch"] / found["basis"],
        }
        for name, found in times.items()
    }
    good = sum(min(found.values()) > 1 for found in measured.values())
    trend = [found["trend_over_basis"] for found in measured.values()]
    sketch = [found["sketch_over_basis"] for found in measured.values()]
    return Claim(
        "Basis is the fastest, by several orders of magnitude.",
        "Section 6, Computational scalability; Table 1",
        "holds"
        if good == len(measured) and min(trend + sketch) >= 100
        else "holds in part"
        if good
        else "does not hold",
        f"Solve times over that of Basis: T4+mono {min(trend):.0f} to {max(trend):.0f} times, "
        f"Sketch {min(sketch):.0f} to {max(sketch):.0f} times.",
        measured | {"seconds": times},
    )


def _scaling(timing: Mapping[str, Any]) -> Claim:
    rows = timing["scaling"]
    by_cvxpy = [row for row in rows if row["solver"] == "cvxpy"]
    ours = [row for row in rows if row["solver"] == "outofcluster"]
    off = sorted(row["n"] for row in by_cvxpy if row["moved"])
    largest = max(row["n"] for row in ours)
    last = [row for row in ours if row["n"] == largest]
    good = [row["method"] for row in last if not row["moved"]]
    said = "cvxpy is not installed."
    if by_cvxpy:
        said = f"T4+mono by cvxpy finds e_0 up to n = {max(row['n'] for row in by_cvxpy):,}, the largest tried."
    if off:
        said = f"T4+mono by cvxpy misses e_0 from n = {off[0]:,} on, though it reports a solution."
    times = ", ".join(f"{row['method']} {1000 * row['seconds']:.2g} ms" for row in last if not row["moved"])
    return Claim(
        "On the largest problems every method but Basis fails.",
        "Section 6, Computational scalability; Figure 1",
        "not checked" if not by_cvxpy else "holds in part" if off else "does not hold",
        f"{said} At n = {largest:,} {len(good)} of our {len(last)} methods that go so far find it: {times}.",
        {"cvxpy": by_cvxpy, "ours": ours},
    )
