"""Draw docs/images/families.png: each family with three sets of parameters.

python benchmarks/families_picture.py
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np

from ngem.families import LocationScale, get_family

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_IMAGE = Path(__file__).parents[1] / "docs/images/families.png"

#: Names with options, the range to draw, and locations and scales.
_PANELS = {
    "gaussian": ((-4, 4), ((0.0, 1.0), (-1.0, 0.5), (1.0, 1.5))),
    "logistic": ((-4, 4), ((0.0, 0.55), (-1.0, 0.28), (1.0, 0.83))),
    "laplace": ((-4, 4), ((0.0, 0.7), (-1.0, 0.35), (1.0, 1.06))),
    "student(3)": ((-4, 4), ((0.0, 0.58), (-1.0, 0.29), (1.0, 0.87))),
    "gumbel": ((-4, 6), ((-1.0, 0.8), (-2.0, 0.4), (0.0, 1.2))),
    "gamma": ((0, 6), ((0.0, 1.0), (0.7, 0.4), (1.2, 0.2))),
    "lognormal": ((0, 6), ((0.0, 0.9), (0.6, 0.4), (1.2, 0.2))),
    "weibull": ((0, 6), ((0.3, 1.0), (0.7, 0.4), (1.2, 0.2))),
    "logitnormal": ((0, 1), ((0.0, 0.5), (0.0, 2.0), (1.5, 1.0))),
}


def main() -> None:
    """Draw all families."""
    figure, axes = plt.subplots(3, 3, figsize=(10, 7), layout="constrained")
    for panel, (name, (ends, pairs)) in zip(axes.flat, _PANELS.items(), strict=True):
        family = get_family(name)
        x = np.linspace(*ends, 801)[1:-1]
        for location, scale in pairs:
            params = LocationScale(jnp.array([location]), jnp.array([scale]))
            density = jnp.exp(jax.vmap(lambda y, p=params, f=family: f.log_prob(p, y[None]))(x))
            panel.plot(x, density, label=f"{location:g}, {scale:g}")
        panel.set(title=name, ylim=(0, None), xlim=ends, yticks=[])
        panel.legend(title="location, scale", fontsize="x-small", title_fontsize="x-small")
        panel.spines[["left", "right", "top"]].set_visible(False)
    figure.savefig(_IMAGE, dpi=110)


if __name__ == "__main__":
    main()
