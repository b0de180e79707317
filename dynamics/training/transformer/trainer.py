"""Training a transformer on text by SGD, with its attention looked at on the way: the runs of Figures 7 and 10."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.training.transformer.checkpoints import Progressed, load_checkpoint, save_checkpoint
from snapdyn.dynamics.training.transformer.model import (
    NORMALISATIONS,
    Tensor,
    forward,
    initial_parameters,
    loss,
    step,
    torch_module,
)
from snapdyn.dynamics.training.transformer.runs import TransformerRun
from snapdyn.dynamics.training.transformer.text import Paths, Progress, SplitText, name_of, split_text
from snapdyn.errors import InputError, flag, positive, unknown_name, whole, whole_array

VALIDATION_WINDOWS = 200  # at which attention is looked at, evenly spread over the validation text
# Streams of random numbers of a seed: parameters, batches, exchange of words.
_PARAMETERS, _BATCHES, _SHUFFLE = range(3)


@dataclass(frozen=True)
class Settings:
    """Settings of a run as `train_transformer` documents them, checked: what its numbers depend on besides the text."""

    num_layers: int
    learning_rate: float
    seed: int
    iterations: int
    record: tuple[int, ...]
    shuffle: bool
    embedding: int
    embedding_norm: float
    window: int
    batch_size: int
    normalise: str
    tied: bool
    residual: bool
    clip: float | None


def train_transformer(
    paths: Paths,
    *,
    learning_rate: float,
    num_layers: int = 1,
    seed: int = 0,
    iterations: int = 1500,
    record: Sequence[int] | None = None,
    validation: Paths | None = None,
    validation_share: float = 0.1,
    corpus: str | None = None,
    shuffle: bool = False,
    embedding: int = 200,
    embedding_norm: float = 3.0,
    window: int = 35,
    batch_size: int = 20,
    normalise: str = "l2",
    tied: bool = True,
    residual: bool | None = None,
    clip: float | None = 0.5,
    min_token_count: int = 5,
    max_vocab: int | None = None,
    tokens: str = "auto",
    headings: str = "drop",
    device: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 100,
    progress: Progress | None = None,
) -> TransformerRun:
    """Train the transformer of Eqs. (1)-(2), in its embedding parameterisation, to predict the next word of a text.

    One head per layer, no positions, the query masked from itself; plain SGD with one rate for all parameters. A batch
    is `batch_size` windows drawn at random; every position of a window but the first, which has nothing to attend to,
    is a query. Needs torch (``pip install 'snapdyn[text]'``).

    Parameters
    ----------
    paths : path or list of paths
        Text to read, as in `from_text`: word-level, lower-cased, `<unk>` for rare words.
    learning_rate : float
        Of all parameters, per iteration (a batch's mean gradient).
    num_layers : int
    seed : int
        Of the start, of the batches and of `shuffle`. On one machine's CPU a seed gives the same bits again.
    iterations : int
        SGD steps.
    record : sequence of ints, optional
        Iterations at which to look, increasing; i: after i steps. Default: the start, the end, and two between in
        equal distances (0, 500, 1000, 1500).
    validation : path or list of paths, optional
        Text to look at attention on; the vocabulary is that of all texts. Default: the last `validation_share` of the
        words of `paths`.
    validation_share : float
        Between 0 and 1.
    corpus : str, optional
        Name of the data in the result; default that of the first path.
    shuffle : bool
        Exchange all words at random first: the control, a text in which nothing tells the next word.
    embedding : int
        Width d of the embedding.
    embedding_norm : float
        Length of a row of U at the start, on average (its entries are normal, those of W_Q, W_K, W_V of variance 1/d).
    window : int
        Words of a window, as many positions as the maps of attention have.
    batch_size : int
        Windows of a batch.
    normalise : "l2", "layer" or "none"
        What is done to the attended sum: its 2-norm is made 1 (1), LayerNorm, or nothing.
    tied : bool
        Whether the decoder is U (2), or has weights of its own.
    residual : bool, optional
        Whether the query's vector is added (Sec. 7). Default: with more than one layer only; Eq. (1) has none.
    clip : float or None
        Gradients beyond this norm, all parameters together, are scaled down to it. None or infinity: never.
    min_token_count, max_vocab, tokens, headings
        As in `from_text`.
    device : str, optional
        "cpu", "cuda", "mps", ...; default an accelerator where torch sees one, else the CPU.
    checkpoint : path, optional
        File that holds how far the run is, replaced every `checkpoint_every` iterations and at the end. When it exists
        the run goes on from there, on the CPU to the same bits as without interruption.
    checkpoint_every : int
    progress : callable (done, total, label), optional

    Returns
    -------
    TransformerRun
        Attention of the lowest layer on the first of 200 validation windows; entropy and change of attention, and
        loss, over all of them.

    Raises
    ------
    InputError
        Torch is not installed or does not know the device; arguments outside their range; text as in `from_text`, or
        shorter than a window; a checkpoint that is damaged or of another run; training that diverges (at which
        iteration, and what to try).
    """
    settings = _checked_settings(
        num_layers=num_layers,
        learning_rate=learning_rate,
        seed=seed,
        iterations=iterations,
        record=record,
        shuffle=shuffle,
        embedding=embedding,
        embedding_norm=embedding_norm,
        window=window,
        batch_size=batch_size,
        normalise=normalise,
        tied=tied,
        residual=residual,
        clip=clip,
    )
    if not 0 < positive("validation_share", validation_share) < 1:
        raise InputError(f"expected validation_share between 0 and 1, received {validation_share!r}")
    min_token_count = whole("min_token_count", min_token_count, 1)
    max_vocab = None if max_vocab is None else whole("max_vocab", max_vocab, 3)
    checkpoint_every = whole("checkpoint_every", checkpoint_every, 1)
    if progress is not None and not callable(progress):
        raise InputError(f"expected progress to be a function (done, total, label), received {progress!r}")
    if corpus is not None and (not isinstance(corpus, str) or not corpus):
        raise InputError(f"expected corpus as the name of the data, received {corpus!r}")
    where = _device(device)
    text = split_text(
        paths,
        validation,
        validation_share,
        settings.window + 1,
        tokens,
        headings,
        min_token_count,
        max_vocab,
        (settings.seed, _SHUFFLE) if settings.shuffle else None,
        progress,
    )
    progressed = _trained(text, settings, where, checkpoint, checkpoint_every, progress)
    shown = text.validation.evenly(VALIDATION_WINDOWS)[0, : settings.window]
    return TransformerRun(
        corpus=corpus or name_of(paths),
        num_layers=settings.num_layers,
        learning_rate=settings.learning_rate,
        seed=settings.seed,
        iteration=np.array(settings.record),
        attention=np.array([_map_shown(attention) for attention in progressed.attention]),
        entropy=np.array(progressed.entropy),
        tokens=tuple(text.words[i] for i in shown),
        loss=np.array(progressed.loss),
        change=np.array(progressed.change),
        shuffled=settings.shuffle,
        settings={name: value for name, value in asdict(settings).items() if name not in _OWN_FIELDS}
        | {"vocabulary": len(text.words)},
    )


_OWN_FIELDS = ("num_layers", "learning_rate", "seed", "record", "shuffle")  # fields of the run itself


def _checked_settings(**given: Any) -> Settings:
    """Settings after a check of each."""
    for name, least in (("num_layers", 1), ("seed", 0), ("iterations", 1), ("embedding", 1), ("batch_size", 1)):
        given[name] = whole(name, given[name], least)
    given["window"] = whole("window", given["window"], 2)
    given["learning_rate"] = positive("learning_rate", given["learning_rate"])
    given["embedding_norm"] = positive("embedding_norm", given["embedding_norm"])
    given["clip"] = None if given["clip"] in (None, math.inf) else positive("clip", given["clip"])
    if given["normalise"] not in NORMALISATIONS:
        raise unknown_name("normalise", given["normalise"], NORMALISATIONS)
    if given["residual"] is None:
        given["residual"] = given["num_layers"] > 1
    for name in ("shuffle", "tied", "residual"):
        given[name] = flag(name, given[name])
    iterations = given["iterations"]
    if given["record"] is None:
        given["record"] = np.unique(np.round(np.linspace(0, iterations, 4)))
    record = whole_array("record", given["record"])
    if record.ndim != 1 or record.size == 0 or (np.diff(record) <= 0).any() or record[0] < 0 or record[-1] > iterations:
        raise InputError(
            f"expected record as increasing iterations from 0 to {iterations}, received {record.tolist()!r:.60}"
        )
    given["record"] = tuple(record.tolist())
    return Settings(**given)


def _device(name: str | None) -> Any:
    """Torch's device of that name, or the best one it sees."""
    torch = torch_module()
    if name is None:
        mps = getattr(torch.backends, "mps", None)
        name = "cuda" if torch.cuda.is_available() else "mps" if mps is not None and mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:  # torch has one per kind of device
        raise InputError(
            f"expected a device that torch can use here, received {name!r} ({str(error).splitlines()[0]}); leave "
            "device out, or give 'cpu'"
        ) from error
    return device


def _trained(
    text: SplitText,
    settings: Settings,
    device: Any,
    checkpoint: str | os.PathLike[str] | None,
    checkpoint_every: int,
    progress: Progress | None,
) -> Progressed:
    """Train from the start or the checkpoint to the end."""
    torch = torch_module()
    run = {**asdict(settings), "text": text.digest}
    progressed = None if checkpoint is None else load_checkpoint(checkpoint, run, device)
    if progressed is None:
        start = np.random.SeedSequence((settings.seed, _PARAMETERS)).generate_state(1)[0]
        progressed = Progressed(
            initial_parameters(
                len(text.words),
                settings.num_layers,
                settings.embedding,
                settings.embedding_norm,
                settings.tied,
                int(start),
                device,
            )
        )
    observe = _observer(text, settings, device)
    architecture = settings.num_layers, settings.normalise, settings.residual
    while True:
        i = progressed.iteration
        if i in settings.record and len(progressed.entropy) <= settings.record.index(i):
            observe(progressed)
        if checkpoint is not None and (i == settings.iterations or (i > 0 and i % checkpoint_every == 0)):
            save_checkpoint(checkpoint, run, progressed)
        if progress:
            progress(i, settings.iterations, f"training, iteration {i}")
        if i == settings.iterations:
            return progressed
        # Every batch has a stream of its own, so that a run can go on from any iteration.
        chosen = np.random.default_rng((settings.seed, _BATCHES, i)).integers(
            text.training.start.size, size=settings.batch_size
        )
        value = loss(progressed.parameters, torch.from_numpy(text.training[chosen]).to(device), *architecture)
        value.backward()
        step(progressed.parameters, settings.learning_rate, settings.clip)
        _require_finite(value.item(), i, settings)
        progressed.iteration = i + 1


def _observer(text: SplitText, settings: Settings, device: Any) -> Callable[[Progressed], None]:
    """Return what looks at a run on the validation windows and appends what it sees."""
    torch = torch_module()
    windows = torch.from_numpy(text.validation.evenly(VALIDATION_WINDOWS)).to(device).split(settings.batch_size)
    architecture = settings.num_layers, settings.normalise, settings.residual

    def observe(progressed: Progressed) -> None:
        parameters = progressed.parameters
        with torch.no_grad():
            losses = [loss(parameters, batch, *architecture).item() * len(batch) for batch in windows]
            maps = [forward(parameters, batch[:, :-1], *architecture)[1][:, 1:].cpu() for batch in windows]
        attention = torch.cat(maps)
        value = sum(losses) / sum(map(len, windows))
        _require_finite(value, progressed.iteration, settings)
        before = progressed.previous
        # Total variation: the share of attention that has gone elsewhere.
        moved = math.nan if before is None else (attention - before).abs().sum(2).mean().item() / 2
        progressed.loss.append(value)
        progressed.entropy.append(torch.special.entr(attention).sum(2).mean().item())
        progressed.change.append(moved)
        progressed.attention.append(attention[0].clone())
        progressed.previous = attention

    return observe


def _require_finite(value: float, iteration: int, settings: Settings) -> None:
    if not math.isfinite(value):
        raise InputError(
            f"expected a learning rate at which training stays finite, received {settings.learning_rate:g}, at which "
            f"the loss is {value} at iteration {iteration}; lower it, or set clip"
        )


def _map_shown(attention: Tensor) -> Floats:
    """Map (L, L) of the queries from the second position on, NaN where a position may not attend."""
    length = attention.shape[1]
    shown = np.full((length, length), np.nan)
    before = np.tri(length, k=-1, dtype=bool)
    shown[before] = attention.numpy().astype(float)[before[1:]]
    return shown
