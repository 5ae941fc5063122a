"""What a user should know about the columns of a table before believing a model of them."""

import numpy as np

from ..estimator.schema import OTHER, Schema

#: Fraction of equal targets at an end, or at zero, that is worth a word, and the fewest of them.
_MANY, _SOME = 0.05, 10

#: Distinct whole numbers of a target that are few enough to be classes or grades, and the rows for
#: each of them.
_GRADES, _REPEATS = 20, 5


def gap_counts(schema: Schema, x: np.ndarray) -> dict[str, int]:
    """Return how many rows have a gap in each column that has some."""
    places = schema.places
    counts = {name: int(np.isnan(x[:, place[0]]).sum()) for name, place in places.items()}
    return {name: count for name, count in counts.items() if count}


def rare_notes(schema: Schema, x: np.ndarray) -> dict[str, str]:
    """Return what was done about columns with more categories than a model can use."""
    notes, places = {}, schema.places
    for column in schema.features:
        if column.has_other and column.categories:
            rare = int(np.sum(x[:, places[column.name][0]] == len(column.categories)))
            notes[column.name] = (
                f"read as its {len(column.categories)} most common categories; the others, in "
                f"{rare:,} rows, count as one: {OTHER}"
            )
        elif column.common is not None:
            read = f"read its {column.common} most common ones, and the others as one: {OTHER}"
            read = read if column.common else "do not tell them apart, because all are rare"
            notes[column.name] = (
                f"trees read its {len(column.categories):,} categories; networks {read}"
            )
    return notes


def target_notes(schema: Schema, y: np.ndarray) -> list[str]:
    """Return what is special about the values of the targets."""
    notes = []
    for name, values in zip(schema.targets, y.T, strict=True):
        notes += [f"{name} {note}" for note in _notes_of(values)]
    return notes


def _notes_of(values: np.ndarray) -> list[str]:
    """Return what is special about one target."""
    distinct, counts = np.unique(values, return_counts=True)
    low, high = distinct[0], distinct[-1]
    if low == high:
        return [f"is {low:g} in all rows, so there is nothing to learn"]
    if np.all(distinct % 1 == 0) and len(distinct) <= min(_GRADES, len(values) / _REPEATS):
        shown = ", ".join(f"{value:g}" for value in distinct[:5])
        more = " …" if len(distinct) > 5 else ""
        return [f"has {len(distinct)} whole numbers only ({shown}{more})"]
    fractions = dict(zip(distinct.tolist(), (counts / len(values)).tolist(), strict=True))
    places = {0.0: "", low: "its smallest value, ", high: "its largest value, "}
    peaks = [
        f"is {value:g}, {place}in {fractions[value]:.0%} of the rows; a density without "
        "an atom can only put a narrow peak there"
        for value, place in places.items()
        if fractions.get(value, 0) >= max(_MANY, _SOME / len(values))
    ]
    return peaks or _bounds(low, high)


def _bounds(low: float, high: float) -> list[str]:
    """Return the usual bounds that a target respects, such as those of a percentage."""
    for top, what in ((1.0, "a fraction"), (100.0, "a percentage")):
        if low >= 0 and high <= top and high > 0.9 * top and low < 0.1 * top:
            return [
                f"lies between {low:g} and {high:g}, as {what} does; densities may reach beyond"
            ]
    return []


def unseen_text(count: int) -> str:
    """Return what a category that the model has not seen means."""
    rows = "1 row has" if count == 1 else f"{count:,} rows have"
    return f"{rows} a category that the model has not seen; it is read as none that is known"
