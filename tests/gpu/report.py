"""The report of bench.py: tables in markdown from its results, the goals beside what was reached, a chart."""
import os
from sizes import MODELS, limit

PEER_COLUMNS = ["eager", "compile", "max-autotune", "mamba_ssm"]
SIZES = ["batch", "tokens", "heads", "keys", "values", "width", "channels", "states"]  # of mixers


def best(r):
    """Milliseconds of a result, or None."""
    return r["result"].get("best_ms") if r and r.get("status") == "ok" else None


def number(x, digits=3):
    """Three digits, thousands apart: 0.123, 12.3, 1,230."""
    if x is None:
        return "-"
    if x >= 100:
        return f"{x:,.0f}"
    return f"{x:.{digits}g}" if x < 1 else f"{x:.{max(0, digits - len(str(int(x))))}f}"


def ratio(a, b):
    return a / b if a and b else None


def percent(x):
    return "-" if x is None else f"{100 * x:.0f} %"


def outcome(r):
    """Why there is no number."""
    if r is None:
        return "-"
    if r["status"] == "failed" and "memory" in r.get("error", "").lower():
        return "out of memory"
    return {"absent": "not installed", "ok": "-"}.get(r["status"], r["status"])


def table(head, rows):
    if not rows:
        return ["Nothing measured.", ""]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows] + [""]


# ---- ceilings -------------------------------------------------------------------------------------------------------
def ceilings(done):
    """Per second, by name: ours and PyTorch's."""
    ours = {}
    for r in done.values():
        ms = best(r) if r.get("kind") == "ceiling" else None
        if ms and r["name"] == "copy":
            ours["copy"] = 2 * 4 * r["numbers"] / ms * 1e3
        elif ms and r["name"] == "exp":
            ours["exp"] = 64 * r["numbers"] / ms * 1e3  # ceilings.vtb: 64 times each
        elif ms:
            ours[r["name"]] = r["flop"] / ms * 1e3
    theirs = done.get("ceiling/torch", {}).get("result", {})
    return ours, {k: v for k, v in theirs.items() if k == "copy" or k.startswith("product")}


def reached(done):
    """What limits are counted with: the better of the two, products in the models' precision. None if one lacks."""
    ours, theirs = ceilings(done)
    cuda = done.get("machine", {}).get("device") == "cuda"
    names = {"copy": "copy", "exp": "exp", "product": "product_bf16" if cuda else "product_fp32"}
    top = {k: max(ours.get(name, 0), theirs.get(name, 0)) for k, name in names.items()}
    return {"device": "cuda" if cuda else "cpu", **top} if all(top.values()) else None


def ceilings_section(done):
    ours, theirs = ceilings(done)
    units = {"copy": ("copy, GB/s", 1e9), "exp": ("exponentials, 1e9/s", 1e9)}
    rows = []
    for k in [*ours, *(k for k in theirs if k not in ours)]:
        name, unit = units.get(k, (k.replace("product_", "product ") + ", TFLOP/s", 1e12))
        rows.append([name, *(number(x[k] / unit) if k in x else "-" for x in (ours, theirs))])
    return ["## Ceilings", "", *table(["", "vertebra", "PyTorch"], rows)]


# ---- models ---------------------------------------------------------------------------------------------------------
def of_limit(r, top):
    ms = best(r)
    if not (ms and top):
        return None
    return limit(MODELS[r["model"]], r["image"], r["batch"], r["train"], top) * 1e3 / ms


def of_kernels(r, top):
    """The same with what our kernels really compute and move, each at its own ceiling: how good they are, apart from how
    well they are fused."""
    ms = best(r)
    if not (ms and top and "kernels" in r["result"]):
        return None
    return sum(max(k[5] / top["product"], k[6] / top["copy"]) for k in r["result"]["kernels"]) * 1e12 / ms


def memory(r):
    result = r["result"]
    if "memory_bytes" in result:
        return result["memory_bytes"]
    return sum(result.get(k, 0) for k in ("workspace_bytes", "parameter_bytes", "buffer_bytes"))


def model_rows(done, top, image, batch):
    rows = []
    for r in done.values():
        if r.get("kind") != "model" or (r["who"], r["image"], r["batch"]) != ("vertebra", image, batch):
            continue
        ms, row = best(r), [r["model"], "training" if r["train"] else "forward"]
        if ms:
            row += [number(ms), number(1e3 * batch / ms), percent(of_limit(r, top)), percent(of_kernels(r, top)),
                    number(memory(r) / 2 ** 30)]
        else:
            row += [outcome(r), "-", "-", "-", "-"]
        for how in PEER_COLUMNS:
            p = done.get(f"{r['id']}/{how}")
            theirs = best(p)
            faster = f" ({number(theirs / ms)}x)" if theirs and ms else ""
            row.append(number(1e3 * batch / theirs) + faster if theirs else outcome(p))
        rows.append(row)
    return rows


