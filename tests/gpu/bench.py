#!/usr/bin/env python3
"""All benchmarks of a machine with a GPU: ceilings, mixers, models, each beside what others run, and directions of ViL.

usage: bench.py [--vertebra build/release/vertebra] [--out gpu-bench] [--budget MINUTES] [--only REGEX] [--list]

One measurement is one process, and one process runs at a time. Each gives a line of OUT/results.jsonl as soon as it is
done, also if it failed (out of memory, say): what is there is not measured again, so the same command goes on where the
last one stopped (--again REGEX measures once more). The most telling ones come first. OUT/report.md and OUT/percent.svg
are written at the end, and by --report alone. Without PyTorch, or with --ours, only our own numbers are taken. --device
cpu --quick tries all of it in seconds without a GPU; its numbers mean nothing.
"""
import argparse, dataclasses, datetime, json, os, platform, re, shlex, signal, subprocess, sys, time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import report
from kernels import CELLS, PEERS, QUICK_CELLS
from sizes import MODELS

HOWS = ["eager", "compile", "max-autotune", "mamba_ssm"]


@dataclasses.dataclass
class Job:
    id: str
    what: dict  # for the report: kind and shape
    command: list


# ---- what is measured -----------------------------------------------------------------------------------------------
class Plan:
    def __init__(self, args):
        self.args, self.jobs = args, []
        self.cuda = args.device == "cuda"

    def ours(self, id, what, entry, *more, precision=None, file=None):
        a = self.args
        model = [os.path.join(here, file), "--entry", entry] if file else [entry]
        command = [a.vertebra, "bench", *model, "--json", "--seconds", str(a.seconds)]
        command += ["--target", "cuda", "--precision", precision or a.precision] if self.cuda else []
        self.jobs.append(Job(id, what, command + [str(m) for m in more]))

    def python(self, id, what, script, *more):
        if self.args.ours:
            return
        quick = ["--quick"] if self.args.quick and script == "kernels.py" else []
        command = [sys.executable, os.path.join(here, script), *more, "--device", self.args.device, *quick]
        self.jobs.append(Job(id, what, [str(m) for m in command]))

    def ceilings(self):
        quick = self.args.quick
        shapes = {"copy": (64, 8) if quick else (4096, 8), "exp": (64, 8) if quick else (2048, 8)}
        for name, (side, dim) in shapes.items():
            what = {"kind": "ceiling", "name": name, "numbers": side * side * dim}
            entry = "copy" if name == "copy" else "exponentials"
            self.ours(f"ceiling/{name}", what, entry, "--image", side, "-D", f"dim={dim}", file="ceilings.vtb",
                      precision="fp32")
        rows, dim = ("16x16", 256) if quick else ("64x128", 8192)
        for precision in ("bf16", "tf32", "fp32") if self.cuda else ("fp32",):
            what = {"kind": "ceiling", "name": "product_" + precision, "flop": 2 * dim ** 3}
            self.ours(f"ceiling/product_{precision}", what, "product", "--image", rows, "-D", f"dim={dim}",
                      file="ceilings.vtb", precision=precision)
        self.python("ceiling/torch", {"kind": "ceiling", "name": "torch"}, "kernels.py", "ceilings")

    def cells(self):
        for name, (mixer, batch, tokens, size) in (QUICK_CELLS if self.args.quick else CELLS).items():
            grid = max(n for n in range(1, int(tokens ** 0.5) + 1) if tokens % n == 0)
            defines = [x for k, v in size.items() if k != "states" or mixer == "scan" for x in ("-D", f"{k}={v}")]
            shape = {"kind": "cell", "cell": name, "mixer": mixer, "batch": batch, "tokens": tokens, **size}
            for train in (False, True):
                step = ["-D", "learn=true", "--train", "--no-update"] if train else []
                self.ours(f"cell/{name}/{'both' if train else 'forward'}", {**shape, "who": "vertebra", "train": train},
                          mixer + "_cell", "--image", f"{grid}x{tokens // grid}", "--batch", batch, *defines, *step,
                          file="cells.vtb")
            for package in PEERS[mixer]:
                self.python(f"cell/{name}/{package}", {**shape, "who": package}, "kernels.py", "peer", package, name)

    def model(self, name, image, batch, train, ours=True, peers=True):
        what = {"kind": "model", "model": name, "image": image, "batch": batch, "train": train}
        key = f"model/{image}/b{batch}/{name}/{'train' if train else 'forward'}"
        shape = ["--image", image, "--batch", batch, *(["--train"] if train else [])]
        # stochastic depth is off on both sides: a step does all of its work
        if ours:
            self.ours(key, {**what, "who": "vertebra"}, name, *shape, "-D", "drop_path=0")
        for how in self.args.how if peers else []:
            if how != "mamba_ssm" or MODELS[name].family == "vim":
                self.python(f"{key}/{how}", {**what, "who": how}, "peers.py", "measure", name, "--how", how, *shape,
                            "--seconds", self.args.seconds)

    def directions(self, model, image, batch, all_paths=("bi", "quad", "oct"), steps=(False, True)):
        for train in steps:
            what = {"kind": "directions", "model": model, "image": image, "batch": batch, "train": train}
            shape = ["--image", image, "--batch", batch, "-D", "drop_path=0", *(["--train"] if train else [])]
            for paths in all_paths:
                self.ours(f"directions/{image}/{model}/{'train' if train else 'forward'}/{paths}",
                          {**what, "paths": paths}, model, *shape, "-D", f"directions={paths}")

    def everything(self):
        self.ceilings()
        self.cells()
        if self.args.quick:
            self.model("vil_nano", 28, 2, False)
            self.model("vir_nano", 28, 2, True)
            self.directions("vil_nano", 28, 2, ("bi", "quad"), steps=(False,))
            return self.jobs
        # what goals are about; then all of ours, since peers compile for minutes; then theirs
        for train in (False, True):
            self.model("vil_base", 224, 128, train)
        for image, batch in (224, 128), (512, 32):
            for name in ("vil_tiny", "vil_base"):
                self.directions(name, image, batch)
        every = [(name, image, batch, train) for image in (224, 512, 1024) for batch in (128, 1, 32)
                 for name in MODELS if not name.endswith("nano") for train in (False, True)]
        every = [e for e in every if e[:3] != ("vil_base", 224, 128)]
        for e in every:
            self.model(*e, peers=False)
        for e in every:
            self.model(*e, ours=False)
        return self.jobs


