"""Style and script of the page with the attention over an image (`picture_page`), without libraries and network."""

STYLE = """
:root { color-scheme: light dark; --back: #fff; --ink: #1a1a1a; --quiet: #595959; --line: #d0d0d0; --band: #fff3d6;
  --edge: #8a4b00; }
@media (prefers-color-scheme: dark) { :root { --back: #16181c; --ink: #ececec; --quiet: #b0b0b0; --line: #3d4148;
  --band: #3a3220; --edge: #ffc266; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 0; }
main { padding: 1rem 1.25rem; max-width: 70rem; }
h1 { font-size: 1.4rem; line-height: 1.2; margin: 0 0 .6rem; }
#words { display: flex; flex-wrap: wrap; gap: .35rem; margin: .8rem 0; }
#words button { font: inherit; color: inherit; background: none; border: 1px solid var(--line); border-radius: .3rem;
  min-height: 2rem; padding: .1rem .6rem; cursor: pointer; }
#words button[aria-pressed=true] { background: var(--band); font-weight: 700; text-decoration: underline; }
button:focus-visible, select:focus-visible { outline: 3px solid var(--edge); outline-offset: 1px; }
select { font: inherit; margin-left: .3rem; padding: .2rem .3rem; min-height: 2rem; }
.views { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-start; }
#picture { position: relative; width: min(28rem, 90vw); }
#picture img { display: block; width: 100%; image-rendering: pixelated; }
#places { position: absolute; inset: 0; display: grid; }
#places i { display: grid; place-items: center; background: rgb(0 0 0 / var(--dark)); }
#places i::after { content: ""; box-sizing: border-box; width: var(--side); height: var(--side);
  border: 2px solid #fff; outline: 1px solid #000; }
#places i[data-share="0"]::after { display: none; }
.numbers { flex: 1 0 16rem; max-width: 30rem; }
#said { margin: 0 0 .5rem; min-height: 3em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; width: 100%; }
caption { text-align: left; color: var(--quiet); padding-bottom: .3rem; }
th, td { text-align: right; padding: .1rem .6rem .1rem 0; border-bottom: 1px solid var(--line); font-weight: 400; }
thead th { border-bottom: 2px solid var(--ink); font-weight: 700; }
.note { color: var(--quiet); font-size: .9rem; max-width: 60rem; margin: .5rem 0; }
@media (forced-colors: active) { #places i { forced-color-adjust: none; } }
"""

SCRIPT = """
"use strict";
const { words, maps } = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
const SHOWN = 8;
let map = 0, word = 0;

function make(tag, text, inside) {
  const made = document.createElement(tag);
  made.textContent = text;
  inside.append(made);
  return made;
}

for (const { title } of maps) make("option", title, by("map"));
words.forEach((text, number) => {
  const button = make("button", text, by("words"));
  button.type = "button";
  button.addEventListener("focus", () => show(number));
  button.addEventListener("pointerenter", () => show(number));
});

// The arrow keys, Home and End move between words; Tab enters and leaves the list of words.
by("words").addEventListener("keydown", (event) => {
  const last = words.length - 1;
  const to = { ArrowRight: word + 1, ArrowDown: word + 1, ArrowLeft: word - 1, ArrowUp: word - 1, Home: 0, End: last };
  if (!(event.key in to)) return;
  event.preventDefault();
  by("words").children[Math.min(Math.max(to[event.key], 0), last)].focus();
});
by("map").addEventListener("change", () => { map = by("map").selectedIndex; show(word); });

function show(number) {
  word = number;
  [...by("words").children].forEach((button, at) => {
    button.setAttribute("aria-pressed", at === word);
    button.tabIndex = at === word ? 0 : -1;
  });
  const weights = maps[map].weights[word], columns = weights[0].length;
  const places = weights.flatMap((row, y) => row.map((weight, x) => ({ weight, y: y + 1, x: x + 1 })));
  const most = Math.max(...places.map((place) => place.weight), 1e-12);
  const grid = by("places");
  grid.replaceChildren();
  grid.style.gridTemplate = `repeat(${weights.length}, 1fr) / repeat(${columns}, 1fr)`;
  for (const { weight } of places) {
    const cell = make("i", "", grid), share = weight / most;
    cell.dataset.share = share < 0.005 ? 0 : share.toFixed(2);
    cell.style.setProperty("--dark", (0.75 * (1 - share)).toFixed(3));
    cell.style.setProperty("--side", `${(100 * Math.sqrt(share)).toFixed(1)}%`);
  }
  const ordered = [...places].sort((one, other) => other.weight - one.weight);
  const body = by("numbers").tBodies[0];
  body.replaceChildren();
  for (const place of ordered.slice(0, SHOWN)) {
    const row = make("tr", "", body);
    for (const text of [place.y, place.x, place.weight.toFixed(4)]) make("td", text, row);
  }
  const first = ordered[0];
  by("said").textContent = `\\u201c${words[word]}\\u201d (word ${word + 1} of ${words.length}) attends most to row ` +
    `${first.y}, column ${first.x}: ${first.weight.toFixed(4)}, of ${weights.length} rows and ${columns} columns`;
}

show(0);
"""
