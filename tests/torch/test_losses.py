"""The losses behave as PyTorch's own do: reductions, transforms, autocast, processes, errors."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'ngem[torch]'")
from torch.func import grad, jacrev, vmap  # noqa: E402

import ngem.torch as ours  # noqa: E402

HERE = Path(__file__).parent
LIKELIHOODS = [name for name in ours.OBJECTIVES if name != "mse"]


def inputs(*, full=False, batch=6, comp=3, dim=2, dtype=torch.float64, seed=0):
    """Logits, mean, scale and y that ask for gradients, but for y."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    logits, mean, scale = draw(batch, comp), draw(batch, comp, dim), draw(batch, comp, dim).exp()
    if full:
        scale = torch.diag_embed(scale) + draw(batch, comp, dim, dim).tril(-1)
    leaves = [leaf.to(dtype).requires_grad_() for leaf in (logits, mean, scale)]
    return [*leaves, draw(batch, dim).to(dtype)]


def gradients(leaves, **settings):
    loss = ours.mixture_loss(*leaves, **settings)
    return torch.autograd.grad(loss.sum(), leaves[:3], materialize_grads=True)


def assert_same(left, right, **tolerance):
    for a, b in zip(left, right, strict=True):
        torch.testing.assert_close(a, b, **({"rtol": 1e-12, "atol": 1e-14} | tolerance))


@pytest.mark.parametrize("full", [False, True], ids=["diag", "full"])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_value_is_that_of_pytorchs_own_mixture(name, full):
    logits, mean, scale, y = inputs(full=full)
    expected = -ours.distribution(logits, mean, scale).log_prob(y).mean()
    torch.testing.assert_close(
        ours.mixture_loss(logits, mean, scale, y, objective=name), expected, rtol=1e-12, atol=0
    )


@pytest.mark.parametrize("full", [False, True], ids=["diag", "full"])
def test_the_gradient_of_nll_is_autograds(full):
    leaves = inputs(full=full)
    leaves[3].requires_grad_()
    expected = torch.autograd.grad(
        -ours.distribution(*leaves[:3]).log_prob(leaves[3]).mean(), leaves
    )
    found = torch.autograd.grad(ours.nll_loss(*leaves), leaves)
    assert_same(found, [leaf.tril() if leaf.dim() == 4 else leaf for leaf in expected])


@pytest.mark.parametrize("full", [False, True], ids=["diag", "full"])
@pytest.mark.parametrize("power", [0, 0.0])
def test_power_zero_is_nll_to_the_bit(full, power):
    leaves = inputs(full=full)
    assert_same(gradients(leaves, power=power), gradients(leaves, objective="nll"), rtol=0, atol=0)


@pytest.mark.parametrize("full", [False, True], ids=["diag", "full"])
@pytest.mark.parametrize("power", [0.0, 0.3, 0.5, 1.0])
def test_a_power_in_a_tensor_equals_the_same_number(full, power):
    leaves = inputs(full=full)
    assert_same(
        gradients(leaves, power=torch.tensor(power)), gradients(leaves, power=power), rtol=1e-6
    )
    exact = torch.tensor(power, dtype=torch.float64)
    assert_same(gradients(leaves, power=exact), gradients(leaves, power=power))


@pytest.mark.parametrize("name", ours.OBJECTIVES)
def test_reductions(name):
    leaves = inputs()
    rows = ours.mixture_loss(*leaves, objective=name, reduction="none")
    assert rows.shape == (6,)
    for reduction, expected in (("mean", rows.mean()), ("sum", rows.sum())):
        found = ours.NGEMLoss(objective=name, reduction=reduction)(*leaves)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    whole = gradients(leaves, objective=name, reduction="sum")
    by_rows = gradients(leaves, objective=name, reduction="none")
    assert_same(whole, by_rows)
    assert_same([6 * leaf for leaf in gradients(leaves, objective=name)], whole)


