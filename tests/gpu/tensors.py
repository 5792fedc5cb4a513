"""Tensors of PyTorch on a GPU through compiled recurrences and models, beside the same on the processor: values, gradients,
streams, CUDA graphs, and that no bytes pass through the host. Needs PyTorch with CUDA, and VERTEBRA_LIBRARY."""

import sys

import torch

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/frontend/python")
import vertebra

failures = 0


def check(name, got, want, tolerance=2e-3):
    global failures
    error = float((got.detach().cpu() - want.detach()).abs().max() / want.detach().abs().max())
    failures += not error <= tolerance
    print(f"{'ok  ' if error <= tolerance else 'FAIL'} {name}: {error:.1e}")


def copies(run):
    """Bytes that go between host and device in run()."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    return [e.key for e in profile.key_averages() if "HtoD" in e.key or "DtoH" in e.key]


torch.manual_seed(0)
shapes = [(2, 4, 196, 32)] * 2 + [(2, 4, 196, 48)] + [(2, 4, 196)] * 2
host = [0.5 * torch.randn(s) for s in shapes]
there = [x.cuda().requires_grad_() for x in host]
host = [x.requires_grad_() for x in host]
f, on_gpu = (vertebra.recurrence("std/mlstm.vtb", "mlstm", target=t) for t in ("cpu", "cuda"))
want = f(*host)
seed = torch.randn(want.shape)
gradients = torch.autograd.grad(want, host, seed)
for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
    stream.wait_stream(torch.cuda.default_stream())
    with torch.cuda.stream(stream):
        for run in range(4):
            y = on_gpu(*there)
            made = torch.autograd.grad(y, there, seed.cuda())
    torch.cuda.synchronize()
    check("mlstm", y, want)
    for name, a, b in zip("qkvif", made, gradients):
        check(f"mlstm, d:{name}", a, b)
with torch.no_grad():
    passed = copies(lambda: on_gpu(*there))
    failures += bool(passed)
    print(f"{'FAIL' if passed else 'ok  '} copies through the host: {passed or 'none'}")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        on_gpu(*there)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        on_gpu(*there)  # this stream's session takes its memory
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=side):
            captured = on_gpu(*there)
    captured.zero_()
    graph.replay()
    torch.cuda.synchronize()
    check("mlstm in a CUDA graph", captured, want)
model, gpu_model = (vertebra.create_model("vil_nano", batch=8, target=t) for t in ("cpu", "cuda"))
x = torch.randn(11, 1, 28, 28)
for run in range(3):
    y = gpu_model(x.cuda())
check("vil_nano", y, torch.from_numpy(model(x.numpy())))
sys.exit(failures != 0)
