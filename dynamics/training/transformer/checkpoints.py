"""Checkpoints of a transformer in training: everything that the rest of the run depends on."""

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
DIGEST_SIZE = 32  # bytes of the SHA-256 in front of the content: torch does not notice altered bytes

# What torch.load raises for damaged files and for files of other kinds, and what reading the content may raise.
_UNREADABLE = (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError, EOFError, pickle.PickleError)


@dataclass
class RunState:
    """State of a run: parameters after `iteration` updates, and the records until then.

    Attributes
    ----------
    parameters : dict of tensors
    iteration : int
    attention : list of tensors
        Attention on the first validation window, one map per record.
    entropy : list of float
        One value per record, as are `loss` and `change`.
    loss : list of float
    change : list of float
    previous : tensor or None
        Attention on all validation windows at the last record.
    """

    parameters: Parameters
    iteration: int = 0
    attention: list[Tensor] = field(default_factory=list)
    entropy: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    change: list[float] = field(default_factory=list)
    previous: Tensor | None = None


def save_checkpoint(path: str | os.PathLike[str], run: Mapping[str, Any], state: RunState) -> None:
    """Write the state of a run, with a digest in front.

    Parameters
    ----------
    path : str or path-like
    run : mapping
        Settings and digest of the text, which identify the run.
    state : RunState
    """
    parameters = {name: value.detach().cpu() for name, value in state.parameters.items()}
    content = {"format": FORMAT, "run": json.dumps(dict(run)), **vars(state), "parameters": parameters}
    buffer = io.BytesIO()
    torch_module().save(content, buffer)
    with replacing(path) as temporary:
        temporary.write_bytes(hashlib.sha256(buffer.getbuffer()).digest() + buffer.getbuffer())


def load_checkpoint(path: str | os.PathLike[str], run: Mapping[str, Any], device: Any) -> RunState | None:
    """Read the state of a run.

    Parameters
    ----------
    path : str or path-like
    run : mapping
        Settings and digest of the text, which must be those of the checkpoint.
    device : torch.device
        Where the parameters are placed.

    Returns
    -------
    RunState or None
        None when the file does not exist.

    Raises
    ------
    InputError
        The file cannot be read, is damaged, is not a checkpoint, or belongs to a run with other settings or text.
    """
    try:
        stored = Path(path).read_bytes()
        if hashlib.sha256(stored[DIGEST_SIZE:]).digest() != stored[:DIGEST_SIZE]:
            raise ValueError("damaged")
        content = torch_module().load(io.BytesIO(stored[DIGEST_SIZE:]), map_location="cpu", weights_only=True)
        if content.pop("format") != FORMAT:
            raise ValueError("of another format")
        stored_run = json.loads(content.pop("run"))
        state = RunState(**content)
        state.parameters = {name: value.to(device).requires_grad_() for name, value in state.parameters.items()}
    except FileNotFoundError:
        return None
    except _UNREADABLE as error:
        raise InputError(
            f"expected a checkpoint of a transformer's training, received {str(path)!r}, which cannot be read "
            f"({type(error).__name__}); remove it to train from the start, or choose another path"
        ) from error
    expected = json.loads(json.dumps(dict(run)))
    other = [name for name in {**expected, **stored_run} if expected.get(name) != stored_run.get(name)]
    if other:
        name = other[0]
        raise InputError(
            f"expected a checkpoint of this run in {str(path)!r}, received one of a run with {name} = "
            f"{stored_run.get(name)!r} where this one has {expected.get(name)!r}; choose another path"
        )
    return state
