"""`generate`: writes one output line for each input line, and reports what was cut, unknown or replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attention_research.errors import ConfigError
from attention_research.tokens import EOS
from attention_research.training.evaluation import Trained
from attention_research.training.readings import limit, longest, readings

#: A remark names at most this many lines and counts the others.
NAMED = 20


def generate(trained: Trained, lines: Sequence[str], report: Callable[[str], None]) -> list[str]:
    """The output of the run for each line. A language model returns the line with its continuation.

    A blank line gives a blank line, and so does a line without tokens. Reports what was cut, unknown or replaced, with
    the line numbers, which start at 1. Raises ConfigError for a prompt with an end of text inside.
    """
    read = readings(trained, lines)
    for number, one in enumerate(read if trained.continues else (), start=1):
        if EOS in one.tokens[:-1]:
            raise ConfigError(f"--input: line {number} has the end of a text inside its prompt; a prompt is one text")
    blank = [index for index, line in enumerate(lines) if not line.strip() or read[index].is_empty]
    there = [index for index in range(len(lines)) if index not in set(blank)]
    _remark(report, "blank, and left blank", dict.fromkeys(blank, ""))
    end = f"the {'last' if trained.continues else 'first'} {longest(trained) - 1:,} tokens"
    cut = {i: _tokens(read[i].given - 1) for i in there if read[i].cut}
    _remark(report, f"cut to {end} (max_length)", cut)
    unknown = {i: _tokens(read[i].unknown) for i in there if read[i].unknown}
    _remark(report, "read in part as the unknown token, since the vocabulary lacks it", unknown)
    written = trained.decoded([read[index].tokens for index in there])
    texts = _texts(trained, [lines[index] for index in there], [read[index].tokens for index in there], written)
    ends = {i: "" for i, tokens in zip(there, written, strict=True) if len(tokens) >= limit(trained, read[i])}
    _remark(report, "output ends at its length limit (decoding.extra_length, max_length)", ends)
    _remark(report, "line break in the output replaced by a space", _broken(there, texts))
    outputs = dict(zip(there, map(one_line, texts), strict=True))
    return [outputs.get(index, "") for index in range(len(lines))]


def one_line(text: str) -> str:
    r"""The text with a space in place of each line break of `str.splitlines`.

    >>> one_line("one\r\ntwo\u2028three")
    'one two three'
    """
    return " ".join(text.splitlines())


def _broken(there: Sequence[int], texts: Sequence[str]) -> dict[int, str]:
    return {index: "" for index, text in zip(there, texts, strict=True) if one_line(text) != text}


def _texts(
    trained: Trained, lines: Sequence[str], read: Sequence[Sequence[int]], written: Sequence[Sequence[int]]
) -> list[str]:
    """The generated tokens as text. For a language model, the continuation follows the user's own line."""
    if not trained.continues:
        return trained.data.written(written, lines)
    decode = trained.data.tokenizer.decode
    added = decode([tokens[len(prompt) - 1 :] for prompt, tokens in zip(read, written, strict=True)])
    return [
        line.rstrip() + (whole.removeprefix(prompt) if whole.startswith(prompt) else f" {more}")
        for line, prompt, whole, more in zip(lines, decode(read), decode(written), added, strict=True)
    ]


def _tokens(count: int) -> str:
    return f"{count:,} token{'s' if count > 1 else ''}"


def _remark(report: Callable[[str], None], what: str, found: Mapping[int, str]) -> None:
    """Reports the lines in `found`, index -> detail, in one line; nothing if there are none."""
    if not found:
        return
    named = [f"{index + 1}{f' ({detail})' if detail else ''}" for index, detail in [*found.items()][:NAMED]]
    more = f" and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
    report(f"{what}: line{'s' if len(found) > 1 else ''} {', '.join(named)}{more}")
