"""The package with PyTorch: operators that pass gradcheck and opcheck, under no_grad and torch.compile."""

import sys

from common import check, need, run

need("numpy", "torch")
import torch

import vertebra
from vertebra.torch_ops import Module, _operators, _shapes

torch.manual_seed(0)
QUICK = "--quick" in sys.argv

OWN = """
recurrence leaky(x: [C], keep: [C]) -> [C] {
  state s: [C]
  s = sigmoid(keep) * s + tanh(x)
  yield s * x
}
"""


def sequences(*shapes):
    return [0.7 * torch.randn(*shape) for shape in shapes]


CASES = {
    "mlstm": ("std/mlstm.vtb", "mlstm", lambda n: sequences(*[(2, 2, n, 4)] * 2, (2, 2, n, 3), *[(2, 2, n)] * 2)),
    "retention": (
        "std/retention.vtb",
        "retention_step",
        lambda n: sequences(*[(2, 2, n, 3)] * 2, (2, 2, n, 4)) + [torch.rand(2, 2, n)],
    ),
    "selective_scan": (
        "std/selective_scan.vtb",
        "selective_step",
        lambda n: [
            *sequences((2, n, 4)),
            torch.rand(2, n, 4),
            -torch.rand(4, 3) - 0.1,
            *sequences((2, n, 3), (2, n, 3)),
        ],
    ),
    "gated linear attention": (
        "std/gla.vtb",
        "gla",
        lambda n: sequences(*[(2, 2, n, 3)] * 2, (2, 2, n, 4), (2, 2, n, 3)),
    ),
    "a user's recurrence": (OWN, "leaky", lambda n: sequences((2, n, 5), (2, n, 5))),
}


def gradients_are_right():
    for name, (source, entry, make) in CASES.items():
        f = vertebra.recurrence(source, entry)
        inputs = [x.double().requires_grad_() for x in make(5)]
        good = torch.autograd.gradcheck(f, inputs, eps=4e-3, atol=2e-2, rtol=2e-2, raise_exception=False)
        check(good, name)


def operators_keep_the_rules_of_pytorch():
    for name, (source, entry, make) in CASES.items():
        f = vertebra.recurrence(source, entry)
        inputs = make(6)
        ops = _operators(f, tuple(f._tensors), _shapes(inputs), ())
        result = torch.library.opcheck(ops.value, inputs, raise_exception=False)
        check(all(v == "SUCCESS" for v in result.values()), f"{name}: {result}")
        wanted = [x.clone().requires_grad_() for x in inputs]
        result = torch.library.opcheck(ops.forward, (*wanted, (1 << len(wanted)) - 1), raise_exception=False)
        check(all(v == "SUCCESS" for v in result.values()), f"{name}, forward: {result}")


def lengths_and_batches_are_dynamic():
    f = vertebra.recurrence("std/mlstm.vtb", "mlstm")
    inputs = CASES["mlstm"][2](12)
    whole = f(*inputs)
    short = f(*[x[:, :, :7] for x in inputs])
    check((whole[:, :, :7] - short).abs().max() < 1e-5)
    check((f(*[x[:1] for x in inputs]) - whole[:1]).abs().max() < 1e-5)


def only_what_is_wanted_has_gradients():
    f = vertebra.recurrence("std/mlstm.vtb", "mlstm")
    inputs = CASES["mlstm"][2](8)
    inputs[1].requires_grad_()
    y = f(*inputs)
    y.square().sum().backward()
    check(inputs[1].grad is not None and inputs[0].grad is None)
    with torch.no_grad():
        check(not f(*inputs).requires_grad)
    check(f(*[x.to(torch.bfloat16) for x in inputs]).dtype == torch.bfloat16)
    check((f(*[x.transpose(0, 1) for x in inputs]).shape[:2]) == (2, 2))


def compiled_graphs_hold_it():
    f = vertebra.recurrence("std/mlstm.vtb", "mlstm")

    def model(*inputs):
        return (f(*inputs) * 2).sum()

    inputs = [x.requires_grad_() for x in CASES["mlstm"][2](6)]
    want = torch.autograd.grad(model(*inputs), inputs)
    got = torch.autograd.grad(torch.compile(model, backend="aot_eager", fullgraph=True)(*inputs), inputs)
    check(all((a - b).abs().max() < 1e-6 for a, b in zip(want, got)))


def blocks_are_modules():
    block = vertebra.block("vil.vtb", "vil_block", grid_height=3, grid_width=4)
    layer = Module(block, x=(1, 12, 16))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.02)
    x = torch.randn(4, 12, 16)
    target = torch.zeros_like(x)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = (layer(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    check(losses[-1] < 0.9 * losses[0], losses)
    check(sum(p.numel() for p in layer.parameters()) > 1000)


run(
    gradients_are_right,
    operators_keep_the_rules_of_pytorch,
    lengths_and_batches_are_dynamic,
    only_what_is_wanted_has_gradients,
    compiled_graphs_hold_it,
    blocks_are_modules,
)
