"""Peers with the same network and batch: PyTorch, Keras, skpro, zuko, sbi; and boosted ones.

Each library is imported by the function that needs it, so that only its own worker loads it.
"""

import contextlib
import importlib
import importlib.util
import itertools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..datasets import load_uci, random_split, signed_sine
from .ours import noise, steps_of
from .timing import Turn, seconds

#: Largest number of epochs, and epochs without improvement before stopping, for all peers.
EPOCHS, PATIENCE = 300, 30


class SplitRows(NamedTuple):
    """Training and validation rows, standardized by the training rows."""

    x: np.ndarray
    y: np.ndarray
    x_validation: np.ndarray
    y_validation: np.ndarray


def absent(packages: Sequence[str]) -> list[str]:
    """Return the packages that are not installed."""
    return [name for name in packages if importlib.util.find_spec(name) is None]


def table(name: str, rows: int | None = None) -> SplitRows:
    """Return the toy or a UCI set with its first target, a fifth of it for validation."""
    if name == "toy":
        drawn = signed_sine(1250, weight=0.8)
        x, y = drawn.x, drawn.y
    else:
        data = load_uci(name)
        x, y = data.x, data.y[:, :1]
    split = random_split(len(x), 0, test=0.2)
    train, validation = split.train[:rows], split.test[:rows]
    parts = []
    for values in (x, y):
        shift, scale = values[train].mean(axis=0), values[train].std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        parts.append([(values[part] - shift) / scale for part in (train, validation)])
    return SplitRows(parts[0][0], parts[1][0], parts[0][1], parts[1][1])


def torch_updates(
    *, compiled: bool = False, rows: int, features: int, batch: int, updates: int, **shape: Any
) -> Turn:
    """Return a turn of a plain PyTorch loop with Adam."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y = (torch.as_tensor(part) for part in noise(rows, features, shape["dim"]))
    network = _torch_network(features, **shape)
    loss = _torch_nll(network, shape["components"], shape["dim"])
    # One program for each of the two batch sizes: one for any size would be slower.
    chosen = torch.compile(loss, dynamic=False) if compiled else loss
    step = _torch_step(network, chosen, 1e-3, fused=compiled)
    epochs, done = steps_of(rows, batch, updates)

    def work(epochs: int) -> None:
        for _ in range(epochs):
            for index in torch.randperm(rows).split(batch):
                step(x[index], y[index])

    work(1)
    return lambda: seconds(lambda: work(epochs)) / done


def keras_updates(
    *,
    rows: int,
    features: int,
    dim: int,
    components: int,
    hidden: Sequence[int],
    batch: int,
    updates: int,
) -> Turn:
    """Return a turn of Keras on JAX with the layer and loss of keras-mdn-layer."""
    x, y = noise(rows, features, dim)
    model = _keras_model(features, dim, components, hidden)
    epochs, done = steps_of(rows, batch, updates)
    work = lambda epochs: model.fit(x, y, batch_size=batch, epochs=epochs, verbose=0)  # noqa: E731
    work(1)
    return lambda: seconds(lambda: work(epochs)) / done


def skpro_updates(
    *,
    rows: int,
    features: int,
    dim: int,
    components: int,
    hidden: Sequence[int],
    batch: int,
    updates: int,
) -> Turn:
    """Return a turn of skpro's mixture density network."""
    x, y = noise(rows, features, dim)
    epochs, done = steps_of(rows, batch, updates)
    fit = _skpro_fit(x, y, components=components, hidden=hidden, batch=batch, epochs=epochs)
    _skpro_fit(x, y, components=components, hidden=hidden, batch=batch, epochs=1)()
    return lambda: seconds(fit) / done


def fit_ours(*, data: str, rows: int | None = None, epochs: int | None = None) -> Turn:
    """Return a turn that fits the default estimator until its validation NLL reaches `goal`.

    It gives seconds, None if the goal was not reached, and the lowest validation NLL.
    """
    from ..estimator.regressor import MDNRegressor

    task, seeds = table(data, rows), itertools.count()

    def turn(goal: float) -> tuple[float | None, float]:
        started, best, reached = time.perf_counter(), np.inf, None

        def watch(progress: Any) -> None:
            nonlocal best, reached
            best = min(best, progress.validation_nll)
            if best <= goal:
                reached = time.perf_counter() - started
                raise _Reached

        model = MDNRegressor(max_epochs=epochs, callbacks=[watch], random_state=next(seeds))
        with contextlib.suppress(_Reached):
            model.fit(task.x, task.y[:, 0], eval_set=(task.x_validation, task.y_validation[:, 0]))
        return reached, float(best)

    return turn


