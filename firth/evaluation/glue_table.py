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
        measured = {name for name, _ in table.columns if report.find_set(name)}
        # RTE is in both tables, and makes none of the second alone.
        if table is SUPERGLUE and measured == {"RTE"}:
            continue
        if measured:
            parts.append(_table(_paper_rows(report, table)))
            parts.append(_caption(table, len(measured)))
    if report.results:
        parts.append(_table(_detail_rows(report)))
        parts.append(_detail_caption(report))
    parts += _remarks(report)
    return "\n\n".join(parts) + "\n"


def _caption(table: PaperTable, measured: int) -> str:
    """Return what stands below a paper's table."""
    caption = CAPTION.format(title=table.title)
    if 1 < measured < table.averaged:
        caption += PARTIAL.format(count=measured)
    return caption


def score_text(score: GlueScore) -> str:
    """Return a metric in per cent, with its interval or its spread over seeds."""
    mean = _percent(score.mean)
    return f"{mean} ({_reach(score)})"


def _paper_rows(report: GlueReport, table: PaperTable) -> Iterator[Row]:
    """Yield a paper's table with the majority class and the model below the published rows.

    Where the model lacks some columns, it has no average of all, and a second average is over those
    that it has, of the published rows too.
    """
    majority: list[float | None] = []
    ours: list[float | None] = []
    kept = []  # numbers of the columns that were measured
    for number, (name, metric) in enumerate(table.columns):
        score = report.find(name, metric)
        majority.append(None if score is None else 100 * score.majority)
        ours.append(None if score is None else 100 * score.mean)
        if score is not None:
            kept.append(number)
    sets = {table.columns[number][0] for number in kept}
    count = len(sets)
    whole = count == table.averaged
    partial = not whole and count > 1

    headings = [_heading(name, metric) for name, metric in table.columns]
    headings.append("average")
    if partial:
        headings.append(f"average of {count}")
    yield ["", *headings]

    rows = {**table.published, MAJORITY: majority, report.model: ours}
    for name, values in rows.items():
        over_kept = average(table, values, kept)
        of_all = table.averages.get(name)
        if whole and name not in table.averages:
            of_all = over_kept
        figures = [*values, of_all]
        if partial:
            figures.append(over_kept)
        yield [name, *map(_cell, figures)]


def _heading(name: str, metric: str) -> str:
    """Return the heading of a column: the set, and the metric where it is not the usual one."""
    # CB has a column of F1 too.
    if metric == "accuracy" and name != "CB":
        return name
    return f"{name} {NAMES[metric]}"


def _detail_rows(report: GlueReport) -> Iterator[Row]:
    """Yield each metric of each task."""
    yield [
        *("set", "train rows", "dev rows", "metric", "score", "95 % interval or spread"),
        *("majority class", "seeds", "time"),
    ]
    for result in report.results:
        first, *others = result.scores
        yield [
            *_own_cells(result),
            *_score_cells(first),
            str(len(result.cells)),
            _time(result.seconds),
        ]
        # What all metrics of a set share stands in its first row only.
        for score in others:
            yield ["", "", "", *_score_cells(score), "", ""]


def _own_cells(result: GlueResult) -> Row:
    """Return the cells of a set: its name and how many rows were learned from and measured on."""
    measured = f"{result.measured:,}"
    if result.held_out:
        measured += " of train"
    return [result.name, f"{result.trained:,}", measured]


def _score_cells(score: GlueScore) -> Row:
    """Return the cells of a metric: its name, the model's score and the majority class's."""
    return [
        NAMES[score.metric],
        _percent(score.mean),
        _reach(score),
        _percent(score.majority),
    ]


def _detail_caption(report: GlueReport) -> str:
    """Return what stands below the table of all metrics."""
    caption = f"Training took {_time(report.seconds)} in all."
    if any(len(result.cells) > 1 for result in report.results):
        caption += " Scores of several seeds are their mean, with the standard deviation (sd)."
    if any(result.name == "WNLI" for result in report.results):
        caption += " WNLI stands apart: the papers leave it out, since its dev set misleads."
    return caption


def _remarks(report: GlueReport) -> Iterator[str]:
    """Yield which tasks failed or are left out, and where the answers to test sets are."""
    for name, reason in report.failed.items():
        yield f"{name} failed: {reason}"
    for name, reason in report.left_out.items():
        yield f"{name} is left out: {reason}"
    if report.submissions:
        files = ", ".join(report.submissions)
        yield f"Answers for GLUE's site: {files}"


def _reach(score: GlueScore) -> str:
    """Return the interval of one seed, or the standard deviation of several."""
    if score.deviation is not None:
        return f"sd {_percent(score.deviation)}"
    if score.interval is None:
        return NOTHING
    low = _percent(score.interval.low)
    high = _percent(score.interval.high)
    return f"{low} to {high}"


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
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def _table(rows: Iterator[Row]) -> str:
    """Return rows as a table whose columns are aligned, so that it can be read as it stands."""
    every = list(rows)
    columns = zip(*every, strict=True)
    widths = [max(map(len, column)) for column in columns]
    heading, *body = [_line(row, widths) for row in every]

    # The first column is aligned on the left, the others on the right.
    first, *others = widths
    rule = ["-" * first]
    rule += [f"{'-' * (width - 1)}:" for width in others]
    return "\n".join([heading, _line(rule, widths), *body])


def _line(cells: Row, widths: Sequence[int]) -> str:
    """Return a line of a table, its first cell on the left of its column, the others on the right.

    The name of a model may hold line breaks, which would end the table.
    """
    padded = [f"{cells[0]:{widths[0]}}"]
    for cell, width in zip(cells[1:], widths[1:], strict=True):
        padded.append(f"{cell:>{width}}")
    line = " | ".join(padded)
    return f"| {line} |".replace("\n", " ")
