"""What a fit takes for granted because nobody said it, in sentences (`fit.said`)."""

from __future__ import annotations

from latentmdp.errors import quoted
from latentmdp.fitting.deciding.total_range import TotalRange
from latentmdp.fitting.reading.cells import LogCounts
from latentmdp.fitting.reading.chunks import NO_NUMBER
from latentmdp.fitting.reading.episodes import Reading
from latentmdp.fitting.reading.names import alike
from latentmdp.fitting.reading.problems import counted


def inferred(
    reading: Reading, counts: LogCounts, horizon: int | None, possible: TotalRange | None = None
) -> list[str]:
    """What was inferred beside the columns, in sentences."""
    longest = len(counts.lengths) - 1
    said = []
    if horizon is None:
        said.append(f"the horizon was taken as {longest}, the length of the longest episode")
    elif horizon < longest:
        said.append(f"episodes of up to {longest} steps count whole; values are of {horizon} steps")
    elif horizon > longest:
        said.append(f"no episode is longer than {longest} steps; values go on to {horizon}")
    if reading.labelled_rows_missing:
        said.append("a context stands on some rows of an episode only; it was taken for all")
    said += _about_names(reading)
    if reading.repeats.sentence:
        said.append(
            f"{reading.repeats.sentence}: read as steps (duplicates='drop' or --duplicates drop "
            "drops them)"
        )
    if counts.assumed_ended:
        said.append(
            f"{counted(counts.assumed_ended, 'episode')} shorter than the longest: taken to have "
            "ended (a column 'terminated' or 'truncated' would say)"
        )
    if counts.unknown_outcomes:
        went_on = counts.went_on.any() and counts.finished.any()
        said.append(
            f"the next state is not known after {counted(counts.unknown_outcomes, 'last step')}; "
            + ("that it was no end counts, where it led does not" if went_on
               else "rewards count there, outcomes do not")
        )  # fmt: skip
    if possible is not None and possible.sentence:
        said.append(possible.sentence)
    return said


def _about_names(reading: Reading) -> list[str]:
    """Names that somebody may not have meant; those given as known were meant."""
    said = []
    for names in reading.names.kinds:
        doubtful = [name for name in names.ordered() if name in NO_NUMBER and not names.fixed]
        if doubtful:
            said.append(f"{doubtful[0]!r} was taken as the name of a {names.what} (a missing value "
                        "is an empty cell)")  # fmt: skip
        pairs = [] if names.fixed else alike(names.ordered())
        if pairs:
            others = f" (and {counted(len(pairs) - 1, 'more such pair')})" * (len(pairs) > 1)
            said.append(
                f"{quoted(pairs[0][0])} and {quoted(pairs[0][1])} were taken as two {names.what}s, "
                f"but differ only in blanks or in upper and lower case{others}; strip=True and "
                "casefold=True (--strip, --casefold) make them one"
            )
    return said
