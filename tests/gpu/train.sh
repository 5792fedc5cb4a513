#!/usr/bin/env bash
# 200 updates on the GPU and on the CPU follow one curve, in every precision; a run begun on the GPU goes on on the CPU.
#
#   tests/gpu/train.sh OUT          builds the training steps, makes the data, trains; exit status 0 if all curves agree
#   tests/gpu/train.sh --pack OUT   without the last: copy OUT to the machine with the GPU and run its train.sh there;
#                                   it needs neither LLVM nor NVRTC
#
# VERTEBRA names the program (build/release/vertebra); train_built is taken from beside it. VTB_GPU_TARGET is what the
# files are for (cuda: every architecture; cuda:sm_90a is quicker to build). VTB_GPU_REHEARSE=1 tries the scripts without a
# GPU: a tiny model, 8 updates, the CPU in the GPU's place.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
vertebra=${VERTEBRA:-$here/build/release/vertebra}
export VTB_MODELS=${VTB_MODELS:-$here/models} NO_COLOR=1
pack=
[ "${1:-}" != --pack ] || { pack=yes; shift; }
out=${1:?folder for results}
images=3200 batch=64 target=cuda model=(vil_nano) cpu=cpu
[ -z "$pack" ] || cpu=cpu:x86-64-v3 # the other machine's level may be lower than this one's
if [ -n "${VTB_GPU_REHEARSE:-}" ]; then
  images=16 batch=8 target=cpu model=(vil_nano -D depth=1 -D dim=16 --image 12)
fi
. "$here/tests/gpu/libraries.sh"
mkdir -p "$out/data"

byte() { printf "\\$(printf %03o "$1")"; }
# 10 classes of stripes, across or down and of five widths, with noise. Every seventh label is wrong, so that losses stay
# of a size that differences can be judged by.
idx() { # STEM COUNT
  { printf '\0\0\010\003\0\0'; byte $(($2 / 256)); byte $(($2 % 256)); printf '\0\0\0\034\0\0\0\034'
    LC_ALL=C awk -v n="$2" 'BEGIN { srand(n); for (i = 0; i < n; i++) for (y = 0; y < 28; y++) for (x = 0; x < 28; x++) {
      c = i % 10; stripe = int((c < 5 ? x : y) / (2 + c % 5)) % 2
      printf "%c", 1 + int(70 * rand() + (stripe ? 35 : 0)) } }'
  } >"$out/data/$1-images-idx3-ubyte"
  { printf '\0\0\010\001\0\0'; byte $(($2 / 256)); byte $(($2 % 256))
    for ((i = 0; i < $2; i++)); do byte $((i % 7 == 3 ? i / 7 * 3 % 10 : i % 10)); done
  } >"$out/data/$1-labels-idx1-ubyte"
}
idx train "$images"
idx t10k $((images / 4))
for precision in fp32 tf32 fp16 bf16 bf16-all; do
  "$vertebra" build "${model[@]}" -D num_classes=10 --train --ema --batch "$batch" --eval-batch "$batch" \
    --precision $precision --target "$cpu,${VTB_GPU_TARGET:-cuda}" -o "$out/$precision.so" >"$out/build.txt" 2>&1 ||
    { cat "$out/build.txt" >&2; exit 1; }
done
cp "$(dirname "$vertebra")/train_built" "$out/"
[ -z "$pack" ] || carry_libraries "$out/lib" "$out/train_built"
cat >"$out/train.sh" <<SCRIPT
#!/usr/bin/env bash
cd "\$(dirname "\$0")" || exit 2
[ ! -d lib ] || export LD_LIBRARY_PATH=\$PWD/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
exec ./train_built "\${1:-$target}" data 4 ./fp32.so 0.02 ./tf32.so 0.03 ./fp16.so 0.03 ./bf16.so 0.05 ./bf16-all.so 0.1
SCRIPT
chmod +x "$out/train.sh"
[ -n "$pack" ] || exec "$out/train.sh"
echo "$out: run its train.sh where the GPU is"
