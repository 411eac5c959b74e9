"""The paper's experiments as tables: from docs/paper/results.json to Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ooc_docs.markdown import details, escape, figure, number, percent, table

__all__ = ["claims", "scoreboard", "sizes", "studies", "timing", "twins"]

Results = Mapping[str, Any]

_NEGLIGIBLE = 0.001
"""Share of e_0 below which a median error counts as that much."""

_THEIRS = ("trend", "sketch", "basis")
_PICTURES = {
    "errors": "Errors of every estimator in both protocols: box plots over trials and over draws of the leak.",
    "curves": "Losses by the share of leaked records, every fitted curve, and the true curve.",
    "shape": "Slopes of the losses and their changes between levels, with error bars.",
}


def claims(results: Results) -> str:
    """Every claim with its verdict on one screen, and what was measured below it, folded."""
    if not results["claims"]:
        return "No claim could be judged from what was run.\n"
    rows = [[escape(claim["claim"]), _judged(claim)] for claim in results["claims"]]
    measured = [
        [f"{escape(claim['claim'])} ({escape(claim['where'])})", _sentence(claim["sentence"])]
        for claim in results["claims"]
    ]
    return "\n".join(
        [
            table(["the paper says", "verdict"], rows),
            details("What was measured, claim by claim", table(["claim", "figures"], measured)),
            _effort(results),
        ]
    )


def _judged(claim: Mapping[str, Any]) -> str:
    """A verdict that says what is missing: "holds", or "holds in part: …"."""
    reason = _sentence(claim.get("reason", ""))
    return f"**{claim['verdict']}**" + (f": {reason}" if reason else "")


def _effort(results: Results) -> str:
    made = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    quick = (
        "\n:::{warning}\nThese figures come from a quick run, with fewer fits and draws than the paper's.\n:::\n"
        if results["quick"]
        else ""
    )
    return f"Seed {results['seed']}; made with {escape(made)}.\n{quick}"


def studies(results: Results) -> str:
    """One section per study: errors of every estimator, the test, the pictures."""
    return "\n".join(_study(name, study) for name, study in results["studies"].items())


def _study(name: str, study: Mapping[str, Any]) -> str:
    paper, field = study["protocols"]["paper"], study["protocols"]["field"]
    trials, draws = (len(part["methods"]["naive"]["errors"]) for part in (paper, field))
    rows = []
    for method, ours in paper["methods"].items():
        theirs = field["methods"][method]
        figures = (ours["median_absolute_error"], theirs["median_absolute_error"], theirs["rmse"])
        over = theirs.get("rmse_over_naive")
        rows.append([escape(ours["label"]), *(number(value) for value in figures), _ratio(over)])
    header = [
        "estimator",
        f"paper: median \\|error\\|, {trials} trials",
        f"field: median \\|error\\|, {draws} draws",
        "field: RMSE",
        "RMSE over LOCO's",
    ]
    sizes, shape = study["records"], paper["shape"]
    records = "" if sizes is None else f", {sizes['train']:,} training and {sizes['validation']:,} validation records"
    paragraphs = [
        f"Clusters: {escape(study['cluster'])}{records}; learner: {escape(study['learner'])}; resamples of "
        f"n = {study['parameters']['n']}; loss: {escape(study['unit'])}; p0 = {study['leakage']:g}.",
        f"True e_0: {number(paper['e0'], 4)} in the paper's protocol, {number(field['e0'], 4)} in the field protocol. "
        f"The loss at p0 is {percent(paper['relative_naive_bias'])} and {percent(field['relative_naive_bias'])} below "
        f"it; at p = 1 it is {percent(paper['relative_fall'])} below it (paper protocol).",
        f"Shape, paper protocol: the losses {_shape(shape['decreasing'], 'decrease', 'rise beyond noise')} and "
        f"{_shape(shape['convex'], 'are convex', 'are not convex, beyond noise')}.",
        f"Hypothesis test on the clean split: {escape(study['test']['first']['sentence'])} With the folds dealt anew "
        f"it rejects {study['test']['rejected']} times out of {study['test']['deals']}.",
    ]
    pictures = "\n".join(
        figure(f"paper/{name}/{kind}.svg", f"{study['title']}. {alt}") for kind, alt in _PICTURES.items()
    )
    text = "\n\n".join(line.replace(" e_0", " $e_0$").replace(" p0", " $p_0$") for line in paragraphs)
    inside = f"{text}\n\n{table(header, rows, 'lrrrr')}\n{pictures}"
    return f"### {escape(study['title'])}\n\n{_in_short(field)}\n\n{details('Figures and pictures', inside)}"


def _in_short(field: Mapping[str, Any]) -> str:
    """What the study shows, in a sentence."""
    bias, over = field["relative_naive_bias"], field["methods"]["default"].get("rmse_over_naive")
    said = f"As a user would see it, cross-validation with leakage shows a loss that is {percent(bias)} too low"
    if bias <= 0:
        said = "As a user would see it, leakage does not lower the loss here"
    return (
        f"{said}."
        if over is None
        else f"{said}; the error of the package default is {over:.2f} times that of no correction."
    )


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _sentence(sentence: str) -> str:
    """A sentence of the results with its symbols set as formulas."""
    return escape(sentence).replace("e\\_0", "$e_0$").replace("p0", "$p_0$")


def _shape(check: Mapping[str, Any], holds: str, broken: str) -> str:
    """What became of a shape, without the list of places."""
    if check["holds"]:
        return holds
    return f"{broken} (p ≤ {check['pvalue']:.2g})" if check["exceeds_noise"] else f"{holds} but for noise"


def timing(results: Results) -> str:
    """Solve times beside the paper's, and the picture over n."""
    measured = results["timing"]
    if measured is None:
        return "Solve times were not measured in this run.\n"

    def milliseconds(seconds: float | None) -> str:
        return "–" if seconds is None else number(1000 * seconds)

    rows = [
        [
            escape(results["studies"].get(row["study"], {}).get("title", row["study"])),
            escape(row["label"]),
            str(row["n"]),
            str(row["levels"]),
            *(milliseconds(row[key]) for key in ("seconds", "cvxpy_seconds", "paper_seconds")),
        ]
        for row in measured["table"]
    ]
    header = ["data set", "estimator", "n", "levels", "here, ms", "cvxpy, ms", "in the paper, ms"]
    picture = figure("paper/timing/scaling.svg", "Solve time by the size n of the training sets, every method.")
    return f"{table(header, rows, 'llrrrrr')}\n{picture}"


