"""A start from data: the head's biases stand for clusters of the targets."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..families import AbstractFamily
from ..mixture import Mixture
from .head import MixtureNetwork, check_own_network

#: Rows that k-means looks at.
_MAX_ROWS = 20_000


def initialize_head(
    network: MixtureNetwork, y: np.ndarray, rng: np.random.Generator, *, shrink: float = 0.1
) -> MixtureNetwork:
    """Return the network with its head set so that it starts as a mixture of the targets.

    The biases of the last layer(s) stand for the k-means clusters of the targets. The weights are
    shrunk, so that the output hardly depends on x at the start.
    """
    body = check_own_network(network.body, "init='kmeans'", "pass init='random'")
    mixture = cluster_mixture(np.asarray(y), network.n_components, network.family, rng)
    return eqx.tree_at(
        lambda tree: tree.body, network, body.with_start(network.to_raw(mixture), shrink)
    )


def cluster_mixture(
    y: np.ndarray, n_components: int, family: AbstractFamily, rng: np.random.Generator
) -> Mixture:
    """Return a mixture with one component for each k-means cluster of the targets."""
    centers, label = k_means(y, n_components, rng)
    counts = np.bincount(label, minlength=n_components)
    overall = np.maximum(y.std(axis=0), 1e-3)
    squares = np.zeros_like(centers)
    np.add.at(squares, label, (y - centers[label]) ** 2)
    # One pseudo-count of a fraction of the overall variance keeps clusters of a few rows wide.
    variance = (squares + (overall / n_components) ** 2) / (counts + 1)[:, None]
    logits = jnp.log(jnp.asarray((counts + 1) / (counts + 1).sum()))
    some = np.unique(np.linspace(0, len(y) - 1, min(len(y), _MAX_ROWS)).astype(int))
    members = np.asarray(label[some][:, None] == np.arange(n_components), centers.dtype)
    from_cluster = jax.vmap(family.from_cluster, in_axes=(None, 1, 0, 0))
    components = from_cluster(*map(jnp.asarray, (y[some], members, centers, variance)))
    return Mixture(logits, components, family)


def k_means(
    y: np.ndarray, n_clusters: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return centers and labels of scikit-learn's k-means, on a sample of large data.

    Where there are fewer distinct targets than clusters, some centers are repeated.
    """
    from sklearn.cluster import KMeans

    sample = y[rng.choice(len(y), min(len(y), _MAX_ROWS), replace=False)]
    distinct = np.unique(sample, axis=0)
    count = min(n_clusters, len(distinct))
    model = KMeans(count, random_state=int(rng.integers(2**31 - 1))).fit(sample)
    repeated = rng.integers(count, size=n_clusters - count)
    centers = np.concatenate([model.cluster_centers_, model.cluster_centers_[repeated]])
    return centers, np.asarray(model.predict(y))
