"""What a table is asked before any model is fitted: ids, clusters of single records, and the target among the features.

A slip that cannot be meant is refused in one sentence with its remedy. One that may be meant is said aloud in the
account of the table, and is a finding of the audit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from outofcluster._base.exceptions import InputError
from outofcluster.cli._table import Records
from outofcluster.problem.account import TableAccount

REMEDIES = {
    "singleton-clusters": "Check that --groups is the column of the clusters, and not one of record numbers.",
    "id-like-feature": "Leave them out with --drop, unless they are meant.",
    "target-among-features": "Leave them out with --drop if they are not known before the target is.",
    "numbers-as-classes": "Use --task regression if they are amounts.",
}
"""What to do about findings of the table, in options."""


@dataclass(frozen=True)
class Guarded:
    """Records without the columns that look like ids, and what is left to say about them.

    Attributes
    ----------
    records : Records
        The records.
    account : TableAccount
        The account of their table.
    """

    records: Records
    account: TableAccount


def guard(
    records: Records, *, target: str, groups: str, keep: tuple[str, ...], own_model: bool, singles: bool = False
) -> Guarded:
    """Refuse what cannot be meant, leave ids out of the features, and give an account of the rest."""
    frame = records.frame
    for name in keep:
        if name not in frame.columns:
            raise InputError(f"--keep must be a feature, got {name!r}.")
    account = TableAccount.of(frame, records.target, records.groups, classes=records.classes)
    if account.n_single == account.n_records and not singles:
        raise InputError(
            f"--groups must be a column of clusters, got {groups!r} with another value in every record; is it a column "
            "of record numbers?"
        )
    copies = [name for name in account.copies if name not in keep]
    if copies:
        raise InputError(
            f"FILE must not have the target among the features, got {copies[0]!r}, which is {target!r} in other words; "
            f"leave it out with --drop {_quoted(copies[0])}, or say that it is meant with --keep {_quoted(copies[0])}."
        )
    ids = [name for name in (*account.ids, *account.like_groups) if name not in keep]
    if not ids or own_model:
        return Guarded(records, replace(account, copies=()))
    if len(ids) == frame.shape[1]:
        raise InputError(
            f"FILE must have features that are no ids, got {', '.join(map(repr, ids[:6]))} only; --keep takes one as a "
            "feature."
        )
    features = frame.drop(columns=ids)
    names = [str(name) for name in features.columns]
    about = records.about | {
        "features": ", ".join(names[:30]) + (f" and {len(names) - 30} more" if len(names) > 30 else ""),
        "left out": f"{', '.join(ids)} (they look like ids)" if len(ids) > 1 else f"{ids[0]} (it looks like an id)",
    }
    left = replace(
        account,
        features=tuple(names),
        n_features=len(names),
        gaps=tuple((name, count) for name, count in account.gaps if name not in ids),
        ids=tuple(name for name in account.ids if name not in ids),
        like_groups=tuple(name for name in account.like_groups if name not in ids),
        copies=(),
    )
    return Guarded(replace(records, frame=features, about=about), left)


def _quoted(name: str) -> str:
    return f"'{name}'" if any(c.isspace() for c in name) else name
