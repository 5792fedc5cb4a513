#!/usr/bin/env bash
# The packages on a bare Debian 12: installed by apt, one after the other, and used, each with no more than it depends on.
#   bare.sh BUILD [FOLDER]     FOLDER has the packages; without it they are made
# The root is made by mmdebstrap in a temporary folder, by root or by anybody who may have user namespaces. It takes
# Debian's archive and two minutes, so it runs by `./dev package --try`, or as a test where VTB_TRY_PACKAGES=1.
set -u
[ "${VTB_TRY_PACKAGES:-}" = 1 ] || { echo "skipped: VTB_TRY_PACKAGES=1 installs the packages on a bare Debian"; exit 77; }
for tool in mmdebstrap cpack dpkg-deb dpkg-shlibdeps; do
  command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
[ "$(id -u)" = 0 ] || grep -qs "^$(id -un):" /etc/subuid || { echo "skipped: neither root nor ids of its own in /etc/subuid"; exit 77; }
mirror=${VTB_DEBIAN_MIRROR:-http://deb.debian.org/debian}
VERTEBRA=$(realpath "$1")/vertebra debs=${2:-}
. tests/cli/lib.sh # $work, fail
export VTB_MODELS=$PWD/models
/usr/lib/apt/apt-helper download-file "$mirror/dists/bookworm/Release" "$work/Release" >/dev/null 2>&1 ||
  { echo "skipped: no Debian archive at $mirror"; exit 77; }
share=$work/try
mkdir "$share"
if [ -n "$debs" ]; then cp "$debs"/*.deb "$share"
else cpack --config "$1/CPackConfig.cmake" -G DEB -B "$work/made" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
  cp "$work"/made/*.deb "$share"
fi

# a model, an image, and what is made of it here
small=(vil_nano -D depth=1 -D dim=16 --image 8)
small_images 16 8
expect 0 "$VERTEBRA" train "${small[@]}" --data "$work/data" --batch 8 --max-steps 2 --quiet --out "$work/run"
cp "$work/run/weights.safetensors" tests/fuzz/corpus/image/rgb.png "$share"
expect 0 "$VERTEBRA" build "${small[@]}" --weights "$share/weights.safetensors" --batch 2 -o "$share/model.so"
expect 0 "$VERTEBRA" run "$share/model.so" tests/fuzz/corpus/image/rgb.png
printf '%s\n' "$out" | tail -n +2 >"$share/want"
cp -r docs/examples/c "$share"
cp tests/packages/on_bare.sh "$share"

inside="env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb bash -eu /try/on_bare.sh"
mmdebstrap --variant=minbase --format=null --quiet --customize-hook="copy-in '$share' /" \
  --customize-hook="chroot \"\$1\" $inside" bookworm - "$mirror" >"$work/log" 2>&1 </dev/null || fail "$(tail -n 40 "$work/log")"
grep '^on_bare: ' "$work/log"
[ "$(grep '^on_bare: ' "$work/log" | tail -n 1)" = 'on_bare: whole' ] || fail "it ended early: $(tail -n 20 "$work/log")"
exit 0
