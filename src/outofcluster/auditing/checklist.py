"""An audit as answers to reporting guidelines, with a place for what only the author knows.

TRIPOD+AI is about prediction models, REFORMS about science that uses machine learning, and GUILD about linked data.
Here are the items of each that an audit has something to say about. Titles are ours and short; the full wording is in
the sources. The items of TRIPOD+AI and REFORMS have the numbers of the published checklists. GUILD is ordered by steps,
and an item here is one of its steps.

Every sentence that is not a question is made of a `Summary`, the spread over clusters and subgroups, so whatever it
says is a number or a choice of that audit. Nothing is fitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import PlainData, data_frame
from outofcluster._base.text import element, fragment, percentage, printable
from outofcluster.auditing import methods_text as words
from outofcluster.auditing.subgroups import Subgroups
from outofcluster.auditing.summary import Summary
from outofcluster.inference.estimates import decimals, fixed

TRIPOD, REFORMS, GUILD = "TRIPOD+AI", "REFORMS", "GUILD"
SOURCES = {
    TRIPOD: "Collins et al., BMJ 2024;385:e078378, doi:10.1136/bmj-2023-078378",
    REFORMS: "Kapoor et al., Science Advances 2024;10:eadk3452, doi:10.1126/sciadv.adk3452",
    GUILD: "Gilbert et al., Journal of Public Health 2018;40:191-198, doi:10.1093/pubmed/fdx037",
}
_BLANK = "…"


@dataclass(frozen=True)
class ChecklistItem:
    """One item of a guideline.

    Attributes
    ----------
    guideline, number, title : str
        The guideline, the number of the item, and in a few words what it asks for.
    says : tuple of str
        Sentences with the numbers of the audit; empty where only the author can answer.
    you_must_say : str
        What only the author knows; empty where the audit says everything.
    rows : tuple of str
        What is listed below the sentences, such as subgroups.
    """

    guideline: str
    number: str
    title: str
    says: tuple[str, ...]
    you_must_say: str = ""
    rows: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Where the guideline was published."""
        return SOURCES[self.guideline]


