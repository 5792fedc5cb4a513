"""Makes tests/runtime/weights: small checkpoints of every kind that PyTorch writes, and hostile ones.

Run by hand, with any Python that has torch and numpy; the tests need neither:
    python3 tests/runtime/make_weights.py
Every tensor called "t<name>" holds value(i) = i * 0.5 - 3 at its i-th element in row-major order (as far as its type
can), so that tests/runtime/test_foreign.c knows what to expect.
"""

import argparse
import collections
import datetime
import io
import json
import os
import pathlib
import pickle
import struct
import zipfile

import numpy as np
import torch

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights")
os.makedirs(here, exist_ok=True)


def path(name):
    return os.path.join(here, name)


def values(*shape, dtype=torch.float32):
    n = int(np.prod(shape)) if shape else 1
    x = torch.arange(n, dtype=torch.float64) * 0.5 - 3
    if dtype == torch.bool:
        return (x > 0).reshape(shape)
    if not dtype.is_floating_point:
        x = torch.arange(n, dtype=torch.float64)
    return x.to(dtype).reshape(shape)


def save(name, what, **how):
    torch.save(what, path(name), **how)


def write(name, data):
    with open(path(name), "wb") as f:
        f.write(data)


# ---- what people have ------------------------------------------------------------------------------------------------
types = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
         torch.int8, torch.uint8, torch.bool]
every = collections.OrderedDict((f"t{str(t).split('.')[1]}", values(2, 3, dtype=t)) for t in types)
newer = collections.OrderedDict(every)
for t in (torch.uint16, torch.uint32, torch.uint64):
    newer[f"t{str(t).split('.')[1]}"] = values(2, 3, dtype=t)
save("types.pth", newer)
save("types_legacy.pth", every, _use_new_zipfile_serialization=False)
for protocol in (1, 2, 3, 4, 5):
    save(f"protocol{protocol}.pth", every, pickle_protocol=protocol)
    save(f"protocol{protocol}_legacy.pth", every, pickle_protocol=protocol, _use_new_zipfile_serialization=False)

base = values(4, 6)
views = collections.OrderedDict()
views["t"] = base
views["tied"] = base  # the same tensor
views["rows"] = base[1:3]  # a view with an offset
views["columns"] = base[:, 2:5]  # strided
views["transposed"] = base.t()
views["flipped"] = values(2, 3, 4).permute(2, 0, 1)
views["channels_last"] = values(2, 3, 2, 2).to(memory_format=torch.channels_last)
views["scalar"] = torch.tensor(7.0)
views["empty"] = torch.zeros(0, 3)
views["parameter"] = torch.nn.Parameter(values(3))
save("views.pth", views)
save("views_legacy.pth", views, _use_new_zipfile_serialization=False)

model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
with torch.no_grad():
    for p in model.parameters():
        p.copy_(values(*p.shape))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model(torch.randn(4, 2, generator=torch.Generator().manual_seed(1))).sum().backward()
optimizer.step()
with torch.no_grad():
    for p in model.parameters():
        p.copy_(values(*p.shape))
state = model.state_dict()
ema = collections.OrderedDict((k, v + 1) for k, v in state.items())
parallel = collections.OrderedDict(("module." + k, v) for k, v in state.items())
args = argparse.Namespace(lr=0.001, model="a_model", betas=(0.9, 0.95), resume="", data_path=None, nested={"a": [1, 2]})
save("training.pth", {"model": state, "model_ema": ema, "optimizer": optimizer.state_dict(), "epoch": 299, "args": args,
                      "best": np.float64(81.25), "metric": "top1", "scaler": {"scale": 65536.0}})
save("training_legacy.pth", {"model": state, "model_ema": ema, "optimizer": optimizer.state_dict(), "epoch": 299,
                             "args": args}, _use_new_zipfile_serialization=False)
save("parallel.pth", {"state_dict": parallel, "epoch": 12, "arch": "a_model"})
save("compiled.pth", {"state_dict": collections.OrderedDict(("module._orig_mod." + k, v) for k, v in state.items()),
                      "state_dict_ema": ema})
