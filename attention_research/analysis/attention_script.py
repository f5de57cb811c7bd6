"""Style and script of the attention page (`attention_page`): plain CSS and JavaScript without libraries."""

import base64
import hashlib

STYLE = """
:root { color-scheme: light dark; --back: #fff; --ink: #1a1a1a; --quiet: #595959; --line: #d0d0d0; --square: #0072b2;
  --band: #fff3d6; --edge: #8a4b00; }
@media (prefers-color-scheme: dark) { :root { --back: #16181c; --ink: #ececec; --quiet: #b0b0b0; --line: #3d4148;
  --square: #6cc0f5; --band: #3a3220; --edge: #ffc266; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 0; }
main { padding: 1rem 1.25rem; }
h1 { font-size: 1.4rem; line-height: 1.2; margin: 0 0 .6rem; }
.sentences { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; margin: 0 0 .9rem; }
.sentences dt { color: var(--quiet); } .sentences dd { margin: 0; overflow-wrap: anywhere; max-width: 70rem; }
.controls { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; }
.controls select { font: inherit; margin-left: .3rem; padding: .2rem .3rem; min-height: 2rem; }
.note { color: var(--quiet); font-size: .9rem; max-width: 60rem; margin: .5rem 0; }
.views { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-start; }
.map { overflow: auto; max-width: 100%; max-height: 85vh; border: 1px solid var(--line); box-sizing: border-box; }
#grid { display: grid; grid-template-columns: max-content max-content; width: max-content; padding: 0 .5rem .5rem 0; }
#corner { position: sticky; left: 0; top: 0; z-index: 3; background: var(--back); margin: 0; padding: .3rem .4rem;
  align-self: stretch; display: flex; flex-direction: column; justify-content: flex-end; text-align: right;
  color: var(--quiet); font-size: .8rem; line-height: 1.3; white-space: pre-line; }
#columns, #rows { display: flex; background: var(--back); position: sticky; }
#columns { top: 0; z-index: 2; align-items: flex-end; } #rows { left: 0; z-index: 1; flex-direction: column; }
#grid button { font: inherit; font-size: .85rem; line-height: 1; color: inherit; background: none; border: 0; margin: 0;
  white-space: nowrap; cursor: pointer; max-width: 16rem; overflow: hidden; text-overflow: ellipsis; }
#rows button { height: 24px; padding: 0 .4rem; text-align: right; }
#columns button { width: 24px; max-height: 12rem; padding: .4rem 0; writing-mode: vertical-rl;
  transform: rotate(180deg); text-align: left; }
#grid button[aria-pressed=true] { background: var(--band); font-weight: 700; text-decoration: underline; }
#grid button:focus-visible, select:focus-visible { outline: 3px solid var(--edge); outline-offset: -3px; }
canvas { display: block; }
.numbers { flex: 1 0 17rem; max-width: 34rem; padding-right: .5rem; }
.numbers:focus-visible { outline: 3px solid var(--edge); }
@media (min-width: 60rem) { .views { flex-wrap: nowrap; } .map { flex: 0 1 auto; min-width: 0; }
  .numbers { flex-basis: 24rem; overflow-y: auto; max-height: 85vh; } }
#said { margin: 0 0 .5rem; min-height: 3em; overflow-wrap: anywhere; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; width: 100%; }
caption { text-align: left; color: var(--quiet); padding-bottom: .3rem; }
th, td { text-align: right; padding: .1rem .6rem .1rem 0; border-bottom: 1px solid var(--line); }
.text, tbody th { text-align: left; font-weight: 400; } thead th { border-bottom: 2px solid var(--ink); }
thead th.text { font-weight: 700; }
tr[aria-current=true] > * { font-weight: 700; text-decoration: underline; background: var(--band); }
td.bar { width: 40%; } td.bar i { display: block; height: .7rem; min-width: 1px; background: var(--square); }
@media (forced-colors: active) { td.bar i { background: CanvasText; forced-color-adjust: none; } }
"""

