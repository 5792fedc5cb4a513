#!/usr/bin/env bash
# Everything that needs a GPU, as one script: reference cases, a short training against the CPU's, compute-sanitizer, and
# benchmarks. It needs a `vertebra` program (VERTEBRA, or build/release/vertebra), the models and the cases beside it;
# carry.sh makes a folder of all that for a machine without LLVM.
#
#   tests/gpu/run.sh [OUT]        results go to the folder OUT (default gpu-results); exit status 0 if all that ran passed
#
# VTB_GPU_TARGET is what the built files are for (default: this GPU; cuda: every architecture); a part that takes longer
# than VTB_GPU_PART_MINUTES (60) is ended and has failed; VTB_GPU_QUICK=1 leaves out sanitizer and benchmarks, VTB_GPU_BENCH_MINUTES (120) bounds these;
# VTB_GOLDEN names a larger collection of cases.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
vertebra=${VERTEBRA:-$here/build/release/vertebra}
out=${1:-gpu-results}
export VTB_MODELS=${VTB_MODELS:-$here/models} NO_COLOR=1
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
failed=()
limit=()
command -v timeout >/dev/null && limit=(timeout --kill-after=30 "${VTB_GPU_PART_MINUTES:-60}m") # a kernel may never end

part() { # NAME COMMAND...: runs it, keeps what it prints, remembers failure
  local name=$1
  shift
  printf '%-40s ' "$name"
  local start=$SECONDS
  if "${limit[@]}" "$@" >"$out/$name.txt" 2>&1; then
    echo "ok   $((SECONDS - start)) s"
  else
    echo "FAIL $? ($out/$name.txt)"
    tail -n 3 "$out/$name.txt" | sed 's/^/    /'
    failed+=("$name")
  fi
}

"$vertebra" doctor >"$out/doctor.txt" 2>&1
status=$?
if [ $status -ge 126 ]; then
  cat "$out/doctor.txt" >&2
  echo "$vertebra does not start here: build it, or carry it here with tests/gpu/carry.sh" >&2
  exit 2
fi
grep -E '^(cuda|nvrtc|cublas|nccl)' "$out/doctor.txt"
for needed in "cuda driver" nvrtc; do
  grep -q "^$needed  *ok" "$out/doctor.txt" && continue
  echo "without $needed nothing can be run" >&2
  exit 4
done
case $(grep '^cuda driver' "$out/doctor.txt") in
*"capability 8."*) here_only=cuda:sm_80 ;;
*"capability 9.0"*) here_only=cuda:sm_90a ;;
*"capability 10.0"*) here_only=cuda:sm_100a ;;
*) here_only=cuda ;;
esac
export VTB_GPU_TARGET=${VTB_GPU_TARGET:-$here_only}

# ---- numbers ------------------------------------------------------------------------------------------------------
map=$here/tests/golden/cases.map
cases() { printf '%s\n' "${VTB_GOLDEN:-$here/tests/golden}/$1"/*.safetensors; }
for family in vil vim vir vllama vit; do
  mapfile -t list < <(cases $family)
  for precision in fp32 tf32 bf16 fp16 bf16-all; do
    part "cases_${family}_$precision" "$vertebra" verify --map "$map" --target cuda --precision $precision "${list[@]}"
  done
done
mapfile -t list < <(cases vil)
part cases_vil_modes "$vertebra" verify --map "$map" --target cuda --modes all "${list[@]}"
if [ "$here_only" = cuda:sm_90a ]; then # products in clusters, which small cases do not take of themselves
  cases=${VTB_GOLDEN:-$here/tests/golden}
  VTB_CUBLAS=0 VTB_CUDA_WGMMA=1 VTB_CUDA_CLUSTERS=1 part cases_clusters "$vertebra" verify --map "$map" --target cuda \
    --precision bf16-all "$cases/vil/vil2_mid_bilateral_cls.safetensors" "$cases/vit/deit_gap.safetensors"
fi
VTB_CUBLAS=0 part cases_vil_no_cublas "$vertebra" verify --map "$map" --target cuda "${list[@]}"
VTB_CUDA_GRAPH=0 part model_vil_nano "$vertebra" verify vil_nano --target cuda
for model in euler newton ends nested; do
  part "loop_$model" "$vertebra" verify "$here/tests/cli/loops.vtb" --entry $model --target cuda
done

# ---- files built here, run and compared by the runtime alone (pack.sh: for machines that cannot compile) ------------------
linker=
for name in "${CC:-cc}" gcc clang; do
  [ -n "$linker" ] || linker=$(command -v "${name%% *}")
done
beside() { # whether PROGRAM is there and files can be built for it
  [ -x "$(dirname "$vertebra")/$1" ] || { echo "$1 is not beside $vertebra: $2 left out"; return 1; }
  [ -n "$linker" ] || { echo "no C compiler links files here: $2 left out"; return 1; }
}
if beside check_built "built files are"; then
  mapfile -t list < <(cases vil; cases vim)
  VERTEBRA="$vertebra" part built_pack "$here/tests/gpu/pack.sh" "$out/pack" "$VTB_GPU_TARGET" "${list[@]}"
  part built_check "$out/pack/check.sh"
  beside sessions_built "sessions are" && part built_sessions "$(dirname "$vertebra")/sessions_built" "$out"/pack/built/*.so
fi

# ---- tensors of PyTorch, by the library of this tree ---------------------------------------------------------------------
library=${VERTEBRA_LIBRARY:-$(dirname "$vertebra")/libvertebra.so}
if [ -e "$library" ] && python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  VERTEBRA_LIBRARY=$library part tensors python3 "$here/tests/gpu/tensors.py"
else
  echo "no libvertebra.so beside $vertebra, or no PyTorch with CUDA: its tensors are left out"
fi

# ---- training: 200 updates on the CPU and on the GPU follow one curve -------------------------------------------------
if beside train_built "training is"; then
  VERTEBRA="$vertebra" part train "$here/tests/gpu/train.sh" "$out/train"
fi

# ---- sanitizer --------------------------------------------------------------------------------------------------------
if [ -z "${VTB_GPU_QUICK:-}" ]; then
  sanitizer=$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:/usr/local/cuda/bin:/opt/cuda/bin command -v compute-sanitizer)
  if [ -n "$sanitizer" ]; then
    small=("$here"/tests/golden/vil/cell_gates_wide.safetensors "$here"/tests/golden/vil/vil2_causal1d.safetensors)
    for tool in memcheck racecheck synccheck initcheck; do
      VTB_CUDA_GRAPH=0 part "sanitizer_$tool" "$sanitizer" --tool $tool --error-exitcode 9 \
        "$vertebra" verify --target cuda "${small[@]}"
    done
    [ ! -d "$out/train/data" ] || VTB_CUDA_GRAPH=0 part sanitizer_train "$sanitizer" --tool memcheck --error-exitcode 9 \
      "$vertebra" train vil_nano -D depth=1 --data "$out/train/data" --batch 8 --eval-batch 8 --limit 32 --max-steps 2 --ema 0.9 --quiet \
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
    limit=() # bench.py keeps to its own
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
