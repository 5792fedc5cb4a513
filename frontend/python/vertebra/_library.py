"""libvertebra through ctypes: where it is found, its structs and its functions.

The structs mirror runtime/vertebra.h and frontend/compile/compile.h; tests/python compares their layout with a C
compiler's.
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint32, c_void_p
from pathlib import Path
from typing import Any, Iterator

from ._version import __version__

ABI_VERSION = 1
RANK = 8

OK, E_INPUT, E_USAGE, E_MEMORY, E_DEVICE = 0, 1, 2, 3, 4
F32, I32 = 1, 2
CPU, CUDA = 1, 2
ANY, INPUT, OUTPUT, PARAMETER, BUFFER, ADJOINT, GRADIENT = range(7)
INFER = 0
VALUE, WHOLE_GRADIENT, FORWARD, BACKWARD = range(4)


class Error(Structure):
    """vtb_error"""

    _fields_ = [("status", c_int), ("text", c_char * 1024)]


class Array(Structure):
    """vtb_array"""

    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("kind", c_int),
        ("type", c_int),
        ("device", c_int),
        ("rank", c_int32),
        ("dim", c_int64 * RANK),
        ("data", c_void_p),
    ]


class ProgramInfo(Structure):
    """vtb_program_info"""

    _fields_ = [
        ("size", c_size_t),
        ("role", c_int),
        ("batch", c_int64),
        ("height", c_int64),
        ("width", c_int64),
        ("n_arrays", c_int32),
        ("cpu", c_bool),
        ("cuda", c_bool),
    ]


class OpenOptions(Structure):
    """vtb_open_options"""

    _fields_ = [
        ("size", c_size_t),
        ("weights", c_char_p),
        ("verify", c_bool),
        ("allow_missing", c_bool),
        ("allow_unused", c_bool),
        ("averages", c_bool),
        ("say", c_void_p),
        ("user", c_void_p),
    ]


class Behaviour(Structure):
    """vtb_behaviour; a c_uint32 is a vtb_wish: 0 nothing is said, 1 no, 2 yes"""

    _fields_ = [
        ("size", c_size_t),
        ("threads", c_int32),
        ("has_cuda_device", c_bool),
        ("cuda_device", c_int32),
        ("cuda_graph", c_uint32),
        ("cuda_sync", c_uint32),
        ("cuda_ahead", c_uint32),
        ("cuda_pixels", c_uint32),
        ("cublaslt_timing", c_uint32),
        ("wgmma", c_uint32),
        ("clusters", c_uint32),
        ("wide_index", c_uint32),
        ("cublas", c_uint32),
        ("optimise", c_uint32),
        ("tuning", c_uint32),
        ("cuda_cache", c_uint32),
        ("cuda_cache_mb", c_int32),
        ("machine", c_char_p),
        ("fusions", c_char_p),
        ("emulator_arch", c_char_p),
        ("emulator_checks", c_uint32),
        ("emulator_reversed", c_uint32),
        ("emulator_seed", c_int32),
        ("verbose", c_uint32),
        ("checks", c_uint32),
        ("ranks", c_uint32),
    ]


class SessionOptions(Structure):
    """vtb_session_options"""

    _fields_ = [
        ("size", c_size_t),
        ("role", c_int),
        ("device", c_int),
        ("threads", c_int32),
        ("pool", c_void_p),
        ("pool_user", c_void_p),
        ("batch", c_int64),
        ("seed", ctypes.c_uint64),
        ("height", c_int64),
        ("width", c_int64),
        ("cuda_stream", c_void_p),
        ("has_cuda_stream", c_bool),
        ("has_cuda_device", c_bool),
        ("cuda_device", c_int32),
        ("behaviour", POINTER(Behaviour)),
    ]


class CompileOptions(Structure):
    """vtb_compile_options"""

    _fields_ = [
        ("size", c_size_t),
        ("model", c_char_p),
        ("text", c_char_p),
        ("text_bytes", c_size_t),
        ("entry", c_char_p),
        ("defines", POINTER(c_char_p)),
        ("n_defines", c_size_t),
        ("image", c_char_p),
        ("weights", c_char_p),
        ("search", POINTER(c_char_p)),
        ("n_search", c_size_t),
        ("mode", c_char_p),
        ("chunk", c_int64),
        ("batch", c_int64),
        ("target", c_char_p),
        ("precision", c_char_p),
        ("library", c_int),
        ("taps", c_bool),
        ("fold", c_bool),
        ("profile", c_bool),
        ("training", c_bool),
        ("label_smoothing", c_double),
        ("optimizer", c_char_p),
        ("average", c_bool),
        ("eval_batch", c_int64),
        ("print_after", c_char_p),
        ("time_passes", c_bool),
        ("say", c_void_p),
        ("user", c_void_p),
        ("evaluation", c_bool),
        ("freeze", POINTER(c_char_p)),
        ("n_freeze", c_size_t),
        ("parameters", c_void_p),
        ("no_tuning", c_bool),
        ("threads", c_int64),
        ("machine", c_char_p),
        ("bucket_mb", c_double),
        ("shapes", POINTER(c_char_p)),
        ("n_shapes", c_size_t),
        ("part", c_int),
        ("outputs", POINTER(c_char_p)),
        ("n_outputs", c_size_t),
        ("wrt", POINTER(c_char_p)),
        ("n_wrt", c_size_t),
        ("overlay", c_void_p),
        ("n_overlay", c_size_t),
        ("batches", POINTER(c_int64)),
        ("n_batches", c_size_t),
        ("images", POINTER(c_char_p)),
        ("n_images", c_size_t),
        ("vjp", c_bool),
        ("ranks", c_int),
        ("accumulate", c_int64),
        ("shard", c_bool),
        ("rank", c_int),
        ("linked", c_char_p),
        ("behaviour", POINTER(Behaviour)),
        ("numbers_rows", c_bool),
        ("cpu", c_char_p),
        ("strips", c_int64),
        ("quantize", c_char_p),
        ("dtype", c_char_p),
        ("recompute", c_int64),
        ("memory", c_int64),
    ]


class TextRange(Structure):
    """vtb_text_range"""

    _fields_ = [
        ("file", c_char_p),
        ("begin", c_uint32),
        ("end", c_uint32),
        ("line", c_int),
        ("column", c_int),
        ("end_line", c_int),
        ("end_column", c_int),
    ]


class Note(Structure):
    """vtb_diagnostic_note"""

    _fields_ = [("text", c_char_p), ("at", TextRange)]


class DiagnosticStruct(Structure):
    """vtb_diagnostic"""

    _fields_ = [
        ("is_error", c_bool),
        ("code", c_int),
        ("text", c_char_p),
        ("at", TextRange),
        ("notes", POINTER(Note)),
        ("n_notes", c_size_t),
        ("help", c_char_p),
    ]


#: C names of the structs, for the test that compares layouts.
STRUCTS = {
    "vtb_error": Error,
    "vtb_array": Array,
    "vtb_program_info": ProgramInfo,
    "vtb_open_options": OpenOptions,
    "vtb_behaviour": Behaviour,
    "vtb_session_options": SessionOptions,
    "vtb_compile_options": CompileOptions,
    "vtb_text_range": TextRange,
    "vtb_diagnostic_note": Note,
    "vtb_diagnostic": DiagnosticStruct,
}

_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "vtb_abi_version": (c_uint32, []),
    "vtb_version": (c_char_p, []),
    "vtb_options_from_environment": (c_int, [POINTER(Behaviour), POINTER(Error)]),
    "vtb_compile_model": (c_int, [POINTER(CompileOptions), POINTER(c_void_p), c_void_p]),
    "vtb_compile_file": (c_int, [POINTER(CompileOptions), c_char_p, c_void_p]),
    "vtb_compile_entries": (c_int, [POINTER(CompileOptions), POINTER(c_void_p), c_void_p]),
    "vtb_compile_stage": (c_int, [POINTER(CompileOptions), c_char_p, c_char_p, POINTER(c_void_p), c_void_p]),
    "vtb_report_new": (c_void_p, []),
    "vtb_report_free": (None, [c_void_p]),
    "vtb_report_diagnostics": (c_size_t, [c_void_p, POINTER(POINTER(DiagnosticStruct))]),
    "vtb_report_error": (c_char_p, [c_void_p]),
    "vtb_report_text": (c_void_p, [c_void_p, c_bool]),
    "vtb_model_open": (c_int, [c_char_p, POINTER(OpenOptions), POINTER(c_void_p), POINTER(Error)]),
    "vtb_model_release": (None, [c_void_p]),
    "vtb_model_meta": (c_char_p, [c_void_p, c_char_p]),
    "vtb_model_program": (c_int, [c_void_p, c_int32, POINTER(ProgramInfo), POINTER(Error)]),
    "vtb_model_array": (c_int, [c_void_p, c_int32, c_int32, POINTER(Array), POINTER(Error)]),
    "vtb_session_open": (c_int, [c_void_p, POINTER(SessionOptions), POINTER(c_void_p), POINTER(Error)]),
    "vtb_session_close": (None, [c_void_p]),
    "vtb_session_array": (c_int, [c_void_p, c_int, c_char_p, POINTER(Array), POINTER(Error)]),
    "vtb_session_bind": (c_int, [c_void_p, c_char_p, POINTER(Array), POINTER(Error)]),
    "vtb_session_run": (c_int, [c_void_p, c_int64, POINTER(Error)]),
    "vtb_session_load_image": (c_int, [c_void_p, c_char_p, c_int64, c_char_p, POINTER(Error)]),
}


def _candidates() -> Iterator[Path]:
    """Where the library may be: VERTEBRA_LIBRARY, the package, the prefix it is installed in, the loader's folders."""
    named = os.environ.get("VERTEBRA_LIBRARY")
    if named:
        yield Path(named)
        return
    here = Path(__file__).resolve().parent
    yield here / "lib" / "libvertebra.so"
    for prefix in (Path(sys.prefix), *here.parents):
        yield prefix / "lib" / "libvertebra.so"
        yield prefix / "lib" / "x86_64-linux-gnu" / "libvertebra.so"
    yield Path(f"libvertebra.so.{ABI_VERSION}")


