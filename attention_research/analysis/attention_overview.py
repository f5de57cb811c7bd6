"""The part of the script of the attention page that shows all heads at a glance (`attention_script` uses it)."""

OVERVIEW = """
function meanOf(heads) {
  const mean = (t, s) => heads.reduce((sum, weights) => sum + weights[t][s], 0) / heads.length;
  return heads[0].map((row, t) => row.map((_, s) => mean(t, s)));
}

// The largest absolute weight. Some kinds of attention have negative weights, such as differential attention.
function largest(weights) {
  return Math.max(...weights.map((row) => Math.max(...row.map(Math.abs))));
}

// All maps of a kind: a row for each layer; the mean of its heads, then each head. `pick(layer, head)` is called for
// the one that is clicked or reached with the arrow keys, with whether it was a click. `layer` is its number, from 1.
function overview(map, pick) {
  const grid = by("heads"), heads = map.weights[0].length;
  const ratio = map.queries.length / map.keys.length;
  const most = matchMedia("(max-width: 40rem)").matches ? 44 : 72;
  const width = Math.max(8, Math.round(ratio > 1 ? most / ratio : most));
  const height = Math.max(8, Math.round(ratio > 1 ? most : most * ratio));
  grid.style.gridTemplateColumns = `max-content repeat(${heads + 1}, max-content)`;
  const label = (text) => {
    const made = document.createElement("span");
    made.textContent = text;
    made.setAttribute("aria-hidden", "true");
    return made;
  };
  const parts = [label("layer ↓ head →"), label("mean"), ...map.weights[0].map((_, n) => label(`${n + 1}`))];
  map.weights.forEach((layer, l) => {
    const number = map.layers[l];
    parts.push(label(`${number}`));
    [["mean", meanOf(layer)], ...layer.map((weights, n) => [n, weights])].forEach(([head, weights]) => {
      const button = document.createElement("button"), canvas = document.createElement("canvas");
      button.type = "button";
      button.dataset.layer = number;
      button.dataset.head = head;
      const name = `layer ${number}, ${head === "mean" ? "mean of all heads" : `head ${head + 1}`}`;
      button.title = name;
      button.setAttribute("aria-label", name);
      [canvas.width, canvas.height] = [map.keys.length, map.queries.length];
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      canvas.weights = weights;
      button.append(canvas);
      button.addEventListener("click", () => pick(number, head, true));
      parts.push(button);
    });
  });
  grid.replaceChildren(...parts);
  paintOverview();
}

// The opacity of a cell is its absolute weight, as a part of the largest of its map. Negative weights have another
// colour.
function paintOverview() {
  const style = getComputedStyle(document.documentElement);
  const [above, below] = ["--square", "--edge"].map((name) => style.getPropertyValue(name).trim());
  for (const canvas of by("heads").querySelectorAll("canvas")) {
    const pen = canvas.getContext("2d"), most = largest(canvas.weights);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    canvas.weights.forEach((row, t) => row.forEach((weight, s) => {
      pen.fillStyle = weight < 0 ? below : above;
      pen.globalAlpha = most > 0 ? Math.abs(weight) / most : 0;
      pen.fillRect(s, t, 1, 1);
    }));
  }
}

// Marks the picked map, which is the one that Tab reaches.
function markOverview(layer, head) {
  for (const button of by("heads").querySelectorAll("button")) {
    const isPicked = button.dataset.layer === String(layer) && button.dataset.head === String(head);
    button.setAttribute("aria-pressed", String(isPicked));
    button.tabIndex = isPicked ? 0 : -1;
  }
}

function moveOverview(event, pick) {
  const buttons = [...by("heads").querySelectorAll("button")], at = buttons.indexOf(document.activeElement);
  const across = by("heads").querySelectorAll(`button[data-layer='${map.layers[0]}']`).length, x = at % across;
  const to = {
    ArrowRight: x < across - 1 ? at + 1 : at, ArrowLeft: x > 0 ? at - 1 : at,
    ArrowDown: at + across < buttons.length ? at + across : at, ArrowUp: at >= across ? at - across : at,
    Home: at - x, End: at - x + across - 1,
  }[event.key];
  if (to === undefined || at < 0) return;
  event.preventDefault();
  buttons[to].focus();
  const { layer, head } = buttons[to].dataset;
  pick(Number(layer), head === "mean" ? head : Number(head), false);
}
"""
