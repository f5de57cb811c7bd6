"""The `training` section: how long, how much at a time, with which optimizer, and what is written when."""

from __future__ import annotations

from typing import Literal

import optax

from attention_research.parallel.replica_settings import value
from attention_research.signatures import Child, NonNegative, Positive, PositiveFloat, Seed


class Training:
    """`batch_size` counts sequences (or packed rows) over all devices; `learning_rate` is the peak, or Noam's factor.

    `seed` draws the first parameters and dropout; `data_seed` (None: `seed`) orders the data. `replicas` R trains R
    models at once in one program, all on the same batches, as R runs with that `data_seed` would train them one after
    the other: with seeds seed .. seed + R - 1, or with what `varied` lists, texts such as
    "training.learning_rate=0.1,0.3,1.0". Replica r takes the r-th of every list: of training.seed (else all have the
    one `seed`), training.learning_rate, dropout rates and task.label_smoothing (`training.replicas`).

    `clip_norm` bounds the global norm of the gradients. `accumulation_steps` k takes a batch through the model in k
    parts of batch_size / k, for which alone there must be memory; the update is that of the whole batch.

    `checkpoint_every`, `log_every`, `eval_every` are in steps; the last step always checkpoints and evaluates;
    `eval_batches` bounds one evaluation of the validation split. With it the config's further `evaluations` are
    computed, those of the test split excepted. The `keep` newest checkpoints stay and the `keep_best` best ones, for
    which an evaluation saves one where it is such a one. `best_by` says what is best: the lowest validation "loss", or
    a metric of a further evaluation, "NAME.METRIC", which knows its direction. What evaluates, measures, generates or
    exports reads `chosen_checkpoint` of them unless it is told otherwise: the last, or the best.

    `track` are the programs that get curves, evaluations and pictures beside the run's folder (`training.tracking`).

    `initial` is the folder of another run, from whose trained parameters this one starts (`training.initial`), {seed}
    in it being this run's seed; `initial_checkpoint` says which: last, best (the lowest validation loss) or a step's.
    `initial_parts` are the parts of the model that are taken, as "features"; none named, the whole model is.
    """

    def __init__(
        self,
        *,
        steps: Positive,
        batch_size: Positive,
        learning_rate: PositiveFloat,
        seed: Seed = 0,
        data_seed: Seed | None = None,
        replicas: Positive = 1,
        varied: tuple[str, ...] = (),
        optimizer: Child["optimizer"] = "adam",
        schedule: Child["schedule"] = "noam",
        clip_norm: PositiveFloat | None = None,
        accumulation_steps: Positive = 1,
        checkpoint_every: Positive = 1000,
        log_every: Positive = 10,
        eval_every: Positive = 1000,
        eval_batches: Positive = 8,
        keep: Positive = 2,
        keep_best: NonNegative = 1,
        best_by: str = "loss",
        chosen_checkpoint: str = "last",
        track: tuple[Literal["tensorboard", "wandb"], ...] = (),
        initial: str | None = None,
        initial_checkpoint: str = "last",
        initial_parts: tuple[str, ...] = (),
    ):
        del replicas, varied  # for `training.replicas`, which makes single runs' configs of them
        self.steps, self.batch_size, self.seed = steps, batch_size, seed
        self.data_seed = seed if data_seed is None else data_seed
        self.learning_rate, self.clip_norm, self.accumulation_steps = learning_rate, clip_norm, accumulation_steps
        self.checkpoint_every, self.log_every, self.eval_every = checkpoint_every, log_every, eval_every
        self.eval_batches, self.keep, self.keep_best = eval_batches, keep, keep_best
        self.best_by, self.chosen_checkpoint, self.track = best_by, chosen_checkpoint, track
        self.initial, self.initial_checkpoint, self.initial_parts = initial, initial_checkpoint, initial_parts
        self.make_optimizer, self.make_schedule = optimizer, schedule

    def schedule(self, width: int | None) -> optax.Schedule:
        """Update count from 0 -> learning rate; `width` is the model's setting of that name, None where it has none.

        Raises ConfigError for a schedule that needs the width of a model without one.
        """
        make, rate, steps = self.make_schedule(), self.learning_rate, self.steps
        make(rate, width=width, steps=steps)  # raises here, before anything is traced
        return lambda count: make(value(rate), width=width, steps=steps)(count)

    def optimizer(self, width: int | None) -> optax.GradientTransformation:
        """Clipping, then the optimizer at its schedule."""
        clip = optax.identity() if self.clip_norm is None else optax.clip_by_global_norm(self.clip_norm)
        return optax.chain(clip, self.make_optimizer()(self.schedule(width)))
