"""Adds the folders beside the package to the wheel, as ``attention_research.configs`` and so on.

All other metadata is in setup.cfg, which cannot add packages to those that it finds.
"""

from setuptools import find_packages, setup

FOLDERS = ("configs", "experiments", "benchmarks")

setup(
    packages=[*find_packages(include=["attention_research*"]), *(f"attention_research.{name}" for name in FOLDERS)],
    package_dir={f"attention_research.{name}": name for name in FOLDERS},
    package_data={
        **{f"attention_research.{name}": ["**/*.py", "**/*.csv", "*.txt"] for name in FOLDERS},
        "attention_research.config": ["*.jsonl"],
    },
    exclude_package_data={f"attention_research.{name}": ["results/*", "*/results/*"] for name in FOLDERS},
)