def _load() -> ctypes.CDLL:
    tried = []
    for path in _candidates():
        if path.is_absolute() and not path.exists():
            continue
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            tried.append(f"{path}: {error}")
    raise ImportError(
        "libvertebra.so was not found: install vertebra, or set VERTEBRA_LIBRARY to the file"
        + "".join(f"\n  {line}" for line in tried)
    )


_loaded: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """The library, loaded and checked at the first call."""
    global _loaded
    if _loaded is not None:
        return _loaded
    lib = _load()
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = getattr(lib, name)
        except AttributeError:
            raise ImportError(f"{lib._name} has no {name}: it is older than this package ({__version__})") from None
        function.restype, function.argtypes = result, arguments
    if lib.vtb_abi_version() < ABI_VERSION:
        raise ImportError(f"{lib._name} has ABI {lib.vtb_abi_version()}, and {ABI_VERSION} is needed")
    models = Path(__file__).resolve().parent / "models"
    if models.is_dir() and "VTB_MODELS" not in os.environ:
        os.environ["VTB_MODELS"] = str(models)
    _loaded = lib
    return lib


_free = ctypes.CDLL(None).free
_free.argtypes = [c_void_p]
_free.restype = None


def take_text(pointer: c_void_p | int | None) -> str:
    """A text that the library gave, which is freed."""
    address = pointer.value if isinstance(pointer, c_void_p) else pointer
    if not address:
        return ""
    text = ctypes.string_at(address).decode("utf-8", "replace")
    _free(address)
    return text


def text_list(values: list[str]) -> Any:
    """An array of C strings; keeps its strings alive."""
    return (c_char_p * max(1, len(values)))(*[v.encode() for v in values])


def ref(x: Any) -> Any:
    """A pointer to a struct, for calls."""
    return byref(x)
