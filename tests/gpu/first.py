#!/usr/bin/env python3
"""The first minutes on a GPU: are the numbers right, and where does the time go beside the estimate.

usage: first.py [OUT] [--minutes 8] [--jobs N] [--parts PART...] [--models REGEX] [--cases REGEX]

In this order, each part within its share of the minutes, what did not fit is said:
  numbers   reference cases, all of them in bf16-all (products by wgmma, some in clusters), some in the other precisions
  papers    models of the papers' widths, outputs and gradients beside PyTorch's on the same weights (peers.py check)
  profile   models, mixers and variants, forward and training step, kernel by kernel beside `dump --stage launches
            --estimate`, by generated products and by cublasLt
  training  updates on made-up images: the loss falls, and stays a number
  memory    compute-sanitizer over two small cases
OUT (default gpu-first) gets report.md, results.jsonl (a line a measurement, as it is done) and failures.txt. It needs
the driver, NVRTC and Python; PyTorch, cublasLt and compute-sanitizer where they are. VERTEBRA names the program
(build/release/vertebra). Exit status 1 if any number is wrong, 4 without a GPU.
"""
import argparse, concurrent.futures, glob, json, os, re, shutil, signal, struct, subprocess, sys, time

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.join(here, "..", "..")
GOLDEN = os.environ.get("VTB_GOLDEN") or os.path.join(root, "tests", "golden")
SHARES = {"numbers": 0.3, "papers": 0.2, "profile": 0.4, "training": 0.1, "memory": 0.1}
MODELS = ["vil_tiny", "vil_base", "vim_tiny", "vim_base", "deit_base", "vir_base", "visionllama_base"]
CELLS = {"mlstm_cell": ["--image", "64x128", "--batch", "8"], "scan_cell": ["--image", "32x64", "--batch", "32"],
         "retention_cell": ["--image", "32x32", "--batch", "8"],
         "attention_cell": ["--image", "14x14", "--batch", "128"]}
VARIANTS = ["num_heads=3", "num_heads=12", "qkv_block_size=8", "qkv_block_size=3", "conv_kernel_size=5", "expansion=3",
            "dim=200", "directions=quad"]  # of vil_tiny


