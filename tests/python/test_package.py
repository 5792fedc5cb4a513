"""The package without PyTorch: layouts of structs, functions, models, errors, threads."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading

from common import check, need, raises, run

need("numpy")
import numpy as np

import vertebra
from vertebra import _library

EXAMPLES = pathlib.Path(__file__).parents[2] / "docs" / "examples" / "python"
LAYOUT = sys.argv[1] if len(sys.argv) > 1 else None
COMMAND = sys.argv[2] if len(sys.argv) > 2 else None  # the built vertebra

OWN = """
recurrence leaky(x: [C], keep: [C], gain: float = 2.0) -> [C] {
  state s: [C]
  s = sigmoid(keep) * s + gain * x
  yield s
}

// Twice, or as often as one says.
fn times(x: tensor, by: float = 2.0) {
  return x * by
}
"""


def structs_lie_as_a_compiler_lays_them():
    if not LAYOUT:
        return
    lines = subprocess.run([LAYOUT], check=True, capture_output=True, text=True).stdout.splitlines()
    seen = {name: set() for name in _library.STRUCTS}
    for line in lines:
        name, field, offset, size = line.split()
        struct = _library.STRUCTS[name]
        if field == ".":
            import ctypes

            check(ctypes.sizeof(struct) == int(size), f"{name} has {ctypes.sizeof(struct)} bytes, not {size}")
            continue
        seen[name].add(field)
        mine = getattr(struct, field)
        check((mine.offset, mine.size) == (int(offset), int(size)), f"{name}.{field} is at {mine.offset}, not {offset}")
    for name, struct in _library.STRUCTS.items():
        check({f[0] for f in struct._fields_} == seen[name], f"{name} has other fields")


def behaviour_is_a_callers():
    image = np.random.default_rng(3).standard_normal((1, 3, 32, 32), np.float32)
    text = "model m() {\n  input image: image[3, 32, 32]\n  output y = gelu(patches(image, kernel = 4))\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "m.vtb")
        pathlib.Path(name).write_text(text)
        quick = vertebra.create_model(name, behaviour={"optimise": False})
        slow = vertebra.create_model(name)
        check(np.abs(quick(image) - slow(image)).max() < 1e-5)
        check(quick._program is not slow._program, "both behaviours are one program")
        wrongs = {"fusion": "all"}, {"optimise": "off"}, {"threads": True}, {"fusions": 1}
        for wrong, part in zip(wrongs, ("there are threads, cuda_device", "is a bool", "is a int", "is a str")):
            try:
                vertebra.create_model(name, behaviour=wrong)
                check(False, wrong)
            except vertebra.VertebraError as error:
                check(part in str(error), error)
        os.environ["VTB_CUBLAS"] = "perhaps"
        try:
            vertebra.create_model(name, mode="auto")
            check(False, "a variable's value")
        except vertebra.VertebraError as error:
            check("VTB_CUBLAS=perhaps: 0 or 1 is needed" in str(error), error)
        del os.environ["VTB_CUBLAS"]
        # a variable that changes between two calls is seen, and so is one that changes back
        before = os.environ.get("VTB_OPTIMISE")
        os.environ["VTB_OPTIMISE"] = "off" if before != "off" else "on"
        check(vertebra.create_model(name)._program is not slow._program, "the variable is not seen")
        del os.environ["VTB_OPTIMISE"]
        if before:
            os.environ["VTB_OPTIMISE"] = before
        check(vertebra.create_model(name)._program is slow._program, "the variable is seen for ever")
    fn = vertebra.function(OWN, "times", by=2.0)
    x = np.ones((2, 3), np.float32)
    check((fn(x) == vertebra.function(OWN, "times", by=2.0, behaviour={"optimise": False})(x)).all())
    wrong = {"fusion": "all"}
    raises(vertebra.VertebraError, lambda: vertebra.function(OWN, "times", behaviour=wrong), "has no fusion")
    raises(vertebra.VertebraError, lambda: vertebra.recurrence(OWN, "leaky", behaviour=wrong), "has no fusion")


def leaky(x, keep, gain):
    s, out = np.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        s = 1 / (1 + np.exp(-keep[:, t])) * s + gain * x[:, t]
        out.append(s)
    return np.stack(out, 1)


def recurrences_are_functions():
    f = vertebra.recurrence(OWN, "leaky", gain=3.0)
    rng = np.random.default_rng(1)
    for shape in ((2, 7, 5), (1, 1, 3), (3, 20, 1)):
        x, keep = rng.standard_normal(shape, np.float32), rng.standard_normal(shape, np.float32)
        check(np.abs(f(x, keep) - leaky(x, keep, 3.0)).max() < 1e-4, shape)
        check(np.abs(f(keep=keep, x=x) - f(x, keep)).max() == 0)
    check("leaky(x: [C], keep: [C], gain: float = 2.0)" in f.__doc__, f.__doc__)


def gradients_are_functions():
    f = vertebra.recurrence(OWN, "leaky")
    rng = np.random.default_rng(2)
    x, keep, dy = (rng.standard_normal((2, 6, 3)) for _ in range(3))
    y, pull = f.vjp(x, keep)
    grads = pull(dy)
    check(np.abs(y - leaky(x, keep, 2.0)).max() < 1e-4)
    for name, value in (("x", x), ("keep", keep)):
        along, h = rng.standard_normal(value.shape), 1e-5
        ends = [
            leaky(x + s * h * along, keep, 2.0) if name == "x" else leaky(x, keep + s * h * along, 2.0) for s in (1, -1)
        ]
        want = ((ends[0] - ends[1]) * dy).sum() / (2 * h)
        check(abs((grads[name] * along).sum() - want) < 1e-3 * max(1, abs(want)), name)


def weights_of_other_tools():
    """A file of PyTorch, by rules beside the model; without them it does not fit."""
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "net.vtb")
        with open(model, "w") as f:
            f.write("use std.nn\nuse std.conv\nmodel net(classes: int = 2) {\n  input image: image[2, 1, 1]\n")
            f.write('  x = linear("0", pixels(image), 3)\n')
            f.write('  output y = linear("head", mean(x, axis = "tokens"), classes)\n}\n')
        given = os.path.join(os.path.dirname(__file__), "..", "runtime", "weights", "training.pth")
        raises(vertebra.VertebraError, lambda: vertebra.create_model(model, weights=given), "head.weight")
        with open(os.path.join(folder, "net.names"), "w") as f:
            f.write('names "torch"\n  2.* -> head.*\nignore 1.*\n')
        m = vertebra.create_model(model, weights=given)
        state = m.state_dict()
        x = np.array([[0.5, -1.25]], np.float32)
        hidden = x @ np.asarray(state["0.weight"]).T + np.asarray(state["0.bias"])
        want = hidden @ np.asarray(state["head.weight"]).T + np.asarray(state["head.bias"])
        check(np.abs(m(x.reshape(1, 2, 1, 1)) - want).max() < 1e-5)
        check(np.abs(np.asarray(state["0.weight"])).max() >= 1)  # the file's, not initial ones
        if not COMMAND:
            return
        built = os.path.join(folder, "net.so")
        subprocess.run([COMMAND, "build", model, "-o", built], check=True, capture_output=True)
        m = vertebra.create_model(built, weights=given)
        check(np.abs(m(x.reshape(1, 2, 1, 1)) - want).max() < 1e-5, "a built file takes them, too")
        raises(vertebra.VertebraError, lambda: vertebra.create_model(built, weights=model), "net.vtb")


def functions_and_blocks():
    f = vertebra.function(OWN, "times", by=0.5)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    check((f(x) == x / 2).all())
    check("Twice, or as often as one says." in f.__doc__)
    b = vertebra.block("vil.vtb", "vil_block", grid_height=3, grid_width=4)
    x = np.random.default_rng(3).standard_normal((2, 12, 16)).astype(np.float32)
    weights = b.weights(x)
    check("norm.weight" in " ".join(weights), list(weights))
    y = b(x, weights=weights)
    check(y.shape == x.shape and np.isfinite(y).all())
    _, pull = b.vjp(x, weights=weights)
    grads = pull(np.ones_like(y))
    check(set(grads) == {"x", *weights}, set(grads) ^ {"x", *weights})
    raises(vertebra.VertebraError, lambda: b(x), "has weights")


def what_is_wrong_is_an_exception():
    error = raises(
        vertebra.CompileError,
        lambda: vertebra.recurrence("recurrence r(x: [C]) -> [C] {\n  state s: [C]\n  s = s + z\n  yield s\n}\n", "r")(
            np.ones((1, 2, 3))
        ),
        "unknown name 'z'",
    )
    if error:
        check("^" in str(error), str(error))
        check(error.diagnostics[0].code == 1101 and error.diagnostics[0].place.line == 3, error.diagnostics)
    f = vertebra.recurrence(OWN, "leaky")
    raises(TypeError, lambda: f(np.ones((1, 2, 3))), "needs keep")
    raises(TypeError, lambda: f(np.ones((1, 2, 3)), np.ones((1, 2, 3)), np.ones(1)), "takes 2 tensors")
    raises(TypeError, lambda: f(np.ones((1, 2, 3)), kep=np.ones((1, 2, 3))), "no tensor 'kep'")
    raises(vertebra.VertebraError, lambda: vertebra.recurrence(OWN, "leeky"), "it has leaky")
    raises(
        vertebra.CompileError,
        lambda: vertebra.recurrence(OWN, "leaky", gian=1.0)(np.ones((1, 2, 3)), np.ones((1, 2, 3))),
        "gian",
    )
    raises(vertebra.CompileError, lambda: vertebra.create_model("vil_tinny"), "vil_tinny")


def models_take_any_number_of_rows():
    model = vertebra.create_model("vil_nano", batch=4)
    shape = model._program.of_kind(_library.INPUT)[0].shape[1:]
    x = np.random.default_rng(4).standard_normal((7, *shape)).astype(np.float32)
    y = model(x)
    check(y.shape[0] == 7 and np.isfinite(y).all())
    for rows in (1, 3, 4, 5):
        check(np.abs(model(x[:rows]) - y[:rows]).max() < 1e-5, rows)
    raises(vertebra.VertebraError, lambda: model(x[:, :, 1:]), "is needed")
    features = model.forward_features(x)
    check(np.abs(model.forward_head(features) - y).max() < 1e-3 * np.abs(y).max())
    state = model.state_dict()
    state["head.bias"] = state["head.bias"] + 1
    model.load_state_dict(state)
    check(np.abs(model(x) - y - 1).max() < 1e-4)
    check((model.state_dict()["head.bias"] == state["head.bias"]).all())
    raises(vertebra.VertebraError, lambda: model.load_state_dict({}), "missing: ")
    other = vertebra.create_model("vil_nano", num_classes=3)
    check(other(x).shape == (7, 3))


def each_row_has_random_numbers_of_its_own():
    text = "model m() {\n  input x: tensor[3]\n  output y = x + random_normal(x)\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "m.vtb")
        with open(name, "w") as f:
            f.write(text)
        few, many = vertebra.create_model(name, batch=2), vertebra.create_model(name, batch=5)
    x = np.zeros((5, 3), np.float32)
    check(len(np.unique(few(x, seed=7))) == 15)
    check((few(x, seed=7) == many(x, seed=7)).all() and (few(x[:3], seed=7) == many(x, seed=7)[:3]).all())
    check((few(x, seed=8) != many(x, seed=7)).all() and (few(x) == many(x)).all())


def threads_have_sessions_of_their_own():
    f = vertebra.recurrence("std/mlstm.vtb", "mlstm", threads=1)
    rng = np.random.default_rng(5)
    args = [rng.standard_normal((2, 2, 33, 8)).astype(np.float32) for _ in range(3)]
    args += [rng.standard_normal((2, 2, 33)).astype(np.float32) for _ in range(2)]
    want, wrong = f(*args), []

    def work():
        for _ in range(10):
            if not (f(*args) == want).all():
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not wrong)


def the_example_classifies_what_numpy_saves():
    with tempfile.TemporaryDirectory() as folder:
        images = folder + "/x.npy"
        np.save(images, np.random.default_rng(3).standard_normal((3, 1, 28, 28)).astype(np.float32))
        command = [sys.executable, EXAMPLES / "classify.py", "vil_nano", images]
        said = subprocess.run(command, capture_output=True, text=True)
        check(said.returncode == 0 and said.stdout.count("class ") == 3, said.stdout + said.stderr)
        want = vertebra.create_model("vil_nano")(np.load(images))
        for row, line in enumerate(said.stdout.splitlines()):
            check(line.startswith(f"row {row}: class {int(want[row].argmax())}, score {want[row].max():.4f}"), line)


SEVERAL = """
use std.nn
model net(dim: int = 8, classes: int = 4) {
  input image: image[1, 8, 8]
  x = mean(patch_embed("embed", image, dim, 4x4, 4x4), axis = "tokens")
  output y = linear("head", x, classes)
}
preset wide = net(dim = 24)
preset last = net(dim = 12)
"""


def presets_of_a_file_have_names():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "several.vtb"
        path.write_text(SEVERAL)
        for name, how, dim in ((f"{path}", {"entry": "wide"}, 24), (f"{path}:wide", {}, 24), (f"{path}", {}, 8)):
            model = vertebra.create_model(name, **how)
            check(model.state_dict()["head.weight"].shape == (4, dim), f"{name} {how}")
        raises(vertebra.CompileError, lambda: vertebra.create_model(str(path), entry="wild"), "wild")


def functions_are_hyperparameters():
    text = """
