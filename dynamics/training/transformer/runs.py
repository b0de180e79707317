"""Saved training runs of transformers on text, the data of Figures 7 and 10."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from snapdyn.core.errors import InputError, finite_array, positive, real_array, shown, shown_path, text, whole
from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.dynamics.files.netcdf import reading_netcdf, write_netcdf
from snapdyn.dynamics.files.storage import provenance

FORMAT = "snapdyn transformer run 2"
UNITS = {"entropy": "nats", "loss": "nats", "change": "share of attention"}  # what there is per iteration
HEADER = ("corpus", "num_layers", "learning_rate", "seed")


@dataclass(frozen=True, eq=False)
class TransformerRun:
    """Result of one training run of a transformer.

    Parameters
    ----------
    corpus : str
        Name of the data, such as "WikiText-2".
    num_layers : int
    learning_rate : float
    seed : int
    iteration : (N,) array of int
        Increasing SGD steps at which attention and loss were recorded.
    attention : (N, L, L) array
        Attention map of the lowest layer on one validation sequence: row query position, column key position; NaN
        where a position may not attend. Other rows sum to 1.
    entropy : (N,) array
        Mean attention entropy of the lowest layer over the validation text, nats.
    tokens : tuple of str
        Words of the validation sequence in `attention`, one per position.
    loss : (N,) array
        Mean cross entropy of the next word over the validation text, nats.
    change : (N,) array
        Total variation distance between the attention of a query and its attention at the previous record, mean over
        the validation text. NaN at the first record.
    shuffled : bool
        Whether the words of the text were permuted at random before training (control).
    settings : mapping
        All other settings of `train_transformer` that the numbers depend on; only runs with equal settings can be
        compared.

    Raises
    ------
    InputError
        Shapes that do not belong together, or values out of range.
    """

    corpus: str
    num_layers: int
    learning_rate: float
    seed: int
    iteration: Ints
    attention: Floats
    entropy: Floats
    tokens: tuple[str, ...]
    loss: Floats
    change: Floats
    shuffled: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def store(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        text("corpus, the name of the data,", self.corpus, at_least=1)
        store("num_layers", whole("num_layers", self.num_layers, 1))
        store("learning_rate", positive("learning_rate", self.learning_rate))
        store("seed", whole("seed", self.seed, 0))
        iteration = finite_array("iteration", self.iteration, ("N",), at_least=0, whole=True, increasing=True)
        store("iteration", iteration.astype(np.int64))
        for name in ("attention", *UNITS):
            store(name, real_array(name, getattr(self, name)))
        store("tokens", tuple(map(str, self.tokens)))
        count, length = self.iteration.size, len(self.tokens)
        for name, shape in ({"attention": (count, length, length)} | dict.fromkeys(UNITS, (count,))).items():
            if getattr(self, name).shape != shape:
                raise InputError(
                    f"expected {name} of shape {shape} for {count} iterations and {length} tokens, received shape "
                    f"{getattr(self, name).shape}"
                )
        attended = ~np.isnan(self.attention).all(axis=2)
        error = np.abs(np.nansum(self.attention, axis=2) - 1)[attended].max(initial=0.0)
        if error > 1e-4 or (self.attention < 0).any() or not np.isfinite(self.entropy).all():
            raise InputError(
                "expected rows of attention that are not negative and sum to 1, and finite entropies, received rows "
                f"off by {error:.1e}; give softmax weights, NaN where a position may not attend"
            )

        if not np.isfinite(self.loss).all() or not ((self.change[1:] >= 0) & (self.change[1:] <= 1 + 1e-4)).all():
            raise InputError(
                "expected finite losses, and changes of attention between 0 and 1 from the second record on, received "
                f"{shown(self.loss.tolist())} and {shown(self.change.tolist())}"
            )
        store("shuffled", bool(self.shuffled))
        store("settings", dict(self.settings))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the run, with its provenance, to a netCDF file that `load_transformer_run` reads.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        Path

        Raises
        ------
        InputError
            The file cannot be written.
        """
        import xarray

        dataset = xarray.Dataset(
            {
                "attention": (("iteration", "query", "key"), self.attention),
                **{name: ("iteration", getattr(self, name), {"units": units}) for name, units in UNITS.items()},
                "tokens": ("position", np.array(self.tokens, dtype=object)),
            },
            {"iteration": ("iteration", self.iteration, {"units": "SGD steps"})},
            {
                **{name: getattr(self, name) for name in HEADER},
                "shuffled": int(self.shuffled),
                "settings": json.dumps(self.settings),
                "provenance": str(provenance()),
            },
        )
        return write_netcdf(dataset, path, FORMAT)


def load_transformer_run(path: str | os.PathLike[str]) -> TransformerRun:
    """Read a run that `TransformerRun.save` wrote.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    TransformerRun

    Raises
    ------
    InputError
        The file is missing, damaged, without a digest, or not a transformer run.
    """
    advice = "train again or choose another file"
    with reading_netcdf(path, "transformer run", FORMAT, advice) as content:
        header, values = content.attributes, content.arrays
        fields: dict[str, Any] = {name: header[name] for name in (*HEADER, "shuffled")}
        fields |= {name: values[name] for name in ("iteration", "attention", "tokens", *UNITS)}
        return TransformerRun(**fields, settings=json.loads(header["settings"]))


def load_transformer_runs(folder: str | os.PathLike[str]) -> list[TransformerRun]:
    """Read every transformer run of a folder.

    Parameters
    ----------
    folder : str or path-like

    Returns
    -------
    list of TransformerRun
        One per .nc file, in the order of the file names.

    Raises
    ------
    InputError
        The folder has no .nc file, or one of them is not a whole transformer run.
    """
    paths = sorted(Path(folder).glob("*.nc"))
    if not paths:
        raise InputError(
            f"expected a folder of saved transformer runs (.nc), received {shown_path(folder)}, which has none"
        )
    return [load_transformer_run(path) for path in paths]
