"""The transformer of Eqs. (1)-(2) in torch, and its training on text by SGD, with records of its attention.

The transformer has one head per layer, in the embedding parameterisation. Torch belongs to the extra `text` and is
imported only inside functions, so that the package works without it. The runs are those of Figures 7 and 10.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapdyn.core.errors import InputError, flag, optional_function, positive, shown, text, whole
from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.dynamics.text.corpus import Corpus, listed_paths, read_corpus
from snapdyn.dynamics.training.steps import checked_record
from snapdyn.dynamics.training.transformer.runs import TransformerRun

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Progress = Callable[[float, float, str], None]
Words = NDArray[np.int32]

LEAST = {
    "num_layers": 1,
    "seed": 0,
    "iterations": 1,
    "embedding": 1,
    "batch_size": 1,
    "window": 2,
    "min_token_count": 1,
}
OF_TEXT = {"paths", "validation", "validation_share", "corpus", "min_token_count", "max_vocab", "tokens", "headings"}
SHUFFLE = 2  # stream of random numbers of a seed that permutes the words; the trainer has two others


@dataclass(frozen=True)
class TransformerSettings:
    """Settings of a run, checked at construction; `train_transformer` documents them."""

    paths: Paths
    learning_rate: float
    num_layers: int = 1
    seed: int = 0
    iterations: int = 1500
    record: Sequence[int] | None = None
    validation: Paths | None = None
    validation_share: float = 0.1
    corpus: str | None = None
    shuffle: bool = False
    embedding: int = 200
    embedding_norm: float = 3.0
    window: int = 35
    batch_size: int = 20
    residual: bool | None = None
    clip: float | None = 0.5
    min_token_count: int = 5
    max_vocab: int | None = None
    tokens: str = "auto"
    headings: str = "drop"

    def __post_init__(self) -> None:
        def store(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for name, least in LEAST.items():
            store(name, whole(name, getattr(self, name), least))
        layers, width, batch = self.num_layers, self.embedding, self.batch_size * self.window
        # Weights and gradients; activations and scores of a batch, kept for the gradient.
        require_memory(
            f"a transformer of {layers} layers of {width} values on {batch} words at once",
            16.0 * layers * 3 * width**2 + 4.0 * layers * batch * (4 * width + self.window),
            "a smaller embedding, batch or window",
        )
        for name in ("learning_rate", "embedding_norm", "validation_share"):
            store(name, positive(name, getattr(self, name), below=1.0 if name == "validation_share" else math.inf))
        store("clip", None if self.clip in (None, math.inf) else positive("clip", self.clip))
        store("residual", layers > 1 if self.residual is None else self.residual)
        for name in ("shuffle", "residual"):
            store(name, flag(name, getattr(self, name)))
        every = np.unique(np.round(np.linspace(0, self.iterations, 4)))
        record = checked_record(every if self.record is None else self.record, self.iterations)
        store("record", tuple(record.tolist()))
        if self.max_vocab is not None:
            store("max_vocab", whole("max_vocab", self.max_vocab, 3))
        if self.corpus is not None:
            text("corpus, the name of the data,", self.corpus, at_least=1)

    @property
    def numbers(self) -> dict[str, Any]:
        """Settings that, with the text, determine the numbers of a run."""
        return {name: value for name, value in vars(self).items() if name not in OF_TEXT}


@dataclass(frozen=True)
class Windows:
    """Windows of a text that cross no end of a document."""

    stream: Words  # word ids, with -1 between documents
    start: Ints  # position of the first word of each window
    length: int

    def __getitem__(self, index: Ints) -> Ints:
        """Word ids (n, length) of the windows with the numbers `index` (n,)."""
        return self.stream[self.start[index][:, None] + np.arange(self.length)].astype(np.int64)

    def evenly(self, count: int) -> Ints:
        """At most `count` windows that are evenly spread over the text, (n, length)."""
        return self[np.unique(np.linspace(0, self.start.size - 1, count).astype(np.int64))]


@dataclass(frozen=True)
class SplitText:
    """A text for training and validation."""

    name: str
    words: tuple[str, ...]  # vocabulary
    training: Windows
    validation: Windows


def split_text(settings: TransformerSettings, progress: Progress | None) -> SplitText:
    """Read the text, reserve its end (or the files `validation`) for validation, and find its windows."""
    paths, kinds = listed_paths(settings.paths), (settings.tokens, settings.headings)
    name = settings.corpus or paths[0].resolve().name
    vocabulary = settings.min_token_count, settings.max_vocab
    if settings.validation is not None:
        validation = listed_paths(settings.validation)
        # The validation text is read alone for its length, and with the training text for a common vocabulary.
        with read_corpus(validation, *kinds, 1, None, progress) as corpus:
            held = _stream(corpus).size
        paths = [*paths, *validation]
    with read_corpus(paths, *kinds, *vocabulary, progress) as corpus:
        words, stream = corpus.words, _stream(corpus)
    if settings.validation is None:
        held = round(settings.validation_share * stream.size)
    if settings.shuffle:
        inside = stream >= 0
        stream[inside] = np.random.default_rng((settings.seed, SHUFFLE)).permutation(stream[inside])
    border, length = stream.size - held, settings.window + 1
    return SplitText(
        name,
        words,
        _windows(stream[:border], length, "training"),
        _windows(stream[border:], length, "validation"),
    )


def _stream(corpus: Corpus) -> Words:
    return np.concatenate([block.astype(np.int32) for block in corpus.blocks(overlap=0)])


def _windows(stream: Words, length: int, purpose: str) -> Windows:
    boundaries = np.concatenate([[0], np.cumsum(stream < 0)])
    start = np.flatnonzero(boundaries[length:] == boundaries[:-length]) if stream.size >= length else np.empty(0, int)
    if start.size == 0:
        raise InputError(
            f"expected a document of at least {length} words in the {purpose} text, received none among its "
            f"{int((stream >= 0).sum())} words; give more text or choose a smaller window"
        )
    return Windows(stream, start, length)


MASKED = -1e30  # a score whose weight and gradient are exactly 0
Tensor = Any
Parameters = dict[str, Any]
VALIDATION_WINDOWS = 200  # windows on which attention is recorded, evenly spread over the validation text
PARAMETERS, BATCHES = range(2)  # streams of random numbers of a seed; `settings` has the third


def train_transformer(
    paths: Paths,
    *,
    device: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> TransformerRun:
    """Train the transformer of Eqs. (1)-(2), in its embedding parameterisation, to predict the next word of a text.

    One head per layer, no positional encoding, and no attention from the query to itself; plain SGD with one learning
    rate for all parameters. A batch is `batch_size` windows drawn at random. Every position of a window is a query,
    except the first, which has no position before it. Needs torch (``pip install 'snapdyn[text]'``).

    Parameters
    ----------
    paths : path or list of paths
        Text to read, as in `from_text`: words in lower case, `<unk>` for rare words.
    device : str, optional
        "cpu", "cuda", "mps", ...; default an accelerator if torch finds one, otherwise the CPU.
    progress : callable (done, total, label), optional
        Called after every iteration.
    **settings : dict
        Settings of the training, of the model and of the text:

        - `learning_rate` must be given: the rate of all parameters, per iteration, for the mean gradient of a batch.
        - `num_layers` = 1.
        - `seed` = 0, of the start, of the batches and of `shuffle`. On the CPU of one machine the same seed gives the
          same bits.
        - `iterations` = 1500: SGD steps.
        - `record`: increasing iterations at which attention and loss are recorded; i is the state after i steps.
          Default: four at equal distances from start to end (0, 500, 1000, 1500).
        - `shuffle` = False: permute all words before training (control): the next word becomes unpredictable.
        - `embedding` = 200: width d of the embedding.
        - `embedding_norm` = 3.0: mean length of a row of U at the start (its entries are normal; those of W_Q, W_K,
          W_V have variance 1/d).
        - `window` = 35: words of a window, which is the number of positions in a map of attention.
        - `batch_size` = 20: windows of a batch.
        - `residual`: whether the query's embedding is added (Sec. 7). Default: only with more than one layer; Eq. (1)
          has no residual connection.
        - `clip` = 0.5: gradients whose norm, over all parameters together, is larger are scaled down to this norm.
          None or infinity: never.
        - `validation`: path or list of paths of the text on which attention is recorded; the vocabulary is that of all
          texts. Default: the last `validation_share` = 0.1 of the words of `paths`.
        - `corpus`: name of the data in the result; default the name of the first path.
        - `min_token_count` = 5, `max_vocab`, `tokens` = 'auto' and `headings` = 'drop': as in `from_text`.

    Returns
    -------
    TransformerRun
        Attention of the lowest layer on the first of 200 validation windows; entropy, change of attention, and loss
        over all of them.

    Raises
    ------
    InputError
        Torch is not installed or does not know the device; an argument is out of range; the text is unusable, as in
        `from_text`, or shorter than a window; training diverges (the message says at which iteration, and what to
        try).
    """
    given = TransformerSettings(paths, **settings)
    optional_function("progress", progress)
    torch_device = _device(device)
    text = split_text(given, progress)
    records = _trained(text, given, torch_device, progress)
    numbers = given.numbers
    of_run = {name: numbers.pop(name) for name in ("num_layers", "learning_rate", "seed")}
    example = text.validation.evenly(VALIDATION_WINDOWS)[0, : given.window]
    return TransformerRun(
        corpus=text.name,
        **of_run,
        iteration=np.array(numbers.pop("record")),
        attention=np.array([_attention_map(each.attention[0]) for each in records]),
        entropy=np.array([each.entropy for each in records]),
        tokens=tuple(text.words[i] for i in example),
        loss=np.array([each.loss for each in records]),
        change=np.array([each.change for each in records]),
        shuffled=numbers.pop("shuffle"),
        settings=numbers | {"vocabulary": len(text.words)},
    )


def _device(name: str | None) -> Any:
    """Return torch's device of that name; None stands for an accelerator if torch finds one, otherwise the CPU."""
    torch = torch_module()
    if name is None:
        mps = getattr(torch.backends, "mps", None)
        name = "cuda" if torch.cuda.is_available() else "mps" if mps is not None and mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    # torch raises another one for each kind of device
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        raise InputError(
            f"expected a device that torch can use here, received {shown(name)} ({str(error).splitlines()[0]}); leave "
            "device out, or give 'cpu'"
        ) from error
    return device


