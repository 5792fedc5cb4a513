# Run by bare.sh within the bare Debian: /try has the packages, a model, an image, what comes of them, an example.
cd /try
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
fail() { echo "FAIL: $*"; exit 1; }
add() { apt-get install -y -qq --no-install-recommends "$@" >log 2>&1 || fail "apt-get install $*: $(cat log)"; }
has() { dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$1" 2>/dev/null | grep '^i'; }
grown() { du -sxm --exclude=/var --exclude=/try --exclude=/proc --exclude=/sys --exclude=/dev / | cut -f1; }
arch=$(dpkg --print-architecture)

# the runner, and nothing of a compiler
! command -v cc || fail "the root is not bare"
before=$(grown)
add ./libvertebra-rt?_*_"$arch".deb ./vertebra-run_*.deb
echo "on_bare: the runtime and what it depends on: $(($(grown) - before)) MiB"
for name in 'libllvm*' 'libz3*' 'libicu*' 'gcc' 'clang*' 'python3' 'vertebra' 'vertebra-models'; do
  ! has "$name" || fail "vertebra-run needs $name"
done
vertebra-run model.so rgb.png | tail -n +2 | diff want - || fail "vertebra-run gives something else"
echo "on_bare: vertebra-run gives the same"

# Python
add ./python3-vertebra_*.deb ./libvertebra?_*_"$arch".deb ./vertebra-models_*.deb
! command -v cc || fail "python3-vertebra brings a compiler"
python3 - <<'P' || fail "python3-vertebra"
import numpy, vertebra
x = numpy.random.default_rng(1).standard_normal((3, 1, 8, 8), numpy.float32)
a = vertebra.create_model("/try/model.so")(x)
b = vertebra.create_model("vil_nano", weights="/try/weights.safetensors", image=8, depth=1, dim=16, batch=2)(x)
assert a.shape[0] == 3 and numpy.abs(a - b).max() < 1e-5, numpy.abs(a - b).max()
text = "recurrence r(x: [C]) -> [C] {\n  state s: [C]\n  s = 0.5 * s + x\n  yield s\n}\n"
y = vertebra.recurrence(text, "r")(numpy.ones((1, 3, 2), numpy.float32))
assert numpy.allclose(y[0, :, 0], [1, 1.5, 1.75]), y
assert vertebra.__file__.startswith("/usr/lib/python3/dist-packages/"), vertebra.__file__
P
[ -d /usr/lib/python3/dist-packages/vertebra/__pycache__ ] || fail "modules are not compiled"
echo "on_bare: Python compiles and runs models"

# the command
add ./vertebra_*.deb
vertebra check vil_nano >log 2>&1 || fail "vertebra check: $(cat log)"
vertebra run model.so rgb.png | tail -n +2 | diff want - || fail "vertebra run gives something else"
status=0
vertebra build vil_nano --weights weights.safetensors -o none.so >log 2>&1 || status=$?
[ $status != 0 ] && [ ! -e none.so ] || fail "vertebra build without a compiler and with other weights: $(cat log)"
echo "on_bare: the command runs"

# development: the example by pkg-config and by find_package
add ./libvertebra-dev_*.deb gcc libc6-dev pkg-config cmake ninja-build
cc -std=c11 -Wall -Wextra -Wpedantic -Werror c/classify.c -o classify $(pkg-config --cflags --libs vertebra_rt) || fail "pkg-config"
cmake -G Ninja -S c -B built >log 2>&1 && cmake --build built >log 2>&1 || fail "find_package: $(cat log)"
./classify model.so rgb.png >one && built/classify model.so rgb.png | diff one - || fail "the examples differ"
[ "$(sed 's/.*class //' one)" = "$(sed -n '1s/.*% *//p' want)" ] || fail "classify gives $(cat one), and vertebra run $(cat want)"
vertebra build vil_nano -o own.so >log 2>&1 && [ -s own.so ] || fail "vertebra build: $(cat log)"
echo "on_bare: C programs are built and run"

# nothing stays
apt-get purge -y -qq $(dpkg-query -W -f '${Package}\n' '*vertebra*') >log 2>&1 || fail "purge: $(cat log)"
left=$(find /usr /etc /var/lib -xdev -path /var/lib/apt -prune -o -name '*vertebra*' -print)
[ -z "$left" ] || fail "left behind: $left"
echo "on_bare: whole"
