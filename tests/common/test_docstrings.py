"""Docstrings of public names by the checks of numpydoc that pyproject.toml lists under tool.numpydoc_validation."""

import dataclasses
import functools
import inspect
import tomllib
import warnings
from importlib import import_module
from pathlib import Path

import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import ERROR_MSGS, validate

import outofcluster as ooc

ROOT = Path(__file__).parents[2]
CHECKS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["numpydoc_validation"]["checks"])


def behind(attribute):
    """The function that an attribute of a class runs, or None if it is neither a method nor a property."""
    for kind, place in ((property, "fget"), (functools.cached_property, "func")):
        if isinstance(attribute, kind):
            return getattr(attribute, place)
    return getattr(attribute, "__func__", attribute if inspect.isfunction(attribute) else None)


def methods(cls):
    """The public methods and properties of a class that the package itself defines, by the class that defines them."""
    for base in cls.__mro__:
        if base.__module__.startswith("outofcluster"):
            for name, attribute in vars(base).items():
                if not name.startswith("_") and behind(attribute) is not None:
                    yield f"{base.__module__}.{base.__qualname__}.{name}"


def public_names():
    names = set()
    for name in ooc.__all__:
        public = getattr(ooc, name)
        if callable(public):
            names.add(f"outofcluster.{name}")
        if inspect.isclass(public):
            names.update(methods(public))
    for name in ooc.datasets.__all__:
        names.add(f"outofcluster.datasets.{name}")
    return sorted(names)


def loaded(name):
    """What a dotted name stands for: a class or function of a module, or a method of a class."""
    place, _, last = name.rpartition(".")
    try:
        return getattr(import_module(place), last)
    except ImportError:
        return getattr(loaded(place), last)


def shortfalls(name):
    """What numpydoc finds, as far as it is asked for, with allowances for what users read but do not call."""
    public = loaded(name)
    with warnings.catch_warnings():
        # numpydoc warns of sections that it does not know, which is the check GL06.
        warnings.simplefilter("ignore", UserWarning)
        short = {code: text for code, text in validate(name)["errors"] if code in CHECKS}
        documented = get_doc_object(public) if inspect.isclass(public) else {}
    if inspect.isfunction(public) and len(inspect.signature(public).parameters) < 2:
        # The summary of a method without parameters says what it returns.
        short.pop("RT01", None)
    if inspect.isclass(public) and issubclass(public, Exception):
        # Exceptions are caught, not made.
        short.pop("PR01", None)
    if dataclasses.is_dataclass(public) and not documented["Parameters"]:
        # Users read the fields of a result and never make one, so they are documented as attributes.
        attributes = {part.strip() for entry in documented["Attributes"] for part in entry.name.split(",")}
        fields = {field.name for field in dataclasses.fields(public) if not field.name.startswith("_")}
        short.pop("PR01", None)
        if fields - attributes:
            short["PR01"] = f"Attributes {sorted(fields - attributes)} not documented"
    return short


@pytest.mark.parametrize("name", public_names())
def test_docstrings_keep_the_checks(name):
    assert not shortfalls(name)


def test_the_listed_checks_exist():
    assert set(ERROR_MSGS) >= CHECKS
