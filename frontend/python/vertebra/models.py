"""Whole models: compiled in memory or built beforehand, for NumPy arrays and what speaks DLPack."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any, Mapping, Sequence

import numpy as np

from . import _arrays
from . import _library as c
from ._program import Options, Program, behaviour_of, entries, program_of, text_of
from .errors import CompileError, VertebraError
from .functions import _is_torch, _numpy, _read


def _refuse_gradients(inputs: Sequence[Any]) -> None:
    """An input that wants a gradient would get none, and nobody would notice."""
    for x in inputs:
        if _is_torch(x) and x.requires_grad:
            import torch

            if torch.is_grad_enabled():
                raise RuntimeError(
                    "an input wants a gradient, and a whole model gives none: call it under torch.no_grad(), or with "
                    "x.detach(); recurrence(), function() and block() have gradients (vertebra.torch_ops.Module)"
                )


def _class_settings(options: Options) -> list[str]:
    """Hyperparameters that may be the number of classes, the likeliest first."""
    whole = [
        p["name"]
        for d in entries(options)
        if d["kind"] == "model"
        for p in d["parameters"]
        if ": int" in p["text"] and p["name"] not in [s.split("=")[0] for s in options.defines]
    ]
    named = [n for n in dict.fromkeys(whole) if "class" in n]
    others = (n for n in dict.fromkeys(whole) if n not in named)
    return ["num_classes", *(n for n in named if n != "num_classes"), *others]


def _with_classes(options: Options, n: int) -> Options:
    """The options with the setting that makes the first output n scores, whatever the model calls it."""
    first: CompileError | None = None
    for name in _class_settings(options):
        made = replace(options, defines=(*options.defines, f"{name}={n}"))
        try:
            scores = program_of(made).of_kind(c.OUTPUT)[0].shape
        except CompileError as error:
            first = first or error
            continue
        if not n or scores[-1] == n:
            return made
    raise first or VertebraError(f"no hyperparameter of {options.model} gives {n} classes")


class Model:
    """A model with its weights.

    `model(images)` gives its first output for any number of rows.
    """

    def __init__(self, program: Program, options: Options | None):
        self._program, self._options = program, options
        self._own: dict[str, np.ndarray] = {}  # another one whenever anything changes
        self._features: Model | None = None
        self._given = False  # it has these weights

    def __repr__(self) -> str:
        inputs = ", ".join(f"{t.name}{list(t.shape[1:])}" for t in self._program.of_kind(c.INPUT))
        return f"<vertebra model {self._program._options.model}({inputs})>"

    def _check(self, shapes: Mapping[str, Sequence[int]]) -> int:
        """How many rows the inputs have."""
        rows = next(iter(shapes.values()))[0]
        for t in self._program.of_kind(c.INPUT):
            have = tuple(shapes[t.name])
            if have[1:] != t.shape[1:] or have[0] != rows:
                raise VertebraError(f"'{t.name}' is {have}, and (rows, {', '.join(map(str, t.shape[1:]))}) is needed")
        return int(rows)

    def _run_there(self, given: Mapping[str, _arrays.There], result: _arrays.There, stream: _arrays.Stream) -> None:
        """With arrays on a GPU, and the weights where they are."""
        out = self._program.of_kind(c.OUTPUT)[0]
        arrays = {**given, out.name: result}
        memory = {n: a.address for n, a in arrays.items()}
        shapes = {n: a.shape for n, a in arrays.items()}
        self._program.run(memory, shapes, self._check(shapes), set(arrays), stream, self._own)

    def _forward_there(self, given: Mapping[str, Any], out: Any) -> Any:
        """Arrays of whatever library, by their addresses."""
        arrays = {name: _arrays.there(x) for name, x in given.items()}
        shape = (self._check({n: a.shape for n, a in arrays.items()}), *self._program.of_kind(c.OUTPUT)[0].shape[1:])
        result = out if out is not None else _arrays.empty_like(next(iter(given.values())), shape)
        where = _arrays.there(result)
        if where.shape != shape:
            raise VertebraError(f"out= is {where.shape}, and {shape} is needed")
        self._run_there(arrays, where, _arrays.stream_of([*arrays.values(), where]))
        return result

    def forward(self, *inputs: Any, out: Any = None, seed: int = 0) -> Any:
        """The first output, for inputs of [rows, ...] in the program's order.

        A model that draws random numbers has others with another seed.

        Tensors of PyTorch give one, without gradients: one that wants a gradient
        is a RuntimeError outside of torch.no_grad(). With target="cuda" what
        is on a GPU stays there; `out=` is an array there for the result.
        """
        wanted = self._program.of_kind(c.INPUT)
        if len(inputs) != len(wanted):
            raise TypeError(f"the model takes {', '.join(t.name for t in wanted)}")
        _refuse_gradients(inputs)
        if self._program.on_device and not seed:
            given = {t.name: x for t, x in zip(wanted, inputs)}
            if _is_torch(inputs[0]):
                from .torch_ops import forward_there, is_there

                if is_there(inputs[0]):
                    return forward_there(self, given)
            elif _arrays.is_there(inputs[0]):
                return self._forward_there(given, out)
        number = np.asarray(seed, np.int32)
        if out is not None:
            raise TypeError("out= is for arrays on a GPU, and a model with target=\"cuda\"")
        arrays = {t.name: _numpy(x.detach().cpu() if _is_torch(x) else x) for t, x in zip(wanted, inputs)}
        rows = self._check({n: a.shape for n, a in arrays.items()})
        first = self._program.of_kind(c.OUTPUT)[0]
        result = np.empty((rows, *first.shape[1:]), np.float32)
        memory = {n: a.ctypes.data for n, a in arrays.items()}
        shapes: dict[str, Any] = {n: a.shape for n, a in arrays.items()}
        memory[first.name], shapes[first.name] = result.ctypes.data, result.shape
        if self._program.draws:
            memory["seed"], shapes["seed"] = number.ctypes.data, ()
        self._program.run(memory, shapes, rows, weights=self._own)
        if _is_torch(inputs[0]):
            import torch

            return torch.from_numpy(result).to(inputs[0].device)
        return result

    __call__ = forward

    def forward_features(self, *inputs: Any) -> Any:
        """What the classifier's head sees: the model with num_classes = 0."""
        if self._options is None:
            raise VertebraError("a built file has the outputs it was built with: build one with -D num_classes=0")
        if self._features is None:
            defines = tuple(d for d in self._options.defines if "class" not in d.split("=")[0])
            bare = replace(self._options, defines=defines, entry=self._program.meta("entry") or self._options.entry)
            try:
                options = _with_classes(replace(bare, weights=None), 0)
            except CompileError as error:
                raise VertebraError(
                    f"{self._options.model} has no form without its head: one whose model says "
                    f"`if num_classes == 0 {{ output features = x }}` has ({error})"
                ) from error
            self._features = Model(program_of(options), None)
        if not self._given:
            mine = self.state_dict()
            self._features._own = {t.name: mine[t.name] for t in self._features._program.of_kind(c.PARAMETER, c.BUFFER)}
            self._given = True
        return self._features.forward(*inputs)

    def forward_head(self, features: Any) -> Any:
        """The head on what forward_features() gave."""
        mine = self.state_dict()
        if "head.weight" not in mine:
            raise VertebraError("the model has no 'head.weight': its head is more than one product")
        made = _numpy(features) @ mine["head.weight"].T
        return made + mine["head.bias"] if "head.bias" in mine else made

    def state_dict(self) -> dict[str, np.ndarray]:
        """Weights by their official names, as copies."""
        listed = self._program.of_kind(c.PARAMETER, c.BUFFER)
        return {
            t.name: self._own[t.name].copy() if t.name in self._own else _read(self._program, t.name) for t in listed
        }

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Takes weights by name.

        If strict, all that the model has must be there, and nothing else.
        """
        listed = {t.name: t for t in self._program.of_kind(c.PARAMETER, c.BUFFER)}
        missing, more = [n for n in listed if n not in state], [n for n in state if n not in listed]
        if strict and (missing or more):
            raise VertebraError(f"missing: {', '.join(missing) or 'none'}; unexpected: {', '.join(more) or 'none'}")
        taken = {}
        for name, t in listed.items():
            if name not in state:
                continue
            value = state[name]
            taken[name] = _numpy(value.detach().cpu() if _is_torch(value) else value).copy()
            if taken[name].shape != t.shape:
                raise VertebraError(f"'{name}' is {taken[name].shape}, and {t.shape} is needed")
        self._own = {**self._own, **taken}
        self._given = False

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes, if the weights say them."""
        text = self._program.meta("classes")
        return list(json.loads(text)) if text else None


