"""A copy of this checkout's files, which mutations are made in: the checkout itself is never written to."""

import contextlib
import fcntl
import filecmp
import os
import shutil
from collections.abc import Iterator

from mutate.operators import Mutation

# Settings of this checkout that git does not know (.bazelrc).
SETTINGS = (".bazelrc.local", ".bazelrc.user")
# Bazel's links to its outputs.
OUTPUTS = "build"


class Busy(Exception):
    """Another run has the folder."""


class Copy:
    """`listed` files of `root`, in `folder`. Threads: one. Another run at the same time gets `Busy`."""

    def __init__(self, root: str, listed: list[str], folder: str):
        self.folder = folder
        self._root = root
        os.makedirs(folder, exist_ok=True)
        # Held until this process ends, however it does.
        self._lock = open(folder + ".lock", "w", encoding="utf-8")  # pylint: disable=consider-using-with
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy(f"another tools/dev mutate works in {folder}: wait for it, or end it") from None
        self._update(listed)

    def close(self) -> None:
        self._lock.close()

    @contextlib.contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        """While this is open, the copy has the mutation."""
        path = os.path.join(self.folder, mutation.path)
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
        try:
            _write(path, mutation.apply(text))
            yield
        finally:
            _write(path, text)

    def _update(self, listed: list[str]) -> None:
        """Makes the copy what the checkout is, whatever an earlier run has left; what is equal keeps its time."""
        wanted = {path for path in (*listed, *SETTINGS) if os.path.isfile(os.path.join(self._root, path))}
        for folder, folders, names in os.walk(self.folder):
            if folder == self.folder:
                folders[:] = [name for name in folders if name != OUTPUTS]
            for name in names:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.folder) not in wanted:
                    os.remove(path)
        for path in wanted:
            here, there = os.path.join(self._root, path), os.path.join(self.folder, path)
            if os.path.isfile(there) and filecmp.cmp(here, there, shallow=False):
                shutil.copymode(here, there)
                continue
            os.makedirs(os.path.dirname(there), exist_ok=True)
            shutil.copy2(here, there)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
