"""The checks of an audit: every pitfall that the choices, the samples or the solution can show becomes a finding.

All of them follow from the samples and the choices, so that a result that was read from a file, or that was given
another rate or other units, has its own findings. What no data can show (leaked records may differ from the rest of
their clusters, a rate may be wrong) is mentioned with the estimate that depends on it.

The checks are those that the modules of this folder define. Findings of the same severity are printed in the order of
the modules below, and of the checks in each of them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence, Set
from typing import Any, get_args

from outofcluster._base.arguments import short
from outofcluster._base.exceptions import InputError
from outofcluster.auditing.checks import estimate, pieces, samples
from outofcluster.auditing.findings import Check, Context, Finding, Severity

CHECKS = tuple(
    each for module in (samples, estimate, pieces) for each in vars(module).values() if isinstance(each, Check)
)
# Every code, with what it stands for.
CODES = {each.code: each.look.__doc__ or "" for each in CHECKS}


def find(context: Context, mute: Container[str]) -> tuple[Finding, ...]:
    """What all checks find in an audit but for the muted codes, the most severe first."""
    findings = [finding for each in CHECKS if each.code not in mute for finding in each.findings(context)]
    return tuple(sorted(findings, key=lambda finding: get_args(Severity).index(finding.severity), reverse=True))


def read_mute(mute: Any) -> tuple[str, ...]:
    """Codes of findings to leave out."""
    known = f"mute must hold codes of findings ({', '.join(CODES)})"
    if not isinstance(mute, str | Sequence | Set):
        raise InputError(f"{known}, got {short(mute)}.")
    codes = (mute,) if isinstance(mute, str) else tuple(mute)
    unknown = [code for code in codes if not isinstance(code, str) or code not in CODES]
    if unknown:
        raise InputError(f"{known}, got {short(unknown[0])}.")
    return codes