@dataclass(frozen=True, eq=False)
class Checklist(PlainData, what="a checklist"):
    """Items of TRIPOD+AI, REFORMS and GUILD, as far as an audit answers them; ``print`` it for Markdown.

    Attributes
    ----------
    items : tuple of ChecklistItem
        The items, by guideline.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> patients = ooc.datasets.make_patients(random_state=0)
    >>> options = {"groups": patients.groups, "random_state": 0}
    >>> result = ooc.audit(KNeighborsClassifier(3), patients.data, patients.target, **options)
    >>> item = result.checklist()["TRIPOD+AI", "12c"]
    >>> item.title
    'Type of model, model building, internal validation'
    >>> item.says[0]
    'The model was 3 nearest neighbours, in code KNeighborsClassifier(n_neighbors=3).'
    """

    items: tuple[ChecklistItem, ...]

    @property
    def guidelines(self) -> list[tuple[str, str, list[ChecklistItem]]]:
        """Every guideline with its source and its items."""
        grouped = groupby(self.items, key=lambda item: item.guideline)
        return [(name, SOURCES[name], list(items)) for name, items in grouped]

    def __getitem__(self, key: tuple[str, str]) -> ChecklistItem:
        for item in self.items:
            if (item.guideline, item.number) == key:
                return item
        raise KeyError(key)

    def to_markdown(self) -> str:
        """All items as Markdown, with a line of dots wherever something is to be filled in.

        Returns
        -------
        str
            A heading for each guideline and each item.
        """
        blocks = ["# Checklist of the audit", _HOW]
        for guideline, source, items in self.guidelines:
            blocks += [f"## {guideline}", source]
            for item in items:
                blocks.append(f"### {item.number}: {item.title}")
                blocks += [" ".join(_escaped(item.says))] if item.says else []
                blocks += ["\n".join(f"- {row}" for row in _escaped(item.rows))] if item.rows else []
                blocks += [f"**You must say:** {item.you_must_say}", f"> {_BLANK}"] if item.you_must_say else []
        return printable("\n\n".join(blocks))

    def to_frame(self) -> Any:
        """The items as a table; needs pandas.

        Returns
        -------
        pandas.DataFrame
            One row per item: guideline, item, title, says, you_must_say and source.
        """
        rows = [
            {
                "guideline": item.guideline,
                "item": item.number,
                "title": item.title,
                "says": " ".join((*item.says, *item.rows)),
                "you_must_say": item.you_must_say,
                "source": item.source,
            }
            for item in self.items
        ]
        return data_frame(rows)

    def __str__(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        parts = []
        for guideline, source, items in self.guidelines:
            parts += [element("h3", guideline), element("p", source)]
            for item in items:
                parts.append(element("p", element("strong", f"{item.number}: {item.title}")))
                parts += [element("p", " ".join(item.says))] if item.says else []
                parts += [element("ul", *(element("li", row) for row in item.rows))] if item.rows else []
                parts += [element("p", f"You must say: {item.you_must_say}")] if item.you_must_say else []
        return fragment(*parts)


_HOW = (
    "Every number is one of the audit. Where it says **You must say**, write your answer in the place of the dots. "
    "Titles are shortened: the full wording of each item is in the source below the name of its guideline."
)


def _escaped(sentences: Iterable[str]) -> list[str]:
    """Sentences in which names from data are no Markdown."""
    return [re.sub(r"[\\`*[]|<(?! )", r"\\\g<0>", sentence) for sentence in sentences]


@dataclass(frozen=True)
class _Material:
    """What the items are made of: the numbers, sentences on the spread over clusters, and subgroups."""

    summary: Summary
    n_records: int
    n_clusters: int
    left_out: bool
    spread: tuple[str, ...]
    has_spread: bool
    by: tuple[Subgroups, ...]

    @property
    def held_out(self) -> str:
        return words.held_out(self.summary, self.n_records, self.n_clusters)

    @property
    def correction(self) -> list[str]:
        return words.correction(self.summary, left_out=self.left_out)

    @property
    def numbers(self) -> list[str]:
        """Records, clusters, classes, and the sizes of the folds."""
        account = self.summary.table
        return [] if account is None else [account.clusters_in_words, account.target_in_words]

    @property
    def folds(self) -> str:
        folds = self.summary.by_fold
        train, held_out = [fold.n_train for fold in folds], [fold.n_validation for fold in folds]
        if len(folds) == 1:
            return f"The model was trained on {train[0]:,} records and evaluated on {held_out[0]:,}."
        return f"In each fold it was trained on {_range(train)} records and evaluated on {_range(held_out)}."

    @property
    def width(self) -> str:
        """How wide the interval is that the study comes to."""
        summary = self.summary
        estimate, what = summary.corrected or summary.naive, "corrected" if summary.corrected else "cross-validated"
        width = fixed(estimate.interval[1] - estimate.interval[0], max(decimals(estimate) - 1, 2))
        level = percentage(summary.confidence_level)
        return f"The {level} interval of the {what} {summary.metric.label} is {width} wide."

    @property
    def subgroups(self) -> list[str]:
        """What the subgroups show, without the differences that are not shown."""
        lines = [line.strip() for by in self.by for line in by.lines if not line.endswith("(no difference is shown).")]
        return [line if line.endswith(".") else f"{line}." for line in lines]

    @property
    def leakage_by_subgroup(self) -> list[str]:
        """The leakage rates of subgroups, where they are seen or known."""
        sentences = []
        for by in self.by:
            rates = [f"{group.name} {percentage(group.leakage, 2)}" for group in by.judged if group.leakage is not None]
            if rates:
                sentences.append(f"The leakage rate by {by.column}, as it is seen or known: {', '.join(rates)}.")
        return sentences

    @property
    def test(self) -> list[str]:
        return [] if self.summary.test is None else [str(self.summary.test["sentence"])]

    @property
    def looked_up(self) -> str:
        """What only the author knows about look-ups, if there were any."""
        if self.summary.looked_up is None:
            return ""
        return " Who looked the clusters up, from what, and whether they knew the outcome?"


def checklist(
    summary: Summary, *, n_records: int, n_clusters: int, left_out: bool, spread: Any, by: Sequence[Subgroups] = ()
) -> Checklist:
    """The checklist of an audit; ``spread`` is a `Spread`, or the error that says why there is none."""
    has_spread = not isinstance(spread, InputError)
    lines = tuple(spread.lines) if has_spread else (f"The spread over clusters is not given: {_reason(spread)}",)
    material = _Material(summary, n_records, n_clusters, left_out, lines, has_spread, tuple(by))
    return Checklist((*_tripod(material), *_reforms(material), *_guild(material)))


def _tripod(material: _Material) -> list[ChecklistItem]:
    summary = material.summary
    method = (
        "The standard deviation between clusters was estimated without the noise of small clusters, and with it a "
        "prediction interval for one new cluster."
    )
    subgroups = "Which other groups matter for this model, and how does it do there?"
    if not material.by:
        subgroups = "How does it do in groups that matter, such as sexes, ages or sites? Ask the audit by column."
    return [
        _item(
            TRIPOD,
            "10",
            "Sample size",
            [*material.numbers[:1], material.width],
            "How was the number of records and clusters arrived at, and why is it enough?",
        ),
        _item(
            TRIPOD,
            "12a",
            "How the data were used",
            [material.held_out, material.folds],
            "Was anything chosen with all records, outside these folds: features, transformations, tuning?",
        ),
        _item(
            TRIPOD,
            "12c",
            "Type of model, model building, internal validation",
            [words.model_and_code(summary), material.held_out],
            "Why this type of model? How was it built and tuned?",
        ),
        _item(
            TRIPOD,
            "12d",
            "Heterogeneity across clusters: how it was handled",
            ["All records of a cluster were held out together.", method if material.has_spread else material.spread[0]],
            "What is a cluster here, and are there larger ones above them, such as hospitals or countries?",
        ),
        _item(
            TRIPOD,
            "12e",
            "Performance measures",
            [words.measures(summary), words.about_intervals(summary)],
            "Why these measures? Which others matter, such as calibration or clinical utility?",
        ),
        _item(
            TRIPOD,
            "21",
            "Numbers in each analysis",
            [*material.numbers, material.folds],
            "How many people are behind the clusters, and how many records went into tuning?",
        ),
        _item(
            TRIPOD,
            "23a",
            "Performance with intervals, also in key subgroups",
            words.results(summary),
            subgroups,
            material.subgroups,
        ),
        _item(
            TRIPOD,
            "23b",
            "Heterogeneity across clusters: results",
            material.spread,
            "What may explain the differences between clusters?"
            if material.has_spread
            else "How different are clusters?",
        ),
        _item(
            TRIPOD,
            "26",
            "Limitations",
            words.limitations(summary),
            "What else limits the study: who is missing from the sample, overfitting, missing data?",
        ),
    ]


def _reforms(material: _Material) -> list[ChecklistItem]:
    summary = material.summary
    tests = "Are the records of different clusters independent, as this test supposes? Which other tests were used?"
    return [
        _item(
            REFORMS,
            "3e",
            "Number of samples, and of individuals behind them",
            material.numbers,
            "How many different individuals are there, as far as is known?",
        ),
        _item(
            REFORMS,
            "6b",
            "Dependencies or duplicates between training and test data",
            [material.held_out, *material.correction, summary.verdict],
            "Which other dependencies are there, such as families, sites, devices or time? Were duplicates removed?",
        ),
        _item(
            REFORMS,
            "7b",
            "Uncertainty, and how it was computed",
            [summary.scope],
            "",
        ),
        *(
            [_item(REFORMS, "7c", "Statistical tests and what they suppose", material.test, tests)]
            if material.test
            else []
        ),
        _item(
            REFORMS,
            "8a",
            "Evidence of external validity",
            [
                "The audit is an internal validation. "
                f"Its intervals are about {summary.estimand}, and it has seen no records from anywhere else."
            ],
            "Was the model tried on data of another place, time or population, and with what result?",
        ),
        _item(
            REFORMS,
            "8b",
            "Where the findings are not expected to hold",
            material.spread[:1] if material.has_spread else (),
            "For which people, places and times do you not expect these results?",
        ),
    ]


def _guild(material: _Material) -> list[ChecklistItem]:
    summary = material.summary
    worse = "Whose identifiers are worse, such as those of people who move, and are these groups among the results?"
    rate = [summary.from_records, summary.assumption]
    report = "Where can readers find how the linkage was done, and how good it is?"
    return [
        _item(
            GUILD,
            "Data provision",
            "Where the records come from",
            (),
            "Which population is in the data, how were records and identifiers collected, and who is left out?",
        ),
        _item(
            GUILD,
            "Data linkage",
            "How records were linked, and with how many errors",
            [material.correction[0], *dict.fromkeys(rate)],
            f"Which identifiers were compared, by which rules, and what is known of missed and false links?"
            f"{material.looked_up}",
        ),
        _item(
            GUILD,
            "Analysis",
            "How linkage errors were taken into account",
            [*material.correction[1:], *material.leakage_by_subgroup],
            worse,
        ),
        _item(GUILD, "Report", "What linkage errors do to the results", [summary.verdict], report),
    ]


def _item(
    guideline: str, number: str, title: str, says: Iterable[str], you_must_say: str, rows: Iterable[str] = ()
) -> ChecklistItem:
    return ChecklistItem(guideline, number, title, tuple(filter(None, says)), you_must_say, tuple(rows))


def _reason(error: InputError) -> str:
    return str(error).replace("spread()", "it", 1)


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