# ---- how ------------------------------------------------------------------------------------------------------------
def run(command, seconds):
    """Exit status (None: out of time), standard output, standard error. What it started ends with it."""
    try:
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    except OSError as e:
        return 127, "", f"{command[0]}: {e.strerror}"
    try:
        out, err = p.communicate(timeout=seconds)
        return p.returncode, out, err
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
        return None, "", ""


def portable(text, args):
    """Without the folders of this machine."""
    return text.replace(here, "tests/gpu").replace(args.vertebra, "vertebra").replace(sys.executable, "python3")


def around():
    """Where in cells.vtb the passes stand that feed a mixer and end its training step: no part of it."""
    with open(os.path.join(here, "cells.vtb")) as f:
        return {f"tests/gpu/cells.vtb:{n}" for n, line in enumerate(f, 1) if "return learn ?" in line}


def trimmed(result):
    """The bench's JSON with kernels as short lists, and for cells the time of the mixer's own."""
    kernels = result.pop("kernels", [])
    if kernels:
        feeding = around()
        result["own_ms"] = sum(k["ms"] for k in kernels if k["from"] not in feeding)
        result["kernels"] = [[k["name"], k["ops"][:60], k["from"], round(k["ms"], 4), k["launches"], k["gflop"],
                              k.get("gbyte", 0)] for k in kernels]
    return result


def measure(job, seconds, args):
    start = time.time()
    status, out, err = run(job.command, seconds)
    record = {"id": job.id, **job.what, "command": portable(shlex.join(job.command), args),
              "took": round(time.time() - start, 1), "at": datetime.datetime.now().isoformat(timespec="seconds")}
    lines = [l for l in err.splitlines() if l.strip()]
    if status == 0:
        try:
            record["result"] = trimmed(json.loads(out[out.index("{"):].replace(here, "tests/gpu")))
            record["status"] = "absent" if "absent" in record["result"] else "ok"
            return record
        except ValueError:
            lines = ["its output is no JSON"]
    record["status"] = "timeout" if status is None else "failed"
    memory = [l for l in lines if "out of memory" in l.lower()]
    record["error"] = (memory or lines or [f"exit status {status}"])[-1][:300]
    return record


