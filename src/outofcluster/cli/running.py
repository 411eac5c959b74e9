"""How a command runs: where its fits are, where finished work is kept, and how the files that it writes end up whole.

What was fitted is kept, so that the same command goes on after it was stopped.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from outofcluster._base.exceptions import CheckpointError, CheckpointWarning, InputError, MissingExtraError
from outofcluster._base.files import check_destination, release_lock, same_file, shown_path, take_lock
from outofcluster._base.text import percentage
from outofcluster._base.threads import one_thread
from outofcluster.auditing.price import Listener, before_fits
from outofcluster.cli.options import Problem
from outofcluster.cli.printing import complain, console, write_output

# What is said of files that were written.
# The probability below which the file of suspects ends.
LEAST_SUSPICION = 0.1
_ANNOUNCEMENTS = {
    "--report": "The report is in {}.",
    "--suspects": "The suspects are in {}, the likeliest first, down to a probability of "
    f"{percentage(LEAST_SUSPICION)}.",
    "--review-list": "The clusters to look up are in {}. Write into its column same_as which other clusters are the "
    "same entity, or none. Then audit again with --reviewed and this file.",
    "--methods": "The paragraphs for a paper are in {}.",
    "--checklist": "The checklist is in {}; what only you can say is marked.",
    "--plot": "The picture is in {}.",
    "--save": "The audit is in {}. 'outofcluster show' asks it again, without a fit.",
    "--estimates": "The estimates are in {}.",
    "--samples": "The losses of all fits are in {}.",
}


@contextmanager
def fitting(problem: Problem, listener: Listener) -> Iterator[None]:
    """Fit where the user says, with one thread for each small model, and without the warnings of anybody else.

    The listener is called when the checks are done and the fits begin, and what it gives once their time is known.
    """
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", CheckpointWarning)
        warnings.showwarning = lambda message, *_, **__: complain(str(message))
        with _on_backend(*problem.backend), before_fits(listener):
            yield


def _connect(kind: str, address: str) -> Callable[[], Any]:
    """Join a cluster that runs; what is returned leaves it."""
    if kind == "dask":
        return import_module("distributed").Client(f"tcp://{address}", timeout="10s").close  # type: ignore[no-any-return]
    import_module("ray.util.joblib").register_ray()
    ray = import_module("ray")
    ray.init(address if address == "auto" else f"ray://{address}", log_to_driver=False)
    return ray.shutdown  # type: ignore[no-any-return]


@contextmanager
def _on_backend(kind: str, address: str) -> Iterator[None]:
    """Fit on a cluster that runs already, and leave it as it was."""
    if kind == "local":
        yield
        return
    from joblib import parallel_config

    try:
        leave = _connect(kind, address)
    except ImportError:
        raise MissingExtraError(f"--backend {kind}:// needs {kind}: pip install 'outofcluster[{kind}]'.") from None
    except Exception as error:
        answer = f"{kind}://{address} does not answer: {' '.join(str(error).split())[:200]}"
        raise InputError(f"--backend must be a cluster that runs, but {answer}") from None
    try:
        with parallel_config(kind, n_jobs=-1):
            yield
    finally:
        leave()


class FinishedWork:
    """What a command has fitted: where the user says, or in a cache until the command is done."""

    def __init__(self, path: str | None, folder: Path | None = None) -> None:
        self._path, self._folder = path, folder

    @classmethod
    def of(cls, checkpoint: str | None, problem: Problem, file: str, options: dict[str, Any]) -> FinishedWork:
        """The work that the same command finds again, whose records and options are the same.

        Where the fits run does not change them, so another backend goes on from what one has done, and the level of
        confidence needs no fits.
        """
        if checkpoint is not None:
            return cls(checkpoint)
        from outofcluster._base.version import __version__

        same = {name: value for name, value in options.items() if name not in ("backend", "confidence_level")}
        identity = repr([__version__, problem.records.about["sha256"], file, same])
        name = hashlib.sha256(identity.encode(errors="replace")).hexdigest()[:24]
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        folder = Path(cache) / "outofcluster" / "audits" / name
        try:
            if not os.path.isabs(cache):
                raise FileNotFoundError(2, "there is no home")
            folder.parent.mkdir(parents=True, exist_ok=True)
            lock = take_lock(folder.with_suffix(".lock"))
            if lock is None:
                complain("The same command is running already, so this one keeps no finished work.")
                return cls(None)
            folder.mkdir(exist_ok=True)
        except OSError as error:
            complain(f"Finished work cannot be kept in {str(folder.parent)!r}: {error.strerror or error}.")
            return cls(None)
        click.get_current_context().call_on_close(lambda: release_lock(lock))
        return cls(str(folder / "fits"), folder)

    def run(self, audit: Callable[[str | None], Any]) -> Any:
        """What an audit gives; a cache that it cannot go on from, because of damage or other versions, is emptied.

        Where it is stopped, the command ends with a sentence that says what is kept.
        """
        try:
            try:
                return audit(self._path)
            except CheckpointError:
                if self._folder is None:
                    raise
                for file in self._folder.iterdir():
                    file.unlink(missing_ok=True)
                return audit(self._path)
        except KeyboardInterrupt:
            kept = "What was fitted is kept, and the same command goes on from there."
            words = f". {kept}" if self._exists else " before anything was fitted. The same command starts again."
            console(error=True).print(f"\nStopped{words}")
            sys.exit(130)
        finally:
            if not self._exists:
                self.drop()

    @property
    def _exists(self) -> bool:
        start = Path(self._path or "")
        names = [file.name for file in start.parent.glob("*") if file.name.startswith(f"{start.name}.")]
        return self._path is not None and any(".baselines" in name or ".fold" in name for name in names)

    def drop(self) -> None:
        """Remove the cache once it is no longer needed."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def check_files(outputs: dict[str, str | None], inputs: dict[str, str | None], checkpoint: str | None = None) -> None:
    """Refuse outputs that cannot be written, or that would replace the records, each other, or finished work."""
    # What has no name, or is standard input or output, is no file that anything could replace.
    files = {name: path for name, path in inputs.items() if path is not None and path != "-"}
    for name, path in outputs.items():
        if path is None or path == "-":
            continue
        check_destination(name, path)
        if other := next((other for other, place in files.items() if same_file(path, place)), None):
            raise InputError(f"{name} must be another file than {other}, got {shown_path(path)} for both.")
        files[name] = path
    start = f"{os.path.realpath(checkpoint or '')}."
    for name, path in files.items() if checkpoint is not None else ():
        suffix = os.path.realpath(path).removeprefix(start)
        if suffix != os.path.realpath(path) and suffix.startswith(("baselines", "fold", "lock", "threshold")):
            raise InputError(f"{name} must be another file than those of --checkpoint, got {path!r}.")


def command_line() -> str:
    """The command as it was given."""
    return shlex.join(["outofcluster", *sys.argv[1:]])


def conclude(
    out: Any,
    work: FinishedWork,
    outputs: dict[str, str | None],
    contents: dict[str, Callable[[], str | bytes]],
    show: Callable[[], None],
    status: int,
    failures: Sequence[str] = (),
) -> NoReturn:
    """Write what was asked for, show the answer, and leave.

    Whatever was asked for is in its file before anything is shown. Where that fails, or something failed before, the
    work is kept, so that the same command can write it without another fit.
    """
    failures, written = list(failures), list[str]()
    for option, path in outputs.items():
        try:
            if path is not None:
                write_output(option, path, contents[option]())
                written.append(option)
        except (InputError, MissingExtraError) as error:
            failures.append(str(error))
        except OSError as error:
            failures.append(f"{option} could not be written to {path!r}: {error.strerror or error}.")
    show()
    if announced := [_ANNOUNCEMENTS[option].format(outputs[option]) for option in written if option in _ANNOUNCEMENTS]:
        out.print("\n" + "\n".join(announced))
    for sentence in failures:
        complain(sentence)
    if failures:
        sys.exit(3)
    work.drop()
    sys.exit(status)
