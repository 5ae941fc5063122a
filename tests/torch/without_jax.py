"""Use all of ngem.torch where JAX and its relatives cannot be imported."""

import sys

BLOCKED = {"jax", "jaxlib", "equinox", "optax", "jaxtyping", "sklearn", "scipy"}


class Absent:
    """Finds blocked modules, and says that they are not installed."""

    def find_spec(self, name, path=None, target=None):
        """Refuse a blocked module, leave the others to the next finder."""
        if name.split(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}")


sys.meta_path.insert(0, Absent())

import torch  # noqa: E402

import ngem.torch  # noqa: E402

for covariance in ("diag", "full"):
    head = ngem.torch.MixtureDensityHead(2, 3, 1, covariance)
    parameters = head(torch.randn(5, 2))
    for objective in ngem.torch.OBJECTIVES:
        ngem.torch.NGEMLoss(objective=objective)(
            *head(torch.randn(5, 2)), torch.randn(5, 1)
        ).backward()
    ngem.torch.quantile(*parameters, 0.5)
    ngem.torch.cdf(*parameters, torch.zeros(5, 1))
    ngem.torch.crps(*parameters, torch.zeros(5, 1))
    ngem.torch.sample(*parameters, (4,))
    ngem.torch.distribution(*parameters).sample()
assert not BLOCKED & {name.split(".")[0] for name in sys.modules}
print("done")