save("averaged.pth", torch.optim.swa_utils.AveragedModel(model).state_dict())
save("teachers.pth", {"student": parallel, "teacher": state, "epoch": 3})
save("ema_only.pth", {"model_ema": {"state_dict": ema}, "epoch": 4})
with open(path("arrays.pkl"), "wb") as f:
    pickle.dump({"tfloat32": values(2, 3).numpy(), "tint64": values(2, 3, dtype=torch.int64).numpy(),
                 "fortran": np.asfortranarray(values(2, 3).numpy()), "number": np.float32(2.5)}, f, protocol=2)
with open(path("arrays5.pkl"), "wb") as f:
    pickle.dump({"tfloat32": values(2, 3).numpy(), "tfloat16": values(2, 3, dtype=torch.float16).numpy()}, f, protocol=5)

# packed members, which torch reads but does not write
buffer = io.BytesIO()
torch.save(every, buffer)
with zipfile.ZipFile(io.BytesIO(buffer.getvalue())) as source, zipfile.ZipFile(
        path("packed.pth"), "w", zipfile.ZIP_DEFLATED) as packed:
    for item in source.infolist():
        packed.writestr(item.filename, source.read(item.filename))

# shards: their index, as Hugging Face lays them out, and a folder with settings
folder = path("folder")
os.makedirs(folder, exist_ok=True)
names = list(state)
for i, part in enumerate((names[:4], names[4:])):
    torch.save({k: state[k] for k in part}, os.path.join(folder, f"pytorch_model-{i + 1:05d}-of-00002.bin"))
with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w") as f:
    json.dump({"metadata": {"total_size": 116}, "weight_map": {
        k: f"pytorch_model-{1 if k in names[:4] else 2:05d}-of-00002.bin" for k in names}}, f, indent=1)
with open(os.path.join(folder, "config.json"), "w") as f:
    json.dump({"architectures": ["AModel"], "num_labels": 2}, f)
with open(os.path.join(folder, "preprocessor_config.json"), "w") as f:
    json.dump({"image_mean": [0.5, 0.5, 0.5], "size": 224}, f)

save("texts.pth", {
    "model": collections.defaultdict(list, tfloat32=values(2, 3)), "a set": {1}, "frozen": frozenset([2.5]),
    "path": pathlib.PosixPath("a/b"), "device": torch.device("cpu"), "size": torch.Size([1, 2]), "type": torch.float32,
    "complex": 1j, "bytes": b"ab", "slice": slice(1, 2), "negative": -70000, "big": 2**70, "small": 1e-5, "none": None,
    "one": (1,), "yes": True, "date": datetime.date(2020, 1, 2), "counts": collections.Counter("aab"),
    "text": "gr\u00fcn \u86c7", "numpy": [np.int64(-3), np.float32(0.25), np.bool_(True)], "long": "x" * 5000})
save("large.pth", {"a": torch.tensor([1.0, 65504.0, 65520.0, -1e9, float("inf")])})

# ---- what is refused by name -----------------------------------------------------------------------------------------
save("complex.pth", {"a": torch.zeros(2, dtype=torch.complex64)})
save("quantised.pth", {"a": torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8)})
save("float8.pth", {"a": torch.zeros(4).to(torch.float8_e5m2)})
save("sparse.pth", {"a": torch.eye(2).to_sparse()})
save("module.pth", torch.nn.Linear(1, 1))
save("overlap.pth", {"a": torch.zeros(1).expand(100000, 1000)})
save("nothing.pth", {"epoch": 3, "optimizer": optimizer.state_dict()})
save("list.pth", [values(2)])
torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), path("script.pth"))
np.savez(path("arrays.npz"), a=np.zeros(1))


# ---- hostile ones ----------------------------------------------------------------------------------------------------
def zipped(name, pickled, members=(), compress=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path(name), "w", compress) as z:
        for member, data in (("archive/data.pkl", pickled), ("archive/byteorder", b"little"), *members):
            z.writestr(zipfile.ZipInfo(member), data, compress)


