# Every stage prints; blocks stay one function however deep the model; dumps are the same every time.
. tests/cli/lib.sh
for stage in ast ir graph grad fused plan llvm asm; do
  expect 0 "$VERTEBRA" dump vil_nano --stage $stage
  [ -n "$out" ] || fail "nothing printed for $stage"
done
expect 0 "$VERTEBRA" dump vil_tiny --stage ir; a=$(grep -c '^func' "$work/out")
expect 0 "$VERTEBRA" dump vil_tiny -D depth=48 --stage ir; b=$(grep -c '^func' "$work/out")
[ "$a" = "$b" ] || fail "functions grow with depth: $a, $b"
expect 0 "$VERTEBRA" dump vil_nano --stage graph; silent_about "permute"; first=$out
expect 0 "$VERTEBRA" dump vil_nano --stage graph; [ "$first" = "$out" ] || fail "two dumps differ"
says "linscan"; says "rows~@7x7"; says "vtb:"
# A block's parameters are one line, which no parser would take for a parameter; --params shows all.
expect 0 "$VERTEBRA" dump vil_nano; says "    %blocks.0.*: 42 parameters, "; silent_about "top_left.norm.weight"
says '@vil_block(%x.2, %x.2, %blocks.0.rowwise_from_top_left.*)'
expect 0 "$VERTEBRA" dump vil_nano --params; says '%blocks.0.rowwise_from_top_left.norm.weight: f32[64] param "'; silent_about ".*"
expect 0 "$VERTEBRA" dump vil_nano --stage plan; says "peak workspace"
expect 0 "$VERTEBRA" dump vil_nano --stage asm --cpu x86-64-v4; says "zmm"
# VTB_OPTIMISE=off leaves out LLVM's passes, and what its code generator does for speed.
lines() { expect 0 env $1 "$VERTEBRA" dump vil_nano --stage $2; wc -l <"$work/out"; }
for stage in llvm asm; do
  optimised=$(lines -uVTB_OPTIMISE $stage) quick=$(lines VTB_OPTIMISE=off $stage)
  [ $((10 * quick)) -gt $((12 * optimised)) ] || fail "$stage: $quick lines with VTB_OPTIMISE=off, $optimised without"
done
# A target's dumps show what runs there: casts and attributes with fewer bits, the library, every pass.
expect 0 "$VERTEBRA" dump vil_nano --target cuda --stage fused; silent_about "bf16"; first=$out
expect 0 "$VERTEBRA" dump vil_nano --target cuda --stage fused --precision bf16-all; says 'precision = "bf16"'; says "= cast"; says ": bf16["
[ "$first" != "$out" ] || fail "bf16-all is not seen in the dump"
# A training step's products read narrow copies of the weights, which its update reads and writes wide.
expect 0 "$VERTEBRA" dump vit_nano --train --target cuda --stage fused --precision bf16-all
says '= cast %blocks.0.attn.qkv.weight {to = "bf16"} : bf16[192, 64]'; says ", %blocks.0.attn.qkv.weight, "
expect 0 "$VERTEBRA" dump vit_nano --train --target cuda --stage fused; silent_about "= cast %blocks.0.attn.qkv.weight "
expect 0 "$VERTEBRA" dump vil_nano --target cuda --stage fused --library -D dim=128 --batch 4; says "library = 1"
says "// products: large ones by cublasLt"
expect 0 env VTB_CUBLAS=0 "$VERTEBRA" dump vit_nano --target cuda --stage launches --batch 64; says "products: all generated"; silent_about "library product"
expect 0 env VTB_CUBLAS=1 "$VERTEBRA" dump vit_nano --target cuda --stage launches --batch 64; says "products: large ones by cublasLt"; says "library product"
expect 0 env VTB_CUBLAS=1 "$VERTEBRA" dump vit_nano --target cuda --machine h200 --stage launches --batch 64; silent_about "library product"
expect 0 "$VERTEBRA" dump vil_nano --target cuda --stage plan --precision bf16; says "peak workspace"
for target in interp cpu cuda-emulated cuda; do
  expect 0 "$VERTEBRA" dump vil_nano --target $target --stage fused --time-passes --print-after all
  passes=$(sed -n 's/^\([a-z_]*\)  *[0-9.]* ms$/\1/p' "$work/err" | sort -u)
  [ -n "$passes" ] || fail "no pass is timed for $target"
  for pass in $passes; do
    grep -q "^// after $pass$" "$work/err" || fail "$target: nothing printed after $pass"
  done
done
expect 0 "$VERTEBRA" dump vil_nano --target cuda --stage fused --print-after storage; says "// after storage"
# the whole way of a training step has names
expect 0 "$VERTEBRA" dump vil_nano --train --stage grad --print-after all --time-passes; says "// after train_step"; says "// after update"; says "train_step  "
expect 0 "$VERTEBRA" dump vil_nano --train --stage grad --print-after autodiff; says "pass autodiff does not run up to stage grad"
expect 0 "$VERTEBRA" dump vil_nano --train --stage grad --print-after update; silent_about "does not run"
expect 2 "$VERTEBRA" dump vil_nano --target cuda --stage llvm; says "no stage 'llvm'"
expect 2 "$VERTEBRA" dump vil_nano --target cpu --stage launches --audit; says "target cpu launches nothing that --audit could run"
