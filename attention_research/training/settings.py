"""The section `training` of a config: steps, batch size, seeds, optimizer, schedule, checkpoints and logging."""

from __future__ import annotations

from typing import Literal

import optax

from attention_research.parallel.replica_settings import value
from attention_research.signatures import Child, NonNegative, Positive, PositiveFloat, Seed


class Training:
    """The settings of a training run.

    `batch_size` is the number of sequences (or packed rows) over all devices. `learning_rate` is the peak rate, or the
    factor of the Noam schedule.

    `seed` determines the initial parameters and dropout; `data_seed` (None: `seed`) determines the order of the data.
    `replicas` R trains R models in one program on the same batches, as R separate runs with this `data_seed` would. The
    seeds are seed .. seed + R - 1, or the models differ in the settings that `varied` lists, with texts such as
    "training.learning_rate=0.1,0.3,1.0". Replica r takes the r-th value of every list. The settings that may vary are
    training.seed (if it is not listed, all replicas have the same `seed`), training.learning_rate, dropout rates and
    task.label_smoothing (`training.replicas`).

    `clip_norm` bounds the global norm of the gradients. `accumulation_steps` k splits a batch into k parts of
    batch_size / k rows, so that only one part must fit in memory. The update is that of the whole batch.

    `checkpoint_every`, `log_every` and `eval_every` are in steps. The last step always saves a checkpoint and
    evaluates. `eval_batches` limits the number of batches of one validation. A validation also computes the further
    `evaluations` of the config, except those of the test split. The `keep` newest checkpoints and the `keep_best` best
    checkpoints are kept. If a step is among the best, its validation saves a checkpoint. `best_by` is the criterion:
    the lowest validation "loss", or a metric "NAME.METRIC" of a further evaluation, whose definition says whether
    higher is better. Commands that evaluate, measure, generate or export read `chosen_checkpoint` by default: "last" or
    "best".

    With `stop_at`, a run ends before its last step once the number `stop_by` of the validation, of which higher is
    better, is at least `stop_at` in `stop_checks` validations in a row: a mean that the task logs, such as "correct",
    or a metric "NAME.METRIC" of a further evaluation.

    `track` lists the programs that receive curves, evaluations and pictures (`training.tracking`).

    `initial` is the folder of another run, from whose trained parameters this run starts (`training.initial`). `{seed}`
    in it stands for the seed of this run. `initial_checkpoint` is "last", "best" (lowest validation loss) or a step.
    `initial_parts` are the parts of the model to load, such as "features"; if it is empty, the whole model is loaded.

    `steps` is the number of updates. `optimizer` and `schedule` turn a gradient and the learning rate into an update.
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
        stop_at: PositiveFloat | None = None,
        stop_by: str = "correct",
        stop_checks: Positive = 5,
        track: tuple[Literal["tensorboard", "wandb"], ...] = (),
        initial: str | None = None,
        initial_checkpoint: str = "last",
        initial_parts: tuple[str, ...] = (),
    ):
        del replicas, varied  # read by `training.replicas`, which makes the configs of single runs
        self.steps, self.batch_size, self.seed = steps, batch_size, seed
        self.data_seed = seed if data_seed is None else data_seed
        self.learning_rate, self.clip_norm, self.accumulation_steps = learning_rate, clip_norm, accumulation_steps
        self.checkpoint_every, self.log_every, self.eval_every = checkpoint_every, log_every, eval_every
        self.eval_batches, self.keep, self.keep_best = eval_batches, keep, keep_best
        self.best_by, self.chosen_checkpoint, self.track = best_by, chosen_checkpoint, track
        self.stop_at, self.stop_by, self.stop_checks = stop_at, stop_by, stop_checks
        self.initial, self.initial_checkpoint, self.initial_parts = initial, initial_checkpoint, initial_parts
        self.make_optimizer, self.make_schedule = optimizer, schedule

    def schedule(self, width: int | None) -> optax.Schedule:
        """The function (update count from 0) -> learning rate. `width` is the setting model.width, or None.

        Raises ConfigError if the schedule needs a width and the model does not have one.
        """
        make, rate, steps = self.make_schedule(), self.learning_rate, self.steps
        make(rate, width=width, steps=steps)  # raises here, before anything is traced
        return lambda count: make(value(rate), width=width, steps=steps)(count)

    def optimizer(self, width: int | None) -> optax.GradientTransformation:
        """Gradient clipping, followed by the optimizer with its schedule."""
        clip = optax.identity() if self.clip_norm is None else optax.clip_by_global_norm(self.clip_norm)
        return optax.chain(clip, self.make_optimizer()(self.schedule(width)))
