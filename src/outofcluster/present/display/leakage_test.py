"""The losses behind the test for a cluster effect: one mark per model, by what the model was trained on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster.present.display._axes import BLUE, GREY, INK, ORANGE, axes, frame, head, tidy
from outofcluster.present.words import loss_name

_KINDS = ("other clusters", "the same clusters")


@dataclass(eq=False)
class LeakageTestDisplay:
    """Losses on held-out records of models trained on other clusters, and of models trained on the same clusters.

    Attributes
    ----------
    losses_train, losses_validation : array
        Mean loss, or metric in its own sign, of every model on clusters that it was not trained on, and on clusters
        that it was trained on.
    rejected : bool
        Whether a cluster effect was found.
    pvalue : float
        The one-sided p-value.
    loss : str
        Name of the loss or metric.
    ax_, figure_
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.present.display import LeakageTestDisplay
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> test = ooc.leakage_test(Ridge(), X, X[:, 0], groups=np.repeat(np.arange(20), 10), random_state=0)
    >>> LeakageTestDisplay.from_test(test).frame()["trained_on"].unique().tolist()
    ['other clusters', 'the same clusters']
    """

    losses_train: Array
    losses_validation: Array
    rejected: bool
    pvalue: float
    loss: str
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_test(cls, test: Any) -> Self:
        """The display of a `LeakageTest`.

        Parameters
        ----------
        test : LeakageTest
            What to show.

        Returns
        -------
        LeakageTestDisplay
        """
        sign = -1.0 if test.greater_is_better else 1.0
        losses = (sign * np.ravel(test.losses_train), sign * np.ravel(test.losses_validation))
        return cls(*losses, rejected=test.rejected, pvalue=test.pvalue, loss=test.loss)

    def frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per model, with the columns trained_on and loss.
        """
        kinds = np.repeat(_KINDS, [len(self.losses_train), len(self.losses_validation)])
        return frame({"trained_on": kinds, "loss": np.concatenate([self.losses_train, self.losses_validation])})

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        LeakageTestDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        ax = axes(ax, size=(6.6, 2.8))
        tidy(ax, grid="x")
        both = (self.losses_train, self.losses_validation)
        for y, (losses, colour) in enumerate(zip(both, (GREY, BLUE), strict=True)):
            # Marks are spread over a band, since many models have the same loss.
            spread = y + 0.16 * np.linspace(-1, 1, len(losses))
            ax.plot(losses, spread, "o", color=colour, markersize=5, alpha=0.6, label="" if y else "one model")
            ax.plot(
                [losses.mean()] * 2,
                [y - 0.3, y + 0.3],
                color=ORANGE,
                linewidth=2.5,
                label="" if y else "mean of the models",
            )
        names = [f"trained on {kind}\n(mean {losses.mean():.4g})" for kind, losses in zip(_KINDS, both, strict=True)]
        ax.set_yticks((0, 1), names)
        ax.set_ylim(1.5, -0.5)
        ax.set_xlabel(f"{loss_name(self.loss)} on held-out records", color=INK, parse_math=False)
        effect = "A cluster effect was found" if self.rejected else "No cluster effect was found"
        head(ax, f"{effect} (p = {self.pvalue:.2g})", ("one model", "mean"))
        self.ax_, self.figure_ = ax, ax.figure
        return self
