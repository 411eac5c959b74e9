"""What models are called: "logistic regression" in the place of the line of code that made it."""

from __future__ import annotations

import re
from typing import Any

# Names that are not the words of the class; endings such as CV and Classifier may be left out.
_NAMES = {
    "LogisticRegression": "logistic regression",
    "Ridge": "ridge regression",
    "RidgeClassifier": "ridge classifier",
    "Lasso": "lasso",
    "ElasticNet": "elastic net",
    "LinearSVC": "linear support vector machine",
    "LinearSVR": "linear support vector regression",
    "SVC": "support vector machine",
    "SVR": "support vector regression",
    "SGDClassifier": "linear classifier by stochastic gradient descent",
    "SGDRegressor": "linear regression by stochastic gradient descent",
    "ExtraTrees": "extremely randomised trees",
    "HistGradientBoosting": "gradient boosting",
    "XGB": "gradient boosting (XGBoost)",
    "LGBM": "gradient boosting (LightGBM)",
    "CatBoost": "gradient boosting (CatBoost)",
    "MLP": "neural network",
    "GaussianNB": "naive Bayes",
    "BernoulliNB": "naive Bayes",
    "MultinomialNB": "naive Bayes",
    "GaussianProcess": "Gaussian process",
    "Dummy": "constant prediction",
    "VotingClassifier": "vote of several models",
    "VotingRegressor": "mean of several models",
    "Stacking": "stacked models",
}
_SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
_NEIGHBOURS = ("KNeighborsClassifier", "KNeighborsRegressor")
_DEFAULT_NEIGHBOURS = 5


def model_in_words(estimator: Any) -> str:
    """A model by its name.

    Examples
    --------
    >>> from outofcluster.problem.models import model_in_words
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> model_in_words(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)))
    'logistic regression'
    >>> model_in_words(KNeighborsClassifier(3))
    '3 nearest neighbours'
    """
    return estimator_in_words(" ".join(repr(estimator).split()))


def estimator_in_words(printed: str) -> str:
    """A model by its name, from the way in which scikit-learn prints it, as files of samples keep it.

    Examples
    --------
    >>> from outofcluster.problem.models import estimator_in_words
    >>> estimator_in_words("Pipeline(steps=[('scale', StandardScaler()), ('fit', MyOwnForest(depth=3))])")
    'my own forest'
    """
    name, bracket, inside = printed.partition("(")
    if not bracket or not re.fullmatch(r"[A-Za-z_]\w*", name):
        return printed
    if name == "Pipeline":
        steps = re.findall(r"\('[^']*', ?([A-Za-z_]\w*\(.*?)(?=, ?\('[^']*', ?[A-Za-z_]\w*\(|\]\)?,? ?\w*|$)", inside)
        return estimator_in_words(steps[-1]) if steps else "pipeline"
    if name in _SEARCHES:
        tuned = re.search(r"estimator=([A-Za-z_]\w*\(.*)", inside)
        return f"tuned {estimator_in_words(tuned.group(1))}" if tuned else "tuned model"
    if name in _NEIGHBOURS:
        number = re.search(r"n_neighbors=(\d+)", inside)
        count = int(number.group(1)) if number else _DEFAULT_NEIGHBOURS
        return "nearest neighbour" if count == 1 else f"{count} nearest neighbours"
    bare = name.removesuffix("CV")
    return _NAMES.get(bare) or _NAMES.get(re.sub("(Classifier|Regressor)$", "", bare)) or _split(name)


def _split(name: str) -> str:
    """The words of a name in capitals: MyOwnForest, or HTTPModel."""
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+", name.strip("_"))
    kept = [word if word.isupper() and len(word) > 1 else word.lower() for word in words]
    if len(kept) > 1 and kept[-1] in ("classifier", "regressor"):
        kept = kept[:-1]
    return " ".join(kept) or name
