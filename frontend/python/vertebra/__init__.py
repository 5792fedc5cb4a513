"""Vertebra: vision backbones from a small language, compiled.

    import vertebra

    # a model: images are NumPy, or anything that speaks DLPack
    model = vertebra.create_model("vil_tiny", batch=8,
                                  weights="vil_tiny.safetensors")
    logits = model(images)

    # a differentiable function of PyTorch's tensors
    mlstm = vertebra.recurrence("std/mlstm.vtb", "mlstm")
    y = mlstm(q, k, v, i, f)

`recurrence`, `function` and `block` take a .vtb file, or the text itself,
and give functions that are compiled for the shapes they are called with;
what is wrong with a text is a CompileError with its lines and carets.
"""

from ._version import __version__
from .errors import CompileError, Diagnostic, Place, VertebraError
from .functions import Function, block, function, recurrence
from .models import Model, create_model

__all__ = [
    "CompileError",
    "Diagnostic",
    "Function",
    "Model",
    "Place",
    "VertebraError",
    "__version__",
    "block",
    "create_model",
    "function",
    "recurrence",
]
