# The packages: made from the build, looked into, and used from where they are unpacked.
#   packages.sh BUILD
set -u
build=$1 work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for tool in cpack dpkg-deb dpkg-architecture dpkg-shlibdeps file; do
  command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
nm "$build/libvertebra.so" | grep -q asan && { echo "skipped: sanitizers"; exit 77; }
fail() { echo "FAIL: $*"; exit 1; }

cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
cpack --config "$build/CPackConfig.cmake" -G TGZ -B "$work" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
version=$("$build/vertebra" --version | sed -n 's/^vertebra \([0-9.]*\).*/\1/p')
so=$(sed -n 's/^#define VTB_ABI_VERSION //p' runtime/vertebra.h) lib=./usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
debian=$version-1

# package has what it must have, and nothing of another's
package() { # NAME ARCHITECTURE FILE...
  local name=$1 deb=$work/$1_${debian}_$2.deb file
  shift 2
  [ -f "$deb" ] || fail "no ${deb##*/} among $(ls "$work"/*.deb)"
  [ "$(dpkg-deb -f "$deb" Package Version | tr '\n' ' ')" = "Package: $name Version: $debian " ] || fail "$name: $(dpkg-deb -I "$deb")"
  dpkg-deb -c "$deb" | awk '{ print $6 }' >"$work/$name.files"
  for file in "$@" "./usr/share/doc/$name/copyright" "./usr/share/doc/$name/changelog.gz" \
    "./usr/share/doc/$name/changelog.Debian.gz"; do
    grep -qx "$file" "$work/$name.files" || fail "$name has no $file: $(cat "$work/$name.files")"
  done
  dpkg-deb -f "$deb" Depends >"$work/$name.depends"
  dpkg-deb -x "$deb" "$work/root"
}
needs() { grep -q "$2" "$work/$1.depends" || fail "$1 does not depend on $2: $(cat "$work/$1.depends")"; }
lacks() { ! grep -qiE "$2" "$work/$1.$3" || fail "$1 has $2: $(cat "$work/$1.$3")"; }

arch=$(dpkg --print-architecture)
package vertebra "$arch" ./usr/bin/vertebra ./usr/share/man/man1/vertebra.1.gz \
  ./usr/share/man/man1/vertebra-run.1vtb.gz
dpkg-deb -I "$work/vertebra_${debian}_$arch.deb" | grep -qx ' Description: compiler for vision backbones' || fail "no synopsis"
package vertebra-models all ./usr/share/vertebra/models/std/nn.vtb
package libvertebra-rt"$so" "$arch" $lib/libvertebra_rt.so."$so" $lib/libvertebra_rt.so."$version"
package libvertebra"$so" "$arch" $lib/libvertebra.so."$so"
package libvertebra-dev "$arch" ./usr/include/vertebra/vertebra.h ./usr/include/vertebra/vertebra_compile.h \
  $lib/libvertebra_rt.so $lib/libvertebra_rt.a $lib/libvertebra.so $lib/libvertebra.a \
  $lib/pkgconfig/vertebra_rt.pc $lib/cmake/vertebra/vertebraConfig.cmake
package vertebra-run "$arch" ./usr/bin/vertebra-run ./usr/share/man/man1/vertebra-run.1.gz
package python3-vertebra all ./usr/lib/python3/dist-packages/vertebra/__init__.py \
  ./usr/lib/python3/dist-packages/vertebra-"$version".egg-info/PKG-INFO