def machine(args):
    """What the report says about where it was made: program, driver, libraries, device."""
    status, doctor, err = run([args.vertebra, "doctor"], 60)
    if status in (126, 127):
        sys.exit(f"{args.vertebra} does not start here: {err.strip()}")
    info = {"id": "machine", "date": datetime.date.today().isoformat(), "device": args.device,
            "doctor": re.findall("^(?:processor|threads|cuda driver|nvrtc|cublas).*", doctor, re.M),
            "python": platform.python_version(), "options": sys.argv[1:]}
    query = "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit"
    info["gpu"] = run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader"], 60)[1].strip()
    if not args.ours:
        code = "import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version())"
        info["torch"] = run([sys.executable, "-c", code], 120)[1].strip()
        args.ours = args.ours or not info["torch"]
    return info


def load(path):
    """Results by id; of several the last counts. A line that a crash left half written is passed over."""
    found = {}
    if os.path.exists(path):
        with open(path) as f:
            for line in f:
                try:
                    r = json.loads(line)
                    found[r["id"]] = r
                except (ValueError, KeyError):
                    pass
    return found


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--vertebra", default=os.environ.get("VERTEBRA", "build/release/vertebra"))
    p.add_argument("--out", default="gpu-bench", help="folder of results (default gpu-bench)")
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    p.add_argument("--budget", type=float, default=0, help="minutes after which nothing is started (default: no end)")
    p.add_argument("--timeout", type=float, default=900, help="seconds one measurement may take (default 900)")
    p.add_argument("--seconds", type=float, default=2, help="seconds to time for (default 2)")
    p.add_argument("--only", default="", metavar="REGEX", help="measurements whose name matches, see --list")
    p.add_argument("--again", default="^$", metavar="REGEX", help="measure these once more")
    p.add_argument("--precision", default="bf16-all", help="of our models and mixers (default bf16-all, as autocast)")
    p.add_argument("--how", nargs="*", default=HOWS, choices=HOWS, help="forms of the PyTorch models")
    p.add_argument("--ours", action="store_true", help="nothing but our own")
    p.add_argument("--quick", action="store_true", help="a few tiny sizes")
    p.add_argument("--list", action="store_true", help="print the names of all measurements")
    p.add_argument("--report", action="store_true", help="measure nothing, write the report")
    args = p.parse_args()
    if os.sep in args.vertebra:
        args.vertebra = os.path.abspath(args.vertebra)
    os.environ.setdefault("VTB_MODELS", os.path.join(here, "..", "..", "models"))
    return args


def main():
    args = options()
    if args.list:
        print("\n".join(j.id for j in Plan(args).everything() if re.search(args.only, j.id)))
        return 0
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, "results.jsonl")
    done, end = load(path), time.time() + 60 * args.budget if args.budget else float("inf")
    with open(path, "a+b") as f:  # a line may have been cut off: begin a new one
        if f.tell() and (f.seek(-1, 2), f.read(1))[1] != b"\n":
            f.write(b"\n")
    with open(path, "a", buffering=1) as log:
        def keep(record):
            done[record["id"]] = record
            log.write(json.dumps(record) + "\n")

        if not args.report:
            here_now = machine(args)
            if args.device == "cuda" and not any(re.match("cuda driver +ok", l) for l in here_now["doctor"]):
                print("no GPU: nothing was measured", file=sys.stderr)
                return 4
            keep(here_now)
        todo = [j for j in Plan(args).everything() if re.search(args.only, j.id) and
                (j.id not in done or re.search(args.again, j.id))]
        for n, job in enumerate([] if args.report else todo):
            left = end - time.time()
            if left <= 0:
                print(f"the time is over: {len(todo) - n} measurements are left, the same command goes on")
                break
            record = measure(job, min(args.timeout, left), args)
            if record["status"] == "timeout" and left < args.timeout:
                continue  # the budget's end is no result
            keep(record)
            result = record.get("result", {})
            value = record.get("error") or result.get("absent") or ""
            if "best_ms" in result:
                value = f"{result['best_ms']:.3f} ms"
            print(f"[{n + 1}/{len(todo)}] {job.id:55s} {record['status']:8s}{value}", flush=True)
    report.write(done, args.out)
    failed = [r for r in done.values() if r.get("status") == "failed" and r.get("who", "vertebra") == "vertebra"]
    return 1 if args.quick and failed else 0


if __name__ == "__main__":
    sys.exit(main())
