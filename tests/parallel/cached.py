"""The programs that JAX's persistent cache holds after a train step has run: ``cached FOLDER STRATEGY``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jax

from tests.parallel.losses import losses

if __name__ == "__main__":
    folder, strategy = map(json.loads, sys.argv[1:])
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    losses("rnnsearch", {"strategy": strategy, "data": -1})
    print(json.dumps([path.name for path in Path(folder).iterdir()]))