class Day:
    def __init__(self, args):
        self.args, self.begin, self.results, self.notes = args, time.time(), [], []
        os.makedirs(args.out, exist_ok=True)
        self.log = open(os.path.join(args.out, "results.jsonl"), "w", buffering=1)
        self.failures = open(os.path.join(args.out, "failures.txt"), "w", buffering=1)
        self.vertebra = os.environ.get("VERTEBRA") or os.path.join(root, "build", "release", "vertebra")

    def keep(self, **record):
        self.results.append(record)
        self.log.write(json.dumps(record) + "\n")
        return record

    def run(self, command, seconds, **environment):
        """Exit status (None: out of time), what it printed, seconds."""
        start = time.time()
        try:
            p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 start_new_session=True, env={**os.environ, **environment})
        except OSError as e:
            return 127, f"{command[0]}: {e.strerror}", 0.0
        try:
            out, _ = p.communicate(timeout=max(seconds, 1))
            return p.returncode, out, time.time() - start
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            return None, p.communicate()[0] or "", time.time() - start

    def judged(self, part, name, command, seconds, **environment):
        status, out, took = self.run(command, seconds, **environment)
        if status != 0:
            what = "out of time" if status is None else f"exit status {status}"
            self.failures.write(f"==== {part} {name}: {what}\n$ {environment} {' '.join(command)}\n{out[-6000:]}\n")
        words = re.findall(r"worst (\S+), bound (\S+)", out)
        return self.keep(part=part, name=name, status=status, took=round(took, 1), worst=words[-1] if words else None)

    # ---- parts ------------------------------------------------------------------------------------------------------
    def numbers(self, end):
        jobs = []
        case = lambda family, name: os.path.join(GOLDEN, family, name + ".safetensors")
        clusters = [case("vil", "vil2_mid_bilateral_cls"), case("vit", "deit_gap")]
        model = lambda path: glob.glob(os.path.join(os.path.dirname(path), "*.vtb"))  # of a folder that has its own
        for path in filter(os.path.exists, clusters):
            jobs.append((path, "bf16-all", {"VTB_CUDA_WGMMA": "1", "VTB_CUDA_CLUSTERS": "1"}))
        every = sorted(p for p in glob.glob(os.path.join(GOLDEN, "*", "*.safetensors"))
                       if re.search(self.args.cases, os.path.relpath(p, GOLDEN)))
        for precision in self.args.precisions:
            few = every if precision in ("bf16-all", "fp32") else every[::4]
            jobs += [(path, precision, {}) for path in few]
        self.parallel("numbers", end, jobs, lambda j: self.judged(
            "numbers", f"{os.path.relpath(j[0], GOLDEN)[:-12]} {j[1]}{' clusters' if j[2] else ''}",
            [self.vertebra, "verify", "--target", "cuda", "--precision", j[1],
             "--map", os.path.join(root, "tests", "golden", "cases.map"),
             *(["--model", *model(j[0])] if model(j[0]) else []), j[0]],
            min(90, end - time.time() + 5), VTB_CUBLAS="0", **j[2]))

    def papers(self, end):
        if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode:
            self.notes.append("papers: left out, there is no PyTorch")
            return
        families = "vil", "vim", "vir", "vllama"
        jobs = [(family, width, clusters) for width in ("192", "384", "768") for family in families
                for clusters in ("0", "1") if width == "768" or clusters == "0"]
        self.parallel("papers", end, jobs, lambda j: self.judged(
            "papers", f"{j[0]} {j[1]}{' clusters' if j[2] == '1' else ''}",
            [sys.executable, os.path.join(here, "peers.py"), "check", "--vertebra", self.vertebra, "--family", j[0],
             "--width", j[1], "--target", "cuda", "--precision", "bf16-all"],
            min(120, end - time.time() + 10), VTB_CUBLAS="0", OMP_NUM_THREADS="4",
            **({"VTB_CUDA_WGMMA": "1", "VTB_CUDA_CLUSTERS": "1"} if j[2] == "1" and j[0] != "vim" else {})))

    def parallel(self, part, end, jobs, do):
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            done = [pool.submit(lambda j=j: do(j) if time.time() < end else None) for j in jobs]
            left = sum(f.result() is None for f in done)
        if left:
            self.notes.append(f"{part}: no time for {left} of {len(jobs)}")

    def profile(self, end):
        whole = ["-D", "drop_path=0", "--batch", "128"]
        plain = [(m, [m, *whole]) for m in MODELS]
        rest = [(c, [os.path.join(here, "cells.vtb"), "--entry", c, *more]) for c, more in CELLS.items()]
        rest += [(f"vil_tiny {v}", ["vil_tiny", *whole, "-D", v]) for v in VARIANTS]
        jobs = [(f"{name} {'training' if train else 'forward'} {'ours' if lt else 'cublasLt'}", model, train, lt)
                for these, lt in ((plain, "0"), (rest, "0"), (plain, "")) for name, model in these
                for train in (False, True)]
        jobs = [j for j in jobs if re.search(self.args.models, j[0])]
        left = 0
        for label, model, train, lt in jobs:
            if time.time() > end:
                left += 1
                continue
            cell = ["-D", "learn=true", "--no-update"] if train and "_cell" in label else []
            common = [*model, *cell, "--precision", "bf16-all", *(["--train"] if train else [])]
            environment = {"VTB_CUBLAS": lt} if lt else {}
            bench = [self.vertebra, "bench", *common, "--target", "cuda", "--json", "--seconds", "0.6"]
            status, out, took = self.run(bench, min(90, end - time.time() + 30), **environment)
            if status != 0:
                self.failures.write(f"==== profile {label}: {status}\n$ {' '.join(common)}\n{out[-4000:]}\n")
                self.keep(part="profile", name=label, status=status, took=round(took, 1))
                continue
            common = [a for a in common if a != "--no-update"]
            dump = [self.vertebra, "dump", *common, "--stage", "launches", "--estimate", self.gpu, "--json"]
            guess = self.run(dump, 60, **environment) if lt else (1, "", 0)
            self.keep(part="profile", name=label, status=0, took=round(took, 1), clocks=self.clocks(),
                      measured=json.loads(out[out.index("{"):]),
                      estimate=json.loads(guess[1][guess[1].index("{"):]) if guess[0] == 0 else None)
        if left:
            self.notes.append(f"profile: no time for {left} of {len(jobs)}")

    def clocks(self):
        return self.smi("clocks.sm,clocks.mem,power.draw")

    def smi(self, what):
        return self.run(["nvidia-smi", "--query-gpu=" + what, "--format=csv,noheader"], 30)[1].strip()

    def training(self, end):
        data = os.path.join(self.args.out, "..", "first_data")
        os.makedirs(data, exist_ok=True)
        for stem, n in ("train", 2048), ("t10k", 256):
            self.images(os.path.join(data, stem), n)
        for precision in "bf16-all", "fp16", "fp32":
            for model in "vil_nano", "vim_nano", "vir_nano":
                if time.time() > end:
                    self.notes.append(f"training: no time for {model} {precision}")
                    continue
                out = os.path.join(data, f"run_{model}_{precision}")
                shutil.rmtree(out, ignore_errors=True)
                self.judged("training", f"{model} {precision}",
                            [self.vertebra, "train", model, "--data", data, "--batch", "64", "--updates", "60",
                             "--target", "cuda", "--precision", precision, "--out", out],
                            min(60, end - time.time() + 10))
                if self.results[-1]["status"] == 0:
                    losses = self.losses(os.path.join(out, "log.jsonl"))
                    fell = len(losses) > 1 and losses[-1] < losses[0]
                    self.keep(part="training", name=f"{model} {precision} loss", status=0 if fell else 1, losses=losses)

    @staticmethod
    def losses(path):
        with open(path) as f:
            events = [json.loads(line) for line in f]
        return [e["loss"] for e in events if e.get("event") == "window"]

    def images(self, stem, n):
        """Stripes of ten kinds with noise, as MNIST's files."""
        import random
        random.seed(1)
        noise = [random.randrange(70) for _ in range(4099)]
        pixels = bytes(1 + noise[(i * 31 + y * 28 + x) % 4099] + 35 * (int((x if i % 10 < 5 else y) / (2 + i % 5)) % 2)
                       for i in range(n) for y in range(28) for x in range(28))
        open(stem + "-images-idx3-ubyte", "wb").write(struct.pack(">4B3I", 0, 0, 8, 3, n, 28, 28) + pixels)
        labels = bytes(i % 10 for i in range(n))
        open(stem + "-labels-idx1-ubyte", "wb").write(struct.pack(">4BI", 0, 0, 8, 1, n) + labels)

    def memory(self, end):
        found = glob.glob("/usr/local/cuda*/bin/compute-sanitizer")
        tool = shutil.which("compute-sanitizer") or next(iter(found), None)
        if not tool:
            self.notes.append("memory: left out, there is no compute-sanitizer")
            return
        cases = [("vil/vil2_mid_bilateral_cls", {"VTB_CUDA_WGMMA": "1", "VTB_CUDA_CLUSTERS": "1"}),
                 ("vil/vil2_causal1d", {})]
        jobs = [(t, c, e) for c, e in cases for t in ("memcheck", "racecheck", "initcheck", "synccheck")]
        self.parallel("memory", end, jobs, lambda j: self.judged(
            "memory", f"{j[0]} {j[1]}",
            [tool, "--tool", j[0], "--error-exitcode", "9", self.vertebra, "verify", "--target", "cuda", "--precision",
             "bf16-all", os.path.join(GOLDEN, j[1] + ".safetensors")],
            end - time.time() + 20, VTB_CUBLAS="0", VTB_CUDA_GRAPH="0", **j[2]))

    # ---- report -----------------------------------------------------------------------------------------------------
    def machine(self):
        doctor = self.run([self.vertebra, "doctor"], 60)[1]
        smi = self.smi("name,driver_version,clocks.max.sm,power.limit")
        self.gpu = "h100" if "H100" in smi else "a100" if "A100" in smi else "b200" if "B200" in smi else "h200"
        lines = [l for l in doctor.splitlines() if re.match("cuda driver|nvrtc|cublas|threads", l)]
        self.keep(part="machine", name=smi, doctor=lines, estimate_of=self.gpu)
        print(smi, *lines, sep="\n", flush=True)
        return any(re.match("cuda driver +ok", l) for l in lines)

    def report(self):
        machine = self.results[0]
        out = ["# First minutes on a GPU", "", f"{machine['name']}; {'; '.join(machine['doctor'])}", ""]
        for part in SHARES:
            mine = [r for r in self.results if r["part"] == part]
            bad = [r for r in mine if r["status"] != 0]
            if mine:
                out.append(f"- {part}: {len(mine) - len(bad)} of {len(mine)} as they should be")
            out += [f"  - {r['name']}: {'out of time' if r['status'] is None else r['status']}" for r in bad]
        out += [f"- {n}" for n in self.notes]
        profiles = [r for r in self.results if r["part"] == "profile" and r["status"] == 0]
        if profiles:
            out += ["", "| | ms | images/s | estimate ms | measured / estimate | cublasLt ms | clocks and power |",
                    "| --- " * 7 + "|"]
        library = {r["name"][:-9]: r["measured"]["best_ms"] for r in profiles if r["name"].endswith(" cublasLt")}
        ours = [r for r in profiles if r["name"].endswith(" ours")]
        for r in ours:
            m, e, lt = r["measured"], r["estimate"], library.get(r["name"][:-5])
            out.append(f"| {r['name'][:-5]} | {m['best_ms']:.3f} | {m['images_per_second']:.0f} | " +
                       (f"{e['ms']:.3f} | {m['best_ms'] / e['ms']:.2f}" if e else "| ") +
                       f" | {f'{lt:.3f}' if lt else ''} | {r['clocks']} |")
        for r in ours:
            out += self.kernels(r)
        text = "\n".join(out) + "\n"
        with open(os.path.join(self.args.out, "report.md"), "w") as f:
            f.write(text)
        return text

    @staticmethod
    def kernels(r, most=25):
        """Those that take most, beside the estimate of the same launches."""
        guess = {}
        for s in (r["estimate"] or {}).get("steps", []):
            g = guess.setdefault(s["kernel"], [0.0, set()])
            g[0] += s["us"]
            g[1].add(s["limit"])
        out = ["", f"## {r['name']}", "", "| kernel | launches | measured us | estimate us | ratio | limit |",
               "| --- " * 6 + "|"]
        for k in sorted(r["measured"].get("kernels", []), key=lambda k: -k["ms"])[:most]:
            us, limits = guess.get(k["name"], (0, ()))
            out.append(f"| {k['name'][:70]} | {k['launches']} | {1e3 * k['ms']:.1f} | " +
                       (f"{us:.1f} | {1e3 * k['ms'] / us:.2f} | {' '.join(sorted(limits))} |" if us else "| | |"))
        return out

    def all(self):
        if not self.machine():
            print("no CUDA driver: nothing was run", file=sys.stderr)
            return 4
        whole = sum(SHARES[p] for p in self.args.parts)
        for part in self.args.parts:
            left = 60 * self.args.minutes - (time.time() - self.begin)
            end = time.time() + left * SHARES[part] / whole
            whole -= SHARES[part]
            start = time.time()
            getattr(self, part)(end)
            mine = [r for r in self.results if r["part"] == part]
            fine = sum(r["status"] == 0 for r in mine)
            print(f"{part}: {fine} of {len(mine)} ok, {time.time() - start:.0f} s", flush=True)
            self.report()
        print(self.report()[:11000])
        return 1 if any(r["status"] != 0 for r in self.results if r["part"] != "machine") else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", nargs="?", default="gpu-first")
    p.add_argument("--minutes", type=float, default=8)
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--parts", nargs="*", default=list(SHARES), choices=list(SHARES))
    p.add_argument("--models", default=".", metavar="REGEX", help="profiled: 'vil_tiny num_heads=3 training ours'")
    p.add_argument("--precisions", nargs="*", default=["bf16-all", "fp32", "fp16", "tf32", "bf16"])
    p.add_argument("--cases", default=".", metavar="REGEX", help="reference cases, as family/name")
    os.environ.setdefault("VTB_MODELS", os.path.join(root, "models"))
    os.environ["NO_COLOR"] = "1"
    return Day(p.parse_args()).all()


if __name__ == "__main__":
    sys.exit(main())
