# Files that `vertebra build` makes: what they give is what the model gives, bit for bit; they hold their weights; a C
# program needs the runtime alone; what a file cannot do is said.
. tests/cli/lib.sh
export XDG_CACHE_HOME="$(dirname "$VERTEBRA")/test-cache" VTB_EMULATOR_CHECKS=0
image=tests/fuzz/corpus/image/rgb.png
small=(vil_nano -D depth=2 -D dim=16)

expect 0 "$VERTEBRA" build "${small[@]}" -o "$work/plain.so"; says "inference, batch 1"; says "weights          none"
expect 0 "$VERTEBRA" build "${small[@]}" -o "$work/again.so"
cmp -s "$work/plain.so" "$work/again.so" || fail "two builds of one model differ"
expect 0 "$VERTEBRA" check "$work/plain.so" --params; says "patch_embed.proj.weight"
expect 0 "$VERTEBRA" check "$work/plain.so" --json; says '"decay":'
[ "$(nm -D --defined-only "$work/plain.so" | grep -c ' vtb_')" = 1 ] || fail "not one symbol"

# without weights both start from the same initial values
expect 0 "$VERTEBRA" run "$work/plain.so" $image -o "$work/built.safetensors"; says "random weights"
expect 0 "$VERTEBRA" run "${small[@]}" $image -o "$work/model.safetensors"
cmp -s "$work/built.safetensors" "$work/model.safetensors" || fail "the file computes something else than the model"
expect 0 "$VERTEBRA" bench "$work/plain.so" --runs 3; says "img/s"

# several levels: the best that this machine has is taken, and code for none of its own is refused
expect 0 "$VERTEBRA" build "${small[@]}" --target cpu:x86-64,x86-64-v4 -o "$work/levels.so"; says "x86-64-v4"
expect 0 "$VERTEBRA" run "$work/levels.so" $image
if ! grep -q avx512f /proc/cpuinfo; then
  expect 0 "$VERTEBRA" build "${small[@]}" --target cpu:x86-64-v4 -o "$work/foreign.so"
  expect 4 "$VERTEBRA" run "$work/foreign.so" $image; says "has code for x86-64-v4; this machine has"
fi
# for another architecture, by its own compiler
expect 2 "$VERTEBRA" build "${small[@]}" --target cpu:x86-64-v3,aarch64; says "one architecture: build one for x86-64-v3 and one for aarch64"
case $(uname -m) in x86_64) other=aarch64 ;; *) other=x86-64 ;; esac
expect 1 env PATH="$work" CC= "$VERTEBRA" build "${small[@]}" --target cpu:$other -o "$work/x.so"
says "linking code for $other needs a C compiler for it, and there is no"; says "apt-get install gcc-"
expect 4 "$VERTEBRA" run "$work/plain.so" --target cuda $image; says "no code for CUDA"

# wrong use
expect 2 "$VERTEBRA" build; says "one MODEL is needed"
expect 2 "$VERTEBRA" build "${small[@]}" --target cpu:z80; says "'cpu:z80' is no target"
expect 2 "$VERTEBRA" build "${small[@]}" --precision bf16; says "does not know precision bf16"
expect 2 "$VERTEBRA" build "${small[@]}" --ema; says "for --train"
expect 2 "$VERTEBRA" build "$work/plain.so"; says "compiled already"
expect 1 "$VERTEBRA" dump "$work/plain.so" --stage ir; says "needs the model's source"
for option in "-D depth=3" "--mode recurrent" "--chunk 8" "--image 32" "--entry x"; do
  expect 2 "$VERTEBRA" run "$work/plain.so" $option $image; says "${option%% *} cannot change"
