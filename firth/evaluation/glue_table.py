"""The tables of a GLUE report in Markdown, laid out as in the papers, in per cent."""

from collections.abc import Iterator, Sequence

from firth.evaluation.glue import (
    GLUE,
    SUPERGLUE,
    GlueReport,
    GlueResult,
    GlueScore,
    PaperTable,
    average,
)

Row = Sequence[str]

NOTHING = "-"
MAJORITY = "majority class"
NAMES = {
    "accuracy": "accuracy",
    "f1": "F1",
    "macro_f1": "macro F1",
    "matthews": "Matthews",
    "spearman": "Spearman",
    "pearson": "Pearson",
}
CAPTION = (
    "{title}, in per cent. Published rows are measured on test sets. The last two rows are "
    "measured on dev sets: always giving the commonest class of the train set, and the model."
)
PARTIAL = " The average of {count} is over the sets that the model was measured on."


def markdown(report: GlueReport) -> str:
    """Return a report as a page."""
    parts = [f"# {report.model} on GLUE"]
    for table in (GLUE, SUPERGLUE):
        # RTE is in both tables, and makes none of the second alone.
        measured = {name for name, _ in table.columns if report.find_set(name)}
        if measured - ({"RTE"} if table is SUPERGLUE else set()):
            parts += [_table(_paper_rows(report, table)), _caption(table, len(measured))]
    if report.results:
        parts += [_table(_detail_rows(report)), _detail_caption(report)]
    return "\n\n".join([*parts, *_remarks(report)]) + "\n"


def _caption(table: PaperTable, measured: int) -> str:
    caption = CAPTION.format(title=table.title)
    if 1 < measured < table.averaged:
        caption += PARTIAL.format(count=measured)
    return caption


def score_text(score: GlueScore) -> str:
    """Return a metric in per cent, with its interval or its spread over seeds."""
    return f"{_percent(score.mean)} ({_reach(score)})"


def _paper_rows(report: GlueReport, table: PaperTable) -> Iterator[Row]:
    """Yield a paper's table with the majority class and the model below the published rows.

    Where the model lacks some columns, it has no average of all, and a second average is over those
    that it has, of the published rows too.
    """
    found = [report.find(name, metric) for name, metric in table.columns]
    majority = [None if score is None else 100 * score.majority for score in found]
    ours = [None if score is None else 100 * score.mean for score in found]
    kept = [number for number, score in enumerate(found) if score is not None]
    count = len({table.columns[number][0] for number in kept})
    whole = count == table.averaged
    partial = not whole and count > 1

    some = [f"average of {count}"] if partial else []
    yield ["", *(_heading(*column) for column in table.columns), "average", *some]
    rows = {**table.published, MAJORITY: majority, report.model: ours}
    for name, values in rows.items():
        over_kept = average(table, values, kept)
        of_all = table.averages.get(name, over_kept if whole else None)
        averages = [of_all, over_kept] if partial else [of_all]
        yield [name, *(_cell(value) for value in [*values, *averages])]


def _heading(name: str, metric: str) -> str:
    return name if metric == "accuracy" and name != "CB" else f"{name} {NAMES[metric]}"


def _detail_rows(report: GlueReport) -> Iterator[Row]:
    """Yield each metric of each task."""
    yield [
        *("set", "train rows", "dev rows", "metric", "score", "95 % interval or spread"),
        *("majority class", "seeds", "time"),
    ]
    for result in report.results:
        for number, score in enumerate(result.scores):
            own = _own_cells(result) if number == 0 else ["", "", ""]
            time = [str(len(result.cells)), _time(result.seconds)] if number == 0 else ["", ""]
            figures = [_percent(score.mean), _reach(score), _percent(score.majority)]
            yield [*own, NAMES[score.metric], *figures, *time]


def _own_cells(result: GlueResult) -> Row:
    held_out = " of train" if result.held_out else ""
    return [result.name, f"{result.trained:,}", f"{result.measured:,}{held_out}"]


def _detail_caption(report: GlueReport) -> str:
    caption = f"Training took {_time(report.seconds)} in all."
    if any(len(result.cells) > 1 for result in report.results):
        caption += " Scores of several seeds are their mean, with the standard deviation (sd)."
    if any(result.name == "WNLI" for result in report.results):
        caption += " WNLI stands apart: the papers leave it out, since its dev set misleads."
    return caption


def _remarks(report: GlueReport) -> Iterator[str]:
    for name, reason in report.failed.items():
        yield f"{name} failed: {reason}"
    for name, reason in report.left_out.items():
        yield f"{name} is left out: {reason}"
    if report.submissions:
        yield f"Answers for GLUE's site: {', '.join(report.submissions)}"


def _reach(score: GlueScore) -> str:
    """Return the interval of one seed, or the standard deviation of several."""
    if score.deviation is not None:
        return f"sd {_percent(score.deviation)}"
    if score.interval is None:
        return NOTHING
    return f"{_percent(score.interval.low)} to {_percent(score.interval.high)}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _cell(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}"


def _time(seconds: float) -> str:
    """Return a time as a person reads it."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02} min"


def _table(rows: Iterator[Row]) -> str:
    """Return rows as a table whose columns are aligned, so that it can be read as it stands."""
    every = list(rows)
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    lines = [_line(row, widths) for row in every]
    rule = [f"{'-' * (width - 1)}:" if at else "-" * width for at, width in enumerate(widths)]
    return "\n".join([lines[0], _line(rule, widths), *lines[1:]])


def _line(cells: Row, widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    padded = [f"{first[0]:{first[1]}}", *(f"{cell:>{width}}" for cell, width in others)]
    return f"| {' | '.join(padded)} |".replace("\n", " ")
