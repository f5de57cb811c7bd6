"""Checkpoints of a train state by Orbax, compared strictly with what is asked before anything is restored.

Orbax casts dtypes silently and restores what it finds; here names, shapes and dtypes must agree first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from attention_research.errors import RunError


def _flat(tree: Any) -> dict[str, Any]:
    """Path -> leaf, with the same path whether a container is a tuple, a named tuple or what Orbax made of it."""

    def entry(key: Any) -> str:
        return str(getattr(key, "name", getattr(key, "idx", getattr(key, "key", key))))

    return {"/".join(map(entry, path)): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]}


class Checkpoints:
    """The checkpoints of one workdir: `keep` latest ones, under `checkpoints/<step>`."""

    def __init__(self, workdir: Path, keep: int = 2):
        options = ocp.CheckpointManagerOptions(max_to_keep=keep, enable_async_checkpointing=False)
        self.folder = workdir / "checkpoints"
        handler = ocp.PyTreeCheckpointHandler()
        self.manager = ocp.CheckpointManager(self.folder.absolute(), options=options, item_handlers=handler)

    def latest(self) -> int | None:
        """The step of the newest finished checkpoint."""
        return self.manager.latest_step()

    def save(self, step: int, state: Any) -> None:
        """Writes and waits. Raises RunError where the disk does not take it; earlier checkpoints stay."""
        try:
            self.manager.save(step, args=ocp.args.PyTreeSave(state), force=True)
            self.manager.wait_until_finished()
        except OSError as error:
            raise RunError(f"checkpoint {step} not written under {self.folder}: {error.strerror or error}") from error

    def restore(self, step: int, abstract: Any, *, partial: tuple[str, ...] | None = None) -> Any:
        """The state of `step`, shaped and placed as `abstract`; `partial` names the only top-level entries wanted.

        Raises RunError listing what is missing, unexpected, or of another shape or dtype.
        """
        stored = _flat(dict(self.manager.item_metadata(step).tree))
        wanted = _flat(abstract)
        if partial is not None:
            stored = {path: leaf for path, leaf in stored.items() if path.split("/")[0] in partial}
        missing, unexpected = sorted(wanted.keys() - stored.keys()), sorted(stored.keys() - wanted.keys())
        differ = [
            f"{path} is {tuple(stored[path].shape)} {stored[path].dtype}, wanted {tuple(x.shape)} {x.dtype}"
            for path, x in wanted.items()
            if path in stored and (tuple(stored[path].shape) != tuple(x.shape) or stored[path].dtype != x.dtype)
        ]
        if missing or unexpected or differ:
            parts = [("missing", missing), ("unexpected", unexpected), ("different", differ)]
            listed = "; ".join(f"{what}: {', '.join(names[:5])}" for what, names in parts if names)
            raise RunError(f"checkpoint {step} in {self.folder} is not of this model: {listed}")
        arguments = ocp.args.PyTreeRestore(
            item=abstract,
            restore_args=ocp.checkpoint_utils.construct_restore_args(abstract),
            partial_restore=partial is not None,
        )
        return self.manager.restore(step, args=arguments)

    def close(self) -> None:
        """Ends Orbax's threads."""
        self.manager.close()