def create_model(
    name: str,
    weights: str | os.PathLike[str] | None = None,
    num_classes: int | None = None,
    *,
    entry: str | None = None,
    image: int | tuple[int, int] | None = None,
    batch: int = 1,
    target: str = "cpu",
    precision: str | None = None,
    mode: str | None = None,
    chunk: int = 0,
    threads: int = 0,
    behaviour: Mapping[str, bool | int | str] | None = None,
    **hyperparameters: Any,
) -> Model:
    """A preset ("vil_tiny"), a .vtb file, or what `vertebra build` made.

    entry: the model or preset of a file that declares several, which
    "mine.vtb:wide" says, too; without it that which the weights are of, else
    its last model. num_classes: what the model calls its number of classes.
    weights: what `vertebra weights` shows: .safetensors, .pth, shards, a folder of
    Hugging Face, under the model's names or those that its rules know; without
    it initial ones. batch: how many rows
    one run of the program takes; calls may have any number. image: the size of
    an image, 224 or (height, width). behaviour: fields of docs/environment.md, over
    what the environment says: {"fusions": "all"}. Hyperparameters are the model's:

    >>> vertebra.create_model("vil_tiny", depth=6, paths="quad")
    """
    path = os.fspath(weights) if weights is not None else None
    how = behaviour_of(behaviour)
    if name.endswith((".so", ".o")):
        if hyperparameters or num_classes is not None or image is not None or entry is not None:
            raise VertebraError("a built file has the settings it was built with")
        return Model(Program.of_file(name, path, threads=threads, target=target, behaviour=how), None)
    file, _, preset = name.rpartition(".vtb:")
    if file and entry is None:
        name, entry = file + ".vtb", preset
    size = text_of(image) if image is not None else None
    options = Options(
        model=name,
        entry=entry,
        defines=tuple(f"{k}={text_of(v)}" for k, v in hyperparameters.items()),
        weights=path,
        image=size,
        batch=batch,
        target=target,
        precision=precision,
        mode=mode,
        chunk=chunk,
        threads=threads,
        behaviour=how,
    )
    if num_classes is not None:
        options = _with_classes(options, num_classes)
    return Model(program_of(options), options)
