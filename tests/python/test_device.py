"""Arrays on a GPU go in and out by their addresses, on their stream. The GPU is the emulator, whose memory is the host's:
what reaches the library is written down, and that is device addresses, of exactly the arrays that were given."""

import ctypes

from common import check, need, raises, run

need("numpy")
import numpy as np

import vertebra
from vertebra import _arrays, _library as c

TARGET = "cuda-emulated"
OWN = """
recurrence leaky(x: [C], keep: [C]) -> [C] {
  state s: [C]
  s = sigmoid(keep) * s + tanh(x)
  yield s * x
}

fn scaled(x: tensor, z: tensor) {
  return x * z
}

model small(classes: int = 3) {
  input x: tensor[5]
  output logits = linear("head", x, classes)
}
use std.nn
"""


class Library:
    """As much of the array API as results need."""

    float32 = "float32"

    @staticmethod
    def empty(shape, dtype, device):
        check(dtype == "float32" and device == "gpu")
        return OnGpu(np.full(shape, np.nan, np.float32))


class OnGpu:
    """What CuPy's arrays say of themselves."""

    device = "gpu"

    def __init__(self, array, stream=77):
        self.array, self.stream = array, stream

    @property
    def __cuda_array_interface__(self):
        a = self.array
        strides = None if a.flags.c_contiguous else a.strides
        return {
            "version": 3,
            "shape": a.shape,
            "typestr": a.dtype.str,
            "data": (a.ctypes.data, False),
            "strides": strides,
            "stream": self.stream,
        }

    def __array_namespace__(self):
        return Library


class Packed:
    """What only speaks DLPack, as device 0's."""

    def __init__(self, array):
        self.array, self.streams = array, []

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        a = self.array
        self.dims = (ctypes.c_int64 * a.ndim)(*a.shape)
        self.tensor = (ctypes.c_char * 128)()
        t = _arrays._DLTensor.from_buffer(self.tensor)
        t.data, t.device_type, t.device, t.ndim = a.ctypes.data - 64, 2, 0, a.ndim
        t.code, t.bits, t.lanes, t.byte_offset = 2, 32, 1, 64
        t.shape = ctypes.cast(self.dims, ctypes.POINTER(ctypes.c_int64))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


class Calls:
    """What the library is given while it is open: (name, device, address) of arrays, (device, stream) of sessions."""

    def __enter__(self):
        lib = c.library()
        self.bind, self.open = lib.vtb_session_bind, lib.vtb_session_open
        self.arrays, self.sessions = [], []

        def bind(session, name, array, err):
            if array is not None:
                a = array._obj
                self.arrays.append((name.decode(), a.device, a.data))
            return self.bind(session, name, array, err)

        def open_session(model, options, session, err):
            o = options._obj
            self.sessions.append((o.cuda_device if o.has_cuda_device else None, o.cuda_stream or 0, o.has_cuda_stream))
            return self.open(model, options, session, err)

        lib.vtb_session_bind, lib.vtb_session_open = bind, open_session
        return self

    def __exit__(self, *_):
        lib = c.library()
        lib.vtb_session_bind, lib.vtb_session_open = self.bind, self.open


def inputs(seed=0, shape=(2, 6, 5)):
    g = np.random.default_rng(seed)
    return [g.standard_normal(shape).astype(np.float32) for _ in range(2)]


def functions_work_in_arrays_of_the_array_interface():
    f, on_cpu = vertebra.recurrence(OWN, "leaky", target=TARGET), vertebra.recurrence(OWN, "leaky")
    x, keep = inputs()
    want = on_cpu(x, keep)
    with Calls() as calls:
        y = f(OnGpu(x), OnGpu(keep))
        check(isinstance(y, OnGpu) and np.abs(y.array - want).max() < 1e-5)
        into = OnGpu(np.zeros_like(x))
        check(f(OnGpu(x), OnGpu(keep), out=into) is into and np.array_equal(into.array, y.array))
    check(calls.sessions == [(None, 77, True)], calls.sessions)
    wanted = {("x", c.CUDA, x.ctypes.data), ("keep", c.CUDA, keep.ctypes.data), ("y", c.CUDA, into.array.ctypes.data)}
    check(set(calls.arrays[-3:]) == wanted, calls.arrays)
    with Calls() as calls:  # another stream, another session
        f(OnGpu(x, 78), OnGpu(keep, 78), out=OnGpu(into.array, 78))
    check(calls.sessions == [(None, 78, True)])
    raises(vertebra.VertebraError, lambda: f(OnGpu(x, 78), OnGpu(keep, 79)), "several streams")


def functions_work_in_arrays_of_dlpack():
    f, on_cpu = vertebra.function(OWN, "scaled", target=TARGET), vertebra.function(OWN, "scaled")
    x, y = inputs(1)
    a, b, out = Packed(x), Packed(y), Packed(np.zeros_like(x))
    raises(vertebra.VertebraError, lambda: f(a, b), "give one as out=")
    with Calls() as calls:
        f(a, b, out=out)
    check(np.array_equal(out.array, on_cpu(x, y)))
    check(calls.sessions == [(0, 1, True)], calls.sessions)
    check(a.streams == [1, 1] and out.streams == [1], a.streams)
    check({at for _, where, at in calls.arrays if where == c.CUDA} == {t.ctypes.data for t in (x, y, out.array)})


