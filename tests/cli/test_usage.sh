# Wrong use is told from wrong input, and says what to do.
. tests/cli/lib.sh
expect 2 "$VERTEBRA"; says "usage: vertebra COMMAND"
expect 0 "$VERTEBRA" --help; says "verify"
expect 0 "$VERTEBRA" --version; says "vertebra 0."
expect 2 "$VERTEBRA" chekc vil_tiny; says "did you mean 'check'"
expect 2 "$VERTEBRA" check; says "MODEL is needed"
expect 2 "$VERTEBRA" check vil_tiny --bacth 3; says "did you mean --batch"
expect 2 "$VERTEBRA" check vil_tiny --batch three; says "whole number"
expect 2 "$VERTEBRA" bench vil_tiny --mode sideways; says "unknown mode"
expect 2 "$VERTEBRA" dump vil_tiny --stage fusd; says "did you mean fused"
for command in check convert weights models summary build run train eval compare bench verify dump graph paths fmt explain cache doctor help man completions; do
  expect 0 "$VERTEBRA" $command --help; says "usage: vertebra $command"
done
expect 1 "$VERTEBRA" check vil_tinny; says "vil_tiny"
expect 1 "$VERTEBRA" check "$work/missing.vtb"; says "missing.vtb"
expect 1 "$VERTEBRA" run vil_nano --weights "$work/none.safetensors" x.png; says "none.safetensors"
expect 0 "$VERTEBRA" doctor; says "processor"
expect 0 "$VERTEBRA" doctor --json; says '"processor"'
# A file without its ending, an image size that a model does not take, a name that a file does not declare.
cd "$work" || exit 1
cat > plain.vtb <<'END'
use std.nn
model plain(dim: int = 8) {
  input x: tokens[4x4, 8]
  output y = linear("l", x, dim)
}
END
expect 1 "$VERTEBRA" check plain; says "there is a file plain.vtb"
expect 1 "$VERTEBRA" check plain.vtb --image 30; says "declare it, and the input as image[3]"
expect 1 "$VERTEBRA" check plain.vtb --entry nope; says "its models and presets are plain"
expect 1 "$VERTEBRA" check plain.vtb -D xyz=3; says "its hyperparameters are dim"
# Messages keep to the columns of a terminal; lines of source stay whole.
expect 1 env COLUMNS=60 "$VERTEBRA" check plain.vtb --image 30; says "'image: size': declare
        it, and"; says "    1 | 30x30"
cd - >/dev/null || exit 1
# A name that would act on the terminal is shown, not done.
expect 1 "$VERTEBRA" check "$work/$(printf 'a\033[2Jb').vtb"; says 'a\x1b[2Jb'
case $err in *$'\033'*) fail "an escape sequence of a name is printed" ;; esac
# Options and commands that do not exist are answered by name, for every command.
expect 2 "$VERTEBRA" --mode bogus; says "a command comes before its options"; says "try: vertebra --help"
expect 2 "$VERTEBRA" check vil_nano --mode bogus; says "modes are auto, parallel, recurrent and chunkwise"
expect 2 "$VERTEBRA" help chekc; says "did you mean 'check'"
expect 0 "$VERTEBRA" help check; says "usage: vertebra check"
# Numbers of the environment that flags would refuse are refused.
for wrong in VTB_THREADS=abc VTB_THREADS=-1 VTB_THREADS=100000 VTB_THREADS=2x VTB_CUDA_CACHE_MB=-5 VTB_CUDA_CACHE_MB=0; do
  expect 2 env "$wrong" "$VERTEBRA" check vil_nano; says "$wrong: a whole number from 1 to "
done
expect 2 env VTB_CUBLAS=perhaps "$VERTEBRA" check vil_nano; says "VTB_CUBLAS=perhaps: 0 or 1 is needed"
expect 2 env VTB_TUNING=none "$VERTEBRA" check vil_nano; says "VTB_TUNING=none: off or on is needed"
expect 2 env VTB_CUDA_DEVICE=cuda:0 "$VERTEBRA" check vil_nano; says "VTB_CUDA_DEVICE=cuda:0: a whole number from 0 to "
expect 0 env VTB_THREADS=2 VTB_CUDA_CACHE_MB= "$VERTEBRA" explain VTB1101
# Help keeps to the columns of a terminal.
for columns in 60 80; do
  for command in "" train verify; do
    # shellcheck disable=SC2086
    COLUMNS=$columns expect 0 "$VERTEBRA" help $command
    longest=$(printf '%s\n' "$out" | awk '{ if (length($0) > n) n = length($0) } END { print n }')
    [ "$longest" -le $columns ] || fail "help $command: a line of $longest characters on $columns columns"
  done
done

# what several search folders declare is listed once
expect 0 env VTB_MODELS="$PWD/models:$PWD/models" COLUMNS=200 "$VERTEBRA" build --help
says "of the training step: adafactor, adamw, lamb, lars, lion, muon, prodigy, sgd or shampoo (default adamw)"