done
expect 2 "$VERTEBRA" run "$work/plain.so" --precision tf32 $image; says "built with --precision fp32"
expect 2 "$VERTEBRA" eval "$work/plain.so" --batch 7 --weights x --data fashion-mnist; says "1 images at a time, not 7"
expect 1 "$VERTEBRA" train "$work/plain.so" --data fashion-mnist --out "$work/none"; says "build it with --train"
expect 1 env CC=no-such-compiler "$VERTEBRA" build "${small[@]}" -o "$work/x.so"; says "CC=no-such-compiler is not a program"
expect 1 env CC=false "$VERTEBRA" build "${small[@]}" -o "$work/x.so"; says "false could not link the model"
expect 1 env PATH="$work" CC= "$VERTEBRA" build "${small[@]}" -o "$work/x.so"; says "there is no cc, gcc or clang"
expect 1 "$VERTEBRA" build "${small[@]}" -o "$work/no/such/folder.so"; says "cannot write"
[ ! -e "$work/x.so" ] || fail "a failed build left a file"
[ -z "$(find "$work" -name '*.tmp-*')" ] || fail "temporary files are left"

# damage
size=$(stat -c %s "$work/plain.so")
for cut in 0 100 20000 $((size - 1)); do
  head -c $cut "$work/plain.so" >"$work/cut.so"
  expect 1 "$VERTEBRA" run "$work/cut.so" $image
done
says "cut short"
for at in 5000 $((size - 300)); do
  { head -c $at "$work/plain.so"; printf '\377\376'; tail -c +$((at + 3)) "$work/plain.so"; } >"$work/bad.so"
  expect 1 "$VERTEBRA" check "$work/bad.so"; says "is damaged"
done

lib=$(dirname "$VERTEBRA")
# reference cases as files, compared by a program of the runtime alone, gradients included
if [ -x "$lib/check_built" ]; then
  expect 0 tests/gpu/pack.sh "$work/pack" cpu tests/golden/vil/cell_gates_wide.safetensors tests/golden/vim/cell_rmsnorm_tiny_input.safetensors
  says "2 built cases"
  expect 0 "$work/pack/check.sh" cpu; says "22 tensors"
  expect 5 "$lib/check_built" cpu 1e-12 "$work/pack/built/vil_cell_gates_wide.so" "$work/pack/cases/vil_cell_gates_wide.safetensors"; says "FAIL"
  expect 4 "$work/pack/check.sh" cuda; says "no code for CUDA"
fi

# CUDA: the emulator runs the file's own kernels
# only names of shared objects and of objects, said before anything is compiled; doctor looks for what links
for ending in .onnx .a .pt .safetensors .so.onnx ""; do
  expect 2 "$VERTEBRA" build vil_nano -o "$work/named$ending"; says "writes .so or .o, which"; says "call it $work/named"
  [ ! -e "$work/named$ending" ] || fail "written"
done
# what does not fit leaves the file as it was
echo earlier > "$work/kept.so"
(ulimit -f 20; expect 1 "$VERTEBRA" build vil_nano -o "$work/kept.so"; says "File too large") || exit 1
[ "$(cat "$work/kept.so")" = earlier ] || fail "a build that did not fit replaced the file"
expect 0 "$VERTEBRA" doctor; says "links what \`vertebra build\` makes"
CC=false expect 0 "$VERTEBRA" doctor; says "linker         absent   false could not link"

# LLVM is opened by what compiles for processors, and by nothing else
VTB_LLVM="$work/absent.so" expect 0 "$VERTEBRA" summary vil_nano
VTB_LLVM="$work/absent.so" expect 4 "$VERTEBRA" bench vil_nano; says "VTB_LLVM=$work/absent.so cannot be loaded"
VTB_LLVM="$work/absent.so" expect 4 "$VERTEBRA" doctor; says "processor      MISSING  LLVM: VTB_LLVM=$work/absent.so"
expect 2 "$VERTEBRA" bench vil_nano -D depth=1 --image 4096 --batch 1048576 --runs 1; says "a batch of 1048576 is too large"
expect 2 "$VERTEBRA" bench vil_nano --mode parallel --chunk 4 --runs 1; says "mode parallel has no chunks"