def test_weights_count_rows():
    """Integer weights are repetitions, and zero drops a row, in value and gradient."""
    logits, mean, scale, y = inputs()
    weights = torch.tensor([2.0, 0.0, 1.0, 3.0, 1.0, 0.0], dtype=torch.float64)
    index = torch.repeat_interleave(torch.arange(6), weights.long())
    leaves = logits, mean, scale
    for reduction in ("mean", "sum"):
        weighted = ours.ngem_loss(*leaves, y, weights=weights, reduction=reduction)
        repeated = ours.ngem_loss(*(leaf[index] for leaf in (*leaves, y)), reduction=reduction)
        torch.testing.assert_close(weighted, repeated, rtol=1e-12, atol=0)
        assert_same(*(torch.autograd.grad(loss, leaves) for loss in (weighted, repeated)))


def test_rows_broadcast():
    logits, mean, scale, y = inputs()
    one = [leaf[0] for leaf in (logits, mean, scale)]
    many = [leaf.expand(6, *leaf.shape) for leaf in one]
    torch.testing.assert_close(ours.ngem_loss(*one, y), ours.ngem_loss(*many, y))
    torch.testing.assert_close(
        ours.ngem_loss(logits, mean, scale, y[0]),
        ours.ngem_loss(logits, mean, scale, y[:1].expand(6, -1)),
    )
    stack = [leaf.unflatten(0, (2, 3)) for leaf in (logits, mean, scale, y)]
    torch.testing.assert_close(ours.ngem_loss(*stack), ours.ngem_loss(logits, mean, scale, y))


def test_accumulated_gradients_are_those_of_the_whole_batch():
    network = torch.nn.Sequential(torch.nn.Linear(2, 8), ours.MixtureDensityHead(8, 3, 1)).double()
    x, y = torch.randn(8, 2).double(), torch.randn(8, 1).double()
    whole = torch.autograd.grad(ours.ngem_loss(*network(x), y), list(network.parameters()))
    for rows in torch.arange(8).split(2):
        (ours.ngem_loss(*network(x[rows]), y[rows]) / 4).backward()
    assert_same([p.grad for p in network.parameters()], whole)


@pytest.mark.parametrize("full", [False, True], ids=["diag", "full"])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_function_transforms_change_nothing(name, full):
    leaves = [leaf.detach() for leaf in inputs(full=full)]
    loss = lambda *args: ours.mixture_loss(*args, objective=name)  # noqa: E731
    whole = grad(loss, argnums=(0, 1, 2))(*leaves)
    eager = gradients(
        [*(leaf.clone().requires_grad_() for leaf in leaves[:3]), leaves[3]], objective=name
    )
    assert_same(whole, eager)
    rows = vmap(grad(loss, argnums=(0, 1, 2)))(*leaves)
    assert_same([leaf / 6 for leaf in rows], eager)
    outer = grad(lambda mean: vmap(loss)(leaves[0], mean, *leaves[2:]).mean())(leaves[1])
    assert_same([outer], [eager[1]])
    by_row = jacrev(
        lambda mean: ours.mixture_loss(
            leaves[0], mean, *leaves[2:], objective=name, reduction="none"
        )
    )
    assert_same([by_row(leaves[1]).sum(0) / 6], [eager[1]])


def test_vmap_over_some_of_the_inputs():
    logits, mean, scale, y = (leaf.detach() for leaf in inputs())
    for position in range(4):
        args = [leaf[0] for leaf in (logits, mean, scale, y)]
        args[position] = (logits, mean, scale, y)[position]
        in_dims = tuple(0 if index == position else None for index in range(4))
        step = grad(ours.ngem_loss, argnums=(0, 1, 2))
        found = vmap(step, in_dims)(*args)
        for row in range(6):
            one = [arg[row] if index == position else arg for index, arg in enumerate(args)]
            assert_same([leaf[row] for leaf in found], step(*one))


def test_a_mapped_power_is_refused():
    args = [leaf.detach() for leaf in inputs()]
    with pytest.raises(ValueError, match=r"one number for all rows.*in_dims=None"):
        vmap(lambda power: ours.ngem_loss(*args, power=power))(torch.rand(3))