def scoreboard(results: Results) -> str:
    """The default against the paper's hand-set methods: errors by study, their means, and ratios."""
    by_name = results["studies"]
    names = {name: study["title"] for name, study in by_name.items()}
    first = next(iter(by_name.values()))["protocols"]["paper"]["methods"]
    methods = ["naive", *_THEIRS, "default"]
    rows, means = [], {}
    for method in methods:
        errors = [_error(study, method) for study in by_name.values()]
        means[method] = math.exp(sum(math.log(error) for error in errors) / len(errors))
        rows.append([escape(first[method]["label"]), *(number(error) for error in [*errors, means[method]])])
    worst = {
        method: max(
            study["protocols"]["paper"]["methods"][method]["worst_relative_error"] for study in by_name.values()
        )
        for method in methods
    }
    best, safest = min(_THEIRS, key=means.__getitem__), min(_THEIRS, key=worst.__getitem__)
    text = [
        "Paper protocol, median absolute error over the trials; one below a thousandth of $e_0$ counts as that.\n",
        table(["estimator", *(escape(title) for title in names.values()), "geometric mean"], rows, "l" + "r" * 9),
        f"The default's geometric mean is **{means['default'] / means[best]:.2f}** of the best of the paper's, "
        f"{escape(first[best]['label'])}. Its worst relative error over all trials, {percent(worst['default'], 0)}, is "
        f"**{worst['default'] / worst[safest]:.2f}** of the smallest of theirs ({escape(first[safest]['label'])}, "
        f"{percent(worst[safest], 0)}).\n",
        "Field protocol, root mean square error over that of the uncorrected loss; below 1 is a gain. The last row but "
        "one is what would be left if the mean bias were known and taken out: the rest is which records happened to "
        "leak and which were left to be scored, and no correction of the bias removes that. "
        f"{_below_the_rate(by_name)}\n",
        table(["estimator", *(escape(title) for title in names.values())], _over_naive(by_name, first), "l" + "r" * 9),
    ]
    return "\n".join(text)


