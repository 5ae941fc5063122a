"""The gradient: autograd, function transforms, autocast, compilation, several processes."""

import os
import subprocess
import sys

import pytest

from .common import (
    BOTH_COVARIANCES,
    HERE,
    LIKELIHOODS,
    assert_same,
    finish,
    gradients,
    inputs,
    ours,
    start_script,
    torch,
)

grad, jacrev, vmap = torch.func.grad, torch.func.jacrev, torch.func.vmap


@BOTH_COVARIANCES
@pytest.mark.parametrize(("comp", "dim"), [(1, 1), (1, 5), (5, 1), (3, 2)])
def test_the_gradient_of_nll_is_autograds(full, comp, dim):
    leaves = inputs(full=full, comp=comp, dim=dim)
    leaves[3].requires_grad_()
    expected = torch.autograd.grad(
        -ours.distribution(*leaves[:3]).log_prob(leaves[3]).mean(), leaves
    )
    grads = torch.autograd.grad(ours.nll_loss(*leaves), leaves)
    assert_same(grads, [leaf.tril() if leaf.dim() == 4 else leaf for leaf in expected])


@BOTH_COVARIANCES
@pytest.mark.parametrize("power", [0, 0.0])
def test_power_zero_is_nll_to_the_bit(full, power):
    leaves = inputs(full=full)
    assert_same(gradients(leaves, power=power), gradients(leaves, objective="nll"), rtol=0, atol=0)


@BOTH_COVARIANCES
@pytest.mark.parametrize("power", [0.0, 0.3, 0.5, 1.0])
def test_a_power_in_a_tensor_equals_the_same_number(full, power):
    leaves = inputs(full=full)
    assert_same(
        gradients(leaves, power=torch.tensor(power)), gradients(leaves, power=power), rtol=1e-6
    )
    exact = torch.tensor(power, dtype=torch.float64)
    assert_same(gradients(leaves, power=exact), gradients(leaves, power=power))


def test_accumulated_gradients_are_those_of_the_whole_batch():
    network = torch.nn.Sequential(torch.nn.Linear(2, 8), ours.MixtureDensityHead(8, 3, 1)).double()
    x, y = torch.randn(8, 2).double(), torch.randn(8, 1).double()
    whole = torch.autograd.grad(ours.ngem_loss(*network(x), y), list(network.parameters()))
    for rows in torch.arange(8).split(2):
        (ours.ngem_loss(*network(x[rows]), y[rows]) / 4).backward()
    assert_same([p.grad for p in network.parameters()], whole)


@BOTH_COVARIANCES
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
        mapped = vmap(step, in_dims)(*args)
        for row in range(6):
            one = [arg[row] if index == position else arg for index, arg in enumerate(args)]
            assert_same([leaf[row] for leaf in mapped], step(*one))


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


@BOTH_COVARIANCES
def test_only_what_is_needed_is_kept(full):
    """At power 1/2 the scale cancels, so that it need not be kept for the backward pass."""
    leaves = inputs(full=full)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        ours.ngem_loss(*leaves, power=0.5)
    shapes = sorted(tuple(leaf.shape) for leaf in kept)
    expected = [(), (6, 3), (6, 3), (6, 3, 2), (6, 3, 2, 2) if full else (6, 3, 2)]
    assert shapes == expected


@BOTH_COVARIANCES
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


@pytest.mark.slow
def test_compiled_without_a_graph_break():
    finish(start_script("compiled.py"))


@pytest.mark.slow
def test_the_example_in_two_processes_ends_with_the_parameters_of_one(tmp_path):
    """`torchrun` starts the processes; each reads its own half of the rows."""
    found, script = [], HERE.parents[1] / "examples/torch_processes.py"
    for count in (1, 2):
        file = tmp_path / f"{count}.pt"
        words = ["--standalone", "--nproc-per-node", count, script]
        words += ["--steps", 30, "--batch", 64, "--save", file]
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", *map(str, words)],
            capture_output=True,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        )
        assert done.returncode == 0, done.stderr
        assert f"{count} processes" in done.stdout
        found.append(torch.load(file, weights_only=True))
    for name, leaf in found[0].items():
        torch.testing.assert_close(found[1][name], leaf, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path):
    workers = [start_script("two_processes.py", rank, tmp_path / "meeting") for rank in range(2)]
    for worker in workers:
        finish(worker)
