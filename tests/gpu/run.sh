#!/usr/bin/env bash
# Everything that needs a GPU, as one script: reference cases, a short training against the CPU's, compute-sanitizer, and
# benchmarks. It needs a `vertebra` program (VERTEBRA, or build/release/vertebra), the models and the cases beside it.
#
#   tests/gpu/run.sh [OUT]        results go to the folder OUT (default gpu-results); exit status 0 if all that ran passed
#
# VTB_GPU_QUICK=1 leaves out sanitizer and benchmarks; VTB_GOLDEN names a larger collection of cases.
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
  part "cases_$family" "$vertebra" verify --target cuda "${list[@]}"
done
mapfile -t list < <(cases vil)
part cases_vil_modes "$vertebra" verify --target cuda --modes all "${list[@]}"
VTB_CUBLAS=0 part cases_vil_no_cublas "$vertebra" verify --target cuda "${list[@]}"
VTB_CUDA_GRAPH=0 part model_vil_nano "$vertebra" verify vil_nano --target cuda

# ---- training: 200 updates on the CPU and on the GPU follow one curve -------------------------------------------------
train() { # TARGET
  "$vertebra" train vil_nano --data fashion-mnist --target "$1" --batch 64 --limit 12800 --epochs 1 --seed 1 \
    --max-steps 200 --quiet --out "$out/train_$1"
}
part train_cpu train cpu
part train_cuda train cuda
compare_curves() {
  awk -F, -v tolerance=0.02 '
    FNR == 1 { for (i = 1; i <= NF; i++) if ($i ~ /loss/) { column = i; break }; next }
    NR == FNR { want[FNR] = $column; next }
    { n++; d = $column - want[FNR]; if (d < 0) d = -d; print "row", FNR, "gpu", $column, "cpu", want[FNR]
      if (!(d <= tolerance * want[FNR])) bad++ }
    END { exit !(n > 0 && !bad) }' "$out/train_cpu/log.csv" "$out/train_cuda/log.csv"
}
part train_curves compare_curves

# ---- sanitizer --------------------------------------------------------------------------------------------------------
if [ -z "${VTB_GPU_QUICK:-}" ]; then
  if command -v compute-sanitizer >/dev/null; then
    small=("$here"/tests/golden/vil/cell_gates_wide.safetensors "$here"/tests/golden/vil/vil2_causal1d.safetensors)
    for tool in memcheck racecheck synccheck initcheck; do
      VTB_CUDA_GRAPH=0 part "sanitizer_$tool" compute-sanitizer --tool $tool --error-exitcode 9 \
        "$vertebra" verify --target cuda "${small[@]}"
    done
  else
    echo "compute-sanitizer is not installed: left out"
  fi

  # ---- benchmarks -----------------------------------------------------------------------------------------------------
  for model in vil_tiny vil_small vil_base vim_tiny vim_small vim_base; do
    for batch in 1 32 128; do
      part "bench_${model}_b$batch" "$vertebra" bench $model --target cuda --batch $batch --json
      part "bench_${model}_b${batch}_train" "$vertebra" bench $model --target cuda --batch $batch --train --json
    done
  done
fi

if [ ${#failed[@]} -gt 0 ]; then
  echo "${#failed[@]} failed: ${failed[*]}"
  exit 1
fi
echo "all passed"