def _below_the_rate(by_name: Mapping[str, Any]) -> str:
    """In which studies the default has losses below the leakage rate."""
    spent = {study["title"]: study["protocols"]["field"].get("fits_a_draw", {}) for study in by_name.values()}
    without = [escape(title) for title, fits in spent.items() if "unmixed" not in fits]
    if len(without) == len(spent):
        return "The default has no losses below $p_0$ here."
    said = "A quarter of the default's fits leave out the records that look leaked, to see below $p_0$"
    return f"{said}, except for {', '.join(without)}." if without else f"{said}."


def _error(study: Mapping[str, Any], method: str) -> float:
    paper = study["protocols"]["paper"]
    return max(float(paper["methods"][method]["median_absolute_error"]), _NEGLIGIBLE * float(paper["e0"]))


def _over_naive(by_name: Mapping[str, Any], first: Mapping[str, Any]) -> list[list[str]]:
    rows = [
        [escape(first[method]["label"])]
        + [_ratio(study["protocols"]["field"]["methods"][method].get("rmse_over_naive")) for study in by_name.values()]
        for method in (*_THEIRS, "default")
    ]
    field = [study["protocols"]["field"] for study in by_name.values()]
    known = [_ratio(_spread(part["methods"]["naive"]["errors"])) for part in field]
    bias = [f"{number(part['naive_bias'])} ± {number(part['naive_bias_standard_error'], 2)}" for part in field]
    return [*rows, ["*the mean bias known and taken out*", *known], ["*bias of the uncorrected loss*", *bias]]


def _spread(errors: Sequence[float]) -> float:
    """The standard deviation over the root mean square: what is left when the mean is known."""
    mean, square = fmean(errors), fmean(error**2 for error in errors)
    return math.sqrt(max(1 - mean**2 / square, 0.0))


def twins(results: Results, names: tuple[str, str] = ("heart", "census")) -> str:
    """Two studies whose true losses above p0 have one shape and whose e_0 do not: losses relative to that shape."""
    missing = [name for name in names if name not in results["studies"]]
    if missing:
        return f"This run has no study of {missing[0]}.\n"
    header, rows = ["$p$"], []
    for name in names:
        study = results["studies"][name]
        truth = study["protocols"]["paper"]["truth"]
        columns = (truth["p"], truth["loss"], truth["standard_error"])
        by_level = {round(p, 6): (loss, error) for p, loss, error in zip(*columns, strict=True)}
        levels = [p for p in (0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.0) if p in by_level]
        (top, _), (floor, _) = by_level[0.1], by_level[0.55]
        header = header if len(header) > 1 else ["", *(f"$p = {p:g}$" for p in levels)]
        cells = [
            f"{(by_level[p][0] - floor) / (top - floor):.2f} ± {by_level[p][1] / (top - floor):.2f}" for p in levels
        ]
        cells[-1] = f"**{cells[-1]}**"
        rows.append([escape(study["title"]), *cells])
    return table(header, rows, "l" + "r" * 9)


def sizes(results: Results, names: tuple[str, str] = ("heart", "census")) -> str:
    """Losses at the default's levels by size of the training sets, for two studies, beside the true e_0 of the full."""
    rows, header = [], ["", "size"]
    for name in names:
        study = results["studies"].get(name)
        if study is None:
            return f"This run has no study of {name}.\n"
        for run in study["protocols"]["paper"]["sizes"]:
            header = [*header[:2], *(f"$p = {p:.2g}$" for p in run["p"])]
            cells = [f"{b:.4f} ± {e:.4f}" for b, e in zip(run["loss"], run["standard_error"], strict=True)]
            rows.append([escape(study["title"]), str(run["size"]), *cells])
    return table(header, rows, "lr" + "r" * 9)
