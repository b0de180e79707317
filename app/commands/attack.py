"""`snapdyn attack`: an adversary that looks for counterexamples to the claims of the register."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from snapdyn.commands.options import Claims, Jobs, Load, Register
from snapdyn.commands.terminal import DIFFERS, DONE, INTERRUPTED, progress_bar, say, show, show_table

# Seconds beyond --minutes before searches are cut: processes start and compile.
STARTING = 30.0


def attack(
    ids: Claims = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the draws; another seed draws other instances.")] = 1,
    minutes: Annotated[
        float,
        typer.Option(
            metavar="M",
            help="Budget: as many measurements as two cores make in M minutes; it ends after M + 1/2.",
        ),
    ] = 60.0,
    jobs: Jobs = None,
    load: Load = None,
    register: Register = None,
    store: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write counterexamples and worst cases into this folder, as JSON."),
    ] = None,
) -> int:
    """Search for counterexamples to claims: extremes, random draws, and an optimiser started from the worst of them.

    Attacks the statements that hold according to the register, inside their conditions. The budget is shared by the
    properties of the chosen claims and counts measurements, so that the numbers do not depend on the machine. On a
    slower one the last searches are cut half a minute after M minutes, and the last line says how many. Exit code 1:
    an instance contradicts a statement (it is then simplified and measured with a second integrator), or no instance of
    a property gave a number although there was time. After Ctrl-C the table shows the finished properties.

    Example: snapdyn attack --minutes 5 --seed 2

    Example: snapdyn attack insight-a theorem2a --minutes 10
    """
    from snapdyn.core.errors import positive, whole
    from snapdyn.core.parallel import cores
    from snapdyn.dynamics.files.storage import output_folder
    from snapdyn.validation import attack as adversary
    from snapdyn.validation.claims import chosen_claims

    everything, chosen = (adversary.targets(chosen_claims(names)) for names in (None, ids or None))
    seed, minutes = whole("--seed", seed, 0), positive("--minutes", minutes)
    jobs = cores() if jobs is None else whole("--jobs", jobs, 1)
    if store:
        output_folder(store)
    budget = adversary.PER_MINUTE * minutes * len(everything) / max(len(chosen), 1)
    started, found, complete = time.perf_counter(), [], False
    until = time.time() + 60 * minutes + STARTING
    with progress_bar("attacking") as update, suppress(KeyboardInterrupt):
        for each in adversary.attack(chosen, budget, seed, jobs, update, until):
            found.append(each)
        complete = True
    order = {entry.id: i for i, (entry, _) in enumerate(chosen)}
    found.sort(key=lambda each: (order[each.claim], each.number))
    rows, styles = [], []
    for each in found:
        margin = f"{each.worst.margin:.3g}: {each.worst} at {each.place}" if each.worst else each.place
        fell = "falls" if each.confirmed else "falls with one integrator only"
        verdict = fell if each.counterexample is not None else "" if each.worst or each.cut else "no number"
        rows.append((each.claim, each.name, str(each.tried), str(each.evaluations), margin, verdict))
        styles.append("bold red" if verdict else "none")
    show_table(("claim", "property", "inside", "evaluations", "smallest margin", "verdict"), rows, styles)
    fallen = 0
    for each in found:
        if each.nan_message:
            show(f"{each.claim}, {each.name}: {each.nan_message}")
        if each.counterexample is not None:
            fallen += 1
            show(f"{each.claim}, {each.name}: {json.dumps(each.counterexample)}")
            if each.confirmed and store:
                say(f"stored {str(adversary.store(each, store, seed))!r}; add the mechanism to this file")
    if store and (large := adversary.store_worst(found, store)):
        say(f"{large} worst cases are not stored: their instances are too large")
    count, seconds = sum(each.evaluations for each in found), time.perf_counter() - started
    show(f"{len(found)} properties, {count} measurements ({count / seconds:.0f} a second), {fallen} fall")
    cut = sum(each.cut for each in found)
    if cut:
        say(f"{cut} of {len(found)} searches were cut after {minutes:g} minutes; give more --minutes to finish them")
    if not complete:
        return INTERRUPTED
    return DIFFERS if fallen or any(each.worst is None and not each.cut for each in found) else DONE
