"""Blocks, functions and recurrences of the language as functions of arrays, with their gradients."""

from __future__ import annotations

import hashlib
from typing import Any, Callable, ClassVar, Mapping, Sequence

import numpy as np

from . import _arrays
from . import _library as c
from ._program import Options, Program, behaviour_of, entries, program_of, text_of
from .errors import VertebraError

Shapes = tuple[tuple[int, ...], ...]


def _is_torch(x: Any) -> bool:
    return type(x).__module__.split(".")[0] == "torch" or any(
        k.__module__.split(".")[0] == "torch" for k in type(x).__mro__
    )


def _numpy(x: Any) -> np.ndarray:
    """float32 and contiguous, without a copy where it is so already."""
    if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__"):
        x = np.from_dlpack(x)
    return np.ascontiguousarray(x, dtype=np.float32)


class Function:
    """A block, fn or recurrence, compiled for the shapes it is called with.

    Arguments are the tensors of the declaration, in its order or by name;
    those that have a default may be left out. NumPy arrays, and what speaks
    DLPack, give NumPy arrays; PyTorch tensors give tensors, with gradients.
    Programs are compiled once for each set of shapes and kept. Numbers are
    float32; others are converted, and a tensor's result has the type of its
    first argument. With target="cuda", arrays and tensors on a GPU go in and
    out by their addresses; results are arrays of the first argument's library,
    or what is given as `out=`. Sequences of a recurrence are [batch, tokens, ...] or
    [batch, heads, tokens, ...].

    A block's weights are tensors too: `weights(...)` gives initial values
    for the shapes of its arguments, and calls take them as `weights=`.
    """

    #: By what they were made of: operators of PyTorch stay registered, and find their function here.
    by_key: ClassVar[dict[str, Function]] = {}

    def __init__(self, source: str, entry: str | None, kinds: Sequence[str], options: Options, states: bool = False):
        self._options = options
        listed = entries(options)
        found = [e for e in listed if e["kind"] in kinds and (entry is None or e["name"] == entry)]
        if not found:
            known = ", ".join(e["name"] for e in listed if e["kind"] in kinds) or "none"
            raise VertebraError(f"{source} declares no {' or '.join(kinds)} {entry or ''}: it has {known}")
        declared = found[-1]
        self.name: str = declared["name"]
        self._tensors: list[str] = [p["name"] for p in declared["parameters"] if p["tensor"]]
        self._required: list[str] = [p["name"] for p in declared["parameters"] if p["tensor"] and p["required"]]
        self.__doc__ = f"{declared['signature']}\n\n{declared['doc']}".rstrip()
        outputs = () if states else tuple(f"y{i + 1}" if i else "y" for i in range(declared.get("results", 0)))
        self._options = Options(**{**options.__dict__, "entry": self.name, "outputs": outputs})
        self.key = hashlib.sha256(repr(self._options).encode()).hexdigest()
        Function.by_key.setdefault(self.key, self)

    @property
    def on_device(self) -> bool:
        """Whether it runs on a GPU."""
        return self._options.target.startswith("cuda")

    def __repr__(self) -> str:
        return f"<vertebra function {self.name}({', '.join(self._tensors)})>"

    # ---- arguments

    def _bind(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) > len(self._tensors):
            raise TypeError(f"{self.name} takes {len(self._tensors)} tensors, and {len(args)} were given")
        given = dict(zip(self._tensors, args))
        for name, value in named.items():
            if name not in self._tensors:
                raise TypeError(f"{self.name} has no tensor '{name}': it has {', '.join(self._tensors)}")
            if name in given:
                raise TypeError(f"{self.name} got '{name}' twice")
            given[name] = value
        missing = [name for name in self._required if name not in given]
        if missing:
            raise TypeError(f"{self.name} needs {', '.join(missing)}")
        return {name: given[name] for name in self._tensors if name in given}

    def program(self, names: Sequence[str], shapes: Shapes, part: int = c.VALUE, wrt: Sequence[str] = ()) -> Program:
        """The program for these tensors of these shapes."""
        texts = tuple(f"{n}={'x'.join(str(d) for d in s)}" for n, s in zip(names, shapes))
        return program_of(Options(**{**self._options.__dict__, "shapes": texts, "part": part, "wrt": tuple(wrt)}))

    # ---- NumPy

    def weights(self, *args: Any, **named: Any) -> dict[str, np.ndarray]:
        """Initial weights for arguments of these shapes.

        Arguments are arrays, or just their shapes as tuples.
        """
        given = self._bind(args, named)
        shapes = tuple(tuple(x) if isinstance(x, tuple) else tuple(int(d) for d in x.shape) for x in given.values())
        program = self.program(tuple(given), shapes)
        return {t.name: _read(program, t.name) for t in program.of_kind(c.PARAMETER, c.BUFFER)}

    def _run(self, program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        keep = dict(arrays)
        for t in program.tensors:
            if t.kind in (c.OUTPUT, c.GRADIENT):
                keep[t.name] = np.empty(t.shape, np.int32 if t.is_int else np.float32)
        self._check_all(program, {name: a.shape for name, a in keep.items()})
        program.run({t.name: keep[t.name].ctypes.data for t in program.tensors})
        return keep

    def _check_all(self, program: Program, shapes: Mapping[str, Sequence[int]]) -> None:
        """Whether everything is there, with its shape."""
        for t in program.tensors:
            if t.name in shapes and tuple(shapes[t.name]) == t.shape:
                continue
            if t.name in shapes:
                raise VertebraError(f"'{t.name}' is {tuple(shapes[t.name])}, and {t.shape} is needed")
            if t.kind in (c.PARAMETER, c.BUFFER):
                raise VertebraError(f"{self.name} has weights: call it with weights=, `weights()` gives initial ones")
            raise VertebraError(f"{self.name} needs '{t.name}'")

    def _numpy_call(
        self, given: Mapping[str, Any], weights: Mapping[str, Any], part: int
    ) -> tuple[Program, dict[str, np.ndarray]]:
        arrays = {name: _numpy(x) for name, x in given.items()}
        program = self.program(tuple(arrays), tuple(a.shape for a in arrays.values()), part)
        arrays.update({name: _numpy(x) for name, x in weights.items()})
        return program, arrays

    def _call_there(self, given: Mapping[str, Any], weights: Mapping[str, Any], out: Any) -> Any:
        """With arrays on a GPU; weights may be anywhere."""
        arrays = {name: _arrays.there(x) for name, x in given.items()}
        program = self.program(tuple(arrays), tuple(a.shape for a in arrays.values()))
        wanted, host = program.of_kind(c.OUTPUT), {}
        results = [out] if out is not None and len(wanted) == 1 else list(out or ())
        first = next(iter(given.values()))
        results = results or [_arrays.empty_like(first, t.shape) for t in wanted]
        if len(results) != len(wanted):
            raise TypeError(f"{len(wanted)} results are to be given as out=, and {len(results)} were")
        arrays.update({t.name: _arrays.there(x) for t, x in zip(wanted, results)})
        for name, x in weights.items():
            if _arrays.is_there(x):
                arrays[name] = _arrays.there(x)
            else:
                host[name] = _numpy(x)
        memory = {name: a.ctypes.data for name, a in host.items()}
        memory.update({name: a.address for name, a in arrays.items()})
        self._check_all(program, {**{n: a.shape for n, a in host.items()}, **{n: a.shape for n, a in arrays.items()}})
        program.run(memory, there=set(arrays), stream=_arrays.stream_of(list(arrays.values())))
        return results[0] if len(results) == 1 else tuple(results)

    def __call__(self, *args: Any, weights: Mapping[str, Any] | None = None, out: Any = None, **named: Any) -> Any:
        """The result for these tensors: an array, or a tuple of several."""
        given = self._bind(args, named)
        if any(_is_torch(x) for x in given.values()):
            from .torch_ops import call

            if out is not None:
                raise TypeError("out= is for arrays on a GPU that are not tensors of PyTorch")
            return call(self, given, dict(weights or {}))
        if self.on_device and any(_arrays.is_there(x) for x in given.values()):
            return self._call_there(given, weights or {}, out)
        if out is not None:
            raise TypeError("out= is for arrays on a GPU, and a function with target=\"cuda\"")
        program, arrays = self._numpy_call(given, weights or {}, c.VALUE)
        done = self._run(program, arrays)
        outputs = [done[t.name] for t in program.of_kind(c.OUTPUT)]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def vjp(
        self, *args: Any, weights: Mapping[str, Any] | None = None, **named: Any
    ) -> tuple[Any, Callable[..., dict[str, np.ndarray]]]:
        """The value, and a function that pulls adjoints back.

        It takes those of the outputs, and gives those of arguments and
        weights by name.
        """
        given = self._bind(args, named)
        program, arrays = self._numpy_call(given, weights or {}, c.WHOLE_GRADIENT)
        value = self(*args, weights=weights, **named)

        def pull(*adjoints: Any) -> dict[str, np.ndarray]:
            seeds = program.of_kind(c.ADJOINT)
            if len(adjoints) != len(seeds):
                raise TypeError(f"{len(seeds)} adjoints are needed, and {len(adjoints)} were given")
            done = self._run(program, {**arrays, **{t.name: _numpy(a) for t, a in zip(seeds, adjoints)}})
            return {t.name[2:]: done[t.name] for t in program.of_kind(c.GRADIENT)}

        return value, pull

    def torch_name(self, names: Sequence[str]) -> str:
        """A name for torch.library, of the entry and its settings."""
        key = (self.key + repr(tuple(names))).encode()
        return f"{self.name}_{hashlib.sha256(key).hexdigest()[:12]}"


def _read(program: Program, name: str) -> np.ndarray:
    """A copy of a parameter of the model."""
    import ctypes

    tensor, at = program.parameter(name)
    if not at or not tensor.count:
        return np.zeros(tensor.shape, np.float32)
    memory = (ctypes.c_float * tensor.count).from_address(at)
    return np.ctypeslib.as_array(memory).reshape(tensor.shape).copy()


def _make(
    kind: str,
    source: str,
    entry: str | None,
    hyperparameters: Mapping[str, Any],
    behaviour: Mapping[str, bool | int | str] | None,
    states: bool = False,
    **how: Any,
) -> Function:
    is_text = "\n" in source
    options = Options(
        model="<text>" if is_text else source,
        text=source if is_text else None,
        defines=tuple(f"{name}={text_of(value)}" for name, value in hyperparameters.items()),
        behaviour=behaviour_of(behaviour),
        **how,
    )
    return Function(source, entry, (kind,), options, states)


def recurrence(
    source: str,
    entry: str | None = None,
    *,
    target: str = "cpu",
    precision: str | None = None,
    mode: str | None = None,
    chunk: int = 0,
    threads: int = 0,
    behaviour: Mapping[str, bool | int | str] | None = None,
    states: bool = False,
    **hyperparameters: Any,
) -> Function:
    """A recurrence of a .vtb file, or of a text, as a differentiable function.

    >>> mlstm = vertebra.recurrence("std/mlstm.vtb", "mlstm")
    >>> y = mlstm(q, k, v, i, f)    # q, k: [batch, heads, tokens, K]
    ...                             # v: [batch, heads, tokens, V]
    ...                             # i, f: [batch, heads, tokens]

    `mode` is "recurrent", "parallel", "chunkwise" (with `chunk`), or None:
    the cheapest for the length. `precision`: how products round on CUDA;
    "recurrent" has none, and is float32 whatever it says. `states`: the
    states behind the last token are results too, and the logarithm of the
    scale they are in. `behaviour`: fields of docs/environment.md, over what
    the environment says: {"optimise": False}. Other names are the
    declaration's hyperparameters: True, 4, 0.5, [1, 2], or text.
    """
    how = {"target": target, "precision": precision, "mode": mode, "chunk": chunk, "threads": threads}
    return _make("recurrence", source, entry, hyperparameters, behaviour, states, **how)


def function(
    source: str,
    entry: str | None = None,
    *,
    target: str = "cpu",
    precision: str | None = None,
    mode: str | None = None,
    chunk: int = 0,
    threads: int = 0,
    behaviour: Mapping[str, bool | int | str] | None = None,
    **hyperparameters: Any,
) -> Function:
    """A fn of a .vtb file or text as a differentiable function."""
    how = {"target": target, "precision": precision, "mode": mode, "chunk": chunk, "threads": threads}
    return _make("fn", source, entry, hyperparameters, behaviour, **how)


def block(
    source: str,
    entry: str | None = None,
    *,
    target: str = "cpu",
    precision: str | None = None,
    mode: str | None = None,
    chunk: int = 0,
    threads: int = 0,
    behaviour: Mapping[str, bool | int | str] | None = None,
    **hyperparameters: Any,
) -> Function:
    """A block of a .vtb file or text: a differentiable function with weights."""
    how = {"target": target, "precision": precision, "mode": mode, "chunk": chunk, "threads": threads}
    return _make("block", source, entry, hyperparameters, behaviour, **how)
