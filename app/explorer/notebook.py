"""The live notebook of `snapdyn explore`: sliders, curves, verdicts. Other modules compute what it shows."""

import marimo

app = marimo.App(width="medium", app_title="snapdyn explorer")


@app.cell(hide_code=True)
def _():
    from base64 import b64encode
    from html import escape
    from pathlib import Path
    from time import perf_counter

    import marimo as mo

    from snapdyn.core.errors import InputError
    from snapdyn.explorer.curves import MOST_CLASSES_AT_ONCE, compute_curves, verdicts
    from snapdyn.explorer.drawing import png
    from snapdyn.explorer.sliders import STEPS, OwnSettings, Settings, nearest, overlap_steps, reachable_overlaps

    def alert(sentence):
        return mo.Html(f'<p role="alert" style="color: #a3182f">{escape(sentence)}</p>')

    _compiled = compute_curves(Settings())  # compiles, once per installation
    _file = mo.cli_args().get("file")  # of `snapdyn explore FILE.toml`
    own = OwnSettings.read(Path(_file)) if _file else None
    return (
        InputError, MOST_CLASSES_AT_ONCE, OwnSettings, STEPS, Settings, alert, b64encode, compute_curves,
        mo, nearest, overlap_steps, own, perf_counter, png, reachable_overlaps, verdicts,
    )  # fmt: skip


@app.cell(hide_code=True)
def _(mo, own):
    _symmetric = """$K$ classes of sequences share one query and one common token. Each class has 20 distinct tokens of
    its own: a dominant one, and 19 of equal probability. All classes are alike. With Adam or sign descent the curves
    are the rule's updates with the mean gradient, and there is no dashed theory."""
    _own = f"""The classes are those of the run file: {own and own.classes}. The dominant token of a class is its
    distinct token of largest probability, and its relative gain is that over the next one."""
    mo.md(rf"""
    # How a 1-layer transformer learns where to look

    {_own if own else _symmetric} Decoder and attention start at zero. The curves are the mean field of SGD (solid) and
    the theory of "Scan and Snap" (dashed, [arXiv 2305.16380](https://arxiv.org/abs/2305.16380)) for one class. Time $t$
    counts steps of batch size 1. In the panels of attention and of the speed, dashed lines differ from solid ones where
    the modified decoder of Theorem 1 does not describe the mean field.
    """)
    return


@app.cell(hide_code=True)
def _(STEPS, mo, own):
    def _slider(name, label, value):
        _steps = sorted({*STEPS[name], value})  # a rate of a run file may lie between them
        return mo.ui.slider(steps=_steps, value=value, label=label, show_value=True, full_width=True)

    shown_class = mo.ui.slider(0, max(1, own.num_classes - 1) if own else 1, label="class $n$", show_value=True)

    num_classes = _slider("num_classes", "$K$, classes", 10)
    vocab_size = _slider("vocab_size", "$V$, outputs of the decoder", 1000)
    common_probability = _slider("common_probability", "probability $P(l_c|n)$ of the common token", 0.3)
    eta_Y = _slider("eta_Y", r"$\eta_Y$, learning rate of the decoder", own.eta_Y if own else 1.0)
    eta_Z = _slider("eta_Z", r"$\eta_Z$, learning rate of attention", own.eta_Z if own else 0.5)
    seq_len = _slider("seq_len", "$T-1$, tokens per sequence", 10_000)
    beta1 = _slider("beta1", r"$\beta_1$, memory of the first moment of Adam", 0.9)
    beta2 = _slider("beta2", r"$\beta_2$, memory of the second moment of Adam", 0.999)
    epsilon = _slider("epsilon", r"$\epsilon$, constant in Adam's denominator", 1e-8)
    _rules = {"gradient descent": "sgd", "Adam": "adam", "sign descent": "sign"}
    optimizer = mo.ui.dropdown(_rules, value="gradient descent", label="rule of descent")
    infinite = mo.ui.switch(value=True, label=r"$T = \infty$")
    get_overlap, set_overlap = mo.state(0.6)
    return (
        beta1, beta2, common_probability, epsilon, eta_Y, eta_Z, get_overlap, infinite, num_classes, optimizer,
        seq_len, set_overlap, shown_class, vocab_size,
    )  # fmt: skip


