"""Sweeps that run at once on one folder share its cells: each claims the cells that it computes.

A claim is a symbolic link, which appears whole or not at all, to a file of the run that made it; the run renews that
file's time while it runs. A claim has expired when its run has ended: at once where that can be seen on this machine,
else EXPIRY seconds after the last renewal that this run has seen. The clocks of machines may differ by less than OLD: a
file that looks older than OLD counts as expired at once. Claims save work and decide nothing: the same cell computed
twice gives the same file.
"""

from __future__ import annotations

import os
import re
import threading
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from snapdyn.dynamics.processes import is_running, machine

# Seconds. Network file systems may show a file's time a minute late.
RENEWAL = 10.0
EXPIRY = 120.0
OLD = 3600.0
RUN = re.compile(r"\.run-([0-9a-f]{8})-(\d+)-[0-9a-f]{8}")
CLAIM = re.compile(r"\.([0-9a-f]{32})\.claim")

# Runs of this process, which may have the pid of an earlier one.
_running_here: set[str] = set()


class Claims:
    """Claims of this run on cells in a folder; `with` holds them.

    Parameters
    ----------
    folder : Path
        OUT/cells.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f".run-{machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._held: set[str] = set()
        self._seen: dict[str, tuple[float, float]] = {}
        self._stop = threading.Event()
        self._renewing = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Claims:
        self._remove_expired()
        _running_here.add(self._name)
        with suppress(OSError):
            (self._folder / self._name).touch()
        self._renewing.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        try:
            self._renewing.join()
            for key in list(self._held):
                self.release(key)
            self._remove_expired()
        finally:  # also after a second Ctrl-C: a later sweep of this process would wait for these cells
            _running_here.discard(self._name)
            with suppress(OSError):
                (self._folder / self._name).unlink()

    def take(self, key: str) -> bool:
        """Claim a cell; False if another run computes it. Where links cannot be made, every run computes all cells."""
        if key in self._held:
            return True
        for _ in range(2):
            # Kept first: an interruption after the link must not leave it behind.
            self._held.add(key)
            try:
                os.symlink(self._name, self._file(key))
            except FileExistsError:
                self._held.discard(key)
                if not self._has_expired(key):
                    return False
                with suppress(OSError):
                    self._file(key).unlink()
            except OSError:
                self._held.discard(key)
                return True
            else:
                return True
        return True

    def release(self, key: str) -> None:
        """Give up a claim, after the cell has been stored or has failed."""
        if key in self._held:
            with suppress(OSError):
                if os.readlink(self._file(key)) == self._name:  # not taken over after a long pause of this process
                    self._file(key).unlink()
            self._held.discard(key)

    def free(self, keys: Iterable[str], names: Iterable[str]) -> list[str]:
        """Those of `keys` that no other run computes; `names` is what the folder holds."""
        claimed = {match[1] for name in names if (match := CLAIM.fullmatch(name))}
        return [key for key in keys if key not in claimed or self._has_expired(key)]

    def _file(self, key: str) -> Path:
        return self._folder / f".{key}.claim"

    def _has_expired(self, key: str) -> bool:
        try:
            run = os.readlink(self._file(key))
        except OSError:  # released at this moment, or not made by a sweep
            return True
        return self._has_ended(run)

    def _has_ended(self, run: str) -> bool:
        match = RUN.fullmatch(run)
        if match is None:
            return True
        if run in _running_here:
            return False
        pid = int(match[2])
        if match[1] == machine() and (pid == os.getpid() or not is_running(pid)):
            return True
        try:
            renewed = (self._folder / run).lstat().st_mtime
        except OSError:
            return True
        last, since = self._seen.get(run, (None, 0.0))
        now = time.monotonic()
        if renewed != last:
            self._seen[run] = renewed, now
            return time.time() - renewed > OLD
        return now - since > EXPIRY

    def _renew(self) -> None:
        while not self._stop.wait(RENEWAL):
            with suppress(OSError):
                (self._folder / self._name).touch()

    def _remove_expired(self) -> None:
        """Remove what killed runs have left."""
        for name in os.listdir(self._folder):
            claim = CLAIM.fullmatch(name)
            if self._has_expired(claim[1]) if claim else RUN.fullmatch(name) and self._has_ended(name):
                with suppress(OSError):
                    (self._folder / name).unlink()