class _Record(NamedTuple):
    """Attention (windows, queries, L) on the validation windows, and means over them."""

    attention: Tensor
    entropy: float
    loss: float
    change: float


def _trained(text: SplitText, settings: TransformerSettings, device: Any, progress: Progress | None) -> list[_Record]:
    """Train from start to end; return the records, with attention on the first validation window."""
    torch = torch_module()
    start = int(np.random.SeedSequence((settings.seed, PARAMETERS)).generate_state(1)[0])
    parameters = initial_parameters(len(text.words), settings, start, device)
    windows = torch.from_numpy(text.validation.evenly(VALIDATION_WINDOWS)).to(device).split(settings.batch_size)
    records: list[_Record] = []
    before = None
    for i in range(settings.iterations + 1):
        if i in settings.numbers["record"]:
            record = _observed(parameters, windows, settings, before, i)
            before = record.attention
            records.append(record._replace(attention=before[:1].clone()))
        if progress:
            progress(i, settings.iterations, f"training, iteration {i}")
        if i < settings.iterations:
            # Every batch has a separate stream of random numbers.
            rng = np.random.default_rng((settings.seed, BATCHES, i))
            chosen = rng.integers(text.training.start.size, size=settings.batch_size)
            value = loss(parameters, torch.from_numpy(text.training[chosen]).to(device), settings)
            value.backward()
            step(parameters, settings.learning_rate, settings.clip)
            _require_finite(value.item(), i, settings)
    return records