if "$VERTEBRA" dump vil_nano --stage ptx >/dev/null 2>&1 && "$VERTEBRA" doctor | grep -q '^cuda emulator  *ok'; then
  tiny_model # few kernels, which take the compiler a third of a second each
  expect 0 "$VERTEBRA" build "$work/tiny.vtb" --target cuda:sm_90a,cpu -o "$work/both.so"; says "compute_90"
  expect 0 "$VERTEBRA" run "$work/both.so" --target cuda-emulated $image; first=$out
  expect 0 "$VERTEBRA" run "$work/tiny.vtb" --target cuda-emulated $image
  [ "$out" = "$first" ] || fail "the emulated file gives another result: $out, not $first"
  expect 4 env VTB_CUDA_DRIVER="$work/absent.so" "$VERTEBRA" run "$work/both.so" --target cuda $image; says "CUDA driver"
  # sm_90a has a plan of its own where it has kernels of its own
  ! "$VERTEBRA" check "$work/both.so" | grep -q alone || fail "a plan for sm_90a alone that is the one for all"
  expect 0 env VTB_CUDA_WGMMA=1 "$VERTEBRA" build "$work/tiny.vtb" -D dim=64 --batch 2 --precision bf16-all --target cuda:sm_80,sm_90a -o "$work/two.so"; says "CUDA, sm_90a alone"
  expect 0 "$VERTEBRA" check "$work/two.so" --json; says '"plans":	["all", "sm_90a"]'
  for arch in sm_80 sm_90a; do
    expect 0 env VTB_EMULATOR_ARCH=$arch "$VERTEBRA" run "$work/two.so" --target cuda-emulated $image; says "png"
  done
fi

# training from a file, weights inside
small_images 64 16
small=(vil_nano -D depth=1 -D dim=16 --image 8)
compiled=(--batch 8 --eval-batch 8 --label-smoothing 0.1)
recipe=(--data "$work/data" --epochs 2 --warmup 0 --lr 3e-3 --quiet --seed 5 --label small)
equal() { cmp -s "$work/$1/weights.safetensors" "$work/$2/weights.safetensors" || fail "$1 and $2 are trained differently"; }

expect 0 "$VERTEBRA" build "${small[@]}" -D classes=4 --train "${compiled[@]}" -o "$work/train.so"; says "training step, batch 8"
expect 0 "$VERTEBRA" train "$work/train.so" "${recipe[@]}" --out "$work/built"
expect 0 "$VERTEBRA" train "${small[@]}" "${compiled[@]}" "${recipe[@]}" --out "$work/model"
equal built model
expect 0 "$VERTEBRA" train "$work/train.so" "${recipe[@]}" --out "$work/parts" --max-steps 5; says "--resume continues"
expect 0 "$VERTEBRA" train "$work/train.so" "${recipe[@]}" --out "$work/parts" --resume
equal built parts
expect 0 "$VERTEBRA" bench "$work/train.so" --train --runs 3; says "einsum"; says "timed: forward, backward, update"
expect 2 "$VERTEBRA" bench "$work/train.so" --train --no-update --runs 3; says "leave out --no-update"
expect 2 "$VERTEBRA" bench "$work/train.so" --no-update; says "is for --train"
expect 2 "$VERTEBRA" train "$work/train.so" "${recipe[@]}" --label-smoothing 0.3; says "built with --label-smoothing 0.1"
expect 2 "$VERTEBRA" train "$work/train.so" "${recipe[@]}" --batch 16; says "8 images at a time, not 16"
expect 0 "$VERTEBRA" build "${small[@]}" --train -o "$work/ten.so"
expect 1 "$VERTEBRA" train "$work/ten.so" "${recipe[@]}"; says "build it with -D num_classes=4"

