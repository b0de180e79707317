"""Scalars in TensorBoard's event files, read by the package tensorboard (extra), without TensorFlow."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Iterator
from pathlib import Path

from snapdyn.errors import InputError, shown

# Quantity, and as many indices as it has: class, token.
TAG = re.compile(r"(?:(loss)|(entropy)/(\d{1,7})|(attention)/(\d{1,7})/(\d{1,7}))", re.ASCII)


def scalars(path: Path) -> Iterator[tuple[str, int, float, tuple[int, ...], float]]:
    """Quantity, seed (0), step, indices and value of each scalar with a tag of a trace; other tags are left aside.

    Parameters
    ----------
    path : Path
        An event file, as `SummaryWriter` of PyTorch or TensorBoard writes it: values are of single precision.

    Yields
    ------
    tuple
        In the order of the file.

    Raises
    ------
    InputError
        The package is not installed, the file is damaged, or a value is not finite.
    """
    if importlib.util.find_spec("tensorboard") is None:
        raise InputError(
            f"expected the package tensorboard for the event file {path.name!r}, received an installation without it; "
            "pip install 'snapdyn[tensorboard]'"
        )
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    try:
        for event in EventFileLoader(str(path)).Load():
            for summary in event.summary.value:
                tag = TAG.fullmatch(summary.tag)
                if tag is None:
                    continue
                value = float(make_ndarray(summary.tensor))
                if not math.isfinite(value):
                    raise InputError(
                        f"expected finite values of {summary.tag} in {path.name}, received {value} at step "
                        f"{event.step}; end the trace before it"
                    )
                name, *indices = (each for each in tag.groups() if each is not None)
                yield name, 0, float(event.step), tuple(map(int, indices)), value
    except InputError:
        raise
    except Exception as error:  # tensorboard and protobuf raise errors of many kinds for damaged files
        raise InputError(
            f"expected an event file of TensorBoard with scalars, received {str(path)!r}, which is damaged or holds "
            f"other values under these tags ({type(error).__name__}: {shown(str(error))}); write add_scalar(tag, ...)"
        ) from error