def _observed(
    parameters: Parameters, windows: list[Tensor], settings: TransformerSettings, before: Tensor | None, i: int
) -> _Record:
    """Attention and loss on the validation windows at iteration i; `before` is attention at the last record."""
    torch = torch_module()
    with torch.no_grad():
        losses = [loss(parameters, batch, settings).item() * len(batch) for batch in windows]
        maps = [forward(parameters, batch[:, :-1], settings)[1][:, 1:].cpu() for batch in windows]
    attention, value = torch.cat(maps), sum(losses) / sum(map(len, windows))
    _require_finite(value, i, settings)
    # Total variation distance: the share of attention that has moved to other positions.
    change = math.nan if before is None else (attention - before).abs().sum(2).mean().item() / 2
    return _Record(attention, torch.special.entr(attention).sum(2).mean().item(), value, change)


def _require_finite(value: float, iteration: int, settings: TransformerSettings) -> None:
    if not math.isfinite(value):
        raise InputError(
            f"expected a learning rate at which training stays finite, received {settings.learning_rate:g}, at which "
            f"the loss is {value} at iteration {iteration}; lower it, or set clip"
        )


def _attention_map(attention: Tensor) -> Floats:
    """Map of attention (L, L) from its rows for the second and later positions; NaN where a position may not attend."""
    length = attention.shape[1]
    filled = np.full((length, length), np.nan)
    before = np.tri(length, k=-1, dtype=bool)
    filled[before] = attention.numpy().astype(float)[before[1:]]
    return filled


