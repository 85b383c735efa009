#!/usr/bin/env python3
"""Draws the pictures of docs/ARCHITECTURE.md: docs/layers.svg and docs/step.svg.

    docs/draw_pictures.py            writes both
    docs/draw_pictures.py --check    exit code 1 if one of them is not current

layers.svg takes its folders from the table of folders in docs/ARCHITECTURE.md. Colours follow the
reader's light or dark mode. Python's standard library only.
"""

import pathlib
import re
import sys
from xml.sax.saxutils import escape

DOCS = pathlib.Path(__file__).resolve().parent
STYLE = """
svg { --back: #ffffff; --text: #1f2328; --faint: #59636e; --line: #8c959f; --band: #f3f5f8; --box: #ffffff;
      --blue: #cfe3fc; --green: #d2efd9; --orange: #fbe1c6; --purple: #e6dbfa; --red: #fbd3d0; }
@media (prefers-color-scheme: dark) {
  svg { --back: #0d1117; --text: #e6edf3; --faint: #9aa4af; --line: #6e7681; --band: #171d26; --box: #0d1117;
        --blue: #1c3f68; --green: #1f4a2e; --orange: #5e3d15; --purple: #42306a; --red: #6a2824; } }
text { fill: var(--text); font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
.name { font-weight: 600; } .head { font-size: 15px; font-weight: 600; } .small { font-size: 11px; }
.faint { fill: var(--faint); } .back { fill: var(--back); } .band { fill: var(--band); }
.box { fill: var(--box); stroke: var(--line); } .link { stroke: var(--line); fill: none; stroke-width: 1.5; }
.blue { fill: var(--blue); } .green { fill: var(--green); } .orange { fill: var(--orange); }
.purple { fill: var(--purple); } .red { fill: var(--red); }
.torch { fill: var(--purple); stroke: var(--line); } .dash { stroke: var(--line); stroke-dasharray: 4 4; }
"""


class Picture:
    def __init__(self, width, title):
        self.width, self.title, self.parts = width, title, []

    def box(self, x, y, width, height, kind, radius=5):
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" '
                          f'class="{kind}"/>')

    def text(self, x, y, text, kind="", anchor="start"):
        self.parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>')

    def line(self, points, kind="link", arrow=False):
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        end = ' marker-end="url(#arrow)"' if arrow else ""
        self.parts.append(f'<polyline points="{path}" class="{kind}"{end}/>')

    def svg(self, height):
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {height}" role="img">',
            f"<title>{escape(self.title)}</title>", f"<style>{STYLE}</style>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path d="M0 0 8 4 0 8z" fill="#8c959f"/></marker></defs>',
            f'<rect width="{self.width}" height="{height}" class="back"/>', *self.parts, "</svg>", ""])


