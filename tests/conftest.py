"""What every test runs under: strict dtype promotion, checked shapes, a persistent compilation cache."""

import gc
import os
import shutil
from importlib.metadata import version
from pathlib import Path
from types import FunctionType

from attention_research import allocator

allocator.keep_pages()
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tracing and compiling is what the tests do most, and what they compare needs no optimised code. Programs that tests
# start inherit this.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
# The older emitters compile these small programs in half the time, and one code generator instead of one a core saves
# a third of the rest. Newer releases may lack these flags, and XLA ends a process that has one it does not know.
if version("jaxlib").startswith("0.10."):
    FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = f"{FLAGS} {os.environ.get('XLA_FLAGS', '')}".strip()

# One cache for the tests and the programs that they start, apart from the user's.
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "attention_research" / "xla-tests"
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(CACHE)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"

import jaxtyping  # noqa: E402

checked = jaxtyping.jaxtyped


def checked_where_public(*, typechecker):
    """jaxtyping's decorator, but for functions inside functions (decorated anew at every call) and bare signatures."""
    local = lambda x: "<locals>" in getattr(x, "__qualname__", "")
    bare = lambda x: isinstance(x, FunctionType) and not x.__annotations__
    return lambda x: x if local(x) or bare(x) else checked(x, typechecker=typechecker)


# Shapes and dtypes of every public signature are checked while tracing (beartype), in tests only.
jaxtyping.jaxtyped = checked_where_public
jaxtyping.install_import_hook(
    ["attention_research.kernels", "attention_research.layers", "attention_research.models"], "beartype.beartype"
)

import jax  # noqa: E402
import pytest  # noqa: E402
from jax._src.interpreters import partial_eval  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_threefry_partitionable", True)

# A tracer without an attribute raises an AttributeError whose text JAX finds by a walk through the whole trace. Flax
# asks every array of a module for its `sharding`: 7% of tests/config/test_every_leaf_matters.py went into that text.
if hasattr(getattr(partial_eval, "DynamicJaxprTracer", None), "_origin_msg"):
    partial_eval.DynamicJaxprTracer._origin_msg = lambda self: ""

ROOT = Path(__file__).resolve().parent.parent
jax.config.update("jax_traceback_in_locations_limit", 0)
jax.config.update("jax_traceback_filtering", "off")
gc.set_threshold(200_000, 20, 50)


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """What a file compiled goes with it: kept to the end, the programs of all files take 6 GB a worker."""
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True)
def unchanged_settings():
    """A test that leaves a setting of JAX changed would decide what later tests of its process see."""
    before = dict(jax.config.values)
    yield
    changed = {name: value for name, value in jax.config.values.items() if value != before.get(name)}
    for name in changed:
        jax.config.update(name, before[name])
    assert changed == {}


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root: commands run from there."""
    return ROOT


@pytest.fixture(scope="session")
def torch():
    """PyTorch, an oracle: the tests that ask for it skip where the extra `oracle` has none for this Python."""
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture(scope="module")
def mock_data(tmp_path_factory, root):
    """TFDS's mock data, a private data folder, the repository's root as the current folder."""
    import tensorflow_datasets as tfds

    with pytest.MonkeyPatch.context() as patch, tfds.testing.mock_data(num_examples=19):
        patch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path_factory.mktemp("data")))
        patch.chdir(root)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rewrite-goldens` replaces the recorded goldens by what the code says now."""
    parser.addoption("--rewrite-goldens", action="store_true", help="rewrite the golden files")


@pytest.fixture
def browse():
    """Opens a file in headless Chromium; afterwards: no error, no request but for the file itself and inline data."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]  # fmt: skip
    errors, requests = [], []
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=quiet)

        def opened(file: Path):
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            page.on("request", lambda request: requests.append(request.url))
            page.goto(Path(file).absolute().as_uri())
            return page

        yield opened
        browser.close()
    assert errors == [] and requests and all(url.startswith(("file:", "data:")) for url in requests)