def models_section(done, top):
    shapes = sorted({(r["image"], r["batch"]) for r in done.values() if r.get("kind") == "model"})
    lines = ["## Models", "", "Images a second; in brackets how many times as fast ours is. A training step is forward, "
             "backward, clipping and AdamW's update. \"Of the limit\" is the time of the layers at the ceilings above, "
             "counted as tests/gpu/sizes.py says, over the time measured; \"of the kernels'\" the same with the FLOPs and bytes of our own kernels.", ""]
    head = ["model", "step", "ms", "images/s", "of the limit", "of the kernels'", "GiB", *PEER_COLUMNS]
    for image, batch in shapes:
        lines += [f"### {image} pixels, batch {batch}", "", *table(head, model_rows(done, top, image, batch))]
    return lines if shapes else lines + ["Nothing measured.", ""]


def directions_section(done):
    rows = []
    for r in done.values():
        if r.get("kind") == "directions" and r["paths"] == "bi":
            key = r["id"].rsplit("/", 1)[0]
            ms = [best(done.get(f"{key}/{p}")) for p in ("bi", "quad", "oct")]
            rows.append([r["model"], r["image"], r["batch"], "training" if r["train"] else "forward", *map(number, ms),
                         *(percent(m / ms[0] - 1) if m and ms[0] else "-" for m in ms[1:])])
    return ["## Directions of ViL", "", "Milliseconds, and what more directions cost.", "",
            *table(["model", "pixels", "batch", "step", "two", "four", "eight", "four", "eight"], rows)]


# ---- mixers ---------------------------------------------------------------------------------------------------------
def cell_ms(done, cell, who):
    """(forward, backward) in milliseconds, each the better of called and replayed; ours without what feeds it."""
    if who != "vertebra":
        r = done.get(f"cell/{cell}/{who}")
        if not r or r["status"] != "ok":
            return None, None
        pairs = [(r["result"].get(f"forward{g}_ms"), r["result"].get(f"both{g}_ms")) for g in ("", "_graph")]
        backward = [both - forward for forward, both in pairs if forward and both]
        return min(f for f, _ in pairs if f), min(backward, default=None)
    one, two = (done.get(f"cell/{cell}/{s}") for s in ("forward", "both"))
    both = two["result"].get("own_ms") if best(two) else None
    return best(one), both - one["result"].get("own_ms", 0) if both and best(one) else None


def cells_section(done):
    rows = []
    for r in done.values():
        if r.get("kind") != "cell" or r.get("train"):
            continue
        forward, backward = cell_ms(done, r["cell"], r["who"])
        ours = cell_ms(done, r["cell"], "vertebra")
        size = " ".join(f"{k} {r[k]}" for k in SIZES if k in r)
        theirs = (forward, backward) if r["who"] != "vertebra" else (None, None)
        faster = [number(ratio(a, b)) for a, b in zip(theirs, ours)]
        rows.append([r["mixer"], size, r["who"], number(forward) if forward else outcome(r), number(backward), *faster])
    absent = sorted({f"- {r['who']}: not installed: {r['result']['absent']}" for r in done.values()
                     if r.get("kind") == "cell" and r["status"] == "absent"})
    note = ["Milliseconds; others in bf16, called or replayed from a CUDA graph, whichever is less; ours in fp32 memory. "
            "Ours backward is the kernels of the mixer alone. The last columns are how many times as fast ours is.", ""]
    head = ["mixer", "shape", "", "forward", "backward", "forward", "backward"]
    return ["## Mixers", "", *note, *table(head, rows), *absent, ""]


