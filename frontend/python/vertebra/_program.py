"""Compiled programs: options to a model in memory, and its arrays bound to the caller's."""

from __future__ import annotations

import ctypes
import json
import os
import threading
from ctypes import c_void_p
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Collection, Mapping, Sequence

from . import _library as c
from ._arrays import Stream
from .errors import CompileError, Diagnostic, Place, VertebraError

Value = Any


def text_of(value: Value) -> str:
    """A hyperparameter as .vtb text: True is true, (14, 14) is 14x14, lists are lists; a str is taken as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple) and value and all(isinstance(v, int) for v in value):
        return "x".join(str(v) for v in value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text_of(v) for v in value) + "]"
    if isinstance(value, float):
        return repr(value)
    return str(value)


def _place(at: c.TextRange) -> Place | None:
    if not at.file:
        return None
    return Place(at.file.decode(), at.line, at.column, at.end_line, at.end_column)


def _diagnostics(report: int) -> list[Diagnostic]:
    lib = c.library()
    rows = ctypes.POINTER(c.DiagnosticStruct)()
    n = lib.vtb_report_diagnostics(report, ctypes.byref(rows))
    return [
        Diagnostic(
            bool(d.is_error),
            d.code,
            d.text.decode(),
            _place(d.at),
            [(d.notes[k].text.decode(), _place(d.notes[k].at)) for k in range(d.n_notes)],
            d.help.decode() if d.help else None,
        )
        for d in (rows[i] for i in range(n))
    ]


def check(status: int, err: c.Error) -> None:
    """Raises what a call of the runtime left."""
    if status == c.E_MEMORY:
        raise MemoryError(err.text.decode())
    if status != c.OK:
        raise VertebraError(err.text.decode())


def environment() -> c.Behaviour:
    """What the environment says."""
    how, err = c.Behaviour(size=ctypes.sizeof(c.Behaviour)), c.Error()
    check(c.library().vtb_options_from_environment(ctypes.byref(how), ctypes.byref(err)), err)
    return how


def behaviour_of(given: Mapping[str, bool | int | str] | None) -> tuple[tuple[str, Any], ...]:
    """Fields of docs/environment.md as Options has them."""
    return tuple(sorted((given or {}).items()))


@dataclass(frozen=True)
class Options:
    """What is compiled, and how. Hashable: programs are cached by it."""

    model: str | None = None
    text: str | None = None
    entry: str | None = None
    defines: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    batch: int = 1
    image: str | None = None
    weights: str | None = None
    target: str = "cpu"
    precision: str | None = None
    mode: str | None = None
    chunk: int = 0
    part: int = c.VALUE
    wrt: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    threads: int = 0
    behaviour: tuple[tuple[str, Any], ...] = ()

    def how(self) -> c.Behaviour:
        """What the environment says, and over it what the caller does."""
        how = environment()
        kinds = {name: kind for name, kind in c.Behaviour._fields_ if name != "size" and not name.startswith("has_")}
        for name, value in self.behaviour:
            kind = kinds.get(name)
            if kind is None:
                raise VertebraError(f"behaviour has no {name}: there are {', '.join(kinds)}")
            wanted = bool if kind is ctypes.c_uint32 else str if kind is ctypes.c_char_p else int
            if type(value) is not wanted:
                raise VertebraError(f"behaviour: {name} is a {wanted.__name__}, not {value!r}")
            setattr(how, name, value + 1 if wanted is bool else value.encode() if wanted is str else value)
            how.has_cuda_device |= name == "cuda_device"
        return how

    def struct(self) -> tuple[c.CompileOptions, list[Any]]:
        """The C struct, and what must live as long as it."""
        lists = (self.defines, self.shapes, self.wrt, self.outputs)
        keep: list[Any] = [c.text_list(list(values)) for values in lists]
        o = c.CompileOptions(size=ctypes.sizeof(c.CompileOptions))
        for name in ("model", "text", "entry", "image", "weights", "target", "precision", "mode"):
            value = getattr(self, name)
            setattr(o, name, value.encode() if value else None)
        o.text_bytes = len(self.text.encode()) if self.text else 0
        pointer = ctypes.POINTER(ctypes.c_char_p)
        o.defines, o.n_defines = ctypes.cast(keep[0], pointer), len(self.defines)
        o.shapes, o.n_shapes = ctypes.cast(keep[1], pointer), len(self.shapes)
        if self.wrt:
            o.wrt, o.n_wrt = ctypes.cast(keep[2], pointer), len(self.wrt)
        if self.outputs:
            o.outputs, o.n_outputs = ctypes.cast(keep[3], pointer), len(self.outputs)
        keep.append(self.how())
        o.behaviour = ctypes.pointer(keep[-1])
        o.batch, o.chunk, o.part, o.threads = self.batch, self.chunk, self.part, self.threads
        return o, keep


def _call(function: Any, options: Options, *arguments: Any) -> None:
    lib = c.library()
    struct, keep = options.struct()
    report = lib.vtb_report_new()
    if not report:
        raise MemoryError("a report")
    try:
        status = function(ctypes.byref(struct), *arguments, report)
        del keep
        if status == c.OK:
            return
        said, error = c.take_text(lib.vtb_report_text(report, False)), lib.vtb_report_error(report).decode()
        if status == c.E_MEMORY:
            raise MemoryError(error)
        raise CompileError(said.rstrip() or error, _diagnostics(report))
    finally:
        lib.vtb_report_free(report)


def entries(options: Options) -> list[dict[str, Any]]:
    """What the source declares (vtb_compile_entries)."""
    text = c_void_p()
    _call(c.library().vtb_compile_entries, options, ctypes.byref(text))
    listed: list[dict[str, Any]] = json.loads(c.take_text(text))
    return listed


@dataclass(frozen=True)
class Tensor:
    """An array of a program."""

    name: str
    kind: int
    is_int: bool
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n


class Program:
    """A compiled program. Calls are safe from several threads: each takes a session that nobody else uses."""

    def __init__(self, options: Options):
        handle = c_void_p()
        _call(c.library().vtb_compile_model, options, ctypes.byref(handle))
        self._start(handle, options)

    def _start(self, handle: c_void_p, options: Options) -> None:
        self._handle = handle
        self._options = options
        self._sessions: dict[tuple[int, Stream | None], list[int]] = {}  # by the most rows of a run, and the stream
        self._bound: dict[int, Mapping[str, Any]] = {}  # weights that a session has of its last caller
        self._lock = threading.Lock()
        self._info = c.ProgramInfo(size=ctypes.sizeof(c.ProgramInfo))
        err = c.Error()
        check(c.library().vtb_model_program(handle, 0, ctypes.byref(self._info), ctypes.byref(err)), err)
        self.tensors = [self._tensor(i) for i in range(self._info.n_arrays)]
        self.draws = any(t.name == "seed" and not t.shape for t in self.tensors)

    @classmethod
    def of_file(cls, path: str, weights: str | None, **options: Any) -> "Program":
        """A file that `vertebra build` made; threads, target and behaviour of its sessions."""
        handle, err = c_void_p(), c.Error()
        o = c.OpenOptions(size=ctypes.sizeof(c.OpenOptions), weights=weights.encode() if weights else None)
        check(c.library().vtb_model_open(path.encode(), ctypes.byref(o), ctypes.byref(handle), ctypes.byref(err)), err)
        program = cls.__new__(cls)
        program._start(handle, Options(model=path, **options))
        return program

    def _array(self, i: int) -> c.Array:
        a, err = c.Array(size=ctypes.sizeof(c.Array)), c.Error()
        check(c.library().vtb_model_array(self._handle, 0, i, ctypes.byref(a), ctypes.byref(err)), err)
        return a

    def _tensor(self, i: int) -> Tensor:
        a = self._array(i)
        return Tensor(a.name.decode(), a.kind, a.type == c.I32, tuple(a.dim[k] for k in range(a.rank)))

    @property
    def batch(self) -> int:
        """Rows of a run."""
        return int(self._info.batch)

    def of_kind(self, *kinds: int) -> list[Tensor]:
        """Arrays of these kinds, in the program's order, without the numbers that random ones are by."""
        return [t for t in self.tensors if t.kind in kinds and (t.shape or t.name not in ("seed", "rank.first"))]

    def meta(self, key: str) -> str | None:
        """What the model says of itself."""
        text = c.library().vtb_model_meta(self._handle, key.encode())
        return text.decode() if text else None

    def parameter(self, name: str) -> tuple[Tensor, int]:
        """A parameter that the model has, and where it stands; for reading alone."""
        for i, t in enumerate(self.tensors):
            if t.name == name and t.kind in (c.PARAMETER, c.BUFFER):
                return t, self._array(i).data or 0
        raise KeyError(name)

    @property
    def on_device(self) -> bool:
        """Whether it runs on a GPU, and so takes arrays there."""
        return self._options.target.startswith("cuda")

    def _take(self, rows: int, stream: Stream | None) -> int:
        with self._lock:
            free = self._sessions.setdefault((rows, stream), [])
            if free:
                return free.pop()
        session, err = c_void_p(), c.Error()
        o = c.SessionOptions(size=ctypes.sizeof(c.SessionOptions), threads=self._options.threads, batch=rows)
        o.device = c.CUDA if self.on_device else c.ANY
        o.behaviour = ctypes.pointer(self._options.how())
        if stream is not None:
            o.cuda_stream, o.has_cuda_stream = stream.handle, True
            o.has_cuda_device, o.cuda_device = stream.device is not None, stream.device or 0
        check(
            c.library().vtb_session_open(self._handle, ctypes.byref(o), ctypes.byref(session), ctypes.byref(err)), err
        )
        assert session.value
        return session.value

    def _give(self, rows: int, stream: Stream | None, session: int) -> None:
        with self._lock:
            self._sessions[rows, stream].append(session)

    def _bind(self, session: int, t: Tensor, at: int, shape: Sequence[int], there: bool) -> None:
        err = c.Error()
        a = c.Array(size=ctypes.sizeof(c.Array), type=c.I32 if t.is_int else c.F32, rank=len(shape))
        a.data, a.device = at, c.CUDA if there else c.CPU
        for k, d in enumerate(shape):
            a.dim[k] = d
        check(c.library().vtb_session_bind(session, t.name.encode(), ctypes.byref(a), ctypes.byref(err)), err)

    def _unbind(self, session: int, names: Collection[str]) -> None:
        for name in names:
            c.library().vtb_session_bind(session, name.encode(), None, None)

    def _settle(self, session: int, weights: Mapping[str, Any]) -> None:
        """Weights stay bound until a caller has others: a GPU is given them once."""
        before = self._bound.get(session, {})
        if before is weights or not (before or weights):
            return
        self._bound.pop(session, None)
        self._unbind(session, before)
        try:
            for t in self.tensors:
                if t.name in weights:
                    self._bind(session, t, weights[t.name].ctypes.data, t.shape, False)
        except BaseException:
            self._unbind(session, weights)
            raise
        self._bound[session] = weights

    def run(
        self,
        memory: Mapping[str, int],
        shapes: Mapping[str, Sequence[int]] | None = None,
        rows: int = 0,
        there: Collection[str] = (),
        stream: Stream | None = None,
        weights: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Runs with the arrays at these addresses: all inputs and what of the outputs is wanted.

        Those named in `there` are on the GPU. On a stream it returns when the work is queued.
        weights: arrays of the host that nobody changes.
        """
        lib, err = c.library(), c.Error()
        rows = rows or self.batch
        most = max(rows, self.batch)
        session = self._take(most, stream)
        try:
            self._settle(session, weights)
            for t in self.tensors:
                if t.name in memory:
                    shape = shapes[t.name] if shapes and t.name in shapes else t.shape
                    self._bind(session, t, memory[t.name], shape, t.name in there)
            check(lib.vtb_session_run(session, rows, ctypes.byref(err)), err)
        finally:
            self._unbind(session, memory)
            self._give(most, stream, session)

    def __del__(self) -> None:
        lib = c._loaded
        if lib is None or not getattr(self, "_handle", None):
            return
        for free in self._sessions.values():
            for session in free:
                lib.vtb_session_close(session)
        lib.vtb_model_release(self._handle)


_Key = tuple[Options, tuple[Any, ...]]
_programs: dict[_Key, Program] = {}
_compiling: dict[_Key, threading.Lock] = {}
_guard = threading.Lock()
MOST_PROGRAMS = 256


def _key(options: Options) -> _Key:
    """By the options, and by what the environment says where they do not: a variable may change between two calls."""
    how = environment()
    said = tuple(getattr(how, name) for name, *_ in c.Behaviour._fields_)
    return options, (*said, os.environ.get("VTB_MODELS"))


def program_of(options: Options) -> Program:
    """The program of the options, compiled at the first call; the oldest of many are forgotten."""
    key = _key(options)
    with _guard:
        found = _programs.get(key)
        if found is not None:
            return found
        lock = _compiling.setdefault(key, threading.Lock())
    with lock:
        with _guard:
            found = _programs.get(key)
        if found is None:
            found = Program(options)
            with _guard:
                _programs[key] = found
                while len(_programs) > MOST_PROGRAMS:
                    del _programs[next(iter(_programs))]
        with _guard:
            _compiling.pop(key, None)
    return found