class Calls:
    def __init__(self, what, *args):
        self.what, self.args = what, args

    def __reduce__(self):
        return self.what, self.args


for i, (what, arguments) in enumerate([(os.system, ("touch /tmp/vtb-executed",)), (eval, ("1 + 1",)),
                                       (exec, ("x = 1",)), (getattr, ("x", "upper")), (__import__, ("os",)),
                                       (open, ("/tmp/vtb-executed", "w")), (os.unlink, ("/tmp/vtb-none",)),
                                       (torch.load, ("/tmp/vtb-none",)), (pickle.loads, (b"N.",))]):
    for protocol in (2, 4):
        zipped(f"call{i}_{protocol}.pth", pickle.dumps({"model": Calls(what, *arguments)}, protocol=protocol))
write("call_plain.pth", pickle.dumps(Calls(os.system, "touch /tmp/vtb-executed"), protocol=0))
write("call_old.pth", b"cos\nsystem\n(S'touch /tmp/vtb-executed'\ntR.")
zipped("inst.pth", b"(S'touch /tmp/vtb-executed'\nios\nsystem\n.")
zipped("obj.pth", b"(cos\nsystem\nS'touch /tmp/vtb-executed'\no.")
zipped("build.pth", b"cos\nsystem\n}b.")
zipped("extension.pth", b"\x80\x02\x82\x01.")
zipped("buffer.pth", b"\x80\x05\x97.")

zipped("deep.pth", b"\x80\x02" + b"]" * 200000 + b"a" * 199999 + b".", compress=zipfile.ZIP_DEFLATED)
zipped("marks.pth", b"\x80\x02" + b"(" * 2000000 + b".", compress=zipfile.ZIP_DEFLATED)
zipped("stack.pth", b"\x80\x02" + b"N" * 2000000 + b".", compress=zipfile.ZIP_DEFLATED)
zipped("memo.pth", b"\x80\x02]r\xff\xff\xff\x7f.")
zipped("self.pth", b"\x80\x02}q\x00X\x05\x00\x00\x00modelq\x01h\x00s.")
laughs = b"]q\0"
for k in range(30):  # each list holds the one before ten times
    laughs += b"0]q" + bytes([k + 1]) + b"(" + (b"h" + bytes([k])) * 10 + b"e"
