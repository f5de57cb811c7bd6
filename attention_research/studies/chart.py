"""Line charts for HTML pages: SVG that shows the nearest values under the pointer, without libraries or network.

A chart is a figure with `data-chart`. `SCRIPT` moves a vertical line to the nearest point under the pointer, or with
the arrow keys, and writes the values of all lines there. Without JavaScript the chart is a plain picture.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from html import escape

from attention_research.studies.figures import COLOURS

#: From a number to its place on the page, and the two ends of an axis.
Place = Callable[[float], float]
Ends = tuple[float, float]
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 880, 300, 64, 34, 12, 12
#: A line has at most this many points.
POINTS = 400


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of a chart: its points (x, y) in the order of x. `marks` draws points in place of a line."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: int = 0
    marks: bool = False
    pale: bool = False


def chart(
    title: str,
    y_label: str,
    lines: Sequence[Line],
    *,
    logarithmic: bool = False,
    x_label: str = "step",
    note: str = "",
) -> str:
    """The chart as HTML; empty if no line has a finite point. With ``logarithmic``, points must be above 0.

    The caption is the title and, on a line of its own, the ``note``.
    """
    kept = [dataclasses.replace(line, points=_thinned(line.points)) for line in lines]
    kept = [line for line in kept if line.points]
    if not kept:
        return ""
    scale = (lambda y: math.log10(y)) if logarithmic else (lambda y: y)
    xs = [x for line in kept for x, _ in line.points]
    ys = [scale(y) for line in kept for _, y in line.points]
    low, high = min(ys), max(ys)
    pad = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    low, high, first, last = low - pad, high + pad, min(xs), max(max(xs), min(xs) + 1)
    place_x = lambda x: LEFT + (WIDTH - LEFT - RIGHT) * (x - first) / (last - first)
    place_y = lambda y: TOP + (HEIGHT - TOP - BOTTOM) * (high - scale(y)) / (high - low)
    parts = [_axes(place_x, place_y, (first, last), (low, high), logarithmic, x_label, y_label)]
    parts += [_drawn(line, [(place_x(x), place_y(y)) for x, y in line.points]) for line in kept]
    data = [
        {"label": line.label, "points": [[x, f"{y:.4g}", round(place_x(x), 1)] for x, y in line.points]}
        for line in kept
        if not line.pale
    ]
    legend = "".join(
        f'<span style="color:var(--line{line.colour % len(COLOURS)})">{"●" if line.marks else "━"}</span> '
        f"{escape(line.label)}&emsp;"
        for line in kept
        if not line.pale
    )
    ends = ((line.label, line.points[0][1], line.points[-1][1]) for line in kept if not line.pale)
    said = "; ".join(f"{label} {first:.4g} to {last:.4g}" for label, first, last in ends)
    below = f"<br>{escape(note)}" if note else ""
    stored = escape(json.dumps(data, separators=(",", ":")), quote=True)
    return (
        f'<figure class="chart" data-chart="{stored}" data-x="{escape(x_label, quote=True)}" tabindex="0">'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(f"{title}: {said}", quote=True)}">'
        f'{"".join(parts)}<line class="pointer" y1="{TOP}" y2="{HEIGHT - BOTTOM}" x1="-9" x2="-9"/></svg>'
        f"<p>{legend}<output></output></p><figcaption>{escape(title)}{below}</figcaption></figure>"
    )


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    finite = [(x, y) for x, y in points if math.isfinite(y)]
    every = math.ceil(len(finite) / POINTS) or 1
    return [*finite[:-1:every], *finite[-1:]]


def _drawn(line: Line, places: Sequence[tuple[float, float]]) -> str:
    """The polyline or the marks of a line."""
    colour = f"var(--line{line.colour % len(COLOURS)})"
    if line.marks:
        return "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    width, opacity = (0.8, 0.35) if line.pale else (1.8, 1.0)
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" opacity="{opacity}"/>'


def _axes(place_x: Place, place_y: Place, of_x: Ends, of_y: Ends, logarithmic: bool, x_label: str, y_label: str) -> str:
    """Ticks with their lines and numbers, and the labels of both axes."""
    parts = []
    for y in _ticks(*of_y, logarithmic=logarithmic):
        at = place_y(y)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{y:,.6g}</text>')
    for x in _ticks(*of_x):
        parts.append(f'<text x="{place_x(x):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{x:,.6g}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 3}" text-anchor="end">{escape(x_label)}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'
    )
    return "".join(parts)


def _ticks(low: float, high: float, *, logarithmic: bool = False) -> list[float]:
    """Round numbers between two ends; of a logarithmic axis the ends are logarithms, and the ticks the numbers.

    >>> _ticks(0.0, 10.0), _ticks(-0.2, 2.1, logarithmic=True)
    ([0.0, 2.0, 4.0, 6.0, 8.0, 10.0], [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0])
    """
    if logarithmic:
        powers = range(math.floor(low), math.ceil(high) + 1)
        found = [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= math.log10(m * 10.0**p) <= high]
        return found if len(found) <= 8 else [10.0**p for p in powers if low <= p <= high]
    size = 10.0 ** math.floor(math.log10((high - low) / 5))
    step = next(m * size for m in (1, 2, 5, 10) if (high - low) / (m * size) <= 6)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 10) for n in range(first, math.floor(high / step + 1e-9) + 1)]


STYLE = """
.chart svg { width: 100%; max-width: 70rem; height: auto; touch-action: pan-y; } .chart p { margin: .2rem 0; }
.chart text { font-size: 12px; fill: currentColor; } .chart .grid { stroke: currentColor; opacity: .15; }
.chart .pointer { stroke: currentColor; stroke-dasharray: 3 3; } .chart output { font-variant-numeric: tabular-nums; }
""" + f":root {{ {' '.join(f'--line{i}: {colour};' for i, colour in enumerate(COLOURS))} }}\n"  # fmt: skip
STYLE += "@media (prefers-color-scheme: dark) { :root { --line0: #ececec; } }\n"
SCRIPT = """
for (const figure of document.querySelectorAll("[data-chart]")) {
  const lines = JSON.parse(figure.dataset.chart), svg = figure.querySelector("svg");
  const pointer = figure.querySelector(".pointer"), output = figure.querySelector("output");
  const places = [...new Set(lines.flatMap(line => line.points.map(point => point[2])))].sort((a, b) => a - b);
  let at = places.length - 1;
  const nearest = (points, x) => points.reduce((a, b) => Math.abs(b[2] - x) < Math.abs(a[2] - x) ? b : a);
  const show = () => {
    const x = places[at], found = lines.map(line => [line.label, nearest(line.points, x)]);
    const step = found.reduce((a, b) => Math.abs(b[1][2] - x) < Math.abs(a[1][2] - x) ? b : a)[1][0];
    pointer.setAttribute("x1", x); pointer.setAttribute("x2", x);
    output.textContent = figure.dataset.x + " " + step.toLocaleString("en") + ": " +
      found.map(([label, point]) => label + " " + point[1]).join(", ");
  };
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    at = places.reduce((best, place, i) => Math.abs(place - x) < Math.abs(places[best] - x) ? i : best, 0);
    show();
  });
  figure.addEventListener("keydown", event => {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (by) { at = Math.min(places.length - 1, Math.max(0, at + by)); show(); event.preventDefault(); }
  });
}
"""
