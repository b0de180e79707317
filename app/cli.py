"""The command line: `snapdyn validate`, `figures`, `simulate`, `compare`, `report`.

Only typer and rich are imported here; a command imports what it needs, so that `--help` is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import snapdyn
from snapdyn.terminal import progress_bar, say, show_table

if TYPE_CHECKING:
    from snapdyn.dynamics import SequenceClasses, Trajectory
    from snapdyn.validation import Check, ClaimResult, Report

DONE, DIFFERS, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
# Classes that the summary of a run lists; the file has them all.
LISTED_CLASSES = 12
TOP_TOKENS = 3
VERDICT_STYLES = {"corrected": "yellow", "refuted": "red", "conditional": "cyan", "holds": "none"}

Level = Annotated[
    Literal["quick", "full"], typer.Option(help="full: more instances, longer times, larger vocabularies.")
]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done, every verdict is the register's; 1: a verdict differs, or an integration failed; 2: bad usage or
    input, with one sentence on stderr; 130: interrupted.
    """
    try:
        code = app(arguments, prog_name="snapdyn", standalone_mode=False)
    except typer.TyperException as error:
        say(_usage_sentence(error))
        return BAD_INPUT
    except snapdyn.InputError as error:
        say(str(error))
        return BAD_INPUT
    if code == INTERRUPTED:
        say("interrupted; files that were finished are kept, none is left half written")
    return code or DONE


def _usage_sentence(error: typer.TyperException) -> str:
    """Message about a wrong command, option or value, as one sentence that says where to look."""
    message = error.format_message().rstrip(".").replace("\n", " ")
    message = message.replace(". Did you", ", did you").replace("Value error, ", "")
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "snapdyn"
    return f"{message} (see `{command} --help`)"


def _version(wanted: bool) -> None:
    if wanted:
        print(f"snapdyn {snapdyn.__version__}")
        raise typer.Exit


@app.callback()
def _snapdyn(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """How a 1-layer transformer learns where to look: its training dynamics simulated, its theory checked."""


# -- validate ----------------------------------------------------------------------------------------------
@app.command()
def validate(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Claims; default all.")] = None,
    level: Level = "quick",
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the verdicts as JSON.")] = None,
) -> int:
    """Check the claims of the theory and say which hold.

    A claim holds, is corrected (the printed statement fails, a corrected one holds), conditional (it holds
    under stated conditions), or refuted. Exit code 1: a verdict is not the one in the register.

    Example: snapdyn validate lemma6 --level full --json verdicts.json
    """
    if json:
        _check_target(json)
    report, interrupted = _check_claims(ids, level)
    _show_report(report)
    if json and report.claims:
        from snapdyn.dynamics.storage import replacing

        with replacing(json) as temporary:
            temporary.write_text(report.to_json(), encoding="utf-8")
    if interrupted:
        return INTERRUPTED
    return DONE if report.as_expected else DIFFERS


def _check_claims(ids: Sequence[str] | None, level: str) -> tuple[Report, bool]:
    """Check claims one by one; the finished ones, and whether Ctrl-C cut the run short."""
    from snapdyn.validation import Report
    from snapdyn.validation.run import check_claims

    results: list[ClaimResult] = []
    interrupted = False
    with progress_bar("checking") as update:
        try:
            for result in check_claims(ids or None, level, update):
                results.append(result)
        except KeyboardInterrupt:
            interrupted = True
    return Report(level, tuple(results)), interrupted


def _show_report(report: Report) -> None:
    """Print the claims, those that differ from the register first, then those that differ from print."""
    order = list(VERDICT_STYLES)
    claims = sorted(report.claims, key=lambda claim: (claim.as_expected, order.index(claim.verdict)))
    rows, styles = [], []
    for claim in claims:
        verdict = claim.verdict if claim.as_expected else f"{claim.verdict} (register: {claim.expected})"
        worst = max(claim.checks, key=_strain, default=None)
        rows.append((claim.id, claim.source, claim.title, verdict, _in_words(worst) if worst else ""))
        styles.append(VERDICT_STYLES[claim.verdict] if claim.as_expected else "bold red")
    show_table(("id", "source", "title", "verdict", "worst check"), rows, styles)
    counts = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in order}
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    differing = sum(not claim.as_expected for claim in claims)
    print(f"{len(claims)} claims: {listed or 'none checked'}; {differing} differ from the register")


def _strain(check: Check) -> float:
    """How near a check is to its bound, above 1 beyond it; a control strains as it comes near passing."""
    if check.measured != check.measured:
        return float("inf")
    small, large = (check.measured, check.bound) if check.relation == "<=" else (check.bound, check.measured)
    if check.role == "control":
        small, large = large, small
    return small / large if large > 0 else float(small > 0)


def _in_words(check: Check) -> str:
    text = f"{check.name}: {check.measured:.3g} {check.relation} {check.bound:.3g}"
    if check.role == "control":
        return f"{text}, {'passed, but must fail' if check.passed else 'rejected as it must be'}"
    return text if check.passed else f"{text} fails"


# -- figures -----------------------------------------------------------------------------------------------
@app.command()
def figures(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Figures; default all.")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")] = Path("out"),
    level: Level = "quick",
) -> int:
    """Draw figures of the paper: picture (PDF, PNG), data (netCDF) and provenance.

    Example: snapdyn figures 3 8 9 --out pictures
    """
    from snapdyn.figures import draw

    with progress_bar("drawing") as update:
        drawn = draw(ids or None, out=out, level=level, progress=update)
    show_table(("id", "title", "picture"), [(figure.id, figure.title, str(figure.png)) for figure in drawn])
    return DONE


