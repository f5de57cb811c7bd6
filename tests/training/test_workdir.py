"""The metrics log and the small files of a run's folder, where the disk refuses and where a process was killed."""

import json
import resource

import pytest

from attention_research.config import ConfigError, load
from attention_research.errors import RunError
from attention_research.training.claiming import check
from attention_research.training.workdir import LOSS, MetricsLog, read_metrics, write_text


@pytest.fixture
def limit_file_size():
    """set(bytes): the kernel refuses what makes a file longer, as a full disk would; the limit ends with the test."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_that_the_disk_takes_in_part_is_taken_back(tmp_path, limit_file_size):
    log = MetricsLog(tmp_path, 0)
    log.write(step=1, split="train", loss=2.5)
    size = (tmp_path / "metrics.jsonl").stat().st_size
    limit_file_size(size + 10)  # the kernel writes 10 bytes of the second line and says so
    with pytest.raises(RunError, match=r"cannot write .*metrics.jsonl: .*rerun the same command"):
        log.write(step=2, split="train", loss=2.25)
    assert (tmp_path / "metrics.jsonl").stat().st_size == size
    log.close()


def test_a_continued_log_has_no_torn_line_and_no_step_beyond_the_checkpoint(tmp_path):
    lines = [{"step": step, "split": "train", "loss": step / 7} for step in (1, 2, 3, 4)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "metrics.jsonl").write_text(text + '{"step": 5, "split": "tr')
    assert read_metrics(tmp_path) == lines
    log = MetricsLog(tmp_path, 2)
    log.write(step=3, split="train", loss=3 / 7)
    log.sync()
    log.close()
    assert (tmp_path / "metrics.jsonl").read_text() == "".join(json.dumps(line) + "\n" for line in lines[:3])


def test_a_small_file_is_the_old_one_or_the_new_one(tmp_path, limit_file_size):
    write_text(tmp_path / "config.json", "old")
    limit_file_size(100)
    with pytest.raises(RunError, match="cannot write .*config.json: File too large"):
        write_text(tmp_path / "config.json", "new" * 100)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    assert (tmp_path / "config.json").read_text() == "old"


def test_validation_losses_are_means_over_seeds_of_numbers(tmp_path):
    log = MetricsLog(tmp_path, 0)
    for step, loss in ((2, 5.0), (2, 4.0), (4, 1.0), (4, float("nan")), (6, 3.0)):
        log.write(step=step, split="validation", loss=loss)
    log.write(step=6, split="train", loss=0.0)
    log.close()
    assert LOSS.costs(tmp_path) == {2: 4.5, 6: 3.0}


def test_a_run_that_is_older_than_a_setting_goes_on_where_the_setting_means_what_was_done(tmp_path):
    config = load("configs/translation/transformer.py:smoke")
    document = json.loads(config.to_json())
    del document["resolved"]["training"]["chosen_checkpoint"]
    write_text(tmp_path / "config.json", json.dumps(document))
    write_text(tmp_path / "metrics.jsonl", '{"step": 3, "split": "train"}\n')
    check(tmp_path, config)
    with pytest.raises(ConfigError, match=r"another config \(training.chosen_checkpoint: \(absent\) -> best\)"):
        check(tmp_path, config.override([("training.chosen_checkpoint", "best")]))
