"""A peer of `vertebra bench --peers`, as a process: python3 -c TEXT PEER, one of the names of PEERS below.

Each line of the standard input is a job in JSON, each gets one line of answer:
    {"open": {...}} -> {"about": "1.32.0, deit_tiny.onnx", "difference": 8e-7} or {"missing": why it cannot be measured}
    {"runs": n, "seconds": s} -> {"times": [seconds of each run], "cpu": the least of the processor's},
        as `vertebra bench` itself takes them
A peer computes in float32, whatever the processor has besides, with as many threads as it is told, and is otherwise as
it comes. What is compared are numbers of the same weights and inputs: the file `case` of safetensors has param/NAME,
input/NAME and what this project computed, output/NAME and grad/NAME.
"""
import json, os, sys, time

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # libraries print where they like


class Missing(Exception):
    """Why a peer cannot be measured, as a sentence."""


def read_case(path):
    import numpy as np
    with open(path, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        header, data = json.loads(f.read(n)), f.read()
    header.pop("__metadata__", None)
    kinds = {"F32": np.float32, "I32": np.int32}
    return {name: np.frombuffer(data[slice(*t["data_offsets"])], kinds[t["dtype"]]).reshape(t["shape"]).copy()
            for name, t in header.items()}


def under(case, folder):
    return {name[len(folder):]: x for name, x in case.items() if name.startswith(folder)}


def difference(case, results):
    """The largest difference from our numbers by the largest of them: of outputs, and of all gradients together."""
    import numpy as np
    worst = 0.0
    for kind in ("output/", "grad/"):
        pairs = [(ours, np.asarray(results[name])) for name, ours in case.items() if name.startswith(kind)]
        if not pairs:
            continue
        for ours, theirs in pairs:
            if ours.size != theirs.size:
                raise Missing(f"its results have other shapes: {theirs.shape} instead of {ours.shape}")
        size = max(float(np.abs(ours).max(initial=0)) for ours, _ in pairs)
        gap = max(float(np.abs(ours.ravel() - theirs.ravel()).max(initial=0)) for ours, theirs in pairs)
        worst = max(worst, gap / size if size else gap)
    return worst


# ---- peers that read the exported file ------------------------------------------------------------------------------
def exported(job):
    if job["train"]:
        raise Missing("it does not train exported files")
    if not job["onnx"]:
        raise Missing("the model cannot be exported: " + job["why_no_onnx"])
    return job["onnx"]


def onnxruntime(job, case):
    if job["cpu"]:
        raise Missing("it cannot be held to an instruction set: measure on a processor that has no other")
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = job["threads"], 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    session = ort.InferenceSession(exported(job), options, providers=["CPUExecutionProvider"])
    feed = {i.name: case["input/" + i.name] for i in session.get_inputs()}
    names = [o.name for o in session.get_outputs()]

    def results():
        return {"output/" + name: x for name, x in zip(names, session.run(names, feed))}

    return (lambda: session.run(names, feed)), results, ort.__version__


def openvino(job, case):
    import openvino as ov
    compiled = ov.Core().compile_model(exported(job), "CPU", {
        "INFERENCE_NUM_THREADS": job["threads"], "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    feed = [case["input/" + next(n for n in job["inputs"] if n in i.get_names())] for i in compiled.inputs]

    def run():
        return request.infer(feed, share_inputs=True, share_outputs=True)

    def results():
        run()
        return {"output/" + n: request.get_tensor(o).data.copy() for n, o in zip(job["outputs"], compiled.outputs)}

    return run, results, ov.__version__.split("-")[0]


# ---- PyTorch, where the model's file has a form in it beside itself -------------------------------------------------
def value_of(text):
    """A hyperparameter's text as Python has it: 192, 1e-6, True, (224, 224), else the text."""
    if text in ("true", "false"):
        return text == "true"
    parts = text.split("x")
    if len(parts) == 2 and all(p.isdigit() for p in parts):
        return tuple(map(int, parts))
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text.strip('"')


def torch_model(job, case):
    import importlib.util
    import torch
    path, entry = job["form"], job["entry"]
    if not os.path.exists(path):
        raise Missing(f"the model has no form in PyTorch: there is no {path}")
    spec = importlib.util.spec_from_file_location("form", path)
    form = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(form)
    if not hasattr(form, entry):
        raise Missing(f"{path} has no form of the model {entry}")
    try:
        model = getattr(form, entry)(**{name: value_of(v) for name, v in job["settings"].items()})
    except NotImplementedError as why:
        raise Missing(f"{path}: {why}")
    weights = {name: torch.from_numpy(x) for name, x in under(case, "param/").items()}
    try:
        model.load_state_dict(weights)
    except RuntimeError as why:
        raise Missing(f"{path} has other parameters than the model: {' '.join(str(why).split())}")
    return model.train(job["train"])


def torch_step(job, case, model, inputs):
    """Cross entropy and its gradients; with the update AdamW's, behind clipping, at a rate of zero."""
    import torch
    if not job["labels"]:
        raise Missing("losses that a model declares have no form in PyTorch")
    if getattr(model, "random", 0):
        raise Missing("dropout and stochastic depth draw other numbers in each: set their rates to 0 by -D")
    if job["optimizer"] not in ("", "adamw"):
        raise Missing(f"the update {job['optimizer']} is not PyTorch's: --optimizer adamw, or --no-update")
    labels = torch.from_numpy(case["input/" + job["labels"]]).long()
    update = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True) if job["optimizer"] else None
    last = {}

    def run():
        model.zero_grad(set_to_none=True)
        last["loss"] = torch.nn.functional.cross_entropy(model(*inputs), labels)
        last["loss"].backward()
        if update:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            update.step()

    def results():
        run()
        grads = {"grad/" + name: p.grad.numpy() for name, p in model.named_parameters() if p.grad is not None}
        return {"output/loss": last["loss"].detach().numpy(), **grads}

    return run, results


def pytorch(job, case, compiled):
    if job["cpu"]:
        os.environ["ATEN_CPU_CAPABILITY"] = "avx2"
        os.environ["MKL_ENABLE_INSTRUCTIONS"] = "AVX2"
    import torch
    torch.set_num_threads(job["threads"])
    model = torch_model(job, case)
    inputs = [torch.from_numpy(case["input/" + name]) for name in job["inputs"]]
    if compiled:
        if job["cpu"]:
            import torch._inductor.config as inductor
            inductor.cpp.simdlen = 256
        for part in getattr(model, "compiled_parts", [model]):
            part.compile()
    if job["train"]:
        run, results = torch_step(job, case, model, inputs)
    else:
        def run():
            with torch.no_grad():
                return model(*inputs)

        def results():
            y = run()
            return {"output/" + n: x.numpy() for n, x in zip(job["outputs"], y if isinstance(y, tuple) else (y,))}
    return run, results, torch.__version__.split("+")[0] + ", " + job["form"]


PEERS = {"onnxruntime": onnxruntime, "openvino": openvino,
         "torch": lambda job, case: pytorch(job, case, compiled=False),
         "torch.compile": lambda job, case: pytorch(job, case, compiled=True)}


# ---- the conversation -----------------------------------------------------------------------------------------------
def opened(peer, job):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(job["threads"])
    if job["cpu"]:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"
    case = read_case(job["case"])
    run, results, about = PEERS[peer](job, case)
    return run, {"about": about, "difference": difference(case, results())}


def timed(run, runs, seconds):
    """Two runs to warm up, then `runs`, or at least five and as many as `seconds` take; of long ones two."""
    begun = time.perf_counter()
    for i in range(2):
        if i == 0 or time.perf_counter() - begun < seconds:
            run()
    times, least, start = [], float("inf"), time.perf_counter()
    while len(times) < (runs or 1000):
        spent = time.perf_counter() - start
        if not runs and spent >= seconds and len(times) >= (5 if spent < 3 * seconds else 2):
            break
        cpu, begun = time.process_time(), time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
        least = min(least, time.process_time() - cpu)
    return {"times": times, "cpu": least}


def main():
    peer, run = sys.argv[1], None
    for line in sys.stdin:
        job = json.loads(line)
        try:
            if "open" in job:
                run, answer = opened(peer, job["open"])
            else:
                answer = timed(run, job["runs"], job["seconds"])
        except ModuleNotFoundError as why:
            answer = {"missing": f"the package {why.name} is not installed: {sys.executable} -m pip install {why.name}"}
        except Missing as why:
            answer = {"missing": str(why)}
        except Exception as why:  # whatever a library throws is why it has no numbers
            answer = {"missing": f"{type(why).__name__}: {' '.join(str(why).split())[:400]}"}
        print(json.dumps(answer), file=answers, flush=True)


main()