# -- simulate ----------------------------------------------------------------------------------------------
@app.command()
def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to run; see examples/.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE.nc", help="Result; default beside FILE.toml.")] = None,
) -> int:
    """Integrate the system described in a file and save its trajectory.

    Exit code 1: the integration failed; what was computed up to there is saved.

    Example: snapdyn simulate examples/syn_small.toml --out syn_small.nc
    """
    from snapdyn.configuration import read_simulation

    simulation = read_simulation(file)
    inside = simulation.output.file
    target = out or (file.parent / inside if inside else file.with_suffix(".nc"))
    if target.exists() and target.samefile(file):
        raise snapdyn.InputError(
            f"expected another file for the result, received {str(target)!r}, the run file; choose a new name"
        )
    system = simulation.build()
    _check_target(target)
    with progress_bar("integrating") as update:
        report = (lambda t, fraction: update(fraction, 1.0, f"t = {t:.3g}")) if update else None
        trajectory = simulation.run.integrate(system, report)
    _show_trajectory(trajectory)
    if trajectory.t.size:
        trajectory.save(target)
        print(f"saved      {target}")
    if trajectory.status == "interrupted":
        return INTERRUPTED
    if trajectory.status == "failed":
        say(trajectory.message)
        return DIFFERS
    return DONE


def _show_trajectory(trajectory: Trajectory) -> None:
    stats = trajectory.stats
    described = ", ".join(f"{name} = {value}" for name, value in trajectory.parameters.items())
    print(f"system     {trajectory.system}: {described}")
    if trajectory.classes is not None:
        print(f"classes    {trajectory.classes!r}")
    clock = " in log time" if stats["log_time"] else ""
    print(
        f"method     {stats['method']}{clock}: {stats['evaluations']} evaluations, {stats['steps']} steps, "
        f"{trajectory.wall_time:.2f} s"
    )
    if not trajectory.t.size:
        print(f"status     {trajectory.status}, no time was reached")
        return
    first, last = trajectory.t[0], trajectory.t[-1]
    print(f"status     {trajectory.status}, {trajectory.t.size} times, t = {first:g} to {last:g}")
    for name, violation in trajectory.invariants.items():
        print(f"conserved  {name}, largest violation {violation.max():.1e}")
    print(f"loss       {trajectory.loss[0]:.4g} to {trajectory.loss[-1]:.4g} nats")
    for name, values in trajectory.extra.items():
        if values.shape[1] == 1:
            print(f"{name:10} {values[0, 0]:.4g} to {values[-1, 0]:.4g}")
    if trajectory.classes is not None:
        _show_attention(trajectory, trajectory.classes)


def _show_attention(trajectory: Trajectory, classes: SequenceClasses) -> None:
    entropy = trajectory.entropy()[[0, -1]]
    attention = classes.attention_from_support(trajectory.z_support[-1])
    rows = []
    for n in range(min(classes.num_classes, LISTED_CLASSES)):
        c = attention[classes.P.indptr[n] : classes.P.indptr[n + 1]]
        top = (-c).argsort(kind="stable")[:TOP_TOKENS]
        tokens = ", ".join(f"{classes.support(n)[i]} ({c[i]:.3f})" for i in top)
        rows.append(
            (str(n), str(classes.query[n]), str(classes.next_token[n]),
             f"{entropy[0, n]:.3f} to {entropy[1, n]:.3f}", tokens)
        )  # fmt: skip
    show_table(("class", "query", "next token", "entropy (nats)", "most attended at the end"), rows)
    if classes.num_classes > LISTED_CLASSES:
        print(f"and {classes.num_classes - LISTED_CLASSES} more classes in the file")


# -- compare -----------------------------------------------------------------------------------------------
@app.command()
def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to compare; see examples/compare_*.toml.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")] = Path("out"),
) -> int:
    """Lay the theory's curves over SGD: median and 10-90 % band of the seeds, residuals below, data beside.

    Example: snapdyn compare examples/compare_syn_small.toml --out pictures
    """
    import time

    from snapdyn.configuration import read_comparison
    from snapdyn.dynamics.storage import output_folder
    from snapdyn.figures.comparison import draw
    from snapdyn.figures.drawing import write_figure

    started = time.perf_counter()
    comparison = read_comparison(file)
    folder = output_folder(out)
    dataset = comparison.compute()
    files = write_figure(folder, file.stem, dataset, draw, {"file": file.name}, started)
    gap = abs(dataset.theory - dataset.sgd.median("seed")).transpose("observable", "curve", "step")
    rows = []
    for observable, gaps in zip(dataset.observable.values, gap.values, strict=True):
        for curve, values in zip(dataset.curve.values, gaps, strict=True):
            at = int(values.argmax())
            rows.append((str(observable), str(curve), f"{values[at]:.3g}", str(int(dataset.step[at]))))
    if rows:
        show_table(("observable", "curve", "largest |curve - median|", "at step"), rows)
    print(f"saved      {files['png']}")
    return DONE


# -- report ------------------------------------------------------------------------------------------------
@app.command()
def report(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the page.")] = Path("report"),
    level: Level = "quick",
) -> int:
    """Check every claim, draw every figure, and write one self-contained page, DIR/index.html.

    Exit code 1: a verdict is not the one in the register.

    Example: snapdyn report --out report
    """
    from snapdyn.report import build_report

    with progress_bar("reporting") as update:
        built = build_report(out, level, update)
    print(f"{built.page}: {built.report!r}")
    return DONE if built.report.as_expected else DIFFERS


def _check_target(path: Path) -> None:
    """Check before any work that a file can be written at `path`."""
    from snapdyn.dynamics.storage import output_folder

    if path.is_dir():
        raise snapdyn.InputError(f"expected a file to write to, received the folder {str(path)!r}; add a file name")
    output_folder(path.parent)
