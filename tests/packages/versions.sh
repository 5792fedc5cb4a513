# One version everywhere, and one number of the ABI.
#   versions.sh BUILD
set -u
build=$1
fail() { echo "FAIL: $*"; exit 1; }
version=$(sed -n 's/^project(vertebra VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
abi=$(sed -n 's/^#define VTB_ABI_VERSION //p' runtime/vertebra.h)
[ -n "$version" ] && [ -n "$abi" ] || fail "no version or no ABI"
is() { [ "$2" = "$3" ] || fail "$1 says '$2', not '$3'"; }
is 'vertebra --version' "$("$build/vertebra" --version | sed -n '1s/^vertebra \([0-9.]*\).*/\1/p')" "$version"
is 'vertebra-run --version' "$("$build/vertebra-run" --version)" "vertebra-run $version"
is 'the Python package' "$(sed -n 's/^__version__ = "\(.*\)"/\1/p' frontend/python/vertebra/_version.py)" "$version"
is 'runtime/vertebra.h' "$(sed -n 's/.*vtb_version(void);.*"\(.*\)".*/\1/p' runtime/vertebra.h)" "$version"
is 'CHANGELOG.md' "$(sed -n '/^## /{s/ (20[0-9][0-9]-[01][0-9]-[0-3][0-9])$//p;q}' CHANGELOG.md)" "## $version"
for name in vertebra vertebra_rt; do
  is $name.pc "$(sed -n 's/^Version: //p' "$build/$name.pc")" "$version"
  is lib$name.so "$(readelf -d "$build/lib$name.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')" "lib$name.so.$abi"
done
is 'find_package' "$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")/\1/p' "$build/vertebraConfigVersion.cmake")" "$version"
is 'cpack' "$(sed -n 's/^set(CPACK_PACKAGE_VERSION "\(.*\)")/\1/p' "$build/CPackConfig.cmake")" "$version"
is 'the Python package' "$(sed -n 's/^ABI_VERSION = //p' frontend/python/vertebra/_library.py)" "$abi"
# file names in the pages
for page in docs/install.md docs/python.md; do
  for named in $(grep -oE 'vertebra-[0-9]+\.[0-9]+\.[0-9]+' $page | sort -u); do is $page "$named" "vertebra-$version"; done
done
for named in $(grep -oE 'lib[a-z-]*[a-z][0-9]+`|\.so\.[0-9]+`' docs/install.md | tr -d '`' | grep -v llvm | sort -u); do
  is docs/install.md "${named##*[!0-9]}" "$abi"
done
exit 0