# -- the model ---------------------------------------------------------------------------------------------
def torch_module() -> Any:
    """Return the module torch; where it is not installed, the InputError says how to install it."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise InputError(
            f"expected PyTorch, which transformers are trained with, received: {error}; install it with pip install "
            "'snapdyn[text]'"
        ) from error


def initial_parameters(vocab_size: int, settings: TransformerSettings, seed: int, device: Any) -> Parameters:
    """Draw U (V, d), and per layer W_Q, W_K and W_V (d, d).

    All entries are independent and normal. On average, rows of U have length `embedding_norm`, and W_Q, W_K and W_V
    keep the length of a vector. numpy draws the numbers, so they are the same on every device. The names are "U",
    "W_Q 0", "W_K 0", "W_V 0", "W_Q 1", ...
    """
    torch, width, norm = torch_module(), settings.embedding, settings.embedding_norm
    rng = np.random.default_rng(seed)
    shapes = {"U": (vocab_size, norm)}
    for layer in range(settings.num_layers):
        shapes |= {f"{name} {layer}": (width, 1.0) for name in ("W_Q", "W_K", "W_V")}
    parameters = {}
    for name, (rows, length) in shapes.items():
        values = rng.standard_normal((rows, width), dtype=np.float32) * np.float32(length / math.sqrt(width))
        parameters[name] = torch.tensor(values, device=device, requires_grad=True)
    return parameters


def forward(parameters: Parameters, tokens: Tensor, settings: TransformerSettings) -> tuple[Tensor, Tensor]:
    """Apply all layers to a batch of windows, (B, L) word ids; return output (B, L, d) and attention (B, L, L).

    The query at position T attends to the positions before it, never to itself, with the softmax of
    u_T^T W_Q W_K^T u_t/sqrt(d), Eq. (1). The attended sum is normalised and multiplied by W_V, Eq. (2). With the
    residual connection the query's vector is added to the normalised sum, and the result is normalised again (Sec. 7).
    The first position has no position before it: its weights are 0. The attention returned is that of the lowest layer,
    row query position, column key position. Products of the output with rows of U are the logits.
    """
    torch = torch_module()
    normalised = partial(torch.nn.functional.normalize, dim=-1)
    before = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool, device=tokens.device).tril(-1)
    hidden, lowest = parameters["U"][tokens], None
    for layer in range(settings.num_layers):
        queries, keys = hidden @ parameters[f"W_Q {layer}"], hidden @ parameters[f"W_K {layer}"]
        scores = queries @ keys.transpose(1, 2) / math.sqrt(queries.shape[2])
        attention = torch.softmax(scores.masked_fill(~before, MASKED), dim=-1) * before
        lowest = attention if lowest is None else lowest
        mixed = normalised(attention @ hidden)
        if settings.residual:
            mixed = normalised(mixed + hidden)
        hidden = mixed @ parameters[f"W_V {layer}"].T
    return hidden, lowest


def loss(parameters: Parameters, windows: Tensor, settings: TransformerSettings) -> Tensor:
    """Mean cross entropy of the next word, nats, over every position that has words before it.

    `windows` (B, L+1) are L words that are read, and the word that follows them.
    """
    hidden, _ = forward(parameters, windows[:, :-1], settings)
    logits = hidden[:, 1:] @ parameters["U"].T
    return torch_module().nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 2:].flatten())


def step(parameters: Parameters, learning_rate: float, clip: float | None) -> None:
    """Take a step of gradient descent, in place, with the gradients stored in the parameters, and clear these.

    Gradients whose common norm is larger than `clip` are scaled down to this norm first.
    """
    torch = torch_module()
    with torch.no_grad():
        gradients = [p.grad for p in parameters.values()]
        scale = 1.0
        if clip is not None:
            norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
            scale = torch.clamp(clip / norm, max=1.0)  # stays on the device, so that the program does not wait for it
        for parameter, gradient in zip(parameters.values(), gradients, strict=True):
            parameter -= learning_rate * scale * gradient
            parameter.grad = None