def rooms():
    """Folders of the table in ARCHITECTURE.md, in its order, each with what it depends on."""
    text = (DOCS / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.split("| folder |", 1)[1].split("\n\n", 1)[0]
    for row in table.splitlines()[2:]:
        names, _, knows = (cell.strip() for cell in row.strip("|").split("|"))
        for name in re.findall(r"`([\w/]+)/`", names):
            yield name, knows


# Layers from the top, each with the question it answers.
LAYERS = [
    (("tools", "examples", "bench"), "the program, example trainers, benchmarks"),
    (("engine",), "What does a training step compute, in which order, on which rank?"),
    (("swap",), "Where does each partition reside, and when does it move?"),
    (("io",), "How do bytes move between memory and storage, and how are they verified?"),
]


def draw_layers():
    picture = Picture(960, "The layers of Spillway and their folders; includes point down only")
    left, columns, width, height, gap = 20, 5, 172, 40, 8
    y = 20
    for depth, (tops, question) in enumerate(LAYERS):
        found = [(name, knows) for name, knows in rooms() if name.split("/")[0] in tops]
        lines = -(-len(found) // columns)
        tall = 38 + lines * (height + gap) + 8
        picture.box(left, y, 920, tall, "band", 8)
        title = ", ".join(tops)
        picture.text(left + 16, y + 25, title, "head")
        picture.text(left + 30 + 9 * len(title), y + 25, question, "faint")
        for i, (name, knows) in enumerate(found):
            x, top = left + 16 + i % columns * (width + gap), y + 38 + i // columns * (height + gap)
            inner = name[len(tops[0]) + 1:] if len(tops) == 1 and "/" in name else name
            with_torch = knows.startswith("LibTorch") or name == "tools/compute"
            picture.box(x, top, width, height, "torch" if with_torch else "box")
            needs = re.sub(r"[`;].*|, in .*| with CUDA", "", knows).strip()
            needs = "" if needs.startswith("all") else needs
            picture.text(x + 10, top + (17 if needs else 25), inner, "name")
            if needs:
                picture.text(x + 10, top + 32, needs, "small faint")
        y += tall
        if depth + 1 < len(LAYERS):
            picture.line([(480, y + 2), (480, y + 24)], arrow=True)
            picture.text(492, y + 18, "includes", "small faint")
            y += 26
    picture.box(left, y + 14, 16, 16, "torch", 3)
    picture.text(left + 24, y + 27, "uses LibTorch", "small")
    picture.text(left + 120, y + 27, "Small print: the libraries a folder depends on. Inside a layer, too, a folder "
                 "includes only those drawn before it.", "small faint")
    return picture.svg(y + 44)


def draw_step():
    """A step of four units (embedding E, blocks 1 and 2, head H), all state on NVMe, immediate updates."""
    picture = Picture(960, "The life of a step: compute, copies, update workers and disk over time")
    left, scale, top, lane, bar = 126, 58, 62, 64, 28
    at = lambda time: left + time * scale
    lanes = ["compute", "device copies", "workers", "disk reads", "disk writes", "commit"]
    notes = ["forward, backward", "GPU only", "verify, update", "prefetch, state", "to the other slot",
             "in the background"]
    middle = lambda row: top + row * lane + lane / 2
    phases = [(0, 3, "forward"), (3, 5, "loss"), (5, 10.5, "backward, with immediate updates"),
              (10.5, 14, "next forward")]
    for start, end, name in phases:
        picture.text(at((start + end) / 2), 34, name, "head" if end - start > 2 else "name", "middle")
    for time in (3, 5, 10.5):
        picture.line([(at(time), 20), (at(time), top + lane * len(lanes))], "dash")
    for row, (name, note) in enumerate(zip(lanes, notes)):
        picture.box(left - 4, top + row * lane + 6, 14 * scale + 8, lane - 12, "band")
        picture.text(10, middle(row) - 2, name, "name")
        picture.text(10, middle(row) + 13, note, "small faint")

    def bars(row, kind, spans):
        for start, end, text in spans:
            picture.box(at(start) + 1, middle(row) - bar / 2, (end - start) * scale - 2, bar, kind, 4)
            picture.text(at((start + end) / 2), middle(row) + 4, text, "small", "middle")

    bars(0, "blue", [(0, 1, "E"), (1, 2, "1"), (2, 3, "2"), (3, 4, "H: loss"), (11.6, 12.6, "E"), (12.6, 13.6, "1")])
    bars(0, "orange", [(4, 5, "H"), (5, 7, "2, recomputed"), (7, 9, "1, recomputed"), (9, 10.5, "E")])
    weights = [(0.75, 1.25, "w2"), (1.95, 2.6, "wH"), (4, 4.5, "w2"), (5.6, 6.1, "w1"), (7.6, 8.1, "wE")]
    bars(1, "blue", weights + [(11.1, 11.55, "wE"), (12, 12.5, "w1")])
    bars(1, "orange", [(5.02, 5.55, "gH"), (7.02, 7.5, "g2"), (9.02, 9.5, "g1"), (10.52, 11, "gE")])
    bars(2, "green", [(5.7, 7.2, "update H"), (7.6, 8.6, "update 2"), (9.6, 10.5, "update 1"),
                      (10.6, 11.6, "update E")])
    bars(3, "blue", [(0.1, 0.7, "w2"), (1, 1.9, "wH"), (3.3, 3.95, "w2"), (4.35, 5, "w1"),
                     (6.45, 7.05, "wE"), (11.6, 12.2, "w2")])
    bars(3, "green", [(5.1, 6.4, "state H"), (7.1, 8, "state 2"), (9.1, 10, "state 1"), (10.05, 11, "state E")])
    bars(4, "green", [(6.3, 7.6, "H"), (8.1, 9, "2"), (10, 10.8, "1"), (11, 12, "E")])
    bars(5, "red", [(12, 13.1, "sync data"), (13.1, 14, "manifest")])

    # Prefetch: the read of w2 starts two operations ahead of the forward that uses it.
    picture.line([(at(0.7), middle(3) - bar / 2), (at(0.9), middle(1) + bar / 2 + 3)], arrow=True)
    picture.line([(at(1.2), middle(1) - bar / 2), (at(2.02), middle(0) + bar / 2 + 3)], arrow=True)
    picture.line([(at(4.9), middle(3) - bar / 2), (at(5.7), middle(1) + bar / 2 + 3)], arrow=True)
    y = top + lane * len(lanes) + 22
    x = 10
    for kind, text in [("blue", "weights w, forward"), ("orange", "gradients g, backward"),
                       ("green", "optimizer state and update, tile by tile"), ("red", "commit")]:
        picture.box(x, y - 12, 16, 16, kind, 3)
        picture.text(x + 22, y + 1, text, "small")
        x += 44 + 6.3 * len(text)
    picture.text(10, y + 24, "E embedding, 1 and 2 blocks, H head. Weights are read two operations before their use "
                 "(arrows). Each update starts when its gradient is complete; only the tiles", "small faint")
    picture.text(10, y + 40, "of E that the next forward needs delay it. A commit renames its manifest once the updates "
                 "are on disk, while the next step computes.", "small faint")
    return picture.svg(y + 54)


def main():
    stale = False
    for name, draw in (("layers.svg", draw_layers), ("step.svg", draw_step)):
        path, drawn = DOCS / name, draw()
        if sys.argv[1:] == ["--check"]:
            if not path.exists() or path.read_text(encoding="utf-8") != drawn:
                print(f"docs/{name} is not current: run docs/draw_pictures.py")
                stale = True
        else:
            path.write_text(drawn, encoding="utf-8")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
