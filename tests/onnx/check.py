#!/usr/bin/env python3
"""Exports models, runs the files with ONNX Runtime and compares with `vertebra run`.

    tests/onnx/check.py VERTEBRA [MODEL...] [--all] [--batch N]... [--export "OPTIONS"]

Random weights, initial ones with noise so that none is 0 or 1 and rounded to f16, and random inputs; batches of 1 and 3; each output may
differ by 1e-4 of its largest number. MODEL is a name, FILE.vtb:MODEL, or a
FILE.vtb of several. Without one: the smallest preset of every family and the examples; --all: the
published sizes, minutes. Ends with 77 where numpy, onnx or onnxruntime are not installed.
"""
import argparse, json, os, re, subprocess, sys, tempfile, time

try:
    import numpy as np, onnx, onnxruntime as ort
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOLERANCE, NOISE = 1e-4, 0.02
SMALL = """vit_nano deit_nano vil_nano vim_nano vir_nano vllama_nano vllama_pyramid_nano swin_nano convnext_nano
convnext_isotropic_nano mambar_nano vrwkv_nano vil_delta_nano vim_delta_nano griffin gru_rows hgrn2 hilbert_average hymba
lru_rows mixer rwkv7_vision segment_u series_gla snake_memory unet_segment video_gla video_scan vmamba_28""".split()
LARGE = """deit_tiny vil_tiny vim_tiny vir_small visionllama_pyramid_small hybrid_vir_small hier_vim_tiny twins_svt_small
convnext_tiny swin_tiny vrwkv_tiny mambar_tiny""".split()

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("vertebra")
parser.add_argument("models", nargs="*")
parser.add_argument("--all", action="store_true")
parser.add_argument("--scale", type=float, default=1, help="of inputs, for gates that saturate")
parser.add_argument("--batch", type=int, action="append", help="sizes of batches")
parser.add_argument("--export", default="", help="options of `vertebra export`")
args = parser.parse_args()
env = dict(os.environ, VTB_TUNING="off", NO_COLOR="1")


def vertebra(*words):
    done = subprocess.run([args.vertebra, *words], env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"vertebra {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def read_safetensors(path):
    with open(path, "rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    head.pop("__metadata__", None)
    types = {"F32": np.float32, "I32": np.int32}
    return {k: np.frombuffer(data[v["data_offsets"][0]:v["data_offsets"][1]], types[v["dtype"]]).reshape(v["shape"])
            for k, v in head.items()}


def write_safetensors(path, tensors):
    head, at, data = {}, 0, b""
    for name, value in tensors.items():
        bytes_of = value.tobytes()
        head[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + len(bytes_of)]}
        at += len(bytes_of)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for value in tensors.values():
            file.write(value.tobytes())


def noisy_weights(path, folder):
    """Of the file at `path`, which has initial weights: the same with noise, as safetensors."""
    r = np.random.RandomState(1)
    tensors = {}
    for t in onnx.load(path).graph.initializer:
        if t.name.startswith("constant."):
            continue
        value = onnx.numpy_helper.to_array(t).astype(np.float32)
        tensors[t.name] = (value + NOISE * r.randn(*value.shape)).astype(np.float16).astype(np.float32)
    weights = os.path.join(folder, "w.safetensors")
    write_safetensors(weights, tensors)
    return weights


def inputs_of(session, batch, seed):
    r = np.random.RandomState(seed)
    out = {}
    for i in session.get_inputs():
        shape = [batch if isinstance(d, str) else d for d in i.shape]
        out[i.name] = (args.scale * r.randn(*shape)).astype(np.float32) if "float" in i.type else r.randint(0, 4, shape).astype(np.int32)
    return out


def compare(what, folder, batch, session, feed, weights):
    words = ["--weights", weights, "--allow-missing"]  # what nothing reads is not in the file
    for name, value in feed.items():
        path = os.path.join(folder, f"{name}.npy")
        np.save(path, value)
        words += ["--input", f"{name}={path}"]
    result = os.path.join(folder, "out.safetensors")
    vertebra("run", *what, *words, "--top", "1", "-o", result)
    want, worst = read_safetensors(result), 0.0
    names = [o.name for o in session.get_outputs()]
    shape_of = {o.name: o.shape for o in session.get_outputs()}
    for name, got in zip(names, session.run(None, feed)):
        rows = [want[f"sample {b}/{name}"] for b in range(batch)]
        axes = [k for k, d in enumerate(shape_of[name]) if isinstance(d, str)]
        if not axes and got.size == batch * rows[0].size:  # a fixed batch
            axes = [0]
        expected = np.concatenate(rows, axis=axes[0]) if axes else rows[0]
        if not np.isfinite(got).all():
            return np.inf
        worst = max(worst, float(np.abs(got.reshape(expected.shape) - expected).max() / max(1e-9, np.abs(expected).max())))
    return worst


def words_of(model):
    """A model's name, or FILE:MODEL, as the words that the command takes."""
    return model.rsplit(":", 1)[0].split() + (["--entry", model.rsplit(":", 1)[1]] if ":" in model else [])


def expanded(models):
    """A FILE.vtb stands for every model in it."""
    for model in models:
        if not model.endswith(".vtb"):
            yield model
            continue
        for name in re.findall(r"^model ([A-Za-z_0-9]+)\(", open(model).read(), re.M):
            yield f"{model}:{name}"


def check(model):
    what = words_of(model)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        vertebra("export", *what, "-o", path)
        weights = noisy_weights(path, folder)
        start = time.time()
        vertebra("export", *what, "--weights", weights, "--allow-missing", "-o", path, *args.export.split())
        exported = time.time() - start
        onnx.checker.check_model(path, full_check=True)
        options = ort.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        options.log_severity_level = 3
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        worst = [compare(what, folder, b, session, inputs_of(session, b, b), weights) for b in args.batch or (1, 3)]
        line = f"{model:28} " + " ".join(f"{w:9.2e}" for w in worst) + f"  exported in {exported:.1f} s"
        print(line, flush=True)
        return max(worst) <= TOLERANCE


bad = []
for model in expanded(args.models or (LARGE if args.all else SMALL)):
    try:
        if not check(model):
            bad.append(model)
    except Exception as error:
        print(f"{model:28} {str(error)[:600]}", flush=True)
        bad.append(model)
print("all equal" if not bad else f"unequal: {' '.join(bad)}")
sys.exit(1 if bad else 0)
