"""Draw docs/images/families.png: each family with some sets of parameters.

python benchmarks/families_picture.py
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np

from ngem.families import AbstractFamily, get_family

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_IMAGE = Path(__file__).parents[1] / "docs/images/families.png"

#: Names with options, the range to draw, and raw outputs but for scales, which are no logarithms.
_PANELS = {
    "gaussian": ((-4, 4), ((0.0, 1.0), (-1.0, 0.5), (1.0, 1.5))),
    "logistic": ((-4, 4), ((0.0, 0.55), (-1.0, 0.28), (1.0, 0.83))),
    "laplace": ((-4, 4), ((0.0, 0.7), (-1.0, 0.35), (1.0, 1.06))),
    "student(3)": ((-4, 4), ((0.0, 0.58), (-1.0, 0.29), (1.0, 0.87))),
    "student-learned": ((-4, 9), ((0.0, 0.58, 0.0), (-1.0, 0.5, 2.5), (1.0, 0.6, -1.0))),
    "asymmetric-laplace": ((-4, 10), ((0.0, 1.0, 1.5), (0.0, 2.0, -1.0), (2.0, 1.0, 3.0))),
    "gumbel": ((-4, 6), ((-1.0, 0.8), (-2.0, 0.4), (0.0, 1.2))),
    "gamma": ((0, 6), ((0.0, 1.0), (0.7, 0.4), (1.2, 0.2))),
    "lognormal": ((0, 6), ((0.0, 0.9), (0.6, 0.4), (1.2, 0.2))),
    "weibull": ((0, 6), ((0.3, 1.0), (0.7, 0.4), (1.2, 0.2))),
    "inverse-gaussian": ((0, 6), ((0.3, 1.5), (0.7, 0.4), (1.2, 0.2))),
    "beta": ((0, 1), ((0.0, 0.5), (0.0, 1.7), (1.5, 1.0))),
    "logitnormal": ((0, 1), ((0.0, 0.5), (0.0, 2.0), (1.5, 1.0))),
    "poisson": ((0, 12), ((0.0,), (1.0,), (1.8,))),
    "negative-binomial": ((0, 12), ((0.0, 1.0), (1.0, 0.5), (1.8, 0.3))),
    "binomial(10)": ((0, 10), ((-2.0,), (0.0,), (1.5,))),
    "ordinal(5)": ((0, 4), ((0.0, 0.0, 0.0, 0.0), (-2.0, -1.0, 0.0, 1.0), (1.5, 1.0, 0.0, -1.0))),
    "von-mises(360)": ((0, 360), ((0.0, 1.0), (-6.0, 0.0), (15.0, -15.0))),
    "zero-inflated gamma": ((0, 6), ((0.0, 0.7, 0.4), (-1.0, 1.2, 0.2))),
    "logitnormal + 0 + 1": ((0, 1), ((-1.0, -1.0, 0.0, 0.5), (-2.0, 0.0, 1.0, 1.0))),
}

#: What the numbers of a panel are, where they are not location and scale.
_NUMBERS = {
    "student-learned": "location, scale, shape",
    "asymmetric-laplace": "location, scale, shape",
    "poisson": "location",
    "binomial(10)": "location",
    "ordinal(5)": "four logits",
    "von-mises(360)": "cosine, sine",
    "zero-inflated gamma": "logit, location, scale",
    "logitnormal + 0 + 1": "two logits, location, scale",
}


def _draw(panel: Any, family: AbstractFamily, ends: tuple, numbers: tuple) -> None:
    """Draw one density, or probabilities as points; atoms as bars of their probability."""
    raw = np.array(numbers, np.float32)
    kinds = family.raw_kinds(1)
    if "scale" in kinds:
        place = kinds.index("scale")  # a shape follows it
        raw[place] = np.log(raw[place])
    params = family.constrain(jnp.asarray(raw), 1)
    ask = jax.vmap(lambda y: jnp.exp(family.log_prob(params, y[None])))
    label = ", ".join(f"{number:g}" for number in numbers)
    if family.is_discrete:
        x = np.arange(ends[0], ends[1] + 1, dtype=np.float32)
        panel.plot(x, ask(x), "o-", ms=4, lw=0.6, label=label)
        return
    x = np.linspace(*ends, 801, dtype=np.float32)[1:-1]
    (line,) = panel.plot(x, ask(x), label=label)
    for atom in family.atoms:
        height = float(ask(np.array([atom], np.float32))[0])
        panel.plot([atom, atom], [0, height], color=line.get_color(), lw=3, solid_capstyle="butt")
        panel.plot([atom], [height], "o", color=line.get_color(), ms=6)


def main() -> None:
    """Draw all families."""
    figure, axes = plt.subplots(7, 3, figsize=(10, 15.5), layout="constrained")
    for panel, (name, (ends, pairs)) in zip(axes.flat, _PANELS.items(), strict=False):
        family = get_family(name)
        for numbers in pairs:
            _draw(panel, family, ends, numbers)
        margin = 0.5 if family.is_discrete else 0.02 * ends[1] if family.atoms else 0
        panel.set(title=name, ylim=(0, None), xlim=(ends[0] - margin, ends[1] + margin), yticks=[])
        title = _NUMBERS.get(name, "location, scale")
        panel.legend(title=title, fontsize="x-small", title_fontsize="x-small")
        panel.spines[["left", "right", "top"]].set_visible(False)
    for panel in axes.flat[len(_PANELS) :]:
        panel.axis("off")
    figure.savefig(_IMAGE, dpi=110)


if __name__ == "__main__":
    main()
