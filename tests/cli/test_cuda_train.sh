# Training on CUDA targets: the whole step in the plan, on the emulator against the CPU; resuming on the other target;
# narrow formats; what was skipped is shown.
. tests/cli/lib.sh
export XDG_CACHE_HOME="$(dirname "$VERTEBRA")/test-cache" VTB_EMULATOR_CHECKS=0
"$VERTEBRA" doctor | grep -q '^cuda emulator  *ok' || { echo "skipped: no emulator"; exit 77; }

small_images 24 8
common=(vil_nano -D depth=1 -D dim=16 --image 8 --data "$work/data" --batch 8 --eval-batch 8 --epochs 2 --warmup 0 --lr 3e-3 --ema 0.5 --quiet --seed 5 --threads 1)

# loss and accuracy, in training and evaluation, of every epoch within a tolerance: curves CPU OTHER TOLERANCE
curves() {
  awk -F, -v tolerance="$3" 'NR == FNR { for (i = 3; i <= 6; i++) want[FNR, i] = $i; rows = FNR; next }
    FNR > 1 { for (i = 3; i <= 6; i++) { d = $i - want[FNR, i]; if (!(d <= tolerance && d >= -tolerance)) bad = 1 } }
    END { exit bad || rows != 3 || FNR != rows }' "$work/$1/log.csv" "$work/$2/log.csv" || fail "$2 departs from $1:
$(cat "$work/$1/log.csv" "$work/$2/log.csv")"
}

expect 0 "$VERTEBRA" train "${common[@]}" --out "$work/cpu"
expect 0 "$VERTEBRA" train "${common[@]}" --out "$work/emulated" --target cuda-emulated
curves cpu emulated 1e-4
awk -F, 'NR == 2 { first = $3 } END { exit !($3 < first - 0.005) }' "$work/cpu/log.csv" || fail "nothing was learned"

# a run goes on where it stands, on the same target with the same bits, and on the other
expect 0 "$VERTEBRA" train "${common[@]}" --out "$work/parts" --target cuda-emulated --max-steps 2; says "--resume continues"
cp -r "$work/parts" "$work/moved"
expect 0 "$VERTEBRA" train "${common[@]}" --out "$work/parts" --target cuda-emulated --resume
cmp -s "$work/emulated/weights.safetensors" "$work/parts/weights.safetensors" || fail "the resumed run differs from the whole one"
expect 0 "$VERTEBRA" train "${common[@]}" --out "$work/moved" --resume
curves cpu moved 1e-4

# by SGD
expect 0 "$VERTEBRA" train "${common[@]}" --out "$work/sgd" --optimizer sgd --lr 0.1
expect 0 "$VERTEBRA" train "${common[@]}" --out "$work/sgd_emulated" --optimizer sgd --lr 0.1 --target cuda-emulated
curves sgd sgd_emulated 1e-4

# narrow formats; fp16 begins with a factor that overflows, and says how many batches that cost
expect 0 "$VERTEBRA" train "${common[@]}" --out "$work/bf16" --target cuda-emulated --precision bf16
curves cpu bf16 2e-2
expect 0 "$VERTEBRA" train "${common[@]}" --out "$work/all" --target cuda-emulated --precision bf16-all
curves cpu all 5e-2
expect 0 "$VERTEBRA" train "${common[@]}" --out "$work/fp16" --target cuda-emulated --precision fp16 --loss-scale 1e12 --max-steps 3; says "skipped"
expect 2 "$VERTEBRA" train "${common[@]}" --out "$work/no" --precision fp16; says "it computes in fp32"
expect 2 "$VERTEBRA" train "${common[@]}" --out "$work/no" --target cuda-emulated --precision fp8; says "fp32, tf32, bf16, fp16 and bf16-all"
