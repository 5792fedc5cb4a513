#!/usr/bin/env bash
# What a machine with a GPU needs and nothing of what compiling needs: built cases, the cases, and a program of the runtime
# alone that compares them, with its libraries. Copy the folder there and run its check.sh; neither LLVM nor NVRTC is
# needed there.
#
#   tests/gpu/pack.sh [FOLDER [TARGETS [CASE...]]]      default: gpu-pack, cuda:sm_80,sm_90a,sm_100a, every reference case
#
# VERTEBRA names the program (build/release/vertebra); check_built is taken from beside it.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
vertebra=${VERTEBRA:-$here/build/release/vertebra}
export VTB_MODELS=${VTB_MODELS:-$here/models} NO_COLOR=1
out=${1:-gpu-pack} targets=${2:-cuda}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- "$here"/tests/golden/*/*.safetensors
. "$here/tests/gpu/libraries.sh"
mkdir -p "$out/cases" "$out/built"
cp "$(dirname "$vertebra")/check_built" "$out/"
carry_libraries "$out/lib" "$out/check_built"
for case in "$@"; do
  name=$(basename "$(dirname "$case")")_$(basename "$case" .safetensors)
  cp "$case" "$out/cases/$name.safetensors"
  "$vertebra" build "$case" --map "$here/tests/golden/cases.map" --target "$targets" -o "$out/built/$name.so" >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
done
rm -f "$out/log"
cat >"$out/check.sh" <<'SCRIPT'
#!/usr/bin/env bash
# usage: check.sh [TARGET]: every built case on cuda (default) or cpu; exit status 0 if all pass
cd "$(dirname "$0")" || exit 2
export LD_LIBRARY_PATH=$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
pairs=()
for file in built/*.so; do pairs+=("$file" "cases/$(basename "$file" .so).safetensors"); done
exec ./check_built "${1:-cuda}" 2e-4 "${pairs[@]}"
SCRIPT
chmod +x "$out/check.sh"
echo "$out: $(ls "$out/built" | wc -l) built cases; run $out/check.sh there"
