"""SGD on the windows of a text, against the mean field of these windows and that of their classes.

python examples/text_windows.py PATH [LENGTH...]     lengths of the windows in words, default 8 32 128
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import snapdyn as sd
from snapdyn.validation.window_agreement import agreement, independent_fluctuation, norm_fluctuation

ETA_Y, ETA_Z, STEPS, BATCH = 1.0, 0.1, 206, 16
FORMAT = "{:>7} {:>9} {:>9} {:>12} {:>22} {:>22} {:>22}"


def main(path: str, lengths: Sequence[int] = (8, 32, 128), steps: int = STEPS, **options: int) -> list[float]:
    """Print a line per length; return the correlations of SGD with the mean field of the windows."""
    names = "SGD ~ field of windows", "SGD ~ field of classes", "drawn SGD ~ classes"
    print(FORMAT.format("length", "windows", "rho", "rho, drawn", *names))
    found = []
    for length in lengths:
        classes = sd.from_text(path, window=length, **options)
        windows = sd.from_text(path, window=length, **options, sequences=True, max_sequences=8000)
        of_classes, of_windows = (
            sd.integrate(sd.MeanField(c, ETA_Y, ETA_Z), [steps], "RKC", 1e-3, 1e-4) for c in (classes, windows)
        )
        # An infinitely long sequence of a window's own class has that window's shares: SGD sees the windows themselves.
        real = sd.sgd(windows, ETA_Y, ETA_Z, steps, BATCH, record=[steps])
        drawn = sd.sgd(classes, ETA_Y, ETA_Z, steps, BATCH, seq_len=length, record=[steps])
        rho = norm_fluctuation(windows, classes), independent_fluctuation(classes, length)
        pairs = (agreement(real, of_windows), agreement(real, of_classes), agreement(drawn, of_classes))
        found.append(pairs[0].correlation)
        shown = *(f"{value:.3f}" for value in rho), *(f"{pair.correlation:.2f}" for pair in pairs)
        print(FORMAT.format(length, windows.num_classes, *shown))
    return found


if __name__ == "__main__":
    main(sys.argv[1], [int(length) for length in sys.argv[2:]] or (8, 32, 128))