needs vertebra-run "libvertebra-rt$so (= $debian)"; needs vertebra-run libpng16-16; lacks vertebra-run 'llvm|z3|icu|cairo|archive|fyaml|protobuf' depends
cat "$work"/*.files | grep -v '/$' | sort | uniq -d >"$work/twice"
[ ! -s "$work/twice" ] || fail "in two packages: $(cat "$work/twice")"
needs vertebra 'libllvm19'; needs vertebra libzip4; needs vertebra libjpeg62-turbo; needs vertebra "vertebra-models (= $debian)"
needs libvertebra"$so" 'libllvm19'; needs libvertebra"$so" "vertebra-models (= $debian)"
needs libvertebra-rt"$so" 'libc6 (>= '
lacks libvertebra-rt"$so" 'llvm|z3|icu|cairo|cjson|archive|fyaml|protobuf|openblas|gfortran|png|jpeg|webp|vertebra' depends
lacks libvertebra-rt"$so" '/(bin|include)/|\.a$|\.so$' files
needs libvertebra-dev "libvertebra-rt$so (= $debian)"; needs libvertebra-dev "libvertebra$so (= $debian)"
needs python3-vertebra "libvertebra$so (= $debian)"; needs python3-vertebra python3
needs python3-vertebra python3-numpy; lacks python3-vertebra 'torch' depends; lacks python3-vertebra 'pycache' files
rt=$work/libvertebra-rt${so}_${debian}_$arch.deb
dpkg-deb -I "$rt" triggers | grep -qx 'activate-noawait ldconfig' || fail "ldconfig is not run"
dpkg-deb -I "$rt" shlibs | grep -qx "libvertebra_rt $so libvertebra-rt$so (>= $debian)" || fail "shlibs: $(dpkg-deb -I "$rt" shlibs)"
for option in $("$build/vertebra-run" --help | grep -o -- '--[a-z]*' | sort -u); do
  zcat "$work/root/usr/share/man/man1/vertebra-run.1.gz" | sed 's/\\-/-/g' | grep -q -- "$option" || fail "no $option in the page of vertebra-run"
done

# Debian's own judgement. No bug asked for the packages, and cpack runs ldconfig besides the trigger, which does no harm
if command -v lintian >/dev/null; then
  lintian --allow-root --tag-display-limit 0 --suppress-tags initial-upload-closes-no-bugs,maintscript-calls-ldconfig \
    "$work"/*.deb >"$work/log" 2>&1
  ! grep -E '^[EW]:' "$work/log" || fail "lintian"
else echo "not judged: no lintian"; fi

# what is unpacked works
unset VTB_MODELS
cd "$work" || exit 1
root/usr/bin/vertebra check vil_nano >log 2>&1 || fail "the unpacked command: $(cat log)"
root/usr/bin/vertebra doctor 2>&1 | grep -q "$work/root/usr/share/vertebra/models" || fail "other models than the package's"
if unshare -rm mount -t tmpfs none /proc 2>/dev/null; then # a root without /proc
  unshare -rm sh -c 'mount -t tmpfs none /proc && root/usr/bin/vertebra doctor' >"$work/log" 2>&1
  grep -q root/usr/share/vertebra/models log || fail "without /proc: $(cat log)"
fi
! readelf -d root/usr/bin/vertebra-run | grep -qE 'RPATH|RUNPATH' || fail "the packages' runner looks for libraries on its own"
for file in root/usr/bin/vertebra root/usr/bin/vertebra-run root/${lib#./}/libvertebra.so.$so root/${lib#./}/libvertebra_rt.so.$so; do
  readelf -d $file | grep -q 'FLAGS_1.*NOW' || fail "$file resolves symbols late"
done
LD_LIBRARY_PATH=$work/root/${lib#./} root/usr/bin/vertebra-run --version | grep -qx "vertebra-run $version" || fail "the unpacked runner does not run"
if python3 -c 'import numpy' 2>/dev/null; then # Python's package finds the library and the models that lie beside it
  PYTHONPATH=$work/root/usr/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1 python3 -c '
import importlib.metadata, sys, numpy, vertebra
assert vertebra.__version__ == importlib.metadata.version("vertebra") == sys.argv[1], vertebra.__version__
assert vertebra.__file__.startswith(sys.argv[2]), vertebra.__file__
assert vertebra.create_model("vil_nano", batch=2)(numpy.ones((3, 1, 28, 28), "float32")).shape == (3, 10)
library = vertebra._library.library()._name
assert library.startswith(sys.argv[2]), library' "$version" "$work/root" >log 2>&1 || fail "Python: $(cat log)"
fi
# the tarball has all of it in one folder
tar xzf vertebra-"$version"-linux-*.tar.gz || fail "no tarball: $(ls)"
vertebra-"$version"-linux-*/bin/vertebra check vil_nano >log 2>&1 || fail "the tarball's command: $(cat log)"
vertebra-"$version"-linux-*/bin/vertebra-run --version >log 2>&1 || fail "the tarball's runner: $(cat log)"
[ -e vertebra-"$version"-linux-*/lib/pkgconfig/vertebra_rt.pc ] || fail "the tarball has no libraries"
exit 0
