#!/usr/bin/env python3
"""The measured architectures in plain PyTorch, as one would write them without kernels of one's own.

usage: peers.py check [--vertebra PROGRAM] [--family vil vir vllama vim]
       peers.py measure MODEL [--how eager|compile|max-autotune|mamba_ssm] [--image 224] [--batch 1] [--train] [--device cpu]

check builds small models, writes each as a reference case with gradients of a random cotangent, and has `vertebra
verify` compare the two at 1e-4. measure prints one line of JSON: times of a forward pass, or of forward and backward, on
the GPU in bf16 autocast. max-autotune is torch.compile with CUDA graphs; mamba_ssm is Vim with that package's scan.
"""
import argparse, importlib.util, json, os, statistics, struct, subprocess, sys, tempfile, time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import torch
import torch.nn.functional as F
from sizes import MODELS, swiglu_width


def form(family):
    """models/FAMILY.py, what `vertebra bench --peers` measures too."""
    path = os.path.join(here, "..", "..", "models", family + ".py")
    spec = importlib.util.spec_from_file_location(family + "_form", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FORMS = {family: form(family) for family in ("vil", "vir", "vllama", "vim")}


# ---- check ----------------------------------------------------------------------------------------------------------
def save_case(model, x, y, path, entry, config=None, more=None):
    """A reference case (tests/golden/README.md) so that `vertebra verify` compares the two. more: further tensors."""
    tensors = {"param/" + k: v.detach() for k, v in model.state_dict().items()}
    tensors.update({"input/x": x, "output/y": y} | (more or {}))
    header, offset, blobs = {"__metadata__": {"entry": entry, "config": json.dumps(config or {})}}, 0, []
    for name, t in tensors.items():
        raw = t.detach().contiguous().float().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        blobs.append(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def build(family, dim, depth, heads, patch, image, classes, channels=3):
    if family == "vil":
        return FORMS[family].ViL(dim, depth, (patch, patch), (image, image), classes, channels)
    rest = {}
    if family == "vllama":
        rest["hidden"] = swiglu_width(dim, 16 if channels == 1 else 256)  # the small preset's is finer
    make = {"vir": "ViR", "vllama": "VisionLLaMA", "vim": "Vim"}[family]
    return getattr(FORMS[family], make)(dim, depth, heads, patch=patch, image=image, classes=classes, channels=channels,
                                        **rest)


def check_one(args, family, image, folder):
    """A shallow model with every weight random, so that no factor of one or zero hides a slip."""
    torch.manual_seed(1)
    dim, depth, classes, batch = args.width, 2, 10, 2
    heads = 4 if dim < 192 or family == "vil" else dim // 64
    model = build(family, dim, depth, heads, patch=16, image=image, classes=classes)
    with torch.no_grad():
        for p in model.parameters():
            p += (0.1 if dim < 192 else 0.03) * torch.randn_like(p)
    x, probe = torch.randn(batch, 3, image, image), torch.randn(batch, classes)
    y = model(x)
    (y * probe).sum().backward()
    more = {"grad/" + k: p.grad for k, p in model.named_parameters()}
    more["probe/y"] = probe
    config = {"dim": dim, "depth": depth, "classes": classes, "image": [image, image]}
    if family != "vim":
        config["heads"] = heads
    entry = {"vllama": "visionllama_plain"}.get(family, family)
    path = os.path.join(folder, f"{family}_{image}.safetensors")
    save_case(model, x, y, path, entry, config, more)
    exact = ["--tol", "1e-4"] if args.precision == "fp32" else ["--tol", "4e-2", "--grad-tol", "8e-2"]
    return subprocess.run([args.vertebra, "verify", "--target", args.target, "--precision", args.precision, *exact,
                           path]).returncode


def check(args):
    failed = 0
    if args.width < 192:
        # so that the larger image takes the form in chunks, the last not full
        FORMS["vir"].Retention.longest, FORMS["vir"].Retention.chunk = 20, 8
    with tempfile.TemporaryDirectory() as folder:
        for family in args.family:
            for image in (64, 112) if args.width < 192 else (224,):
                failed += check_one(args, family, image, folder) != 0
    return 1 if failed else 0


# ---- measure --------------------------------------------------------------------------------------------------------
def prepare(args):
    m, cuda = MODELS[args.model], args.device == "cuda"
    torch.manual_seed(0)
    model = build(m.family, m.dim, m.depth, m.heads, patch=m.patch, image=args.image, classes=m.classes,
                  channels=m.channels).to(args.device).train(args.train)
    if args.how == "mamba_ssm":
        from mamba_ssm.ops.selective_scan_interface import selective_scan_fn
        FORMS["vim"].Direction.fused = selective_scan_fn
    if args.how in ("compile", "max-autotune"):
        # a Vim unrolled over all its layers would compile for an hour; its mixers share one compiled graph
        parts = [layer.mixer for layer in model.layers] if m.family == "vim" else [model]
        for part in parts:
            part.compile(mode=None if args.how == "compile" else "max-autotune")
    x = torch.randn(args.batch, m.channels, args.image, args.image, device=args.device)
    labels = torch.randint(m.classes, (args.batch,), device=args.device)

    update = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.05, fused=cuda) if args.train else None

    def run():
        if args.how == "max-autotune":
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(args.device, torch.bfloat16, enabled=cuda), torch.set_grad_enabled(args.train):
            y = model(x)
            loss = F.cross_entropy(y, labels) if args.train else None
        if args.train:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # as `vertebra bench --train` does it
            update.step()
            update.zero_grad(set_to_none=True)

    return run


def times(run, cuda, seconds):
    """Seconds of each run: on the GPU by events, so that the host counts only where the GPU waits for it."""
    out, start = [], time.perf_counter()
    while len(out) < 5 or time.perf_counter() - start < seconds:
        if cuda:
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            run()
            b.record()
            b.synchronize()
            out.append(a.elapsed_time(b) / 1e3)
        else:
            t = time.perf_counter()
            run()
            out.append(time.perf_counter() - t)
    return out


def measure(args):
    cuda = args.device == "cuda"
    start = time.perf_counter()
    try:
        run = prepare(args)
    except ImportError as e:
        print(json.dumps({"absent": "pip install mamba-ssm --no-build-isolation", "why": str(e)}))
        return 0
    for _ in range(3):
        run()
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    ready = time.perf_counter() - start
    t = times(run, cuda, args.seconds)
    print(json.dumps({"batch": args.batch, "best_ms": 1e3 * min(t), "median_ms": 1e3 * statistics.median(t),
                      "runs": len(t), "images_per_second": args.batch / min(t), "compile_seconds": ready,
                      "memory_bytes": torch.cuda.max_memory_reserved() if cuda else None}))
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="what", required=True)
    c = sub.add_parser("check")
    c.add_argument("--vertebra", default="build/release/vertebra")
    c.add_argument("--family", nargs="*", default=["vil", "vir", "vllama", "vim"])
    c.add_argument("--width", type=int, default=32, help="channels; from 192 on images are of 224 px, heads the papers'")
    c.add_argument("--target", default="cpu")
    c.add_argument("--precision", default="fp32")
    m = sub.add_parser("measure")
    m.add_argument("model", choices=MODELS)
    m.add_argument("--how", default="eager", choices=["eager", "compile", "max-autotune", "mamba_ssm"])
    m.add_argument("--image", type=int, default=224)
    m.add_argument("--batch", type=int, default=1)
    m.add_argument("--train", action="store_true")
    m.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    m.add_argument("--seconds", type=float, default=3)
    args = p.parse_args()
    return check(args) if args.what == "check" else measure(args)


if __name__ == "__main__":
    sys.exit(main())