def fit_peer(*, peer: str, data: str, rows: int | None = None, epochs: int | None = None) -> Turn:
    """Return a turn that fits a peer; it gives seconds to its best validation NLL and that NLL."""
    task, epochs = table(data, rows), epochs or EPOCHS
    if peer == "skpro":
        # It has no early stopping, so the best number of epochs is searched beforehand.
        counts = [count for count in (5, 10, 20, 40, 80, 160) if count < epochs]
        epochs = min([*counts, epochs], key=lambda count: _fit_skpro(task, count, seed=0)[1])
    fit = {
        "torch": _fit_torch,
        "zuko": _fit_zuko,
        "sbi": _fit_sbi,
        "keras": _fit_keras,
        "skpro": _fit_skpro,
        "ngboost": _fit_ngboost,
        "lightgbmlss": _fit_lightgbmlss,
    }[peer]
    # Every turn has another seed, as ours does: with so few rows one seed says little.
    seeds = itertools.count()
    return lambda: fit(task, epochs, seed=next(seeds))


class _Reached(Exception):
    """Raised to stop training when the goal is reached."""


def _torch_gelu() -> Any:
    """Return the activation with JAX's approximation."""
    import torch

    return torch.nn.GELU(approximate="tanh")


def _torch_network(features: int, *, hidden: Sequence[int], components: int, dim: int) -> Any:
    import torch

    sizes = [features, *hidden]
    layers: list[Any] = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(fan_in, fan_out), _torch_gelu()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], components * (1 + 2 * dim)))


def _torch_nll(network: Any, components: int, dim: int) -> Callable[..., Any]:
    import torch

    def loss(x: Any, y: Any) -> Any:
        logits, mean, log_scale = network(x).split(
            [components, components * dim, components * dim], dim=-1
        )
        mean, log_scale = (part.unflatten(-1, (components, dim)) for part in (mean, log_scale))
        z = (y.unsqueeze(-2) - mean) * torch.exp(-log_scale)
        density = (-0.5 * z**2 - log_scale - 0.9189385).sum(-1)
        return -torch.logsumexp(torch.log_softmax(logits, dim=-1) + density, dim=-1).mean()

    return loss


def _torch_step(
    network: Any, loss: Callable[..., Any], rate: float, *, fused: bool = False
) -> Callable[..., None]:
    import torch

    optimizer = torch.optim.Adam(network.parameters(), lr=rate, fused=fused)

    def step(x: Any, y: Any) -> None:
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()

    return step


def _torch_loop(
    network: Any, loss: Callable[..., Any], task: SplitRows, epochs: int
) -> tuple[float, float]:
    """Return seconds to the best validation NLL and its value: Adam, batches of 128, patience."""
    import torch

    x, y, x_validation, y_validation = (torch.as_tensor(part, dtype=torch.float32) for part in task)
    step = _torch_step(network, loss, 1e-3)
    started, best, best_epoch, best_time = time.perf_counter(), np.inf, 0, 0.0
    for epoch in range(epochs):
        for index in torch.randperm(len(x)).split(128):
            step(x[index], y[index])
        with torch.no_grad():
            now = float(loss(x_validation, y_validation))
        if now < best:
            best, best_epoch, best_time = now, epoch, time.perf_counter() - started
        if epoch - best_epoch >= PATIENCE:
            break
    return best_time, best


def _fit_torch(task: SplitRows, epochs: int, *, seed: int) -> tuple[float, float]:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    network = _torch_network(task.x.shape[1], hidden=(128, 128), components=5, dim=1)
    return _torch_loop(network, _torch_nll(network, 5, 1), task, epochs)


def _fit_zuko(task: SplitRows, epochs: int, *, seed: int) -> tuple[float, float]:
    import torch

    mixtures = importlib.import_module("zuko.mixtures")
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    network = mixtures.GMM(
        1,
        task.x.shape[1],
        components=5,
        covariance_type="diagonal",
        hidden_features=(128, 128),
        activation=_torch_gelu,
    )
    return _torch_loop(network, lambda x, y: -network(x).log_prob(y).mean(), task, epochs)


def _fit_sbi(task: SplitRows, epochs: int, *, seed: int) -> tuple[float, float]:
    """Fit sbi's own network of that width; its full covariance is one variance here."""
    import torch

    builders = importlib.import_module("sbi.neural_nets.net_builders.mdn")
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    x, y = (torch.as_tensor(part, dtype=torch.float32) for part in (task.x, task.y))
    network = builders.build_mdn(y, x, hidden_features=128, num_components=5)
    return _torch_loop(network, lambda x, y: network.loss(y, x).mean(), task, epochs)


def _keras() -> tuple[Any, Any]:
    os.environ["KERAS_BACKEND"] = "jax"
    return importlib.import_module("keras"), importlib.import_module("keras_mdn_layer")


