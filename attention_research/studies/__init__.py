"""Studies: run rows x random seeds at a scale in supervised workers, and write tables, figures and a page.

Only the code that runs inside a worker imports JAX, so that finding, planning and rendering studies is quick.
"""

from attention_research.studies.budget import Budget
from attention_research.studies.finetuning import finetune, text_to_text, train_on
from attention_research.studies.inspection import inspect_study
from attention_research.studies.loading import extend, find_studies, load_study
from attention_research.studies.run import reproduce, run_study
from attention_research.studies.study import Row, Scale, Stage, Study, evaluate, measure, train
from attention_research.studies.sweep import sweep

__all__ = [
    "Budget",
    "Row",
    "Scale",
    "Stage",
    "Study",
    "evaluate",
    "extend",
    "find_studies",
    "finetune",
    "inspect_study",
    "load_study",
    "measure",
    "reproduce",
    "run_study",
    "sweep",
    "text_to_text",
    "train",
    "train_on",
]