zipped("laughs.pth", b"\x80\x02}X\x04\x00\x00\x00args" + laughs + b"s.")
zipped("size.pth", b"\x80\x02X\xff\xff\xff\xffabc.")
zipped("size8.pth", b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.")
zipped("appends.pth", b"\x80\x02](" + b"(l" * 1000000 + b"e.", compress=zipfile.ZIP_DEFLATED)


def tensor(key=b"0", numel=4, offset=0, size=(4,), stride=(1,), name=b"a", cls=b"FloatStorage"):
    def number(x):
        return b"\x8a\x08" + struct.pack("<q", x)

    def numbers(xs):
        return b"(" + b"".join(number(x) for x in xs) + b"t"

    def text(x):
        return b"X" + struct.pack("<I", len(x)) + x

    return (b"\x80\x02}" + text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + text(b"storage") + b"ctorch\n" + cls +
            b"\n" + text(key) + text(b"cpu") + number(numel) + b"tQ" + number(offset) + numbers(size) + numbers(stride) +
            b"\x89}tRs.")


data = [("archive/data/0", b"\0" * 16)]

# what older and rarer PyTorchs write: functions of other names, storages of a GPU, a dict as a list of pairs
def text(x):
    return b"X" + struct.pack("<I", len(x)) + x


def rebuild(function, storage, key, more=b""):
    return (b"ctorch._utils\n" + function + b"\n((" + text(b"storage") + b"c" + storage + b"\n" + text(key) +
            text(b"cuda:0") + b"K\4tQK\0K\4\x85K\1\x85" + more + b"tR")


last = b"\x89ccollections\nOrderedDict\n)R"
odd = [(b"old", rebuild(b"_rebuild_tensor", b"torch\nFloatStorage", b"0")),
       (b"gpu", rebuild(b"_rebuild_tensor_v2", b"torch.cuda\nFloatStorage", b"0", last)),
       (b"state", b"ctorch._utils\n_rebuild_parameter_with_state\n(" +
        rebuild(b"_rebuild_tensor_v2", b"torch\nFloatStorage", b"0", last) + last + b"}tR"),
       (b"typed", b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n" +
        rebuild(b"", b"torch\nFloatStorage", b"0", last)[len(b"ctorch._utils\n\n"):-1] + b"}tR")]
ones = [("archive/data/0", struct.pack("<4f", -3, -2.5, -2, -1.5))]
zipped("odd.pth", b"\x80\x02}" + text(b"state_dict") + b"ccollections\nOrderedDict\n](" +
       b"".join(b"](" + text(k) + v + b"e" for k, v in odd) + b"e\x85Rs.", ones)
zipped("good.pth", tensor(), data)
zipped("offset.pth", tensor(offset=1), data)
zipped("negative_offset.pth", tensor(offset=-1), data)
zipped("negative_stride.pth", tensor(stride=(-1,)), data)
zipped("huge_stride.pth", tensor(size=(2,), stride=(2**62,)), data)
zipped("huge_size.pth", tensor(size=(2**62, 4), stride=(1, 1)), data)
zipped("huge_shape.pth", tensor(size=(2**32, 2**32), stride=(0, 0)), data)
zipped("huge_shape4.pth", tensor(size=(2**16,) * 4, stride=(0,) * 4), data)
zipped("huge_numel.pth", tensor(numel=2**62), data)
zipped("ranks.pth", tensor(size=(1,) * 9, stride=(1,) * 9), data)
zipped("strides.pth", tensor(stride=(1, 1)), data)
zipped("no_member.pth", tensor(key=b"1"), data)
zipped("path.pth", tensor(key=b"../../../../etc/passwd"), data)
zipped("short_member.pth", tensor(), [("archive/data/0", b"\0" * 12)])
zipped("control.pth", tensor(name=b"a\x1b[31mb"), data)
zipped("class.pth", tensor(cls=b"OrderedDict"), data)
zipped("bomb.pth", tensor(numel=2**18, size=(2**18,)), [("archive/data/0", b"\0" * 2**20)], zipfile.ZIP_DEFLATED)
for twice, extra in (("pickle", "archive/data.pkl"), ("member", "archive/data/0")):
    zipped("two_%ss.pth" % twice, tensor(), data + [(extra, b"\0" * 16)])
zipped("members.pth", b"\x80\x02}.", [("/etc/passwd", b"x"), ("../../up", b"x")])

# members that unpack to something else than they claim
def claim(name, size):
    with open(path("bomb.pth"), "rb") as f:
        raw = bytearray(f.read())
    member = b"archive/data/0"
    raw[raw.find(member) - 8:raw.find(member) - 4] = struct.pack("<I", size)  # the local header
    raw[raw.rfind(member) - 22:raw.rfind(member) - 18] = struct.pack("<I", size)  # the directory
    write(name, bytes(raw))


def huge(name, numel):
    zipped("bomb.pth", tensor(numel=numel, size=(numel,)), [("archive/data/0", b"\0" * 2**20)], zipfile.ZIP_DEFLATED)
    claim(name, 4 * numel)


huge("bomb_more.pth", 2**28)
huge("bomb_some.pth", 2**19)
huge("bomb_less.pth", 2**8)
huge("bomb.pth", 2**18)
write("tar.pth", b"\0" * 257 + b"ustar" + b"\0" * 250)
write("lfs.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
write("page.pth", b"<!DOCTYPE html><html></html>")
write("empty.pth", b"")
for name, target in (("up", "../secret.safetensors"), ("absolute", "/etc/passwd"), ("dot", ".hidden")):
    write(f"index_{name}.json", json.dumps({"weight_map": {"a": target}}).encode())
