#!/usr/bin/env python3
"""One update of a trace that `vertebra train --trace` wrote, as a picture: kernels, sums and waits of every rank.

trace_svg.py TRACE.json [UPDATE] > picture.svg     (UPDATE from 0; default the last that is whole)
"""

import json
import sys
from html import escape

WIDTH, LEFT, ROW, GAP, TOP = 1000, 120, 20, 6, 46
COLOURS = {"kernels": "#4878a8", "sums": "#d08030", "waits": "#b04040"}


def spans(events, rank, row):
    return [
        (e["ts"], e["ts"] + e["dur"], e["name"])
        for e in events
        if e["ph"] == "X" and e["pid"] == rank and e["tid"] == row
    ]


def joined(list_, least):
    """Spans with nothing to be seen between them are one."""
    out = []
    for a, b, name in list_:
        if out and a - out[-1][1] < least:
            out[-1] = (out[-1][0], b, out[-1][2] if out[-1][2].endswith(" ...") else out[-1][2] + " ...")
        else:
            out.append((a, b, name))
    return out


def main():
    trace = json.load(open(sys.argv[1]))
    events, about = trace["traceEvents"], trace["otherData"]
    ranks = sorted({e["pid"] for e in events})
    kernels = {r: spans(events, r, 1) for r in ranks}
    each = len(kernels[ranks[0]]) // about["updates"]
    update = int(sys.argv[2]) if len(sys.argv) > 2 else about["updates"] - 1
    part = {r: kernels[r][update * each : (update + 1) * each] for r in ranks}
    begin = min(p[0][0] for p in part.values())
    end = max(p[-1][1] for p in part.values())
    scale = (WIDTH - LEFT - 10) / (end - begin)
    rows = []
    for r in ranks:
        inside = lambda s: s[1] > begin and s[0] < end
        rows.append((f"rank {r - 1}: kernels", "kernels", part[r]))
        rows.append(("sums", "sums", list(filter(inside, spans(events, r, 2)))))
        rows.append(("waits", "waits", list(filter(inside, spans(events, r, 0)))))
    height = TOP + len(rows) * (ROW + GAP) + 30
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">'
    )
    print(f'<rect width="{WIDTH}" height="{height}" fill="white"/>')
    title = f"{about['model']}, {about['ranks']} ranks of {about['rank_batch']:g} images: one update of {(end - begin) / 1000:.0f} ms"
    print(f'<text x="10" y="20" font-size="14">{escape(title)}</text>')
    for i, (label, kind, list_) in enumerate(rows):
        y = TOP + i * (ROW + GAP)
        print(f'<text x="{LEFT - 6}" y="{y + 14}" text-anchor="end">{escape(label)}</text>')
        print(f'<line x1="{LEFT}" y1="{y + ROW}" x2="{WIDTH - 10}" y2="{y + ROW}" stroke="#ddd"/>')
        for a, b, name in joined(list_, 0.5 / scale):
            x, w = LEFT + (max(a, begin) - begin) * scale, max((min(b, end) - max(a, begin)) * scale, 0.4)
            print(
                f'<rect x="{x:.1f}" y="{y}" width="{w:.1f}" height="{ROW - 2}" fill="{COLOURS[kind]}"><title>{escape(name)}</title></rect>'
            )
    for k in range(11):
        anchor = "end" if k == 10 else "middle"
        x = LEFT + k * (WIDTH - LEFT - 10) / 10
        print(
            f'<text x="{x:.0f}" y="{height - 8}" text-anchor="{anchor}">{(end - begin) / 1000 * k / 10:.0f} ms</text>'
        )
    print("</svg>")


main()
