"""The part of the script of the attention page that keeps the view in the address (`attention_script` uses it).

The functions `toAddress` and `fromAddress` do not access the page.
"""

ADDRESS = """
// A view in the address, with numbers from 1: "#text=2&attention=cross-attention&layer=1&head=3&row=4&cell=2".
const NUMBERS = ["text", "layer", "head", "row", "column", "cell"];

function toAddress(view) {
  return "#" + new URLSearchParams(Object.entries(view).filter(([, value]) => value !== undefined)).toString();
}

// What a hash says of a view. What it does not say, or says in another form, is left out.
function fromAddress(hash) {
  const view = {}, said = new URLSearchParams(hash.replace(/^#/, ""));
  for (const [name, value] of said) {
    if (name === "attention" || (name === "head" && value === "mean")) view[name] = value;
    else if (NUMBERS.includes(name) && /^[1-9][0-9]{0,5}$/.test(value)) view[name] = Number(value);
  }
  return view;
}

function address() {
  const isRow = chosen.side === "rows", head = by("head").value;
  return toAddress({
    text: passes.length > 1 ? Number(by("text").value) + 1 : undefined, attention: by("kind").value,
    layer: by("layer").value, head: head === "mean" ? head : Number(head) + 1,
    [isRow ? "row" : "column"]: chosen.index + 1, cell: chosen.cell < 0 ? undefined : chosen.cell + 1,
  });
}

// Puts the view into the address. A click is an entry of the history; the arrow keys change the last entry.
function remember(isClick) {
  const next = address();
  if (waiting !== null) {
    clearTimeout(waiting.timer);
    if (isClick) waiting.write();
    waiting = null;
  }
  if (isClick) {
    if (next !== location.hash) history.pushState(null, "", next);
    return;
  }
  const write = () => { waiting = null; history.replaceState(null, "", next); };
  waiting = { write, timer: setTimeout(write, 150) };
}

// Shows the view that the address holds. What it lacks, or what this page lacks, is as on an address without a view.
function restore() {
  if (waiting !== null) clearTimeout(waiting.timer);
  waiting = null;
  const view = fromAddress(location.hash);
  const set = (select, value, otherwise) => {
    const isThere = [...select.options].some((option) => option.value === String(value));
    select.value = isThere ? String(value) : otherwise;
  };
  set(by("text"), view.text - 1, "0");
  fillPass();
  set(by("kind"), view.attention, by("kind").options[0].value);
  fillMap();
  set(by("layer"), view.layer, String(map.layers.at(-1)));
  set(by("head"), view.head === "mean" ? "mean" : view.head - 1, "mean");
  const isRow = view.row !== undefined || view.column === undefined;
  const [own, others] = isRow ? [map.queries, map.keys] : [map.keys, map.queries];
  const within = (place, list) => Math.min(place, list.length) - 1;
  chosen = {
    side: isRow ? "rows" : "columns", index: within((isRow ? view.row : view.column) ?? 1, own),
    cell: within(view.cell ?? 0, others),
  };
  showHead();
}
"""
