"""Functions as operators of PyTorch: torch.library, with shapes for the tracer and gradients.

An operator is made for each function and set of arguments. Inside it tensors are float32, on the processor, or, of
functions with target="cuda" and tensors on a GPU, there: then work is put on PyTorch's current stream, with the
tensors' addresses. Tensors of other types and devices are converted on the way, and back.
"""

from __future__ import annotations

import threading
from typing import Any, Mapping, Sequence

import numpy as np
import torch

from . import _library as c
from ._arrays import Stream, There
from ._program import Program
from .functions import Function

_ALIGN = 64  # floats: saved values begin at multiples of 256 bytes, which all kernels can work with
_lock = threading.Lock()
_made: dict[str, "_Operators"] = {}


def _shapes(tensors: Sequence[torch.Tensor]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(d) for d in t.shape) for t in tensors)


def is_there(t: torch.Tensor) -> bool:
    """Whether it is on a GPU."""
    return bool(t.is_cuda)


def _current_stream(device: torch.device) -> Stream:
    return Stream(int(torch.cuda.current_stream(device).cuda_stream), device.index)


class _Place:
    """Where the tensors of one call are: on the GPU of the first one, or on the processor."""

    def __init__(self, function: Function, tensors: Sequence[torch.Tensor]):
        self.there = function.on_device and is_there(tensors[0])
        self.device = tensors[0].device if self.there else torch.device("cpu")

    def take(self, t: torch.Tensor) -> torch.Tensor:
        return t.detach().to(device=self.device, dtype=torch.float32).contiguous()

    def empty(self, shape: Sequence[int]) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=torch.float32, device=self.device)

    def zeros(self, n: int) -> torch.Tensor:
        return torch.zeros(n, dtype=torch.float32, device=self.device)

    def run(self, program: Program, memory: Mapping[str, int]) -> None:
        if self.there:
            program.run(memory, there=set(memory), stream=_current_stream(self.device))
        else:
            program.run(memory)