@app.cell(hide_code=True)
def _(common_probability, get_overlap, mo, nearest, overlap_steps, set_overlap):
    # The overlaps that exist depend on the common probability: the slider is made again, at the nearest step.
    _steps = overlap_steps(common_probability.value)
    overlap = mo.ui.slider(
        steps=_steps,
        value=nearest(_steps, get_overlap()),
        on_change=set_overlap,
        label="overlap $f_n \\cdot f_{n'}$ of two classes at $t = 0$",
        show_value=True,
        full_width=True,
    )
    return (overlap,)


@app.cell(hide_code=True)
def _(
    InputError, OwnSettings, Settings, beta1, beta2, common_probability, compute_curves, epsilon,
    eta_Y, eta_Z, infinite, num_classes, optimizer, overlap, own, perf_counter, seq_len, shown_class, vocab_size,
):  # fmt: skip
    _started = perf_counter()
    curves, problem = None, ""
    try:
        if own:
            settings = OwnSettings(own.classes, eta_Y.value, eta_Z.value)
            curves = compute_curves(settings, shown_class.value)
        else:
            settings = Settings(
                num_classes.value,
                vocab_size.value,
                common_probability.value,
                overlap.value,
                eta_Y.value,
                eta_Z.value,
                None if infinite.value else seq_len.value,
                optimizer.value,
                beta2.value,
                beta1.value,
                epsilon.value,
            )
            curves = compute_curves(settings)
        problem = curves.note
    except InputError as _error:
        settings, problem = None, str(_error)
    milliseconds = 1000 * (perf_counter() - _started)
    return curves, milliseconds, problem, settings


@app.cell(hide_code=True)
def _(
    alert, b64encode, beta1, beta2, common_probability, curves, epsilon, eta_Y, eta_Z, infinite, milliseconds, mo,
    num_classes, optimizer, overlap, own, perf_counter, png, problem, reachable_overlaps, seq_len, shown_class,
    vocab_size,
):  # fmt: skip
    _low, _high = reachable_overlaps(common_probability.value)
    _controls = mo.vstack([shown_class, eta_Y, eta_Z] if own else [
        num_classes, vocab_size, common_probability, overlap,
        mo.md(f"<small>With this common probability the overlap lies between {_low:.3g} and {_high:.3g}.</small>"),
        eta_Y, eta_Z, infinite, *([] if infinite.value else [seq_len]),
        optimizer, *([beta1, beta2, epsilon] if optimizer.value == "adam" else []),
    ])  # fmt: skip
    _shown = [alert(problem)] if problem else []
    if curves is not None:
        _started = perf_counter()
        _png = b64encode(png(curves)).decode()  # in the message itself: one way fewer than a file
        _alt = "attention, speed and relative gain over time"
        _image = mo.Html(f'<img alt="{_alt}" style="width: 100%" src="data:image/png;base64,{_png}">')
        _drawing = 1000 * (perf_counter() - _started)
        _cost = f"{milliseconds:.0f} ms for the curves ({curves.evaluations} evaluations), {_drawing:.0f} ms to draw."
        _shown += [_image, mo.md(f'<small id="cost">{_cost}</small>')]
    mo.hstack([_controls, mo.vstack(_shown)], widths=[1, 2.4], gap=2)
    return


@app.cell(hide_code=True)
def _(mo):
    check_all = mo.ui.run_button(label="Check every statement")
    mo.md(f"""
    ## Which statements hold here?

    The table shows the answers for eight statements; with at most 20 classes it follows every move of a slider. The
    button checks the whole register on these settings, up to $t = 100\\,t_0$: seconds for $K = 10$, about a minute for
    $K = 50$, more for $K = 100$. Where the printed statement is wrong, the answer is about the corrected one, and its
    last sentence says what holds of the printed one.

    {check_all}
    """)
    return (check_all,)


@app.cell(hide_code=True)
def _(InputError, MOST_CLASSES_AT_ONCE, alert, check_all, mo, settings, verdicts):
    def _answers():
        if settings is None:
            return mo.md("No settings to check: see the sentence above.")
        if not check_all.value and settings.num_classes > MOST_CLASSES_AT_ONCE:
            return mo.md(f"More than {MOST_CLASSES_AT_ONCE} classes: press the button.")
        try:
            return mo.Html(verdicts(settings, every=check_all.value)._repr_html_())
        except InputError as error:
            return alert(str(error))

    _answers()
    return


if __name__ == "__main__":
    app.run()
