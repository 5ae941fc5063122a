"""The rows of the benchmark, as data: targets, sides and how the sides are compared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .workers import Side

#: Table 10's three settings: shapes of the training rows, batch sizes, and two networks of 2 x 128.
TABLE10: dict[str, dict[str, Any]] = {
    "kin8nm": {"rows": 6554, "features": 8, "dim": 1, "batch": 128},
    "energy": {"rows": 614, "features": 8, "dim": 2, "batch": 16},
    "housing": {"rows": 405, "features": 13, "dim": 1, "batch": 32},
}
_TWO_NETWORKS = {"components": 3, "hidden": (128, 128), "separate": True}

#: One network of Table 10 at kin8nm's shape, as most libraries would build it.
ONE_NETWORK = {**TABLE10["kin8nm"], "components": 3, "hidden": (128, 128)}

#: Table 8.
TWO_SINUSOIDS = {
    "rows": 2000,
    "features": 1,
    "dim": 1,
    "components": 2,
    "hidden": (128, 128, 128, 128),
    "batch": 128,
}

#: Table 9 with fewer images: the cost of a step does not depend on their number.
MNIST = {
    "rows": 5120,
    "features": 10,
    "dim": 784,
    "hidden": (128, 128, 128, 128),
    "batch": 256,
    "labels": 10,
}

#: The shape from which one size at a time grows, and its values.
BASE = {"rows": 4096, "features": 8, "dim": 4, "components": 4, "hidden": (128, 128), "batch": 128}
GROWTH: dict[str, tuple[int, ...]] = {
    "components": (2, 4, 8, 16, 32, 64),
    "dim": (2, 4, 8, 16, 32, 64),
    "rows": (1024, 2048, 4096, 8192, 16384, 32768),
    "batch": (32, 64, 128, 256, 512, 1024),
    "hidden": (32, 64, 128, 256, 512),
}

#: Tiny shapes for smoke runs.
_TINY = {"rows": 64, "hidden": (8,), "batch": 16, "updates": 4}
_TINY_MNIST = {**_TINY, "dim": 6}


@dataclass(frozen=True)
class Target:
    """A bound for a figure; without one the figure is shown and not judged."""

    bound: str = ""
    value: float = float("nan")

    def __str__(self) -> str:
        return f"{self.bound} {self.value:g}" if self.bound else "-"

    def met(self, figure: float) -> bool | None:
        """Return whether a figure, rounded as printed, meets the target."""
        if not self.bound:
            return None
        figure = round(figure, 2)
        return figure <= self.value if self.bound == "at most" else figure >= self.value


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: Group and case, such as "step/kin8nm".
        how: What the figure is, in words.
        target: Bound for the figure.
        sides: Ours first, then the peer's; for growth, ours at each size.
        kind: "ratio" of times, ours to theirs; "speedup", theirs to ours; "value", ours alone;
            "slope" over `sizes`; "reach", a speedup in time to the same likelihood.
        unit: Unit of a "value", or of the parts of other kinds.
        sizes: Sizes of a "slope".
        repeats: Rounds of turns.
        data: The data set that must be present, if any.
        small: Settings that a smoke run replaces.
    """

    name: str
    how: str
    target: Target
    sides: tuple[Side, ...]
    kind: str = "ratio"
    unit: str = "s"
    sizes: tuple[int, ...] = ()
    repeats: int = 15
    data: str | None = None
    small: Mapping[str, Any] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The first part of the name, common to related rows."""
        return self.name.split("/")[0]


def _at_most(value: float) -> Target:
    return Target("at most", value)


def _at_least(value: float) -> Target:
    return Target("at least", value)


def _against_nll(label: str, builder: str, **settings: Any) -> tuple[Side, Side]:
    return (
        Side(f"ngem, {label}", builder, {"objective": "ngem", **settings}),
        Side(f"nll, {label}", builder, {"objective": "nll", **settings}),
    )


def _step_rows() -> list[Row]:
    shapes = {name: {**shape, **_TWO_NETWORKS} for name, shape in TABLE10.items()}
    shapes["two-sinusoids"] = TWO_SINUSOIDS
    rows = [
        Row(
            f"step/{name}",
            "whole training step, nGEM / NLL, one thread",
            _at_most(1.0),
            _against_nll("a step", "ours:train", updates=1000, **shape),
            # One network as in other rows, so that one compilation serves all.
            small={**_TINY, "separate": False},
        )
        for name, shape in shapes.items()
    ]
    for components in (3, 10, 20):
        sides = _against_nll("a step", "ours:train", updates=40, components=components, **MNIST)
        rows.append(
            Row(
                f"step/mnist-{components}",
                "whole training step, nGEM / NLL, one thread",
                _at_most(1.0),
                sides,
                small=_TINY_MNIST,
            )
        )
    return rows


def _loss_rows() -> list[Row]:
    every = [(components, dim) for components in (1, 3, 10, 50, 200) for dim in (1, 2, 16, 784)]
    groups = (
        ("loss", "loss and gradient alone, nGEM at its constant strength / NLL", every, 1.0, {}),
        (
            "scheduled",
            "loss and gradient alone while a schedule lasts, nGEM at strength 0.3 / NLL",
            [(3, 1), (3, 16), (10, 1), (10, 16)],
            1.2,
            {"power": 0.3},
        ),
    )
    return [
        Row(
            f"{group}/K={components},D={dim}",
            f"{words}, one thread",
            _at_most(bound),
            _against_nll("a call", "ours:loss", components=components, dim=dim, calls=1000, **more),
            repeats=9,
            small={"calls": 2, "components": 2, "dim": 2},
        )
        for group, words, shapes, bound, more in groups
        for components, dim in shapes
    ]


def _bare_rows() -> list[Row]:
    large = {**ONE_NETWORK, "hidden": (512,) * 4}
    mnist = {**MNIST, "components": 10}
    cases = {
        "2x128": (2.0, {**ONE_NETWORK, "updates": 1000}, {}),
        "4x512": (1.3, {**large, "updates": 50}, {}),
        "mnist": (1.3, {**mnist, "updates": 20}, {"distinct": True}),
        "mnist-conditions": (None, {**mnist, "updates": 40}, {"conditions": True}),
    }
    rows = []
    for name, (bound, shape, more) in cases.items():
        distinct = {"distinct": True} if "distinct" in more else {}
        rows.append(
            Row(
                f"bare/{name}",
                "our step / its bare matrix products, the better of XLA and NumPy, one thread",
                Target() if bound is None else _at_most(bound),
                (
                    Side("our step", "ours:train", {**shape, **distinct}),
                    Side("products", "ours:products", {**shape, **more}),
                ),
                small=_TINY_MNIST if "mnist" in name else _TINY,
            )
        )
    return rows


def _update_rows() -> list[Row]:
    shape = {**ONE_NETWORK, "updates": 2000}
    peers = {
        "torch": (8.0, "eager PyTorch", "torch_updates", {}, ("torch",)),
        "torch-compile": (1.0, "torch.compile", "torch_updates", {"compiled": True}, ("torch",)),
        "keras": (1.0, "Keras on JAX", "keras_updates", {}, ("keras", "keras_mdn_layer")),
        "skpro": (1.0, "skpro", "skpro_updates", {}, ("skpro", "torch")),
    }
    return [
        Row(
            f"updates/{name}",
            f"updates a second, ours / {label}, one thread each",
            _at_least(bound),
            (
                Side("ngem, an update", "ours:train", shape),
                Side(
                    f"{label}, an update",
                    f"peers:{builder}",
                    {**shape, **more},
                    process=name,
                    needs=needs,
                ),
            ),
            kind="speedup",
            repeats=9,
            small=_TINY,
        )
        for name, (bound, label, builder, more, needs) in peers.items()
    ]


def _seed_rows() -> list[Row]:
    shape = {**ONE_NETWORK, "updates": 1000, "seeds": 5}
    together = Side("five together", "ours:train", {**shape, "together": True}, threads=None)
    return [
        Row(
            f"seeds/{name}",
            f"five seeds in parallel against one after the other, {words}",
            target,
            (together, Side("in sequence", "ours:train", shape, threads=threads)),
            kind="speedup",
            repeats=9,
            small={**_TINY, "seeds": 2},
        )
        for name, words, target, threads in (
            ("sequence", "all threads", _at_least(1.7), None),
            ("one-thread", "the latter on one thread", Target(), 1),
        )
    ]


def _condition_rows() -> list[Row]:
    shape = {**MNIST, "components": 3, "updates": 240}
    return [
        Row(
            "conditions/mnist",
            "inverse MNIST, network on ten labels against network on every row, one thread",
            _at_least(5.0),
            (
                Side("repeated conditions", "ours:train", shape),
                Side("without", "ours:train", {**shape, "distinct": True}),
            ),
            kind="speedup",
            repeats=9,
            small=_TINY_MNIST,
        )
    ]


def _fit_rows() -> list[Row]:
    peers = {
        "torch": ("torch",),
        "zuko": ("zuko", "torch"),
        "sbi": ("sbi", "torch"),
        "keras": ("keras", "keras_mdn_layer"),
        "skpro": ("skpro", "torch"),
        "ngboost": ("ngboost",),
    }
    return [
        Row(
            f"fit/{data}/{peer}",
            f"time to {peer}'s best validation likelihood: theirs / ours, after compilation",
            _at_least(1.0),
            (
                Side("ngem", "peers:fit_ours", {"data": data}, process=f"fit-{data}"),
                Side(
                    peer,
                    "peers:fit_peer",
                    {"data": data, "peer": peer},
                    process=peer,
                    needs=needs,
                ),
            ),
            kind="reach",
            repeats=5,
            data=None if data == "toy" else data,
            small={"rows": 60, "epochs": 2},
        )
        for data in ("toy", "kin8nm", "energy", "housing")
        for peer, needs in peers.items()
    ]


def _tree_rows() -> list[Row]:
    shape = {"rows": 20_000, "features": 10, "components": 5, "rounds": 5}
    many = {**shape, "rounds": 100}
    needs = ("lightgbm", "ngboost")
    peers = {
        "ngboost": ("NGBoost's best validation likelihood (its defaults)", 20.0),
        "lightgbmlss": ("the best validation likelihood of LightGBMLSS's Gaussian", 3.0),
    }
    reach = [
        Row(
            f"trees/reach/{data}/{peer}",
            f"time to {words} (500 rounds): theirs / one boosted mixture, K = 5, large steps, one "
            "thread, after compilation",
            _at_least(bound),
            (
                Side(
                    "ngem, trees", "trees:reach", {"data": data}, process="trees", needs=needs[:1]
                ),
                Side(
                    peer,
                    "peers:fit_peer",
                    {"data": data, "peer": peer, "epochs": 500},
                    process=peer,
                    needs=("lightgbm", peer),
                ),
            ),
            kind="reach",
            repeats=1,
            data=data,
            small={"rows": 60, "epochs": 2},
        )
        for data in ("power-plant", "protein")
        for peer, (words, bound) in peers.items()
    ]
    round_of_trees = Row(
        "trees/round",
        "a round of 15 trees, boosted mixture / LightGBM's multiclass objective, 20,000 rows by "
        "10 columns, one thread",
        _at_most(1.3),
        (
            Side("ngem, a round", "trees:our_round", shape, process="trees", needs=needs[:1]),
            Side(
                "lightgbm, a round",
                "trees:multiclass_round",
                shape,
                process="lightgbm",
                needs=needs[:1],
            ),
        ),
        repeats=5,
        small={"rows": 200, "features": 2, "components": 2, "rounds": 1},
    )
    evaluation = Row(
        "trees/evaluate",
        "20,000 rows by 10 columns through 1,500 trees (100 rounds), LightGBM's predict / ours, "
        "one thread",
        _at_least(8.0),
        (
            Side("ngem", "trees:our_evaluation", many, process="trees", needs=needs[:1]),
            Side(
                "lightgbm",
                "trees:lightgbm_evaluation",
                many,
                process="lightgbm",
                needs=needs[:1],
            ),
        ),
        kind="speedup",
        repeats=5,
        small={"rows": 200, "features": 2, "components": 2, "rounds": 1},
    )
    return [round_of_trees, evaluation, *reach]


def _prediction_rows() -> list[Row]:
    # skpro draws samples row by row, so fewer rows do; its other answers are arrays and need many.
    peers = {
        "scipy": ({}, 200, "a loop over scipy", ("scipy",)),
        "skpro": ({"sample": 1000}, 100_000, "skpro", ("skpro",)),
    }
    return [
        Row(
            f"predict/{question}/{peer}",
            f"{question} of a million rows, K = 10, all threads, ours in single precision, against "
            f"{label} (extrapolated from {settings['sample']:,} rows)",
            _at_least(50.0),
            (
                Side("ngem, a row", "predictions:answer_ours", settings, threads=None),
                Side(
                    f"{label}, a row",
                    f"predictions:answer_{peer}",
                    settings,
                    threads=None,
                    process=peer,
                    needs=needs,
                ),
            ),
            kind="speedup",
            repeats=5,
            small={"rows": 50, "sample": 3},
        )
        for question in ("quantile", "cdf", "crps", "sample")
        for peer, (few, many, label, needs) in peers.items()
        for settings in [
            {
                "question": question,
                "components": 10,
                "rows": 1_000_000,
                "sample": few.get(question, many),
            }
        ]
    ]


def _region_rows() -> list[Row]:
    rows, sample = 20_000, 100
    return [
        Row(
            f"predict/region-{components}/scipy",
            f"highest-density regions of {rows:,} rows, K = {components}, all threads, ours in "
            f"single precision, against a loop over scipy (extrapolated from {sample:,} rows)",
            _at_least(bound),
            (
                Side("ngem, a row", "predictions:answer_ours", settings, threads=None),
                Side(
                    "a loop over scipy, a row",
                    "predictions:answer_scipy",
                    settings,
                    threads=None,
                    process="scipy",
                    needs=("scipy",),
                ),
            ),
            kind="speedup",
            repeats=5,
            small={"rows": 50, "sample": 3},
        )
        for components, bound in ((5, 50.0), (30, 20.0))
        for settings in [
            {"question": "region", "components": components, "rows": rows, "sample": sample}
        ]
    ]


def _start_rows() -> list[Row]:
    shape = {"rows": 1000, "features": 8}
    cases = (
        ("warm", "first epoch of MDNRegressor().fit the second time", "warm", _at_most(0.2)),
        ("cold", "first epoch of MDNRegressor().fit in a new process", "cold", _at_most(2.5)),
        ("kept", "the same, with programs of an earlier process", "kept", _at_most(1.5)),
        ("import", "of that, Python and imports", "bare_import", _at_most(1.0)),
    )
    return [
        Row(
            f"start/{name}",
            f"{words}, 1,000 rows",
            target,
            (Side(name, f"start:{builder}", shape, threads=None),),
            kind="value",
            repeats=5,
            small={"rows": 40, "features": 2},
        )
        for name, words, builder, target in cases
    ]


def _one_row_rows() -> list[Row]:
    shape = {"rows": 1000, "features": 8}
    cases = (
        ("mean", "predict", [], 0.3),
        ("quantiles", "predict_quantiles", [[0.05, 0.5, 0.95]], 1.0),
        ("region", "predict_interval", [0.9], 3.0),
    )
    return [
        Row(
            f"one/{name}",
            f"a thousand calls with one row each, {name} of a fitted MDNRegressor",
            _at_most(goal),
            (
                Side(
                    name,
                    "start:one_row",
                    {**shape, "method": method, "arguments": arguments},
                    threads=None,
                ),
            ),
            kind="value",
            repeats=5,
            small={**shape, "rows": 40, "method": method, "arguments": arguments},
        )
        for name, method, arguments, goal in cases
    ]


def _whole_rows() -> list[Row]:
    shape = {"rows": 10_000, "features": 8}
    few = {"rows": 200, "features": 2}
    rows = [
        Row(
            "command/predict",
            "CPU seconds of `ngem predict` for one row, programs of an earlier process at hand",
            _at_most(0.8),
            (Side("predict", "whole:predict_command", {"features": 8}, threads=None),),
            kind="value",
            repeats=5,
        ),
        Row(
            "stack/good",
            "seconds of DensityStack(quality='good').fit, 10,000 rows with 8 columns, all threads",
            _at_most(60.0),
            (Side("fit", "whole:stack", {**shape, "quality": "good"}, threads=None),),
            kind="value",
            repeats=1,
            small={**few, "quality": "fast"},
        ),
        Row(
            "members/five",
            "five members / one, 10,000 rows, 30 epochs each, all threads, after compilation",
            _at_most(2.9),
            tuple(
                Side(label, "whole:members", {**shape, "epochs": 30, "count": count}, threads=None)
                for label, count in (("five", 5), ("one", 1))
            ),
            repeats=5,
            small={**few, "epochs": 2},
        ),
    ]
    rows += [
        Row(
            f"regions/{count}",
            f"seconds of highest-density regions of {count:,} rows, MDNRegressor's five members",
            _at_most(goal),
            (Side("regions", "whole:regions", {"rows": count, "features": 8}, threads=None),),
            kind="value",
            repeats=repeats,
            small=few,
        )
        for count, goal, repeats in ((20_000, 1.0, 5), (1_000_000, 30.0, 1))
    ]
    rows += [
        Row(
            f"memory/{command}",
            f"memory of `ngem {command}` for three million rows beyond that for 30,000, in MB",
            _at_most(50.0),
            (
                Side(
                    "more",
                    "whole:command_memory",
                    {"command": command, "rows": 3_000_000, "features": 4},
                    threads=None,
                ),
            ),
            kind="value",
            unit="MB",
            repeats=1,
            small={"rows": 400},
        )
        for command in ("predict", "evaluate")
    ]
    return rows


def _growth_rows() -> list[Row]:
    rows = []
    for vary, sizes in GROWTH.items():
        # A weight matrix grows with the square of the width. A step sees one batch, however many
        # rows there are.
        bound = _at_most({"hidden": 2.0, "rows": 0.1}.get(vary, 1.0))
        for what, builder, unit, repeats, more in (
            ("time", "step_growth", "s", 5, {"updates": 200}),
            ("memory", "step_memory", "B", 1, {}),
        ):
            sides = tuple(
                Side(
                    f"{vary} {size}",
                    f"ours:{builder}",
                    {**BASE, **more, "vary": vary, "size": size},
                )
                for size in sizes
            )
            rows.append(
                Row(
                    f"growth/{what}/{vary}",
                    f"slope of a step's {what} against {vary} on logarithmic axes, three largest",
                    bound,
                    sides,
                    kind="slope",
                    unit=unit,
                    sizes=sizes,
                    repeats=repeats,
                    small={k: v for k, v in _TINY.items() if k in {**BASE, **more} and k != vary},
                )
            )
    rows.append(
        Row(
            "growth/memory/share",
            "planned memory of a step / parameters, state and one batch's activations",
            _at_most(1.5),
            (Side("share", "ours:memory_ratio", BASE),),
            kind="value",
            unit="",
            repeats=1,
            small={k: v for k, v in _TINY.items() if k in BASE},
        )
    )
    return rows


ROWS: tuple[Row, ...] = (
    *_step_rows(),
    *_loss_rows(),
    *_bare_rows(),
    *_update_rows(),
    *_seed_rows(),
    *_condition_rows(),
    *_fit_rows(),
    *_tree_rows(),
    *_prediction_rows(),
    *_region_rows(),
    *_start_rows(),
    *_one_row_rows(),
    *_whole_rows(),
    *_growth_rows(),
)


def choose(names: list[str], *, smoke: bool = False) -> list[Row]:
    """Return rows by name or by the first parts of their names; all if none is given.

    A smoke run of everything takes the first row of each group.
    """
    unknown = [name for name in names if not any(_begins(row, name) for row in ROWS)]
    if unknown:
        groups = ", ".join(dict.fromkeys(row.group for row in ROWS))
        raise ValueError(
            f"expected names of rows, got {', '.join(unknown)}; try one of {groups}, or a row such "
            f"as {ROWS[0].name}."
        )
    if smoke and not names:
        return list({row.group: row for row in reversed(ROWS)}.values())[::-1]
    return [row for row in ROWS if not names or any(_begins(row, name) for name in names)]


def _begins(row: Row, name: str) -> bool:
    return row.name == name or row.name.startswith(name.rstrip("/") + "/")