def forward_there(model: Any, given: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """A model of tensors on a GPU, on its current stream."""
    device = next(iter(given.values())).device
    stream = _current_stream(device)
    taken = {n: t.detach().to(device=device, dtype=torch.float32).contiguous() for n, t in given.items()}
    rows = next(iter(taken.values())).shape[0]
    shape = (rows, *model._program.of_kind(c.OUTPUT)[0].shape[1:])
    result = torch.empty(shape, dtype=torch.float32, device=device)
    arrays = {n: There(t.data_ptr(), tuple(t.shape), stream, t) for n, t in taken.items()}
    model._run_there(arrays, There(result.data_ptr(), shape, stream, result), stream)
    return result


def _saved(program: Program) -> tuple[dict[str, int], int]:
    """Where each saved value begins in the one tensor that holds them, and how long that is."""
    at, places = 0, {}
    for t in program.of_kind(c.OUTPUT):
        if t.name.startswith("saved."):
            places[t.name] = at
            at += (t.count + _ALIGN - 1) // _ALIGN * _ALIGN
    return places, at


class _Operators:
    """value(tensors...) -> y...; forward(tensors..., wrt) -> (y..., saved); backward -> gradients."""

    def __init__(self, function: Function, names: tuple[str, ...], weights: tuple[str, ...], n_outputs: int):
        self.function, self.names, self.weights, self.n_outputs = function, names, weights, n_outputs
        self.name = function.torch_name(names + weights)
        name = "vertebra::" + self.name
        inputs = ", ".join(f"Tensor t{i}" for i in range(len(names) + len(weights)))
        outputs = ["Tensor"] * n_outputs
        value = outputs[0] if n_outputs == 1 else f"({', '.join(outputs)})"
        results = ", ".join(f"Tensor y{i}" for i in range(n_outputs))
        adjoints = ", ".join(f"Tensor d{i}" for i in range(n_outputs))
        self.value = torch.library.custom_op(name, self._value, mutates_args=(), schema=f"({inputs}) -> {value}")
        self.forward = torch.library.custom_op(
            name + "_forward",
            self._forward,
            mutates_args=(),
            schema=f"({inputs}, int wrt) -> ({', '.join(outputs)}, Tensor)",
        )
        self.backward = torch.library.custom_op(
            name + "_backward",
            self._backward,
            mutates_args=(),
            schema=f"({inputs}, {results}, Tensor saved, {adjoints}, int wrt) -> Tensor[]",
        )
        self.value.register_fake(self._fake_value)
        self.forward.register_fake(self._fake_forward)
        self.backward.register_fake(self._fake_backward)
        self.forward.register_autograd(self._pull, setup_context=self._keep)

    # ---- programs

    def _wrt(self, mask: int) -> tuple[str, ...]:
        return tuple(n for i, n in enumerate(self.names + self.weights) if mask >> i & 1)

    def _program(self, tensors: Sequence[torch.Tensor], part: int, mask: int = 0) -> Program:
        inputs = tensors[: len(self.names)]
        return self.function.program(self.names, _shapes(inputs), part, self._wrt(mask))

    def _given(self, place: _Place, tensors: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        return {n: place.take(t) for n, t in zip(self.names + self.weights, tensors)}

    def _results(self, program: Program) -> list[Any]:
        return [t for t in program.of_kind(c.OUTPUT) if not t.name.startswith("saved.")]

    # ---- what runs

    def _value(self, *tensors: torch.Tensor) -> Any:
        program, place = self._program(tensors, c.VALUE), _Place(self.function, tensors)
        keep = self._given(place, tensors)
        for t in program.of_kind(c.OUTPUT):
            keep[t.name] = place.empty(t.shape)
        place.run(program, {n: x.data_ptr() for n, x in keep.items()})
        made = tuple(keep[t.name].to(tensors[0]) for t in program.of_kind(c.OUTPUT))
        return made[0] if self.n_outputs == 1 else made

    def _forward(self, *arguments: Any) -> tuple[torch.Tensor, ...]:
        *tensors, mask = arguments
        program, place = self._program(tensors, c.FORWARD, mask), _Place(self.function, tensors)
        places, n = _saved(program)
        keep, saved = self._given(place, tensors), place.zeros(n)  # also what pads it
        for t in self._results(program):
            keep[t.name] = place.empty(t.shape)
        memory = {name: x.data_ptr() for name, x in keep.items()}
        memory.update({name: saved.data_ptr() + 4 * at for name, at in places.items()})
        place.run(program, memory)
        return (*(keep[t.name].to(tensors[0]) for t in self._results(program)), saved.to(tensors[0].device))

    def _split(self, arguments: Sequence[Any]) -> tuple[list[Any], list[Any], Any, list[Any], int]:
        n, m = len(self.names) + len(self.weights), self.n_outputs
        a = list(arguments)
        return a[:n], a[n : n + m], a[n + m], a[n + m + 1 : n + 2 * m + 1], a[-1]

    def _backward(self, *arguments: Any) -> list[torch.Tensor]:
        tensors, results, saved, adjoints, mask = self._split(arguments)
        ahead, back = self._program(tensors, c.FORWARD, mask), self._program(tensors, c.BACKWARD, mask)
        places, _ = _saved(ahead)
        place = _Place(self.function, tensors)
        saved = place.take(saved)
        keep = self._given(place, tensors)
        for t, y, d in zip(self._results(ahead), results, adjoints):
            keep["result." + t.name], keep["d:" + t.name] = place.take(y), place.take(d)
        for t in back.of_kind(c.GRADIENT):
            keep[t.name] = place.empty(t.shape)
        memory = {name: x.data_ptr() for name, x in keep.items()}
        memory.update({name: saved.data_ptr() + 4 * at for name, at in places.items()})
        known = {t.name for t in back.tensors}
        place.run(back, {name: at for name, at in memory.items() if name in known})
        like = dict(zip(self.names + self.weights, tensors))
        return [keep["d:" + n].to(like[n]) for n in self._wrt(mask)]

    # ---- what the tracer asks

    def _fake_value(self, *tensors: torch.Tensor) -> Any:
        program = self._program(tensors, c.VALUE)
        made = tuple(tensors[0].new_empty(t.shape) for t in program.of_kind(c.OUTPUT))
        return made[0] if self.n_outputs == 1 else made

    def _fake_forward(self, *arguments: Any) -> tuple[torch.Tensor, ...]:
        *tensors, mask = arguments
        program = self._program(tensors, c.FORWARD, mask)
        made = [tensors[0].new_empty(t.shape) for t in self._results(program)]
        return (*made, tensors[0].new_empty(_saved(program)[1], dtype=torch.float32))

    def _fake_backward(self, *arguments: Any) -> list[torch.Tensor]:
        tensors, _, _, _, mask = self._split(arguments)
        return [
            torch.empty_like(t, memory_format=torch.contiguous_format) for i, t in enumerate(tensors) if mask >> i & 1
        ]

    # ---- gradients

    def _keep(self, ctx: Any, inputs: Any, output: Any) -> None:
        *tensors, mask = inputs
        ctx.mask = mask
        ctx.save_for_backward(*tensors, *output)

    def _pull(self, ctx: Any, *adjoints: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        n = len(self.names) + len(self.weights)
        kept = ctx.saved_tensors
        tensors, results, saved = kept[:n], kept[n : n + self.n_outputs], kept[-1]
        seeds = [torch.zeros_like(y) if d is None else d for y, d in zip(results, adjoints)]
        made = iter(self.backward(*tensors, *results, saved, *seeds, ctx.mask))
        return (*(next(made) if ctx.mask >> i & 1 else None for i in range(n)), None)


def _operators(function: Function, names: tuple[str, ...], shapes: Any, weights: tuple[str, ...]) -> _Operators:
    name = function.torch_name(names + weights)
    with _lock:
        made = _made.get(name)
        if made is None:
            n_outputs = len(function.program(names, shapes).of_kind(c.OUTPUT))
            made = _made[name] = _Operators(function, names, weights, n_outputs)
        return made


# The tracer of torch.compile calls it, with constants, and keeps the name that it gives.
@torch.compiler.assume_constant_result
def _operator_name(key: str, names: tuple[str, ...], shapes: Any, weights: tuple[str, ...]) -> str:
    return _operators(Function.by_key[key], names, shapes, weights).name


def call(function: Function, given: Mapping[str, Any], weights: Mapping[str, Any]) -> Any:
    """A function of tensors."""
    tensors = [x if isinstance(x, torch.Tensor) else torch.as_tensor(np.asarray(x)) for x in given.values()]
    own = [x if isinstance(x, torch.Tensor) else torch.as_tensor(np.asarray(x)) for x in weights.values()]
    everything = [*tensors, *own]
    name = _operator_name(function.key, tuple(given), _shapes(tensors), tuple(weights))
    mask = sum([1 << i for i, t in enumerate(everything) if t.requires_grad])
    if not mask or not torch.is_grad_enabled():
        return getattr(torch.ops.vertebra, name)(*everything)
    *results, _ = getattr(torch.ops.vertebra, name + "_forward")(*everything, mask)
    return results[0] if len(results) == 1 else tuple(results)


class Module(torch.nn.Module):
    """A block as a module: its weights are parameters, under their own names with dots as underscores.

    >>> layer = vertebra.torch_ops.Module(vertebra.block("vil.vtb", "vil_block", grid_height=14, grid_width=14),
    ...                                   x=(1, 196, 192))
    """

    def __init__(self, function: Function, **shapes: tuple[int, ...]):
        super().__init__()
        self.function = function
        self._official: dict[str, str] = {}
        for name, value in function.weights(**shapes).items():
            own = name.replace(".", "_")
            self._official[name] = own
            self.register_parameter(own, torch.nn.Parameter(torch.from_numpy(value)))

    def forward(self, *args: torch.Tensor, **named: torch.Tensor) -> Any:
        return self.function(*args, weights={n: getattr(self, own) for n, own in self._official.items()}, **named)
