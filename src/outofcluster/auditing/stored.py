"""An audit in a file: the samples of every metric as arrays, and the choices as plain data. Nothing is pickled."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from outofcluster import curves
from outofcluster._base.archive import read_archive, starting_with, write_archive
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import plain
from outofcluster._base.validation import short
from outofcluster.auditing.account import TableAccount
from outofcluster.curves.base import Curve
from outofcluster.inference.pooled import Pooled
from outofcluster.leakage.rate import Leakage
from outofcluster.sampling.audit_samples import AuditSamples

__all__ = ["plain_curve", "read_audits", "write_audits"]

_KIND, _FORMAT = "an audit", 2


def write_audits(path: str | os.PathLike[str], audits: Sequence[tuple[AuditSamples, Mapping[str, Any]]]) -> None:
    """Write samples and choices, one pair per metric, complete or not at all.

    Parameters
    ----------
    path : path
        The file.
    audits : sequence of (AuditSamples, dict)
        The samples of each metric, and the arguments of `Audit` besides them; a curve in the form of `plain_curve`.
    """
    about, arrays = dict[str, Any](), dict[str, Any]()
    for place, (samples, choices) in enumerate(audits):
        facts, own = samples.to_arrays()
        # The parameters of a curve stay as they are: one of them may be infinite, which plain data cannot hold.
        kept = {name: value if name == "curve" else plain(value) for name, value in choices.items()}
        about[str(place)] = {"samples": facts, "choices": kept}
        arrays |= {f"metric{place}_{name}": array for name, array in own.items()}
    write_archive(path, _KIND, _FORMAT, about, arrays)


def read_audits(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The arguments of every `Audit` in a file, the first metric first.

    Parameters
    ----------
    path : path
        A file of `write_audits`.

    Returns
    -------
    list of dict
    """
    about, arrays = read_archive(path, _KIND, _FORMAT)
    audits = []
    for place in range(len(about)):
        choices = dict(about[str(place)]["choices"])
        samples = AuditSamples.from_arrays(about[str(place)]["samples"], starting_with(arrays, f"metric{place}_"))
        leakage, by_data, table = (choices.pop(name, None) for name in ("leakage", "data_leakage", "table"))
        curve = choices.pop("curve")
        audits.append(
            {
                "pooled": Pooled(samples, choices.pop("units"), choices.pop("validation_leakage", 0.0)),
                "leakage": None if leakage is None else tuple(Leakage(**leak) for leak in leakage),
                "curve_method": getattr(curves, curve["name"])(**curve["params"]),
                "confidence_level": choices["confidence_level"],
                "mute": tuple(choices["mute"]),
                "error_model_reason": choices["error_model_reason"],
                "units_asked": choices["units_asked"],
                "data_leakage": None if by_data is None else Leakage(**by_data),
                "table": None if table is None else TableAccount.from_dict(table),
            }
        )
    return audits


def plain_curve(curve: Curve) -> dict[str, Any]:
    """A curve method as its name and its parameters; refuses one that cannot be made from these.

    Parameters
    ----------
    curve : Curve
        The method.

    Returns
    -------
    dict
    """
    params = curve.get_params()
    simple = all(value is None or isinstance(value, bool | int | float | str) for value in params.values())
    if not simple or not hasattr(curves, type(curve).__name__):
        raise InputError(
            f"curve must have numbers as parameters for the audit to be saved, got {short(curve)}; "
            "save with_curve(…) of another one."
        )
    return {"name": type(curve).__name__, "params": params}
