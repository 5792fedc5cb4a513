#!/usr/bin/env python3
"""One image on one thread: `vertebra run`'s program beside ONNX Runtime's of the same exported file, as a table.

    VERTEBRA_LIBRARY=build/release/libvertebra.so tests/onnx/time.py VERTEBRA [MODEL...] [--rounds N]

Processor time of the process, the least of N rounds (default 15) in which the two take turns, so that what else runs on
the machine disturbs both alike. MODEL: a name; without one, published sizes of five families. Initial weights, the
same in both; outputs are compared to 1e-4. Ends with 77 where numpy or onnxruntime are not installed.
"""
import argparse, os, subprocess, sys, tempfile, time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VTB_THREADS"):
    os.environ[name] = "1"
os.environ["VTB_TUNING"] = "off"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../frontend/python"))
try:
    import numpy as np, onnxruntime as ort
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
import vertebra

MODELS = "deit_tiny vil_tiny vim_tiny vir_small visionllama_pyramid_small".split()
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("vertebra")
parser.add_argument("models", nargs="*", default=MODELS)
parser.add_argument("--rounds", type=int, default=15)
args = parser.parse_args()


def least(run, best):
    start = time.process_time()
    run()
    return min(best, time.process_time() - start)


def times(name, folder):
    path = os.path.join(folder, "m.onnx")
    subprocess.run([args.vertebra, "export", name, "-o", path], check=True, capture_output=True)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    shape = [1 if isinstance(d, str) else d for d in session.get_inputs()[0].shape]
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    model = vertebra.create_model(name, threads=1)
    ours, theirs = (lambda: model(x)), (lambda: session.run(None, {session.get_inputs()[0].name: x})[0])
    a, b = ours(), theirs()
    assert np.abs(a - b).max() <= 1e-4 * np.abs(b).max(), f"{name}: outputs differ by {np.abs(a - b).max()}"
    best = [1e9, 1e9]
    for _ in range(args.rounds):
        best = [least(ours, best[0]), least(theirs, best[1])]
    return [1e3 * t for t in best]


print("| model | vertebra | ONNX Runtime | ratio |\n| --- | --- | --- | --- |")
for name in args.models:
    with tempfile.TemporaryDirectory() as folder:
        mine, other = times(name, folder)
        print(f"| {name} | {mine:.1f} ms | {other:.1f} ms | {other / mine:.2f} |", flush=True)
