"""The style of the attention page (`attention_page`): plain CSS without libraries."""

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
.controls label[hidden] { display: none; }
.sentences dd[aria-current] { font-weight: 700; } .sentences dd small { color: var(--quiet); font-weight: 400; }
details { margin: .8rem 0; } summary { cursor: pointer; }
.heads { overflow: auto; max-width: 100%; max-height: 70vh; }
#heads { display: grid; gap: 4px; width: max-content; padding: .3rem; align-items: center; }
#heads span { color: var(--quiet); font-size: .8rem; text-align: center; }
#heads button { margin: 0; padding: 2px; border: 1px solid var(--line); background: none; cursor: pointer; }
#heads button[aria-pressed=true] { border-color: var(--edge); background: var(--band);
  box-shadow: 0 0 0 2px var(--edge); }
#heads button:focus-visible, summary:focus-visible { outline: 3px solid var(--edge); outline-offset: 3px; }
#heads canvas { image-rendering: pixelated; }
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