def test_a_second_derivative_is_refused():
    logits, mean, scale, y = inputs()
    (first,) = torch.autograd.grad(ours.ngem_loss(logits, mean, scale, y), mean, create_graph=True)
    with pytest.raises(RuntimeError, match=r"differentiated once.*double backward.*distribution"):
        (first.square().sum() + mean.sum()).backward()
    args = [leaf.detach() for leaf in (logits, scale, y)]
    twice = grad(lambda m: grad(lambda m: ours.ngem_loss(args[0], m, *args[1:]))(m).sum())
    with pytest.raises(RuntimeError, match="double backward"):
        twice(mean.detach())


@pytest.mark.parametrize("full", [False, True], ids=["diag", "full"])
def test_only_what_is_needed_is_kept(full):
    """At power 1/2 the scale cancels, so that it need not be kept for the backward pass."""
    leaves = inputs(full=full)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        ours.ngem_loss(*leaves, power=0.5)
    shapes = sorted(tuple(leaf.shape) for leaf in kept)
    expected = [(), (6, 3), (6, 3), (6, 3, 2), (6, 3, 2, 2) if full else (6, 3, 2)]
    assert shapes == expected


@pytest.mark.parametrize("full", [False, True], ids=["diag", "full"])
def test_autocast_computes_the_loss_in_single_precision(full):
    covariance = "full" if full else "diag"
    network = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU())
    head = ours.MixtureDensityHead(16, 4, 2, covariance)
    x, y = torch.randn(32, 3), torch.randn(32, 2)
    with torch.autocast("cpu", torch.bfloat16):
        logits, mean, scale = head(network(x))
        assert logits.dtype == mean.dtype == torch.bfloat16
        assert scale.dtype == torch.float32
        loss = ours.ngem_loss(logits, mean, scale, y)
        assert loss.dtype == torch.float32
        parts = [part.detach().float().requires_grad_() for part in (logits, mean, scale)]
        inside = torch.autograd.grad(ours.ngem_loss(*parts, y), parts)
    assert_same(inside, torch.autograd.grad(ours.ngem_loss(*parts, y), parts), rtol=0, atol=0)
    loss.backward()
    for parameter in [*network.parameters(), *head.parameters()]:
        assert parameter.grad.dtype == torch.float32
        assert parameter.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_gradients_have_the_dtype_of_what_they_belong_to(dtype):
    leaves = inputs(dtype=dtype)
    loss = ours.ngem_loss(*leaves)
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    loss.backward()
    assert all(leaf.grad.dtype == dtype and leaf.grad.isfinite().all() for leaf in leaves[:3])


def test_targets_of_another_precision_are_promoted():
    leaves = inputs()
    assert ours.nll_loss(*leaves[:3], leaves[3].float()).dtype == torch.float64


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_a_bad_scale_is_never_a_plausible_number(scale):
    logits, mean, _, y = inputs()
    loss = ours.ngem_loss(logits, mean, torch.full_like(mean, scale), y)
    assert not loss.isfinite()


GOOD = {
    "logits": torch.zeros(4, 3),
    "mean": torch.zeros(4, 3, 2),
    "scale": torch.ones(4, 3, 2),
    "y": torch.zeros(4, 2),
}

