# What is run from the cache is what was compiled, and nobody else can put something there.
. tests/cli/lib.sh
skip() { echo "skipped: $*"; exit 77; }
command -v g++ >/dev/null || command -v clang++ >/dev/null || skip "no C++ compiler for the emulator"
cat >"$work/m.vtb" <<'VTB'
use std.nn
model m(image: size = 4x4) {
  input x: image[1]
  output y = mean(patch_embed("embed", x, 4, 2x2, 2x2), axis = "tokens")
}
VTB
export XDG_CACHE_HOME=$work/cache
emulated() { expect "$1" "$VERTEBRA" bench "$work/m.vtb" --target cuda-emulated --seconds 0.01; }
umask 0002
emulated 0
library=$(echo "$work"/cache/vertebra/emulator/*.so)
[ -f "$library" ] || fail "no library in the cache"
[ "$(stat -c %A "$work/cache/vertebra/emulator" | cut -c6,9)" = -- ] || fail "others can write to the cache"

# a damaged library is compiled again
before=$(stat -c %i "$library")
printf 'xxxxxxxx' | dd of="$library" bs=1 seek=$(($(stat -c %s "$library") / 2)) conv=notrunc status=none
emulated 0
[ "$(stat -c %i "$library")" != "$before" ] || fail "a damaged library was run"

# another user's folder is refused
if [ "$(id -u)" = 0 ]; then
  chown 65534 "$work/cache/vertebra/emulator"
  emulated 1
  says "belongs to another user"
fi

# without HOME it is the home folder that the system knows, not the folder for temporary files
unset XDG_CACHE_HOME
expect 0 env -u HOME "$VERTEBRA" doctor
silent_about " /tmp/.cache"
