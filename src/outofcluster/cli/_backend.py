"""Where the fits of a command run: on this machine, or on a cluster of Dask's or Ray's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from outofcluster._base.exceptions import InputError, MissingExtraError

backend_option = click.option(
    "--backend",
    default="local",
    metavar="WHERE",
    help="local, dask://HOST:PORT or ray://HOST:PORT.  [local]",
)


def check_backend(backend: str) -> tuple[str, str]:
    """The kind of backend and its address; refuses what is neither of the three."""
    kind, separator, address = backend.partition("://")
    if backend == "local" or (kind in ("dask", "ray") and separator and address):
        return kind, address
    raise InputError(f"--backend must be local, dask://HOST:PORT or ray://HOST:PORT, got {backend!r}.")


@contextmanager
def on_backend(backend: str) -> Iterator[None]:
    """Fit on a cluster that runs already, and leave it as it was."""
    kind, address = check_backend(backend)
    if kind == "local":
        yield
        return
    from joblib import parallel_config

    try:
        engine: Any = import_module("distributed" if kind == "dask" else "ray")
        if kind == "ray":
            import_module("ray.util.joblib").register_ray()
    except ImportError:
        raise MissingExtraError(f"--backend {kind}:// needs {kind}: pip install 'outofcluster[{kind}]'.") from None
    try:
        if kind == "dask":
            client = engine.Client(f"tcp://{address}", timeout="10s")
        else:
            engine.init(address if address == "auto" else f"ray://{address}", log_to_driver=False)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"--backend must be a cluster that runs, but {backend} does not answer: {reason}") from None
    try:
        with parallel_config(kind, n_jobs=-1):
            yield
    finally:
        if kind == "dask":
            client.close()
        else:
            engine.shutdown()