fn twice(x: tensor) { 2 * x }
fn negated(x: tensor) { -x }
model m(first: block = twice, others: [block] = [twice]) {
  input x: tensor[3]
  y = first(x)
  repeat len(others) as i {
    f = others[i]
    y = f(y)
  }
  output y = y
}
"""
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "m.vtb")
        pathlib.Path(name).write_text(text)
        x = np.ones((2, 3), np.float32)
        check((vertebra.create_model(name)(x) == 4).all())
        y = vertebra.create_model(name, first="negated", others=["negated", "exp"])(x)
        check(np.allclose(y, np.exp(x)), y)
        raises(vertebra.CompileError, lambda: vertebra.create_model(name, first="thrice"), "unknown name 'thrice'")
        raises(vertebra.CompileError, lambda: vertebra.create_model(name, first="m"), "a block is needed")


def the_number_of_classes_is_found():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "several.vtb"
        path.write_text(SEVERAL)
        model = vertebra.create_model(str(path), num_classes=7, entry="wide")
        check(model(np.zeros((2, 1, 8, 8), np.float32)).shape == (2, 7), "seven classes")
        raises(vertebra.VertebraError, lambda: model.forward_features(np.zeros((1, 1, 8, 8), np.float32)), "head")


def an_input_that_wants_a_gradient_is_refused():
    """As PyTorch's tensors are told, without PyTorch."""
    import types

    if "torch" in sys.modules:
        return
    fake = types.ModuleType("torch")
    fake.is_grad_enabled = lambda: True
    tensor = type("Tensor", (), {"__module__": "torch", "requires_grad": True})()
    sys.modules["torch"] = fake
    try:
        raises(RuntimeError, lambda: vertebra.create_model("vil_nano")(tensor), "torch.no_grad()")
    finally:
        del sys.modules["torch"]


run(
    structs_lie_as_a_compiler_lays_them,
    behaviour_is_a_callers,
    recurrences_are_functions,
    gradients_are_functions,
    weights_of_other_tools,
    functions_and_blocks,
    what_is_wrong_is_an_exception,
    models_take_any_number_of_rows,
    each_row_has_random_numbers_of_its_own,
    threads_have_sessions_of_their_own,
    the_example_classifies_what_numpy_saves,
    presets_of_a_file_have_names,
    functions_are_hyperparameters,
    the_number_of_classes_is_found,
    an_input_that_wants_a_gradient_is_refused,
)