def _keras_model(features: int, dim: int, components: int, hidden: Sequence[int]) -> Any:
    keras, mdn = _keras()
    gelu = lambda x: keras.activations.gelu(x, approximate=True)  # noqa: E731
    model = keras.Sequential(
        [
            keras.Input((features,)),
            *(keras.layers.Dense(size, activation=gelu) for size in hidden),
            mdn.MDN(dim, components),
        ]
    )
    loss = mdn.get_mixture_loss_func(dim, components)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss, jit_compile=True)
    return model


def _fit_keras(task: SplitRows, epochs: int, *, seed: int) -> tuple[float, float]:
    keras, _ = _keras()
    keras.utils.set_random_seed(seed)
    started = time.perf_counter()
    model = _keras_model(task.x.shape[1], 1, 5, (128, 128))
    times: list[float] = []
    clock = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: times.append(time.perf_counter() - started)
    )
    stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=PATIENCE)
    history = model.fit(
        task.x,
        task.y,
        batch_size=128,
        epochs=epochs,
        validation_data=(task.x_validation, task.y_validation),
        callbacks=[clock, stop],
        verbose=0,
    )
    validation = history.history["val_loss"]
    best = int(np.argmin(validation))
    return times[best], float(validation[best])


def _skpro_fit(
    x: np.ndarray,
    y: np.ndarray,
    *,
    components: int,
    hidden: Sequence[int],
    batch: int,
    epochs: int,
    seed: int = 0,
) -> Callable[[], Any]:
    import torch

    mdn = importlib.import_module("skpro.regression.mdn")
    frame = importlib.import_module("pandas").DataFrame
    torch.set_num_threads(1)
    model = mdn.MDNRegressor(
        n_gaussians=components,
        hidden_dims=list(hidden),
        activation=_torch_gelu,
        epochs=epochs,
        lr=1e-3,
        batch_size=batch,
        device="cpu",
        random_state=seed,
    )
    return lambda: model.fit(frame(x), frame(y))


def _fit_skpro(task: SplitRows, epochs: int, *, seed: int) -> tuple[float, float]:
    frame = importlib.import_module("pandas").DataFrame
    shape = {"components": 5, "hidden": (128, 128), "batch": 128}
    fit = _skpro_fit(task.x, task.y, **shape, epochs=epochs, seed=seed)
    started = time.perf_counter()
    model = fit()
    taken = time.perf_counter() - started
    density = model.predict_proba(frame(task.x_validation)).log_pdf(frame(task.y_validation))
    return taken, -float(np.mean(np.asarray(density)))


def _fit_ngboost(task: SplitRows, epochs: int, *, seed: int) -> tuple[float, float]:
    ngboost = importlib.import_module("ngboost")
    started = time.perf_counter()
    model = ngboost.NGBRegressor(n_estimators=epochs, verbose=False, random_state=seed).fit(
        task.x,
        task.y[:, 0],
        X_val=task.x_validation,
        Y_val=task.y_validation[:, 0],
        early_stopping_rounds=PATIENCE,
    )
    taken = time.perf_counter() - started
    validation = model.evals_result["val"]["LOGSCORE"]
    best = int(np.argmin(validation))
    # All trees take about the same time.
    return taken * (best + 1) / len(validation), float(validation[best])


def _fit_lightgbmlss(task: SplitRows, epochs: int, *, seed: int) -> tuple[float, float]:
    """Fit LightGBMLSS's Gaussian; without these two settings its likelihood diverges."""
    lightgbm = importlib.import_module("lightgbm")
    law = importlib.import_module("lightgbmlss.distributions.Gaussian").Gaussian
    started = time.perf_counter()
    model = importlib.import_module("lightgbmlss.model").LightGBMLSS(law(stabilization="L2"))
    train = lightgbm.Dataset(task.x, task.y[:, 0])
    held_out = lightgbm.Dataset(task.x_validation, task.y_validation[:, 0], reference=train)
    seen: dict[str, dict[str, list[Any]]] = {}
    model.train(
        {"seed": seed, "num_threads": 1, "verbosity": -1, "max_delta_step": 1.0},
        train,
        num_boost_round=epochs,
        valid_sets=[held_out],
        valid_names=["held out"],
        callbacks=[
            lightgbm.early_stopping(PATIENCE, verbose=False),
            lightgbm.record_evaluation(seen),
        ],
    )
    taken = time.perf_counter() - started
    validation = [float(value) for value in seen["held out"]["nll"]]
    best = int(np.argmin(validation))
    frame = importlib.import_module("pandas").DataFrame(task.x_validation)
    law_of_each = model.predict(frame, pred_type="parameters")
    z = (task.y_validation[:, 0] - law_of_each["loc"]) / law_of_each["scale"]
    nll = np.mean(0.5 * z**2 + np.log(law_of_each["scale"])) + 0.5 * np.log(2 * np.pi)
    return taken * (best + 1) / len(validation), float(nll)