weights=$work/model/weights.safetensors
expect 0 "$VERTEBRA" build vil_nano --weights "$weights" --batch 5 -o "$work/full.so"; says "mean "; says "classes "
expect 0 "$VERTEBRA" eval "$work/full.so" --data "$work/data" --write-images "$work/png"; first=${out% (*}
expect 0 "$VERTEBRA" eval vil_nano --weights "$weights" --batch 5 --data "$work/data"
[ "${out% (*}" = "$first" ] || fail "the file evaluates to $first, not $out"
expect 0 "$VERTEBRA" run "$work/full.so" "$work"/png/*.png "$work"/png/*.png; silent_about "random weights"
[ "$(grep -c 'png$' <<<"$out")" = 8 ] || fail "not every image has its result: $out"
first=$out
expect 0 "$VERTEBRA" run "$work/full.so" --weights "$weights" "$work"/png/*.png "$work"/png/*.png
[ "$out" = "$first" ] || fail "the same weights from outside give another result"

# a C program and the installed runtime, with the example of the documentation
if [ -f "$lib/libvertebra_rt.so" ] && command -v gcc >/dev/null && ! nm "$lib/libvertebra_rt.so" | grep -q asan; then
  expect 0 cmake --install "$lib" --prefix "$work/prefix"
  pc=$(dirname "$(find "$work/prefix" -name vertebra_rt.pc)")
  flags=$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs vertebra_rt) || fail "pkg-config does not know vertebra_rt"
  sed -n '/^```c$/,/^```$/p' docs/artefact.md | sed '/^```/d' >"$work/app.c"
  expect 0 gcc -std=c17 -Wall -Wextra -Werror "$work/app.c" -o "$work/app" $flags -Wl,-rpath,"$(dirname "$pc")"
  expect 0 "$work/app" "$work/full.so"; says "class "
  expect 0 "$work/app" "$work/full.so" tests/runtime/images/turned6.jpg; says "class "
  expect 1 "$work/app" "$work/plain.so"; says "has no weights"
  expect 1 "$work/app" "$work/full.so" tests/runtime/images/animated.webp; says "animated WebP is not read"
  expect 1 "$work/app" "$work/bad.so"; says "is damaged"
  ! ldd "$work/app" | grep -qi llvm || fail "the runtime needs LLVM"
  expect 0 env -u VTB_MODELS "$work/prefix/bin/vertebra" doctor; says "$work/prefix/share/vertebra/models"
fi
expect 1 "$VERTEBRA" eval "$work/plain.so" --weights "$weights" --data "$work/data"
expect 1 "$VERTEBRA" build vil_tiny --weights "$work/plain.so" -o "$work/x.so"

# a step with its update, on the emulator
if [ -f "$work/both.so" ]; then
  expect 0 "$VERTEBRA" build "$work/tiny.vtb" -D kinds=4 --train "${compiled[@]}" --target cuda:sm_90a -o "$work/step.so"
  expect 0 "$VERTEBRA" train "$work/step.so" "${recipe[@]}" --max-steps 2 --target cuda-emulated --out "$work/step"
  expect 0 "$VERTEBRA" train "$work/tiny.vtb" "${compiled[@]}" "${recipe[@]}" --max-steps 2 --target cuda-emulated --out "$work/same"
  equal step same
  expect 2 "$VERTEBRA" train "$work/step.so" "${recipe[@]}" --target cuda-emulated --ema 0.5; says "build it with --ema"
  expect 0 "$VERTEBRA" bench "$work/step.so" --train --runs 1 --target cuda-emulated --json; says '"timed":	"forward, backward, update"'; says adamw
  expect 2 "$VERTEBRA" bench "$work/step.so" --train --no-update --target cuda-emulated; says "leave out --no-update"
  expect 2 "$VERTEBRA" train "$work/step.so" "${recipe[@]}" --target cuda-emulated --optimizer sgd; says "build it with --optimizer sgd"
fi
