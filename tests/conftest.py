"""Settings of all tests: strict dtype promotion, run-time shape checks, a persistent compilation cache."""

import gc
import os
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from types import FunctionType

from attention_research import allocator

allocator.keep_pages()
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# The tests spend most of their time in tracing and compilation, and they do not need optimised code. Programs that the
# tests start inherit this setting.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
# The older emitters compile these small programs in half the time. One code generator, instead of one for each core,
# saves a third of the rest. Newer releases may lack these flags, and XLA ends a process that passes an unknown flag.
if version("jaxlib").startswith("0.10."):
    FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = f"{FLAGS} {os.environ.get('XLA_FLAGS', '')}".strip()

# Without bytecode files, each worker rewrites the assertions of all tests (10 seconds), and each started program
# compiles every module of the package that it imports.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# One compilation cache for the tests and the programs that they start, separate from the user's cache.
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "attention_research" / "xla-tests"
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(CACHE)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"

import jaxtyping  # noqa: E402

checked = jaxtyping.jaxtyped


def checked_where_public(*, typechecker):
    """jaxtyping's decorator, but not for nested functions (decorated again at every call) and bare signatures."""
    local = lambda x: "<locals>" in getattr(x, "__qualname__", "")
    bare = lambda x: isinstance(x, FunctionType) and not x.__annotations__
    return lambda x: x if local(x) or bare(x) else checked(x, typechecker=typechecker)


# In the tests only, beartype checks the shapes and dtypes of every public signature while it is traced.
jaxtyping.jaxtyped = checked_where_public
jaxtyping.install_import_hook(
    ["attention_research.kernels", "attention_research.layers", "attention_research.models"], "beartype.beartype"
)

import jax  # noqa: E402
import pytest  # noqa: E402
from jax._src.interpreters import partial_eval  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_threefry_partitionable", True)

# When a tracer lacks an attribute, JAX walks through the whole trace to write the text of the AttributeError. Flax asks
# every array of a module for its `sharding`: 7% of the time of tests/config/test_every_leaf_matters.py went into this.
if hasattr(getattr(partial_eval, "DynamicJaxprTracer", None), "_origin_msg"):
    partial_eval.DynamicJaxprTracer._origin_msg = lambda self: ""

ROOT = Path(__file__).resolve().parent.parent
jax.config.update("jax_traceback_in_locations_limit", 0)
jax.config.update("jax_traceback_filtering", "off")
gc.set_threshold(200_000, 20, 50)


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """Frees the compiled programs after each file. Kept to the end, they would take 6 GB in each worker."""
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True)
def unchanged_settings():
    """Fails if a test changes a JAX setting and does not restore it: later tests of the process would see it."""
    before = dict(jax.config.values)
    yield
    changed = {name: value for name, value in jax.config.values.items() if value != before.get(name)}
    for name in changed:
        jax.config.update(name, before[name])
    assert changed == {}


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root, where commands run."""
    return ROOT


@pytest.fixture(scope="session")
def torch():
    """PyTorch as an oracle. Tests that use it are skipped if PyTorch (the extra `oracle`) is not installed."""
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture(scope="module")
def mock_data(tmp_path_factory, root):
    """Sets up TFDS's mock data and a private data folder, and makes the repository's root the current folder."""
    import tensorflow_datasets as tfds

    with pytest.MonkeyPatch.context() as patch, tfds.testing.mock_data(num_examples=19):
        patch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path_factory.mktemp("data")))
        patch.chdir(root)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--rewrite-goldens`, which replaces the recorded goldens with the current output."""
    parser.addoption("--rewrite-goldens", action="store_true", help="rewrite the golden files")


@pytest.fixture
def browse():
    """Opens a file in headless Chromium. Fails on errors and on requests other than the file and inline data."""
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
