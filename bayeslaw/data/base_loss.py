"""The measured loss of the base checkpoint from which a run was adapted, as a column of the run's rows.

Who adapts a checkpoint owns it, and can measure its losses before any adaptation. Laws with the covariate `base_loss` start there.
"""

from __future__ import annotations

import pandas as pd

BASE_LOSS = "base_loss"
MODEL = ("N", "ptpp", "seed")  # tell checkpoints apart where no column names them


def with_base_loss(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of runs with the column `base_loss`: for each row the mean loss at D = 0 of its checkpoint, on its domain.

    The table is returned as it is if it has that column, or no rows at D = 0. Checkpoints are told apart by the column
    `checkpoint`, and without one by N, ptpp and seed. Where a checkpoint has no row at D = 0 the loss is missing.
    """
    if BASE_LOSS in frame or not {"D", "loss"} <= set(frame) or not (base := frame["D"] == 0).any():
        return frame
    names = ["checkpoint"] if "checkpoint" in frame else [name for name in MODEL if name in frame]
    keys = [*names, *(["domain"] if "domain" in frame else [])]
    if not names:
        return frame
    losses = frame[base].groupby(keys)["loss"].mean().rename(BASE_LOSS)
    return frame.join(losses, on=keys)
