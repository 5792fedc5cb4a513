"""The example of a training loop: the same losses as with the recurrence in PyTorch."""

import pathlib
import sys

from common import check, need, run

need("numpy", "torch")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "docs" / "examples" / "python"))
import train_block

import vertebra


def losses_are_those_of_torch():
    ours, _ = train_block.train("vertebra", vertebra.recurrence("std/mlstm.vtb", "mlstm", threads=1), 6, 3)
    theirs, _ = train_block.train("torch", train_block.mlstm_in_torch, 6, 3)
    check(all(abs(a - b) <= 1e-4 * abs(b) for a, b in zip(ours, theirs)), (ours, theirs))


run(losses_are_those_of_torch)
