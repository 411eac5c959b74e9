"""Losses of the fits at every injected fraction: their means, and how much single fits vary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster.present.display._axes import BLUE, INK, axes, frame, head, percent_axis, tidy
from outofcluster.present.words import added, loss_name


@dataclass(eq=False)
class LossSamplesDisplay:
    """Losses by level, before any curve is fitted to them.

    Attributes
    ----------
    injected, losses, standard_errors : array
        Injected fractions, mean losses there, and the Monte-Carlo standard errors of these means.
    low, high : array
        At every level, 5 % of the fits have a loss below ``low``, and 5 % have one above ``high``.
    error_model, loss : str
        The error model, and the name of the loss.
    ax_, figure_
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.present.display import LossSamplesDisplay
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> pools = {"train": range(100), "validation": range(100, 200)}
    >>> samples = ooc.sample_losses(Ridge(), X, X[:, 0], **pools, n_fits=60, random_state=0)
    >>> LossSamplesDisplay.from_samples(samples).frame()["injected"].tolist() == samples.injected.tolist()
    True
    """

    injected: Array
    losses: Array
    standard_errors: Array
    low: Array
    high: Array
    error_model: str = "records"
    loss: str = "loss"
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_samples(cls, samples: Any) -> Self:
        """The display of `LossSamples`.

        Parameters
        ----------
        samples : LossSamples
            What to show.

        Returns
        -------
        LossSamplesDisplay
        """
        low, high = np.array([np.quantile(level, (0.05, 0.95)) for level in samples.losses]).T
        about = {name: samples.problem[name] for name in ("error_model", "loss") if name in samples.problem}
        return cls(samples.injected, samples.means, samples.standard_errors, low, high, **about)

    def frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per level, with the columns injected, loss, standard_error, low and high.
        """
        numbers = {"injected": self.injected, "loss": self.losses, "standard_error": self.standard_errors}
        return frame(numbers | {"low": self.low, "high": self.high})

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        LossSamplesDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        ax = axes(ax)
        tidy(ax)
        ax.vlines(
            self.injected, self.low, self.high, color=BLUE, alpha=0.25, linewidth=6, label="middle 90 % of the fits"
        )
        ax.errorbar(
            self.injected,
            self.losses,
            yerr=2 * self.standard_errors if np.isfinite(self.standard_errors).all() else None,
            fmt="o-",
            color=BLUE,
            linewidth=1,
            markersize=5,
            capsize=4,
            elinewidth=1.6,
            label="mean, with two standard errors",
        )
        percent_axis(ax.xaxis)
        ax.set_xlabel(f"share of {added(self.error_model)}", color=INK)
        ax.set_ylabel(loss_name(self.loss), color=INK, parse_math=False)
        head(ax, "Losses of the fits by leakage added", ("mean", "middle"))
        self.ax_, self.figure_ = ax, ax.figure
        return self
