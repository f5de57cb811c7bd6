"""The pages of the API: every public name is listed with its source and its links to and from the catalogue."""

import importlib
import inspect
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

pytest.importorskip("sphinx")
from site_extension import api, configs, docstrings, modules, sources, usage  # noqa: E402

DIRECTIVE = re.compile(r"^\.\. auto(?:function|class|data):: (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def pages():
    return api.pages(ROOT / "docs")


@pytest.mark.slow
def test_every_public_module_has_a_page_and_every_package_is_listed(pages):
    without = {"cli"}  # used through commands
    packages = {folder.parent.name for folder in (ROOT / "attention_research").glob("*/__init__.py")} - without
    files = (file for name in packages for file in (ROOT / "attention_research" / name).rglob("*.py"))
    names = (file.relative_to(ROOT / "attention_research").with_suffix("").parts for file in files)
    names = {".".join(one) for one in names if not any(part[0] == "_" for part in one)}
    assert pages.keys() == packages | names | {"export"}


@pytest.mark.slow
def test_the_page_of_a_package_leads_to_each_of_its_modules(pages):
    for name in pages:
        if "." in name:
            assert f"]({name}.md)" in pages[name.split(".")[0]]


@pytest.mark.parametrize("name", ["kernels.masks", "kernels.experts", "kernels.attention.api", "config.schema"])
def test_a_page_describes_what_its_module_defines_with_constants_last(name):
    module = importlib.import_module(f"attention_research.{name}")
    text = api.module_page(modules.module(module.__name__), "A package")
    described = [full.rpartition(".")[2] for full in DIRECTIVE.findall(text)]
    found = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and callable(value) and inspect.unwrap(value).__module__ == module.__name__
    }
    callables = [key for key in described if callable(getattr(module, key))]
    assert found <= set(described) and described[: len(callables)] == callables
    assert len(described) == len(set(described))


def test_constants_are_those_with_an_explanation():
    found = modules.module("attention_research.kernels.copying.copy_mixture")
    assert found.constants == ("NOT_COPYABLE", "UNKNOWN", "FLOOR")
    assert "FIRST" not in modules.module("tests.catalogue.mechanism").constants  # it has no `#:` comment


def test_modules_with_exported_names_come_first():
    text = api.package_page("Kernels", modules.modules("attention_research.kernels"))
    assert (
        text.index("](kernels.masks.md)")
        < text.index("Modules that other modules use")
        < text.index("](kernels.shapes.md)")
    )


def test_exported_names_come_first_on_a_page():
    text = api.module_page(modules.module("attention_research.kernels.attention.api"), "Kernels")
    described = [full.rpartition(".")[2] for full in DIRECTIVE.findall(text)]
    assert described.index("attention_weights") < described.index("prefers_blocks")


def test_the_signature_of_a_flax_module_is_that_of_its_constructor():
    from attention_research.layers.norms.layer_norm import LayerNorm

    anything = "(*args: Any, **kwargs: Any)"
    signature, _ = docstrings.sign(None, "class", "LayerNorm", LayerNorm, None, anything, None)
    assert signature.startswith("(*, width: Positive, epsilon: PositiveFloat = 1e-06, rngs")
    assert docstrings.sign(None, "function", "f", len, None, anything, None) == (anything, None)


def test_a_sentence_ends_where_the_next_begins():
    first = docstrings.first_sentence
    assert first("Of Wang et al. 2020 by J. Smith: `a. B`. More.\n\nEnd.") == "Of Wang et al. 2020 by J. Smith: `a. B`."
    assert first("A title\nover two lines") == "A title over two lines." and first(None) == ""


def test_a_name_is_found_where_it_is_defined():
    kernels = "attention_research.kernels"
    from attention_research.kernels import bigbird_attention

    home = modules.defined(kernels, "bigbird_attention")
    assert home == f"{bigbird_attention.__module__}.bigbird_attention"
    assert modules.defined(kernels, "no_such_kernel") is None
    assert f"{kernels}.efficient.bigbird_attention" in usage.exports()[home]


def test_the_source_of_an_object_is_the_line_of_its_definition():
    from attention_research.kernels import masks

    _, line = inspect.getsourcelines(masks.window_mask)
    link = sources.linkcode_resolve("py", {"module": masks.__name__, "fullname": "window_mask"})
    assert link == f"../../source/attention_research/kernels/masks.py.html#line-{line}"


@pytest.mark.slow
def test_rows_of_the_catalogue_and_the_api_lead_to_each_other():
    text = usage.linked_catalogue((ROOT / "docs/catalogue.md").read_text(encoding="utf-8"))
    rows = re.findall(r'<a id="(\w+)"></a>\{py:obj\}`\1 <([\w.]+)>`', text)
    assert {row: name for row, name in rows} == {
        row: name for name, found in usage.mechanisms().items() for row in found
    }
    linformer = next(line for line in text.splitlines() if line.startswith('| <a id="linformer_headwise"'))
    assert "[`attention.linformer`](api/settings_attention.md#linformer)" in linformer
    for _, name in rows:
        module, _, kernel = name.rpartition(".")
        assert kernel in modules.module(module).functions
    assert (
        "<../catalogue.html#local_m>"
        in usage.fields("attention_research.kernels.selection.local.local_weights")["Catalogue"]
    )


@pytest.mark.slow
def test_a_kernel_names_its_layers_and_their_studies():
    kernel = usage.fields("attention_research.kernels.efficient.linformer.linformer_attention")
    layer = usage.fields("attention_research.layers.attention.linformer.LinformerAttention")
    assert "attention_research.layers.attention.linformer>" in kernel["Used by"]
    assert all("ablation/attention/quick" in found["Studies"] for found in (kernel, layer))
    assert "settings_attention.html#linformer" in layer["Kind in a config"]
    assert usage.studies_of("attention_research.kernels.no_such.kernel") == []


@pytest.mark.slow
def test_the_section_of_a_kind_has_what_it_needs_and_nothing_else():
    from attention_research import registry
    from attention_research.config import FLOWS, REQUIRED, schema

    for family, named in registry.FAMILIES.items():
        for kind in named:
            name = ".".join(registry.locate(family, kind))
            found = json.loads(configs.example(name).replace("...", '"..."'))
            settings = schema.signature(*configs.kinds(name)[0])
            needed = {
                key for key, one in settings.items() if one.default is REQUIRED and not one.section and key not in FLOWS
            }
            assert needed | {"kind"} <= found.keys() <= settings.keys() | {"kind"}, name
    assert configs.example("attention_research.kernels.masks.causal_mask") is None