def results_are_not_named_as_arguments():
    x = inputs()[0]
    f = vertebra.function("fn twice(y: tensor) {\n  return y + y\n}\n", "twice")
    check(np.array_equal(f(x), x + x))
    f = vertebra.function("fn twice(y: tensor, result: tensor) {\n  return y + result\n}\n", "twice")
    raises(vertebra.VertebraError, lambda: f(x, x), "has an input and a result called 'result'")


def what_does_not_fit_is_refused():
    f = vertebra.recurrence(OWN, "leaky", target=TARGET)
    x, keep = inputs()
    wrong = (vertebra.VertebraError, "float32, and contiguous")
    raises(wrong[0], lambda: f(OnGpu(x.astype(np.float64)), OnGpu(keep)), wrong[1])
    raises(wrong[0], lambda: f(OnGpu(x.transpose(1, 0, 2)), OnGpu(keep)), wrong[1])
    raises(vertebra.VertebraError, lambda: f(OnGpu(x), OnGpu(keep), out=OnGpu(x[:, :3].copy())), "is needed")
    on_cpu = vertebra.recurrence(OWN, "leaky")
    raises(TypeError, lambda: on_cpu(x, keep, out=x), "out= is for arrays on a GPU")


def models_work_in_arrays_on_a_gpu():
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "small.vtb")
        with open(path, "w") as file:
            file.write(OWN)
        model, on_cpu = (vertebra.create_model(path, batch=4, target=t) for t in (TARGET, "cpu"))
    x = np.random.default_rng(3).standard_normal((7, 5)).astype(np.float32)
    with Calls() as calls:
        y = model(OnGpu(x))
    check(isinstance(y, OnGpu) and np.abs(y.array - on_cpu(x)).max() < 1e-5)
    check(set(calls.arrays) == {("x", c.CUDA, x.ctypes.data), ("logits", c.CUDA, y.array.ctypes.data)}, calls.arrays)
    into = OnGpu(np.zeros((7, 3), np.float32))
    check(model(OnGpu(x), out=into) is into and np.array_equal(into.array, y.array))
    raises(vertebra.VertebraError, lambda: model(OnGpu(x), out=OnGpu(np.zeros((6, 3), np.float32))), "(7, 3) is needed")
    check(np.array_equal(model(x), y.array))  # arrays of the host, as ever
    state = {n: 2 * w for n, w in model.state_dict().items()}
    model.load_state_dict(state)
    check(np.abs(model(OnGpu(x)).array - 2 * y.array).max() < 1e-5)
    with Calls() as calls:
        check(np.abs(model(OnGpu(x)).array - 2 * y.array).max() < 1e-5)
    check({name for name, _, _ in calls.arrays} == {"x", "logits"}, "weights were brought again")
    with tempfile.TemporaryDirectory() as folder:  # another model of the same program has its own
        path = os.path.join(folder, "small.vtb")
        with open(path, "w") as file:
            file.write(OWN)
        twins = [vertebra.create_model(path, batch=4, target=TARGET) for _ in range(2)]
    twins[0].load_state_dict(state)
    for k in (1, 0, 1, 0, 0):
        check(np.abs(twins[k](OnGpu(x)).array - (2 - k) * y.array).max() < 1e-5, k)


def tensors_go_by_their_addresses():
    try:
        import torch
    except ImportError:
        print("left out: torch is not installed")
        return
    from vertebra import torch_ops

    torch.manual_seed(0)
    kept = torch_ops.is_there, torch_ops._current_stream
    f = vertebra.recurrence("std/mlstm.vtb", "mlstm", target=TARGET)
    on_cpu = vertebra.recurrence("std/mlstm.vtb", "mlstm")
    shapes = [(2, 2, 6, 4)] * 2 + [(2, 2, 6, 3)] + [(2, 2, 6)] * 2
    given = [torch.randn(s).requires_grad_() for s in shapes]
    want = on_cpu(*given)
    seed = torch.randn(want.shape)
    gradients = torch.autograd.grad(want, given, seed)
    try:  # tensors of the processor stand in for those on a GPU, whose memory this is
        torch_ops.is_there = lambda t: True
        torch_ops._current_stream = lambda device: _arrays.Stream(55, 1)
        with Calls() as calls:
            with torch.no_grad():
                y = f(*given)
            check((y - want).abs().max() < 1e-5)
        addresses = {t.data_ptr() for t in given} | {y.data_ptr()}
        check({at for _, _, at in calls.arrays} == addresses, "a tensor was copied")
        with Calls() as more:
            got = f(*given)
            made = torch.autograd.grad(got, given, seed)
        check((got - want).abs().max() < 1e-5)
        check(all((a - b).abs().max() < 1e-4 for a, b in zip(made, gradients)))
        check({t.data_ptr() for t in given} <= {at for _, _, at in more.arrays})
        for seen in (calls, more):
            check(all(where == c.CUDA for _, where, _ in seen.arrays), seen.arrays)
            check(seen.sessions and all(s == (1, 55, True) for s in seen.sessions), seen.sessions)
    finally:
        torch_ops.is_there, torch_ops._current_stream = kept


try:
    vertebra.function(OWN, "scaled", target=TARGET)(*inputs())
except vertebra.VertebraError as missing:
    if "compiler" not in str(missing):
        raise
    need("the emulator's compiler")
run(
    functions_work_in_arrays_of_the_array_interface,
    functions_work_in_arrays_of_dlpack,
    results_are_not_named_as_arguments,
    what_does_not_fit_is_refused,
    models_work_in_arrays_on_a_gpu,
    tensors_go_by_their_addresses,
)
