"""`import`: converts a Hugging Face checkpoint folder, or MobileNetV2, to a run at step 0 for the other commands."""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import Overrides, Parser, nearest, place, say
from attention_research.errors import ConfigError

FOLDER = (
    "a checkpoint folder that save_pretrained of Hugging Face wrote, or the name of a checkpoint to download: "
    "all-MiniLM-L6-v2 or mobilenet_v2"
)


def options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", type=place, metavar="FOLDER", help=FOLDER)
    parser.add_argument("--workdir", type=place, metavar="DIR", help="the folder of the new run")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    if arguments.folder is None:
        raise ConfigError("FOLDER: missing; expected a folder with config.json and model.safetensors")
    if arguments.workdir is None:
        raise ConfigError("--workdir: missing; expected the run's folder")
    from attention_research.training.environment import keep_compiled_programs
    from attention_research.weights import import_folder, mobilenet_v2
    from attention_research.weights.packaged import PACKAGED, folder_of

    name, is_folder = str(arguments.folder), arguments.folder.is_dir()  # a folder comes before a packaged checkpoint
    if name not in (known := [mobilenet_v2.NAME, *PACKAGED]) and not is_folder:
        was = "this is a file" if arguments.folder.exists() else "no such folder"
        raise ConfigError(f"{name}: {was}; expected a folder as save_pretrained writes it{nearest(name, known)}")
    keep_compiled_programs()
    if name == mobilenet_v2.NAME and not is_folder:
        mobilenet_v2.import_run(arguments.workdir, overrides, say)
    else:
        folder = arguments.folder if is_folder else folder_of(name, say)
        import_folder(folder, arguments.workdir, overrides, say)
    print(f"run {arguments.workdir} · next: attention-research analyze --workdir={arguments.workdir}")
    return 0
