# The packages: made from the build, looked into, and used from where they are unpacked.
#   packages.sh BUILD
set -u
build=$1 work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for tool in cpack dpkg-deb dpkg-shlibdeps file; do
  command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
nm "$build/libvertebra.so" | grep -q asan && { echo "skipped: sanitizers"; exit 77; }
fail() { echo "FAIL: $*"; exit 1; }

cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
cpack --config "$build/CPackConfig.cmake" -G TGZ -B "$work" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
version=$("$build/vertebra" --version | sed -n 's/^vertebra \([0-9.]*\).*/\1/p')
so=${version%%.*}

# package has what it must have, and nothing of another's
package() { # NAME ARCHITECTURE FILE...
  local name=$1 deb=$work/$1_${version}_$2.deb file
  shift 2
  [ -f "$deb" ] || fail "no ${deb##*/} among $(ls "$work"/*.deb)"
  [ "$(dpkg-deb -f "$deb" Package Version | tr '\n' ' ')" = "Package: $name Version: $version " ] || fail "$name: $(dpkg-deb -I "$deb")"
  dpkg-deb -c "$deb" | awk '{ print $6 }' >"$work/$name.files"
  for file in "$@" "./usr/share/doc/$name/copyright" "./usr/share/doc/$name/changelog.gz"; do
    grep -qx "$file" "$work/$name.files" || fail "$name has no $file: $(cat "$work/$name.files")"
  done
  dpkg-deb -f "$deb" Depends >"$work/$name.depends"
  dpkg-deb -x "$deb" "$work/root"
}
needs() { grep -q "$2" "$work/$1.depends" || fail "$1 does not depend on $2: $(cat "$work/$1.depends")"; }
lacks() { ! grep -qiE "$2" "$work/$1.$3" || fail "$1 has $2: $(cat "$work/$1.$3")"; }

arch=$(dpkg --print-architecture)
package vertebra "$arch" ./usr/bin/vertebra ./usr/share/man/man1/vertebra.1
dpkg-deb -I "$work/vertebra_${version}_$arch.deb" | grep -qx ' Description: compiler for vision backbones' || fail "no synopsis"
package vertebra-models all ./usr/share/vertebra/models/std/nn.vtb
package libvertebra-rt"$so" "$arch" ./usr/lib/libvertebra_rt.so."$so" ./usr/lib/libvertebra_rt.so."$version"
package libvertebra"$so" "$arch" ./usr/lib/libvertebra.so."$so"
package libvertebra-dev "$arch" ./usr/include/vertebra/vertebra.h ./usr/include/vertebra/vertebra_compile.h \
  ./usr/lib/libvertebra_rt.so ./usr/lib/libvertebra_rt.a ./usr/lib/libvertebra.so ./usr/lib/libvertebra.a \
  ./usr/lib/pkgconfig/vertebra_rt.pc ./usr/lib/cmake/vertebra/vertebraConfig.cmake
package vertebra-run "$arch" ./usr/bin/vertebra-run
needs vertebra-run "libvertebra-rt$so (= $version)"; lacks vertebra-run 'llvm|z3|icu|cairo|archive|fyaml|protobuf' depends
cat "$work"/*.files | grep -v '/$' | sort | uniq -d >"$work/twice"
[ ! -s "$work/twice" ] || fail "in two packages: $(cat "$work/twice")"
needs vertebra 'libllvm19'; needs vertebra "vertebra-models (= $version)"
needs libvertebra"$so" 'libllvm19'; needs libvertebra"$so" "vertebra-models (= $version)"
needs libvertebra-rt"$so" libopenblas; needs libvertebra-rt"$so" 'libc6 (>= '
lacks libvertebra-rt"$so" 'llvm|z3|icu|cairo|cjson|archive|fyaml|protobuf|vertebra' depends
lacks libvertebra-rt"$so" '/(bin|include)/|\.a$|\.so$' files
needs libvertebra-dev "libvertebra-rt$so (= $version)"; needs libvertebra-dev "libvertebra$so (= $version)"
dpkg-deb -I "$work/libvertebra-rt${so}_${version}_$arch.deb" postinst | grep -q ldconfig || fail "ldconfig is not run"

# what is unpacked works
unset VTB_MODELS
cd "$work" || exit 1
root/usr/bin/vertebra check vil_nano >log 2>&1 || fail "the unpacked command: $(cat log)"
root/usr/bin/vertebra doctor 2>&1 | grep -q "$work/root/usr/share/vertebra/models" || fail "other models than the package's"
if unshare -rm mount -t tmpfs none /proc 2>/dev/null; then # a root without /proc
  unshare -rm sh -c 'mount -t tmpfs none /proc && root/usr/bin/vertebra doctor' >log 2>&1
  grep -q root/usr/share/vertebra/models log || fail "without /proc: $(cat log)"
fi
root/usr/bin/vertebra-run --version | grep -qx "vertebra-run $version" || fail "the unpacked runner does not run"
# the tarball has all of it in one folder
tar xzf vertebra-"$version"-linux-*.tar.gz || fail "no tarball: $(ls)"
vertebra-"$version"-linux-*/bin/vertebra check vil_nano >log 2>&1 || fail "the tarball's command: $(cat log)"
vertebra-"$version"-linux-*/bin/vertebra-run --version >log 2>&1 || fail "the tarball's runner: $(cat log)"
[ -e vertebra-"$version"-linux-*/lib/pkgconfig/vertebra_rt.pc ] || fail "the tarball has no libraries"
exit 0
