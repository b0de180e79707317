"""Make the short runs behind Figures 7 and 10 of `snapdyn figures`: one core, about 50 minutes.

    python examples/short_transformer_runs.py PATH_OF_WIKITEXT_2 FOLDER

Needs ``pip install 'snapdyn[text]'``. The text is the validation and test files of WikiText-2. FOLDER/figure_7.nc and
FOLDER/figure_10.nc are the data that snapdyn has in `figures/data/`.
"""

import sys
from pathlib import Path

import snapdyn as sd
from snapdyn.dynamics.files.netcdf import write_netcdf

SETTINGS = {"max_vocab": 2000, "embedding": 64, "clip": 0.1, "corpus": "WikiText-2"}
RECORD = (0, 125, 250, 500, 750, 1000, 1500, 2000, 2500, 3000, 3500, 4000)


def main(text: str, folder: Path) -> None:
    """Train, and write the data of both figures."""
    of_rates = [
        sd.train_transformer(
            text, learning_rate=rate, seed=seed, shuffle=shuffle, iterations=1500, **SETTINGS | {"clip": clip}
        )
        for clip in (0.1, 0.5)
        for seed in range(5)
        for shuffle in (False, True)
        for rate in (1.0, 2.0, 3.0, 4.0, 5.0)
    ]
    of_depths = [
        sd.train_transformer(
            text, learning_rate=5.0, num_layers=layers, shuffle=shuffle, iterations=4000, record=RECORD, **SETTINGS
        )
        for layers in (1, 3)
        for shuffle in (False, True)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for id_, runs in (("7", of_depths), ("10", of_rates)):
        write_netcdf(sd.figures.compute(id_, runs=runs), folder / f"figure_{id_}.nc", "snapdyn figure data 1")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
