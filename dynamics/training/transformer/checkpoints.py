"""Checkpoints of a transformer in training: all that the rest of the run depends on."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snapdyn.dynamics.storage import replacing
from snapdyn.dynamics.training.transformer.model import Parameters, Tensor, torch_module
from snapdyn.errors import InputError

FORMAT = "snapdyn transformer checkpoint 1"
DIGEST_SIZE = 32  # of the SHA-256 before what torch saves: torch itself does not notice altered bytes

# What torch.load raises on files that are no checkpoints or cut short, and what reading one's content may.
_UNREADABLE = (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError, EOFError, pickle.PickleError)


@dataclass
class Progressed:
    """How far a run has come: parameters after `iteration` updates, and what was recorded until then.

    `attention` (the map shown), `entropy`, `loss` and `change` have an entry per record; `previous` is the attention
    on all validation windows at the last one.
    """

    parameters: Parameters
    iteration: int = 0
    attention: list[Tensor] = field(default_factory=list)
    entropy: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    change: list[float] = field(default_factory=list)
    previous: Tensor | None = None


def save_checkpoint(path: str | os.PathLike[str], run: Mapping[str, Any], progressed: Progressed) -> None:
    """Write how far the run described by `run` has come, after a digest of it."""
    parameters = {name: value.detach().cpu() for name, value in progressed.parameters.items()}
    content = {"format": FORMAT, "run": json.dumps(dict(run)), **vars(progressed), "parameters": parameters}
    buffer = io.BytesIO()
    torch_module().save(content, buffer)
    with replacing(path) as temporary:
        temporary.write_bytes(hashlib.sha256(buffer.getbuffer()).digest() + buffer.getbuffer())


def load_checkpoint(path: str | os.PathLike[str], run: Mapping[str, Any], device: Any) -> Progressed | None:
    """Read how far the run described by `run` has come, None when there is no such file.

    Raises
    ------
    InputError
        The file cannot be read, is damaged or no checkpoint, or belongs to a run with other settings or text.
    """
    if not Path(path).exists():
        return None
    try:
        stored = Path(path).read_bytes()
        if hashlib.sha256(stored[DIGEST_SIZE:]).digest() != stored[:DIGEST_SIZE]:
            raise ValueError("damaged")
        content = torch_module().load(io.BytesIO(stored[DIGEST_SIZE:]), map_location="cpu", weights_only=True)
        if content.pop("format") != FORMAT:
            raise ValueError("of another format")
        found = json.loads(content.pop("run"))
        progressed = Progressed(**content)
        progressed.parameters = {
            name: value.to(device).requires_grad_() for name, value in progressed.parameters.items()
        }
    except _UNREADABLE as error:
        raise InputError(
            f"expected a checkpoint of a transformer's training, received {str(path)!r}, which cannot be read "
            f"({type(error).__name__}); remove it to train from the start, or choose another path"
        ) from error
    expected = json.loads(json.dumps(dict(run)))
    other = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
    if other:
        name = other[0]
        raise InputError(
            f"expected a checkpoint of this run in {str(path)!r}, received one of a run with {name} = "
            f"{found.get(name)!r} where this one has {expected.get(name)!r}; choose another path"
        )
    return progressed
