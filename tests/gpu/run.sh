#!/usr/bin/env bash
# Everything that needs a GPU, as one script: reference cases, a short training against the CPU's, compute-sanitizer, and
# benchmarks. It needs a `vertebra` program (VERTEBRA, or build/release/vertebra), the models and the cases beside it.
#
#   tests/gpu/run.sh [OUT]        results go to the folder OUT (default gpu-results); exit status 0 if all that ran passed
#
# VTB_GPU_TARGET is what the built files are for (cuda: every architecture; cuda:sm_90a is quicker to build);
# VTB_GPU_QUICK=1 leaves out sanitizer and benchmarks, VTB_GPU_BENCH_MINUTES (120) bounds these;
# VTB_GOLDEN names a larger collection of cases.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
vertebra=${VERTEBRA:-$here/build/release/vertebra}
out=${1:-gpu-results}
export VTB_MODELS=${VTB_MODELS:-$here/models} NO_COLOR=1
mkdir -p "$out" || exit 2
failed=()

part() { # NAME COMMAND...: runs it, keeps what it prints, remembers failure
  local name=$1
  shift
  printf '%-40s ' "$name"
  local start=$SECONDS
  if "$@" >"$out/$name.txt" 2>&1; then
    echo "ok   $((SECONDS - start)) s"
  else
    echo "FAIL $? ($out/$name.txt)"
    tail -n 3 "$out/$name.txt" | sed 's/^/    /'
    failed+=("$name")
  fi
}

"$vertebra" doctor >"$out/doctor.txt" 2>&1
grep -E '^(cuda|nvrtc|cublas)' "$out/doctor.txt"
if ! grep -q '^cuda driver  *ok' "$out/doctor.txt"; then
  echo "no GPU: nothing was run" >&2
  exit 4
fi

# ---- numbers ------------------------------------------------------------------------------------------------------
cases() { printf '%s\n' "${VTB_GOLDEN:-$here/tests/golden}/$1"/*.safetensors; }
for family in vil vim vir vllama vit; do
  mapfile -t list < <(cases $family)
  for precision in fp32 tf32 bf16 fp16; do
    part "cases_${family}_$precision" "$vertebra" verify --target cuda --precision $precision "${list[@]}"
  done
done
mapfile -t list < <(cases vil)
part cases_vil_modes "$vertebra" verify --target cuda --modes all "${list[@]}"
VTB_CUBLAS=0 part cases_vil_no_cublas "$vertebra" verify --target cuda "${list[@]}"
VTB_CUDA_GRAPH=0 part model_vil_nano "$vertebra" verify vil_nano --target cuda

# ---- files built here, run and compared by the runtime alone (pack.sh: for machines that cannot compile) ------------------
if [ -x "$(dirname "$vertebra")/check_built" ]; then
  mapfile -t list < <(cases vil; cases vim)
  VERTEBRA="$vertebra" part built_pack "$here/tests/gpu/pack.sh" "$out/pack" "${VTB_GPU_TARGET:-cuda}" "${list[@]}"
  part built_check "$out/pack/check.sh"
else
  echo "check_built is not beside $vertebra: built files are left out"
fi

# ---- training: 200 updates on the CPU and on the GPU follow one curve -------------------------------------------------
if [ -x "$(dirname "$vertebra")/train_built" ]; then
  VERTEBRA="$vertebra" part train "$here/tests/gpu/train.sh" "$out/train"
else
  echo "train_built is not beside $vertebra: training is left out"
fi

# ---- sanitizer --------------------------------------------------------------------------------------------------------
if [ -z "${VTB_GPU_QUICK:-}" ]; then
  if command -v compute-sanitizer >/dev/null; then
    small=("$here"/tests/golden/vil/cell_gates_wide.safetensors "$here"/tests/golden/vil/vil2_causal1d.safetensors)
    for tool in memcheck racecheck synccheck initcheck; do
      VTB_CUDA_GRAPH=0 part "sanitizer_$tool" compute-sanitizer --tool $tool --error-exitcode 9 \
        "$vertebra" verify --target cuda "${small[@]}"
    done
    VTB_CUDA_GRAPH=0 part sanitizer_train compute-sanitizer --tool memcheck --error-exitcode 9 "$vertebra" train vil_nano \
      -D depth=1 --data "$out/train/data" --batch 8 --eval-batch 8 --limit 32 --max-steps 2 --ema 0.9 --quiet \
      --target cuda --precision fp16 --out "$out/sanitized"
  else
    echo "compute-sanitizer is not installed: left out"
  fi

  # ---- benchmarks -----------------------------------------------------------------------------------------------------
  # bench.py stops by itself when its minutes are over; run again with the same OUT, it goes on where it stopped
  if command -v python3 >/dev/null; then
    if python3 -c 'import torch' 2>/dev/null; then
      part peers_check python3 "$here/tests/gpu/peers.py" check --vertebra "$vertebra"
    fi
    part bench python3 "$here/tests/gpu/bench.py" --vertebra "$vertebra" --out "$out/bench" \
      --budget "${VTB_GPU_BENCH_MINUTES:-120}"
  else
    echo "python3 is not installed: benchmarks are left out"
  fi
fi

if [ ${#failed[@]} -gt 0 ]; then
  echo "${#failed[@]} failed: ${failed[*]}"
  exit 1
fi
echo "all passed"
