# Augmentation in the language against what Pillow, torchvision and timm make, as stored: the models say how much is beyond
# what is allowed, so that every number is 0. Arguments go to `run`: --target cuda-emulated.
. tests/cli/lib.sh
here=tests/augment stored=tests/augment/stored

# all_zero FILE MODEL OPTION...: the outputs of a model, of which each number is 0
all_zero() {
  local file=$1 model=$2 header
  shift 2
  rm -f "$work/out.safetensors"
  expect 0 "$VERTEBRA" run "$file" --entry "$model" "$@" -o "$work/out.safetensors"
  header=$(od -An -tu8 -N8 "$work/out.safetensors")
  [ "$(tail -c +$((9 + header)) "$work/out.safetensors" | tr -d '\0' | wc -c)" = 0 ] ||
    fail "$file, $model: not zero: $(head -c $((8 + header)) "$work/out.safetensors" | tail -c +9)
$(tail -c +$((9 + header)) "$work/out.safetensors" | od -Ad -tf4 -w16 -v | grep -v ' 0 *0 *0 *0$' | head -40)"
}

for channels in 1 3; do
  case_of="--input x=$stored/x$channels.npy -D channels=$channels --batch 4"
  all_zero $here/pillow.vtb levels $case_of --input want=$stored/want$channels.npy --input m=$stored/magnitudes.npy "$@"
  all_zero $here/pillow.vtb others $case_of "$@"
  all_zero $here/pillow.vtb joint $case_of "$@"
  all_zero $here/pillow.vtb warps $case_of --input want=$stored/warped$channels.npy --input m=$stored/moves.npy "$@"
done

# pictures of zeros, as many as a share needs: an array of bytes
zeros() { # FILE N C H W
  local head="{'descr': '|u1', 'fortran_order': False, 'shape': ($2, $3, $4, $5), }"
  { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$head"; head -c $(($2 * $3 * $4 * $5)) /dev/zero; } > "$1"
}
zeros "$work/many.npy" 4000 1 2 2
zeros "$work/large.npy" 1000 1 12 16
zeros "$work/levels.npy" 165 1 12 16
all_zero $here/timm.vtb arguments --input x="$work/levels.npy" --input levels=$stored/levels.npy \
  --input want=$stored/arguments.npy --batch 165 "$@"
all_zero $here/timm.vtb frequencies --input x="$work/many.npy" --batch 4000 "$@"
all_zero $here/timm.vtb rectangles --input x="$work/large.npy" --batch 1000 "$@"

# in `augment { }`, which each thread of the loader runs
mkdir -p "$work/pictures/a" "$work/pictures/b"
cp tests/timm/stored/p0[0-2].jpg "$work/pictures/a" && cp tests/timm/stored/p0[4-6].jpg "$work/pictures/b"
for how in three rand; do
  expect 0 "$VERTEBRA" train tests/bench/augment.vtb -D how=$how --image 32 --data "$work/pictures" --epochs 2 \
    --batch 2 --val-fraction 0 --workers 2 --out "$work/run-$how"
  says "augmented by"
done
