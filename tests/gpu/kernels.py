#!/usr/bin/env python3
"""Mixers of other packages, and a device's ceilings as PyTorch reaches them: one measurement, one line of JSON.

usage: kernels.py peer PACKAGE CELL [--device cuda] [--quick]     kernels.py ceilings [--device cuda] [--quick]

Times are milliseconds of a forward pass and of forward and backward: as called, and replayed from a CUDA graph, which
leaves the host out. A package that is not there gives {"absent": how to get it}. CELLS are the shapes, for bench.py too.
"""
import argparse, json, sys

# cell: mixer, batch, tokens, and the mixer's sizes. The first of each is the one at which its peer publishes.
CELLS = {
    "mlstm_8192": ("mlstm", 8, 8192, {"heads": 16, "keys": 128, "values": 256}),
    "mlstm_196": ("mlstm", 334, 196, {"heads": 16, "keys": 128, "values": 256}),
    "mlstm_vil_base": ("mlstm", 128, 196, {"heads": 4, "keys": 384, "values": 384}),
    "retention_1024": ("retention", 8, 1024, {"heads": 8, "width": 64}),
    "retention_4096": ("retention", 4, 4096, {"heads": 64, "width": 128}),
    "retention_197": ("retention", 128, 197, {"heads": 12, "width": 64}),
    "scan_2048": ("scan", 32, 2048, {"channels": 8192, "states": 16}),
    "scan_197": ("scan", 128, 197, {"channels": 1536, "states": 16}),
    "attention_1024": ("attention", 32, 1024, {"heads": 12, "width": 64}),
    "attention_4096": ("attention", 8, 4096, {"heads": 12, "width": 64}),
    "attention_197": ("attention", 128, 197, {"heads": 12, "width": 64}),
}
QUICK_CELLS = {"mlstm_24": ("mlstm", 2, 24, {"heads": 2, "keys": 16, "values": 16})}
PEERS = {"mlstm": ["mlstm_kernels"], "retention": ["fla"], "scan": ["mamba_ssm"],
         "attention": ["cudnn", "flash", "efficient"]}
INSTALL = {"mlstm_kernels": "pip install mlstm-kernels", "fla": "pip install flash-linear-attention",
           "mamba_ssm": "pip install mamba-ssm --no-build-isolation", "torch": "pip install torch"}


def random(*shape, device, dtype=None):
    import torch
    return torch.randn(*shape, device=device).to(dtype or torch.bfloat16).requires_grad_()


def mlstm_kernels(batch, tokens, size, device):
    from mlstm_kernels.torch.chunkwise.triton_xl_chunk import mlstm_chunkwise__xl_chunk
    chunk = 128
    tokens += -tokens % chunk  # it takes whole chunks: 196 are 256
    h, k, v = size["heads"], size["keys"], size["values"]
    args = dict(q=random(batch, h, tokens, k, device=device), k=random(batch, h, tokens, k, device=device),
                v=random(batch, h, tokens, v, device=device), i=random(batch, h, tokens, device=device),
                f=random(batch, h, tokens, device=device))
    return list(args.values()), lambda: mlstm_chunkwise__xl_chunk(**args, return_last_states=False, chunk_size=chunk)


def fla(batch, tokens, size, device):
    from fla.ops.retention import chunk_retention
    q, k, v = (random(batch, tokens, size["heads"], size["width"], device=device) for _ in range(3))
    return [q, k, v], lambda: chunk_retention(q, k, v)[0]


def mamba_ssm(batch, tokens, size, device):
    import torch
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn
    e, n = size["channels"], size["states"]
    u, delta = (random(batch, e, tokens, device=device) for _ in range(2))
    b, c = (random(batch, n, tokens, device=device) for _ in range(2))
    a = (-torch.arange(1.0, n + 1, device=device)).expand(e, -1).contiguous().requires_grad_()
    d = torch.ones(e, device=device, requires_grad=True)
    return [u, delta, b, c, a, d], lambda: selective_scan_fn(u, delta, a, b, c, d, delta_softplus=True)


def attention(backend):
    def make(batch, tokens, size, device):
        import torch.nn.functional as F
        from torch.nn.attention import SDPBackend, sdpa_kernel
        wanted = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}[backend]
        q, k, v = (random(batch, size["heads"], tokens, size["width"], device=device) for _ in range(3))

        def call():
            with sdpa_kernel(getattr(SDPBackend, wanted)):
                return F.scaled_dot_product_attention(q, k, v)

        return [q, k, v], call

    return make


MAKERS = {"mlstm_kernels": mlstm_kernels, "fla": fla, "mamba_ssm": mamba_ssm,
          **{b: attention(b) for b in ("cudnn", "flash", "efficient")}}


def best_ms(run, cuda, seconds=1.0):
    from peers import times
    for _ in range(3):
        run()
    return 1e3 * min(times(run, cuda, seconds))


def graph_ms(run):
    """The same from a CUDA graph; None if it cannot be captured."""
    import torch
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return best_ms(graph.replay, True)
    except Exception as e:  # libraries refuse in many ways, and a number less is no reason to lose the others
        print(f"no graph: {e}", file=sys.stderr)
        return None


def peer(args):
    try:
        import torch
        mixer, batch, tokens, size = {**CELLS, **QUICK_CELLS}[args.cell]
        leaves, call = MAKERS[args.package](batch, tokens, size, args.device)
    except ImportError as e:
        return {"absent": INSTALL.get(args.package, INSTALL["torch"]), "why": str(e)}
    cotangent = torch.randn_like(call())
    cuda = args.device == "cuda"

    def forward():
        with torch.no_grad():
            call()

    def both():
        torch.autograd.grad(call(), leaves, cotangent)

    return {"forward_ms": best_ms(forward, cuda), "both_ms": best_ms(both, cuda),
            "forward_graph_ms": graph_ms(forward) if cuda else None, "both_graph_ms": graph_ms(both) if cuda else None}


def ceilings(args):
    """bytes/s of a copy, FLOP/s of a square product of random numbers (zeros would be faster)."""
    try:
        import torch
    except ImportError as e:
        return {"absent": INSTALL["torch"], "why": str(e)}
    cuda, n = args.device == "cuda", 128 if args.quick else 8192
    x = torch.randn(n * n * 4, device=args.device)
    y = torch.empty_like(x)
    out = {"copy": 2 * 4 * x.numel() / best_ms(lambda: y.copy_(x), cuda) * 1e3}
    forms = {"fp32": (torch.float32, False)}
    if cuda:
        forms |= {"tf32": (torch.float32, True), "bf16": (torch.bfloat16, False)}
    for name, (dtype, tf32) in forms.items():
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.randn(n, n, device=args.device, dtype=dtype) for _ in range(2))
        out["product_" + name] = 2 * n ** 3 / best_ms(lambda: a @ b, cuda) * 1e3
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="what", required=True)
    one, all_of = sub.add_parser("peer"), sub.add_parser("ceilings")
    one.add_argument("package", choices=MAKERS)
    one.add_argument("cell", choices=[*CELLS, *QUICK_CELLS])
    for s in (one, all_of):
        s.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
        s.add_argument("--quick", action="store_true")
    args = p.parse_args()
    print(json.dumps(peer(args) if args.what == "peer" else ceilings(args)))


if __name__ == "__main__":
    main()
