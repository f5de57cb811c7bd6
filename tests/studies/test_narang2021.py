"""Table 1 of Narang et al. 2021: counts of our modules against independently written closed formulas."""

import csv
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from attention_research.studies import inspect_study, load_study
from attention_research.training import inspection

#: Formulas for every row, which their author checked against graphs of the original code, and counts of those graphs.
FORMULAS = runpy.run_path(str(Path(__file__).with_name("narang2021_counts.py")))
ROWS = {name: build for name, _, _, build, _ in FORMULAS["ROWS"]}
GRAPHS = {name: FORMULAS["MTF"][key] for name, *_, key in FORMULAS["ROWS"]}
#: Rows whose counts are those of a micro-batch, a quarter of the batch.
QUARTERS = ("Funnel Transformer",)
#: Rows whose published operations match neither the formulas nor the original's graphs.
MISSES = {"Universal Transformer", "Product key memory"}


def assert_counts(found):
    for row in found:
        relative, learned = (ROWS[row["row"]](positions) for positions in (False, True))
        assert row["parameters"] == relative.params, row["row"]
        assert row["parameters_learned_positions"] == learned.params, row["row"]
        assert row["rules"], row["row"]
        (_, forward, training, *_), _ = GRAPHS[row["row"]]
        share = 0.25 if row["row"] in QUARTERS else 1.0
        assert row["operations_forward"] == pytest.approx(share * forward / 1e12, rel=2e-3), row["row"]
        assert row["operations_relative"] == pytest.approx(share * training / 3e12, rel=2e-3), row["row"]


def assert_operations_print(row):
    printed = f"{row['operations']:.1f}" == row["published"]["trillion operations"]
    assert printed == bool(row["operations_rules"]) == ("operations_miss" not in row), row["row"]
    return printed


def golden(row):
    """The columns of a row in `counts.csv`, with the values as text."""
    kept = {"row": row["id"]} | {name: str(row[name]) for name in ("parameters", "parameters_learned_positions")}
    kept |= {"rules": "; ".join(row.get("rules", ())), "operations": f"{row['operations']:.4f}"}
    return kept | {"operations_rules": "; ".join(row.get("operations_rules", ()))}


def recorded(root):
    with open(root / "experiments/narang2021/counts.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_printed_row_is_named_as_printed():
    assert [row.name for row in load_study("narang2021/table1").rows_at("paper")] == list(ROWS)


def test_rows_at_cpu_have_one_optimizer():
    """Besides the rows with Adam in their names. Weighted Transformers project the weights of branches after a step."""
    study = load_study("narang2021/table1")
    rows = {row.id: row.at["cpu"] for row in study.rows_at("cpu")}
    trained = {id: {name: x for name, x in row.items() if name.startswith("training.")} for id, row in rows.items()}
    projected = {"training.optimizer": {"kind": "simplex", "inner": {"kind": "adafactor"}}}
    given = {id: settings for id, settings in trained.items() if settings and not id.endswith("_adam")}
    assert given == {
        "weighted_transformer": projected, "funnel_transformer": {"training.accumulation_steps": 4},
    }  # fmt: skip
    released = [row.id for row in study.rows_at("paper") if row.overrides.get("training.optimizer") == {"kind": "adam"}]
    assert [id.removesuffix("_adam") for id in rows if id.endswith("_adam")] == ["vanilla_transformer", *released]
    assert all(trained[id]["training.optimizer"] == {"kind": "adam"} for id in rows if id.endswith("_adam"))


@pytest.mark.long
def test_all_rows_count_as_the_formulas(root, request, monkeypatch):
    """`--rewrite-goldens` rewrites `counts.csv`, which the catalogue shows.

    The FLOPs and memory of the train step, which take two traces of each row, are not compared here.
    """
    monkeypatch.setattr(inspection, "count_flops", lambda *_: SimpleNamespace(matmul=0, other=0))
    monkeypatch.setattr(inspection, "peak_bytes", lambda *_: 0)
    found = {row["row"]: row for row in inspect_study("narang2021/table1")}
    assert found.keys() == ROWS.keys()
    assert_counts(found.values())
    missed = {name for name, row in found.items() if not assert_operations_print(row)}
    assert missed == MISSES and all(found[name]["operations_miss"] for name in missed)
    rows = [golden(row) for row in (*found.values(), *inspect_study("narang2021/as_written"))]
    if request.config.getoption("--rewrite-goldens"):
        with open(root / "experiments/narang2021/counts.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    assert rows == recorded(root)


@pytest.mark.slow
def test_the_share_of_attention_is_its_products():
    """4 D w for the projections of a token, 2 w for each pair of tokens; w = D, 12 layers (`narang2021/compute`)."""
    (found,) = inspect_study("narang2021/compute", rows=("t5_base",))
    D, S, T = 768, 512, 114
    pairs = 2 * D * (S * S + T * T + T * S)
    attention = 128 * 12 * (4 * D * D * (S + T) + 2 * D * D * (T + S) + pairs) / 1e12
    assert found["outside_attention"] == pytest.approx(1 - attention / found["operations"], abs=1e-3)
    assert found["scores"] == pytest.approx(128 * 12 * pairs / 1e12 / found["operations"], abs=1e-3)


@pytest.mark.slow
def test_a_wider_layer_changes_the_count():
    """Nothing is computed from a formula: the counted modules are those that training would build."""
    from attention_research.config import load

    spec = "configs/text_to_text/narang2021.py:paper"
    wider = inspection.inspect(load(spec, [("model.feed_forward.hidden_width", 3073)]))["parameters"]
    assert wider - ROWS["Vanilla Transformer"](False).params == 24 * (2 * 768 + 1)
