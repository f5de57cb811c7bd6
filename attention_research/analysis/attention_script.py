"""The script of the attention page (`attention_page`): plain JavaScript without libraries."""

import base64
import hashlib

from attention_research.analysis.attention_address import ADDRESS
from attention_research.analysis.attention_overview import OVERVIEW

_MAIN = """
const CELL = 24;
const passes = JSON.parse(document.getElementById("data").textContent).passes;
const by = (id) => document.getElementById(id);
let map, matrix, most;
// A row or column of the map, and a cell in it (-1: none): what the page shows now, under the pointer or in focus, and
// what was chosen, which the address holds.
let shown, chosen = { side: "rows", index: 0, cell: -1 };
// A change of the address that waits for the keyboard to rest.
let waiting = null;

function number(weight) {
  const isTiny = Math.abs(weight) < 0.00005;
  return weight === 0 ? "0" : isTiny ? (weight > 0 ? "<0.0001" : ">-0.0001") : weight.toFixed(4);
}

function fill(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(([text, value]) => new Option(text, value)));
  if (options.some(([, value]) => value === before)) select.value = before;
}

function fillPass() {
  const pass = passes[Number(by("text").value)];
  const said = pass.source === null ? [] : [["source", pass.source, false]];
  const others = passes.filter((one) => one.example === pass.example);
  said.push(...others.map((one) => [one.of, one.text, one === pass]));
  by("sentences").replaceChildren(...said.flatMap(([name, text, isRead]) => {
    const term = document.createElement("dt"), value = document.createElement("dd");
    [term.textContent, value.textContent] = [name, text];
    if (isRead && others.length > 1) {
      value.setAttribute("aria-current", "true");
      value.append(" ", Object.assign(document.createElement("small"), { textContent: "(the decoder reads this)" }));
    }
    return [term, value];
  }));
  fill(by("kind"), pass.maps.map(({ title }) => [title, title]));
  fillMap();
}

function fillMap() {
  const next = passes[Number(by("text").value)].maps[by("kind").selectedIndex];
  if (next === map) return;
  map = next;
  const numbers = (list) => list.map((_, i) => [String(i + 1), String(i)]);
  const first = by("layer").options.length === 0;
  fill(by("layer"), map.layers.map((layer) => [String(layer), String(layer)]));
  if (first) by("layer").value = String(map.layers.at(-1));
  fill(by("head"), [["mean of all heads", "mean"], ...numbers(map.weights[0])]);
  by("corner").textContent = `${map.columns} →\\n${map.rows} ↓`;
  strip("rows", map.queries, map.rows);
  strip("columns", map.keys, map.columns);
  // Scrolling to a focused token keeps it visible beside the strips, which do not scroll.
  by("map").style.scrollPadding = `${by("columns").offsetHeight}px 0 0 ${by("corner").offsetWidth}px`;
  overview(map, pickHead);
  chosen = { side: "rows", index: 0, cell: -1 };
}

function showHead() {
  const heads = map.weights[map.layers.indexOf(Number(by("layer").value))], head = by("head").value;
  matrix = head === "mean" ? meanOf(heads) : heads[Number(head)];
  most = largest(matrix);
  const [least, first] = [Math.min, Math.max].map((of) => of(...matrix.map((row) => of(...row))));
  const negative = least < 0 ? ` The smallest is ${number(least)}. An empty square is a negative weight.` : "";
  const greatest = `The largest weight here is ${number(first)}.${negative}`;
  const sums = matrix.map((row) => row.reduce((sum, weight) => sum + weight, 0));
  const [low, high] = [Math.min(...sums), Math.max(...sums)];
  const ones = Math.max(1 - low, high - 1) < 0.01;
  const total = ones ? "Each row sums to 1." : `The rows sum to between ${number(low)} and ${number(high)}.`;
  by("axes").textContent = `Rows: ${map.rows}. Columns: ${map.columns}. ${total} ${greatest}`;
  markOverview(by("layer").value, head);
  show(chosen);
}

function pickHead(layer, head, isClick) {
  by("layer").value = String(layer);
  by("head").value = String(head);
  showHead();
  remember(isClick);
}

function pickToken(next, isClick) {
  chosen = next;
  show(chosen);
  remember(isClick);
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
    button.addEventListener("click", () => {
      button.focus();
      pickToken({ side, index: i, cell: -1 }, true);
    });
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
  const index = Math.min(Math.max(to, 0), last);
  buttons[index].focus();
  pickToken({ side: event.currentTarget.id, index, cell: -1 }, false);
}

function show(next) {
  shown = next;
  for (const side of ["rows", "columns"]) {
    const index = side === shown.side ? shown.index : -1;
    [...by(side).children].forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === index));
      button.tabIndex = i === Math.max(index, 0) ? 0 : -1;
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
  bar.style.width = `${greatest > 0 ? (100 * Math.max(weight, 0)) / greatest : 0}%`;
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
  pen.fillStyle = pen.strokeStyle = colour("square");
  matrix.forEach((row, t) => row.forEach((weight, s) => {
    const side = (CELL - 3) * Math.sqrt(Math.abs(weight) / most);
    const square = [(s + 0.5) * CELL - side / 2 + 0.5, (t + 0.5) * CELL - side / 2 + 0.5, side, side];
    if (weight > 0) pen.fillRect(...square);
    if (weight < 0) pen.strokeRect(...square);
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

function cellAt(event) {
  const limit = (x, count) => Math.min(Math.max(Math.floor(x / CELL), 0), count - 1);
  return {
    side: "rows", index: limit(event.offsetY, map.queries.length), cell: limit(event.offsetX, map.keys.length),
  };
}

function point(event) {
  const next = cellAt(event);
  const isSame = ["side", "index", "cell"].every((name) => shown[name] === next[name]);
  if (!isSame) show(next);
}

by("text").addEventListener("change", () => { fillPass(); showHead(); remember(true); });
by("kind").addEventListener("change", () => { fillMap(); showHead(); remember(true); });
for (const id of ["layer", "head"]) by(id).addEventListener("change", () => { showHead(); remember(true); });
by("heads").addEventListener("keydown", (event) => moveOverview(event, pickHead));
by("rows").addEventListener("keydown", move);
by("columns").addEventListener("keydown", move);
by("cells").addEventListener("pointermove", point);
by("cells").addEventListener("click", (event) => pickToken(cellAt(event), true));
// A token under the pointer is shown while the pointer is on the map.
by("grid").addEventListener("pointerleave", () => show(chosen));
window.addEventListener("popstate", restore);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { draw(); paintOverview(); });

const isOne = passes.every(({ example }) => example === 1);
fill(by("text"), passes.map(({ of, example }, i) => [isOne ? of : `example ${example}: ${of}`, String(i)]));
by("text").parentElement.hidden = passes.length === 1;
restore();
"""
SCRIPT = f'\n"use strict";\n{ADDRESS.strip()}\n\n{OVERVIEW.strip()}\n{_MAIN}'


def content_hash(text: str) -> str:
    """The hash of an inline style or script for a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