# ---- goals ----------------------------------------------------------------------------------------------------------
def goals(done, top):
    """What is aimed at, the least value, and what was reached."""
    def cell(name, who, part):
        return ratio(cell_ms(done, name, who)[part], cell_ms(done, name, "vertebra")[part])

    train, forward = (done.get(f"model/224/b128/vil_base/{s}") for s in ("train", "forward"))
    compiled = [best(done.get(f"model/224/b128/vil_base/train/{h}")) for h in ("compile", "max-autotune")]
    retention = done.get("cell/retention_1024/fla", {}).get("result", {}).get("forward_graph_ms")
    more = []
    for r in done.values():
        if r.get("kind") == "directions" and r["paths"] != "bi":
            more.append(ratio(best(done.get(r["id"].rsplit("/", 1)[0] + "/bi")), best(r)))
    return [("mLSTM forward, times xl_chunk at its own shape", 4, cell("mlstm_8192", "mlstm_kernels", 0)),
            ("mLSTM forward, times xl_chunk at 196 tokens", 8, cell("mlstm_196", "mlstm_kernels", 0)),
            ("retention forward, times fla in a graph", 3,
             ratio(retention, cell_ms(done, "retention_1024", "vertebra")[0])),
            ("selective scan forward, times mamba_ssm", 2.5, cell("scan_2048", "mamba_ssm", 0)),
            ("selective scan backward, times mamba_ssm", 5, cell("scan_2048", "mamba_ssm", 1)),
            ("ViL-B training, times torch.compile", 5, ratio(min(filter(None, compiled), default=None), best(train))),
            ("ViL-B forward at batch 128, of its limit", 0.6, of_limit(forward, top) if forward else None),
            ("four and eight directions, speed of two (the worst)", 1 / 1.03, min(filter(None, more), default=None))]


def goals_section(done, top):
    rows = [[name, number(least), number(value) if value else "not measured",
             "" if value is None else "yes" if value >= least else "no"] for name, least, value in goals(done, top)]
    return ["## Goals", "", *table(["", "at least", "measured", "reached"], rows)]


# ---- all ------------------------------------------------------------------------------------------------------------
def machine_section(done):
    m = done.get("machine", {})
    lines = [m["gpu"] + "  (name, driver, memory, highest clocks, power limit)"] if m.get("gpu") else []
    lines += m.get("doctor", [])
    lines += [f"PyTorch, its CUDA and cuDNN: {m['torch']}" if m.get("torch") else "PyTorch: not installed or left out"]
    made = f"Made by tests/gpu/bench.py on {m.get('date', '?')}, target {m.get('device', '?')}."
    return ["# Benchmarks", "", made, "", "```", *lines, "```", ""]


def failures_section(done):
    rows = [[r["id"], r["status"], r.get("error", "").replace("|", "\\|")] for r in done.values()
            if r.get("status") in ("failed", "timeout")]
    return ["## Without a number", "", *table(["measurement", "", "why"], rows)] if rows else []


def commands_section(done):
    """One command of each kind; results.jsonl has them all."""
    seen = {}
    for r in done.values():
        if "command" in r:
            seen.setdefault((r["kind"], r.get("who", "")), r["command"])
    note = "One of each kind; the others are in results.jsonl."
    return ["## Commands", "", note, "", "```", *seen.values(), "```", ""]


def chart(done, top):
    """Percent of the limit at the first shape measured with most models, as bars."""
    shapes = {}
    for r in done.values():
        value = of_limit(r, top) if r.get("kind") == "model" and r["who"] == "vertebra" else None
        if value:
            shapes.setdefault((r["image"], r["batch"]), []).append((r["model"], r["train"], value))
    if not shapes:
        return None
    (image, batch), bars = max(shapes.items(), key=lambda s: len(s[1]))
    row, left, width = 18, 190, 420
    height = 50 + row * len(bars)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 60}" height="{height}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="10" y="20" font-size="14">Percent of the limit, {image} pixels, batch {batch}</text>']
    for i, (model, train, value) in enumerate(bars):
        y, long = 34 + row * i, width * min(value, 1)
        name = model.replace("_patch16_224", "") + (" training" if train else " forward")
        colour = "#d08a3c" if train else "#3c78b4"
        out.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{name}</text>')
        out.append(f'<rect x="{left}" y="{y}" width="{long:.1f}" height="{row - 4}" fill="{colour}"/>')
        out.append(f'<text x="{left + long + 6:.1f}" y="{y + 12}">{percent(value)}</text>')
    return "\n".join(out + ["</svg>", ""])


def write(done, folder):
    top = reached(done)
    picture = chart(done, top)
    lines = [*machine_section(done), *goals_section(done, top), *ceilings_section(done), *models_section(done, top),
             *(["![percent of the limit](percent.svg)", ""] if picture else []), *cells_section(done),
             *directions_section(done), *failures_section(done), *commands_section(done)]
    with open(os.path.join(folder, "report.md"), "w") as f:
        f.write("\n".join(lines))
    if picture:
        with open(os.path.join(folder, "percent.svg"), "w") as f:
            f.write(picture)
