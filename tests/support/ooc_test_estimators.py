"""Estimators that tests send to worker processes.

A worker imports an estimator's module by its name. Test modules are named `tests.sampling.…`, and any installed package
may bring a top-level `tests` of its own, so what workers import has a module with a name that nobody else uses.
"""

import os
import signal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB


class Counting(ClassifierMixin, BaseEstimator):
    """Counts its fits in this process, and fails at the one that it is told to."""

    fits = 0

    def __init__(self, fail_at=None):
        self.fail_at = fail_at

    def fit(self, X, y, sample_weight=None):
        Counting.fits += 1
        if self.fail_at is not None and Counting.fits >= self.fail_at:
            raise ArithmeticError("no luck")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


class FailsOnSome(Counting):
    """Fails on about one resample in thirty, in whichever process it is."""

    def fit(self, X, y, sample_weight=None):
        if X[0, 0] > 1.9:
            raise ArithmeticError("no luck")
        return super().fit(X, y)


class Interrupted(GaussianNB):
    """Stops the whole run, as Ctrl-C would, at its k-th fit in this process."""

    fits, at = 0, None

    def fit(self, X, y):
        Interrupted.fits += 1
        if Interrupted.fits == Interrupted.at:
            raise KeyboardInterrupt
        return super().fit(X, y)


class CountingRidge(Ridge):
    """A ridge regression that counts its fits in this process."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        CountingRidge.fits += 1
        return super().fit(X, y, sample_weight)


def threads_now():
    """The number of threads of every library that has some, for this thread."""
    import sklearn.utils._openmp_helpers  # noqa: F401  # loads OpenMP
    from threadpoolctl import threadpool_info

    return {library["filepath"]: library["num_threads"] for library in threadpool_info()}


class Threads(RegressorMixin, BaseEstimator):
    """Predicts how far the threads that it sees are from one, beside the target."""

    def fit(self, X, y):
        self.seen_ = max(threads_now().values())
        return self

    def predict(self, X):
        return X[:, 0] + (max(self.seen_, *threads_now().values()) - 1)


class Unreadable(Exception):
    """An error that another process cannot make again, since it takes two arguments and keeps one."""

    def __init__(self, one, two):
        super().__init__(f"{one}\nand {two}")


class Misbehaving(RegressorMixin, BaseEstimator):
    """A model that does one thing wrong, and counts its fits in this process."""

    fits = 0

    def __init__(self, how="fine"):
        self.how = how

    def fit(self, X, y, sample_weight=None):
        Misbehaving.fits += 1
        if self.how == "fit raises":
            raise RuntimeError("several\nlines\x1b[31m")
        if self.how == "unreadable":
            raise Unreadable("one", "two")
        if self.how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        if self.how == "raises":
            raise ZeroDivisionError("several\nlines")
        n = len(X)
        own = np.zeros(n)
        return {
            "nan": np.full(n, np.nan),
            "inf": np.full(n, np.inf),
            "one nan": np.where(np.arange(n) == 3, np.nan, 0.0),
            "none": np.full(n, None),
            "short": own[:-1],
            "masked": np.ma.masked_array(own, np.arange(n) == 3),
            "huge": np.full(n, 1e200),
            "strings": np.full(n, "0"),
            "half": np.full(n, 0.5),
            "unknown": np.full(n, 99),
        }.get(self.how, own)


class MisbehavingClassifier(ClassifierMixin, Misbehaving):
    """The same with probabilities."""

    def predict_proba(self, X):
        half = np.full((len(X), 2), 0.5)
        return {"negative": half * [-1, 3], "nan": half * np.nan}.get(self.how, half)


class Deadly(GaussianNB):
    """Ends the process that fits it, unless that is the given one or a file says that it was done before."""

    def __init__(self, spared=0, flag="", *, priors=None, var_smoothing=1e-9):
        super().__init__(priors=priors, var_smoothing=var_smoothing)
        self.spared = spared
        self.flag = flag

    def fit(self, X, y):
        if os.getpid() != self.spared and not os.path.exists(self.flag):
            if self.flag:
                with open(self.flag, "w"):
                    pass
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y)
