"""Arrays on a GPU by their addresses: what has `__cuda_array_interface__`, or DLPack for CUDA."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Sequence

from .errors import VertebraError

_DL_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
_DL_FLOAT = 2
_LEGACY = 1  # the default stream in DLPack and in the array interface


@dataclass(frozen=True)
class Stream:
    """A CUDA stream; device None: the one whose context is current, or that the stream is of."""

    handle: int
    device: int | None = None


@dataclass
class There:
    """An array on a device: float32, rows one behind the other."""

    address: int
    shape: tuple[int, ...]
    stream: Stream
    keep: Any  # what must live as long


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def is_there(x: Any) -> bool:
    """Whether it is on a GPU and says where."""
    if hasattr(x, "__cuda_array_interface__"):
        return True
    where = getattr(x, "__dlpack_device__", None)
    return where is not None and int(where()[0]) in _DL_CUDA


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    made, step = [], 1
    for d in reversed(shape):
        made.append(step)
        step *= d
    return tuple(reversed(made))


def _check(shape: Sequence[int], strides: Sequence[int] | None, is_float: bool) -> None:
    lies = strides is None or all(d == 1 or s == w for d, s, w in zip(shape, strides, _strides(shape)))
    if not is_float or not lies:
        raise VertebraError("an array on a GPU is to be float32, and contiguous: convert it there")


def _of_interface(x: Any) -> There:
    said = x.__cuda_array_interface__
    shape = tuple(int(d) for d in said["shape"])
    strides = said.get("strides")
    in_items = tuple(s // 4 for s in strides) if strides is not None else None
    _check(shape, in_items, said["typestr"] in ("<f4", "=f4", "f4"))
    return There(int(said["data"][0]), shape, Stream(int(said.get("stream") or _LEGACY)), x)


def _of_dlpack(x: Any) -> There:
    device = int(x.__dlpack_device__()[1])
    capsule = x.__dlpack__(stream=_LEGACY)
    t = _DLTensor.from_address(_pointer(capsule, b"dltensor"))
    shape = tuple(t.shape[i] for i in range(t.ndim))
    strides = tuple(t.strides[i] for i in range(t.ndim)) if t.strides else None
    _check(shape, strides, t.code == _DL_FLOAT and t.bits == 32 and t.lanes == 1)
    # the capsule is not consumed: whoever made it takes it back with its last reference
    return There((t.data or 0) + t.byte_offset, shape, Stream(_LEGACY, device), (x, capsule))


def there(x: Any) -> There:
    """Where it is."""
    return _of_interface(x) if hasattr(x, "__cuda_array_interface__") else _of_dlpack(x)


def stream_of(arrays: Sequence[There]) -> Stream:
    """The one stream that they are on."""
    handles = {a.stream.handle for a in arrays}
    devices = {a.stream.device for a in arrays if a.stream.device is not None}
    if len(handles) > 1 or len(devices) > 1:
        raise VertebraError("the arrays are on several streams or GPUs: bring them to one")
    return Stream(handles.pop(), devices.pop() if devices else None)


def empty_like(x: Any, shape: Sequence[int]) -> Any:
    """An array of x's library beside it; libraries that follow the array API have them."""
    space = getattr(x, "__array_namespace__", None)
    if space is None:
        raise VertebraError(f"there is no way to make a {type(x).__name__} for the result: give one as out=")
    library = space()
    return library.empty(tuple(shape), dtype=library.float32, device=x.device)