SCRIPT = """
"use strict";
const CELL = 24;
const maps = JSON.parse(document.getElementById("data").textContent).maps;
const by = (id) => document.getElementById(id);
let map, matrix, most;
// The selected row or column, and the cell in it under the pointer (-1: none).
let shown = { side: "rows", index: 0, cell: -1 };

function number(weight) {
  return weight === 0 ? "0" : weight < 0.00005 ? "<0.0001" : weight.toFixed(4);
}

function fill(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(([text, value]) => new Option(text, value)));
  if (options.some(([, value]) => value === before)) select.value = before;
}

function chooseKind() {
  map = maps[by("kind").selectedIndex];
  const numbers = (list) => list.map((_, i) => [String(i + 1), String(i)]);
  const first = by("layer").options.length === 0;
  fill(by("layer"), numbers(map.weights));
  if (first) by("layer").value = String(map.weights.length - 1);
  fill(by("head"), [["mean of all heads", "mean"], ...numbers(map.weights[0])]);
  by("corner").textContent = `${map.columns} →\\n${map.rows} ↓`;
  strip("rows", map.queries, map.rows);
  strip("columns", map.keys, map.columns);
  // Scrolling to a focused token keeps it visible beside the strips, which do not scroll.
  by("map").style.scrollPadding = `${by("columns").offsetHeight}px 0 0 ${by("corner").offsetWidth}px`;
  shown = { side: "rows", index: 0, cell: -1 };
  chooseHead();
}

function chooseHead() {
  const heads = map.weights[Number(by("layer").value)], head = by("head").value;
  const mean = (t, s) => heads.reduce((sum, weights) => sum + weights[t][s], 0) / heads.length;
  matrix = head === "mean" ? heads[0].map((row, t) => row.map((_, s) => mean(t, s))) : heads[Number(head)];
  most = Math.max(...matrix.map((row) => Math.max(...row)));
  const greatest = `The largest weight here is ${number(most)}.`;
  by("axes").textContent = `Rows: ${map.rows}. Columns: ${map.columns}. Each row sums to 1. ${greatest}`;
  show(shown);
}

// A strip of tokens is a single tab stop; the arrow keys move within it.
function strip(side, names, axis) {
  const buttons = names.map((name, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = button.title = name;
    button.setAttribute("aria-label", `${name}, ${i + 1} of ${names.length}`);
    button.addEventListener("focus", () => show({ side, index: i, cell: -1 }));
    button.addEventListener("pointerenter", () => show({ side, index: i, cell: -1 }));
    button.addEventListener("click", () => button.focus());
    return button;
  });
  by(side).setAttribute("aria-label", side === "rows" ? `Rows: ${axis}` : `Columns: ${axis}`);
  by(side).replaceChildren(...buttons);
}

function move(event) {
  const buttons = [...event.currentTarget.children], last = buttons.length - 1;
  const at = buttons.indexOf(document.activeElement);
  const next = at + 1, previous = at - 1;
  const places = { ArrowDown: next, ArrowRight: next, ArrowUp: previous, ArrowLeft: previous, Home: 0, End: last };
  const to = places[event.key];
  if (to === undefined || at < 0) return;
  event.preventDefault();
  buttons[Math.min(Math.max(to, 0), last)].focus();
}

function show(next) {
  shown = next;
  for (const side of ["rows", "columns"]) {
    const chosen = side === shown.side ? shown.index : -1;
    [...by(side).children].forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === chosen));
      button.tabIndex = i === Math.max(chosen, 0) ? 0 : -1;
    });
  }
  const isRow = shown.side === "rows";
  const own = isRow ? map.queries : map.keys, others = isRow ? map.keys : map.queries;
  const weights = isRow ? matrix[shown.index] : matrix.map((row) => row[shown.index]);
  const order = weights.map((_, i) => i).sort((a, b) => weights[b] - weights[a] || a - b);
  const name = `“${own[shown.index]}” (${isRow ? "row" : "column"} ${shown.index + 1})`;
  const top = order.slice(0, 3).map((i) => `“${others[i]}” ${number(weights[i])}`).join(", ");
  const sum = weights.reduce((a, b) => a + b, 0).toFixed(3);
  by("said").textContent = isRow ? `${name} attends most to ${top}.` : `${name} is attended most by ${top}.`;
  by("caption").textContent = isRow
    ? `Weights of ${name} over the ${map.columns}; sum ${sum}`
    : `Weights of the ${map.rows} for ${name}; sum ${sum} (the sum of a column need not be 1)`;
  by("numbers").tBodies[0].replaceChildren(...order.map((i) => line(i, others[i], weights[i], weights[order[0]])));
  draw();
}

function line(place, name, weight, greatest) {
  const row = document.createElement("tr");
  const add = (tag, text, style) => {
    const cell = row.appendChild(document.createElement(tag));
    cell.textContent = text;
    cell.className = style;
    return cell;
  };
  add("td", String(place + 1), "");
  add("th", name, "text").scope = "row";
  add("td", number(weight), "");
  const bar = add("td", "", "bar").appendChild(document.createElement("i"));
  bar.style.width = `${greatest > 0 ? (100 * weight) / greatest : 0}%`;
  if (place === shown.cell) row.setAttribute("aria-current", "true");
  return row;
}

function draw() {
  const canvas = by("cells"), pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const width = map.keys.length * CELL, height = map.queries.length * CELL;
  const scale = Math.min(window.devicePixelRatio || 1, 8192 / Math.max(width, height));
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  pen.scale(scale, scale);
  const isRow = shown.side === "rows", start = shown.index * CELL;
  const band = isRow ? [0, start, width, CELL] : [start, 0, CELL, height];
  pen.fillStyle = colour("band");
  pen.fillRect(...band);
  pen.strokeStyle = colour("line");
  pen.lineWidth = 1;
  pen.beginPath();
  for (let y = 0; y <= height; y += CELL) { pen.moveTo(0, y + 0.5); pen.lineTo(width, y + 0.5); }
  for (let x = 0; x <= width; x += CELL) { pen.moveTo(x + 0.5, 0); pen.lineTo(x + 0.5, height); }
  pen.stroke();
  pen.fillStyle = colour("square");
  matrix.forEach((row, t) => row.forEach((weight, s) => {
    const side = (CELL - 3) * Math.sqrt(weight / most);
    if (weight > 0) pen.fillRect((s + 0.5) * CELL - side / 2 + 0.5, (t + 0.5) * CELL - side / 2 + 0.5, side, side);
  }));
  pen.strokeStyle = colour("edge");
  pen.lineWidth = 2;
  pen.strokeRect(band[0] + 1, band[1] + 1, band[2] - 2, band[3] - 2);
  if (shown.cell >= 0) {
    const [x, y] = isRow ? [shown.cell * CELL, start] : [start, shown.cell * CELL];
    pen.lineWidth = 3;
    pen.strokeRect(x + 1.5, y + 1.5, CELL - 3, CELL - 3);
  }
}

function point(event) {
  const limit = (x, count) => Math.min(Math.max(Math.floor(x / CELL), 0), count - 1);
  const index = limit(event.offsetY, map.queries.length), cell = limit(event.offsetX, map.keys.length);
  const isSame = shown.side === "rows" && shown.index === index && shown.cell === cell;
  if (!isSame) show({ side: "rows", index, cell });
}

by("kind").addEventListener("change", chooseKind);
by("layer").addEventListener("change", chooseHead);
by("head").addEventListener("change", chooseHead);
by("rows").addEventListener("keydown", move);
by("columns").addEventListener("keydown", move);
by("cells").addEventListener("pointermove", point);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
chooseKind();
"""


def content_hash(text: str) -> str:
    """The hash of an inline style or script for a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
