"""Training of a transformer on text by SGD, with records of its attention: the runs of Figures 7 and 10."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.memory import require_memory
from snapdyn.dynamics.training.transformer.checkpoints import RunState, load_checkpoint, save_checkpoint
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
from snapdyn.errors import InputError, choice, flag, positive, shown, whole, whole_array

VALIDATION_WINDOWS = 200  # windows on which attention is recorded, evenly spread over the validation text
# A seed has three streams of random numbers: parameters, batches, permutation of the words.
_PARAMETERS, _BATCHES, _SHUFFLE = range(3)


@dataclass(frozen=True)
class Settings:
    """Checked settings of a run, as `train_transformer` documents them; with the text they determine its numbers."""

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

    One head per layer, no positional encoding, and no attention from the query to itself; plain SGD with one learning
    rate for all parameters. A batch is `batch_size` windows drawn at random. Every position of a window is a query,
    except the first, which has no position before it. Needs torch (``pip install 'snapdyn[text]'``).

    Parameters
    ----------
    paths : path or list of paths
        Text to read, as in `from_text`: words in lower case, `<unk>` for rare words.
    learning_rate : float
        Rate of all parameters, per iteration (mean gradient of a batch).
    num_layers : int
    seed : int
        Seed of the start, of the batches and of `shuffle`. On the CPU of one machine the same seed gives the same bits.
    iterations : int
        SGD steps.
    record : sequence of int, optional
        Increasing iterations at which attention and loss are recorded; i is the state after i steps. Default: four at
        equal distances from start to end (0, 500, 1000, 1500).
    validation : path or list of paths, optional
        Text on which attention is recorded; the vocabulary is that of all texts. Default: the last `validation_share`
        of the words of `paths`.
    validation_share : float
        Between 0 and 1.
    corpus : str, optional
        Name of the data in the result; default the name of the first path.
    shuffle : bool
        Permute all words before training (control): the next word becomes unpredictable.
    embedding : int
        Width d of the embedding.
    embedding_norm : float
        Mean length of a row of U at the start (its entries are normal; those of W_Q, W_K, W_V have variance 1/d).
    window : int
        Words of a window, which is the number of positions in a map of attention.
    batch_size : int
        Windows of a batch.
    normalise : {"l2", "layer", "none"}
        Normalisation of the attended sum: to 2-norm 1 (1), LayerNorm, or none.
    tied : bool
        Whether the decoder is U (2); otherwise it has separate weights.
    residual : bool, optional
        Whether the query's vector is added (Sec. 7). Default: only with more than one layer; Eq. (1) has no residual.
    clip : float or None
        Gradients whose norm, over all parameters together, is larger are scaled down to this norm. None or infinity:
        never.
    min_token_count : int
        As in `from_text`.
    max_vocab : int or None
        As in `from_text`.
    tokens : {"auto", "spaces", "words"}
        As in `from_text`.
    headings : {"drop", "keep"}
        As in `from_text`.
    device : str, optional
        "cpu", "cuda", "mps", ...; default an accelerator if torch finds one, otherwise the CPU.
    checkpoint : path, optional
        File for the state of the run, replaced every `checkpoint_every` iterations and at the end. If the file exists,
        the run continues from it; on the CPU the result has the same bits as without interruption.
    checkpoint_every : int
        Iterations between two checkpoints.
    progress : callable (done, total, label), optional
        Called after every iteration.

    Returns
    -------
    TransformerRun
        Attention of the lowest layer on the first of 200 validation windows; entropy, change of attention, and loss
        over all of them.

    Raises
    ------
    InputError
        Torch is not installed or does not know the device; an argument is out of range; the text is unusable, as in
        `from_text`, or shorter than a window; the checkpoint is damaged or belongs to another run; training diverges
        (the message says at which iteration, and what to try).
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
        raise InputError(f"expected validation_share between 0 and 1, received {shown(validation_share)}")
    min_token_count = whole("min_token_count", min_token_count, 1)
    max_vocab = None if max_vocab is None else whole("max_vocab", max_vocab, 3)
    checkpoint_every = whole("checkpoint_every", checkpoint_every, 1)
    if progress is not None and not callable(progress):
        raise InputError(f"expected progress to be a function (done, total, label), received {shown(progress)}")
    if corpus is not None and (not isinstance(corpus, str) or not corpus):
        raise InputError(f"expected corpus as the name of the data, received {shown(corpus)}")
    torch_device = _device(device)
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
    state = _trained(text, settings, torch_device, checkpoint, checkpoint_every, progress)
    example = text.validation.evenly(VALIDATION_WINDOWS)[0, : settings.window]
    return TransformerRun(
        corpus=corpus or name_of(paths),
        num_layers=settings.num_layers,
        learning_rate=settings.learning_rate,
        seed=settings.seed,
        iteration=np.array(settings.record),
        attention=np.array([_attention_map(attention) for attention in state.attention]),
        entropy=np.array(state.entropy),
        tokens=tuple(text.words[i] for i in example),
        loss=np.array(state.loss),
        change=np.array(state.change),
        shuffled=settings.shuffle,
        settings={name: value for name, value in asdict(settings).items() if name not in _RUN_FIELDS}
        | {"vocabulary": len(text.words)},
    )


# Settings that are fields of TransformerRun, and so are not in its `settings`.
_RUN_FIELDS = ("num_layers", "learning_rate", "seed", "record", "shuffle")


def _checked_settings(**given: Any) -> Settings:
    """Check every setting."""
    for name, least in (("num_layers", 1), ("seed", 0), ("iterations", 1), ("embedding", 1), ("batch_size", 1)):
        given[name] = whole(name, given[name], least)
    given["window"] = whole("window", given["window"], 2)
    layers, width, batch = given["num_layers"], given["embedding"], given["batch_size"] * given["window"]
    # Weights, gradients and both moments of Adam; activations and scores of a batch, kept for the gradient.
    size = 16.0 * layers * 3 * width**2 + 4.0 * layers * batch * (4 * width + given["window"])
    require_memory(
        f"a transformer of {layers} layers of {width} values on {batch} words at once",
        size,
        "a smaller embedding, batch or window",
    )
    given["learning_rate"] = positive("learning_rate", given["learning_rate"])
    given["embedding_norm"] = positive("embedding_norm", given["embedding_norm"])
    given["clip"] = None if given["clip"] in (None, math.inf) else positive("clip", given["clip"])
    choice("normalise", given["normalise"], NORMALISATIONS)
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
            f"expected record as increasing iterations from 0 to {iterations}, received {shown(record.tolist())}"
        )
    given["record"] = tuple(record.tolist())
    return Settings(**given)


def _device(name: str | None) -> Any:
    """Return torch's device of that name; None stands for an accelerator if torch finds one, otherwise the CPU."""
    torch = torch_module()
    if name is None:
        mps = getattr(torch.backends, "mps", None)
        name = "cuda" if torch.cuda.is_available() else "mps" if mps is not None and mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (
        RuntimeError,
        TypeError,
        AssertionError,
        NotImplementedError,
    ) as error:  # torch raises another one for each kind of device
        raise InputError(
            f"expected a device that torch can use here, received {shown(name)} ({str(error).splitlines()[0]}); leave "
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
) -> RunState:
    """Train to the end, from the checkpoint if there is one, otherwise from the start."""
    torch = torch_module()
    run = {**asdict(settings), "text": text.digest}
    state = None if checkpoint is None else load_checkpoint(checkpoint, run, device)
    if state is None:
        start = np.random.SeedSequence((settings.seed, _PARAMETERS)).generate_state(1)[0]
        state = RunState(
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
        i = state.iteration
        if i in settings.record and len(state.entropy) <= settings.record.index(i):
            observe(state)
        if checkpoint is not None and (i == settings.iterations or (i > 0 and i % checkpoint_every == 0)):
            save_checkpoint(checkpoint, run, state)
        if progress:
            progress(i, settings.iterations, f"training, iteration {i}")
        if i == settings.iterations:
            return state
        # Every batch has a separate stream of random numbers, so that a run can continue from any iteration.
        chosen = np.random.default_rng((settings.seed, _BATCHES, i)).integers(
            text.training.start.size, size=settings.batch_size
        )
        value = loss(state.parameters, torch.from_numpy(text.training[chosen]).to(device), *architecture)
        value.backward()
        step(state.parameters, settings.learning_rate, settings.clip)
        _require_finite(value.item(), i, settings)
        state.iteration = i + 1


def _observer(text: SplitText, settings: Settings, device: Any) -> Callable[[RunState], None]:
    """Return the function that records attention and loss on the validation windows."""
    torch = torch_module()
    windows = torch.from_numpy(text.validation.evenly(VALIDATION_WINDOWS)).to(device).split(settings.batch_size)
    architecture = settings.num_layers, settings.normalise, settings.residual

    def observe(state: RunState) -> None:
        parameters = state.parameters
        with torch.no_grad():
            losses = [loss(parameters, batch, *architecture).item() * len(batch) for batch in windows]
            maps = [forward(parameters, batch[:, :-1], *architecture)[1][:, 1:].cpu() for batch in windows]
        attention = torch.cat(maps)
        value = sum(losses) / sum(map(len, windows))
        _require_finite(value, state.iteration, settings)
        before = state.previous
        # Total variation distance: the share of attention that has moved to other positions.
        moved = math.nan if before is None else (attention - before).abs().sum(2).mean().item() / 2
        state.loss.append(value)
        state.entropy.append(torch.special.entr(attention).sum(2).mean().item())
        state.change.append(moved)
        state.attention.append(attention[0].clone())
        state.previous = attention

    return observe


def _require_finite(value: float, iteration: int, settings: Settings) -> None:
    if not math.isfinite(value):
        raise InputError(
            f"expected a learning rate at which training stays finite, received {settings.learning_rate:g}, at which "
            f"the loss is {value} at iteration {iteration}; lower it, or set clip"
        )


def _attention_map(attention: Tensor) -> Floats:
    """Map of attention (L, L) from its rows for the second and later positions; NaN where a position may not attend."""
    length = attention.shape[1]
    shown = np.full((length, length), np.nan)
    before = np.tri(length, k=-1, dtype=bool)
    shown[before] = attention.numpy().astype(float)[before[1:]]
    return shown