BAD = {
    "flat y": ({"y": torch.zeros(4)}, ValueError, r"y must have shape \(4, 2\), got \(4,\)"),
    "wrong columns": ({"y": torch.zeros(4, 3)}, ValueError, "targets with 2 columns"),
    "wrong rows": ({"y": torch.zeros(5, 2)}, ValueError, "one target per row"),
    "flat mean": ({"mean": torch.zeros(4, 3)}, ValueError, r"mean\.unsqueeze\(-1\)"),
    "other components": ({"mean": torch.zeros(4, 2, 2)}, ValueError, "to fit logits"),
    "wrong scale": ({"scale": torch.ones(4, 3)}, ValueError, r"Cholesky.*scale\.expand_as\(mean\)"),
    "scalar logits": ({"logits": torch.zeros(())}, ValueError, "at least one component"),
    "no components": (
        {"logits": torch.zeros(4, 0), "mean": torch.zeros(4, 0, 2), "scale": torch.ones(4, 0, 2)},
        ValueError,
        "at least one component",
    ),
    "empty batch": (
        {key: value[:0] for key, value in GOOD.items()},
        ValueError,
        "at least one row.*skip empty batches",
    ),
    "integer y": ({"y": torch.zeros(4, 2).long()}, TypeError, r"got torch.int64; try y\.float\(\)"),
    "complex mean": ({"mean": torch.zeros(4, 3, 2) * 1j}, TypeError, "mean must hold real"),
    "weights": ({"weights": torch.ones(4, 1)}, ValueError, r"one entry per row, shape \(4,\)"),
    "reduction": ({"reduction": "average"}, ValueError, "'mean', 'sum', 'none', got 'average'"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("loss", [ours.nll_loss, ours.ngem_loss])
def test_bad_input_is_refused(loss, name):
    change, error, message = BAD[name]
    with pytest.raises(error, match=f"(?s){message}"):
        loss(**{**GOOD, **change})


def test_a_single_column_is_told_how():
    args = [torch.zeros(4, 3), torch.zeros(4, 3, 1), torch.ones(4, 3, 1), torch.zeros(4)]
    with pytest.raises(ValueError, match=r"y must have shape \(4, 1\).*y\.unsqueeze\(-1\)"):
        ours.ngem_loss(*args)


@pytest.mark.parametrize("power", [-0.1, 1.5, math.nan])
def test_power_outside_its_range_is_refused(power):
    with pytest.raises(ValueError, match="power must lie between 0 and 1, got"):
        ours.ngem_loss(**GOOD, power=power)


def test_other_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"power.*shape \(\), got \(3,\)"):
        ours.ngem_loss(**GOOD, power=torch.ones(3))
    with pytest.raises(ValueError, match=r"objective must be one of 'nll'.*got 'gem'"):
        ours.NGEMLoss(objective="gem")
    with pytest.raises(ValueError, match="reduction must be one of"):
        ours.NGEMLoss(reduction="max")
    with pytest.raises(ValueError, match="total_steps must be at least 1"):
        ours.PowerSchedule(0)
    with pytest.raises(ValueError, match="fraction must be above 0"):
        ours.PowerSchedule(10, share=0.0)
    with pytest.raises(ValueError, match="start must lie between 0 and 1"):
        ours.PowerSchedule(10, start=2.0)


def test_a_schedule_steps_resumes_and_moves_with_the_module():
    schedule = ours.PowerSchedule(10, start=1.0, end=0.2, fraction=0.5)
    settings = {"flattening": schedule.flattening, "coordinates": schedule.coordinates}
    criterion = ours.NGEMLoss(power=schedule)
    leaves = inputs()
    powers = []
    for _ in range(10):
        powers.append(float(schedule.power))
        expected = gradients(leaves, power=powers[-1], **settings)
        assert_same(torch.autograd.grad(criterion(*leaves), leaves[:3]), expected, rtol=1e-6)
        schedule.step()
    assert powers == pytest.approx([1.0, 0.84, 0.68, 0.52, 0.36] + 5 * [0.2])
    other = ours.NGEMLoss(power=ours.PowerSchedule(10, start=1.0, end=0.2, fraction=0.5))
    other.load_state_dict(criterion.state_dict())
    assert int(other.power.count) == 10
    assert criterion.double().power.power.dtype == torch.float64


def run(script, *arguments):
    """Run a script as a user would: without the tests' checks of types at run time."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.Popen(
        [sys.executable, str(HERE / script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def finish(process):
    out, error = process.communicate(timeout=200)
    assert process.returncode == 0, error
    return out


def test_no_jax_is_needed():
    assert "done" in finish(run("without_jax.py"))


def test_compiled_without_a_graph_break():
    assert "done" in finish(run("compiled.py"))


def test_two_processes_train_as_one(tmp_path):
    workers = [run("two_processes.py", rank, tmp_path / "meeting") for rank in range(2)]
    for worker in workers:
        assert "done" in finish(worker)
