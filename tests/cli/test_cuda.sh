# CUDA kernels without a GPU: reference cases through the emulator, and plain words where a GPU is wanted and missing.
. tests/cli/lib.sh
# compiled kernels are kept beside the program, so that only the first run compiles them
export XDG_CACHE_HOME="$(dirname "$VERTEBRA")/test-cache"

expect 2 "$VERTEBRA" verify --target gpu tests/golden/vil/cell_parallel_basic.safetensors; says "unknown target 'gpu'"
expect 2 "$VERTEBRA" bench vil_nano --target gpu; says "unknown target 'gpu'"

# never a silent fall-back
export VTB_CUDA_DRIVER="$work/absent.so"
expect 4 "$VERTEBRA" verify --target cuda tests/golden/vil/cell_parallel_basic.safetensors; says "CUDA driver"
silent_about "ok "
expect 0 "$VERTEBRA" doctor; says "cuda driver    absent"; says "$work/absent.so"
unset VTB_CUDA_DRIVER
VTB_NCCL="$work/absent.so" expect 0 "$VERTEBRA" doctor; says "nccl           absent"; says "VTB_NCCL=$work/absent.so"

if ! "$VERTEBRA" doctor | grep -q '^cuda emulator  *ok'; then
  echo "skipped: $("$VERTEBRA" doctor | grep '^cuda emulator')"
  exit 77
fi
export VTB_CXX="$work/no-compiler"
expect 1 "$VERTEBRA" verify --target cuda-emulated tests/golden/vil/cell_parallel_basic.safetensors; says "no-compiler does not exist"
unset VTB_CXX

cases=(tests/golden/vil/cell_gates_wide.safetensors tests/golden/vil/vil2_causal1d.safetensors)
expect 0 "$VERTEBRA" verify --target cuda-emulated "${cases[@]}"; says "2 cases, 0 failed"
# another order of threads and blocks, and no checks: the same numbers
first=$out
VTB_EMULATOR_SEED=7 VTB_EMULATOR_CHECKS=0 expect 0 "$VERTEBRA" verify --target cuda-emulated "${cases[@]}"
[ "$out" = "$first" ] || fail "results depend on the order of threads: $out, before: $first"

# gradients in narrow formats, of cases whose errors grow most on the way
narrow=(tests/golden/vil/vil2_conv1d.safetensors tests/golden/vllama/twins_svt_baseline.safetensors)
for precision in bf16 fp16; do
  VTB_EMULATOR_CHECKS=0 expect 0 "$VERTEBRA" verify --target cuda-emulated --precision $precision "${narrow[@]}"; says "2 cases, 0 failed"
done
expect 2 "$VERTEBRA" verify --target cuda-emulated --precision fp8 "${narrow[@]}"; says "fp32, tf32, bf16, fp16 and bf16-all"
