#!/usr/bin/env bash
# All of run.sh for a machine with a GPU and without this project's compiler, LLVM or other libraries: a folder with the
# program and what it is linked with, models, cases and scripts. Copy it there and run its run.sh; NVRTC and cublasLt may
# come from pip there (`run.sh --doctor` says what is missing), and a C compiler is needed for built files only.
#
#   tests/gpu/carry.sh [FOLDER]      default: gpu-carry
#
# VERTEBRA names the program (build/release/vertebra); check_built, sessions_built and train_built are taken from beside it.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
vertebra=${VERTEBRA:-$here/build/release/vertebra}
out=${1:-gpu-carry}
. "$here/tests/gpu/libraries.sh"
mkdir -p "$out/bin" "$out/tests"
for name in vertebra check_built sessions_built train_built; do cp "$(dirname "$vertebra")/$name" "$out/bin/"; done
carry_libraries "$out/lib" "$out"/bin/*
cp -r "$here/models" "$out/"
cp -r "$here/tests/gpu" "$here/tests/golden" "$out/tests/"
mkdir -p "$out/tests/cli" && cp "$here/tests/cli/loops.vtb" "$out/tests/cli/"
cat >"$out/run.sh" <<'SCRIPT'
#!/usr/bin/env bash
# usage: run.sh [OUT] as tests/gpu/run.sh, run.sh --doctor, or run.sh --first ARGS... as tests/gpu/first.py
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} VTB_MODELS=$here/models VERTEBRA=$here/bin/vertebra
[ "${1:-}" != --doctor ] || exec "$VERTEBRA" doctor
[ "${1:-}" != --first ] || exec python3 "$here/tests/gpu/first.py" "${@:2}"
exec "$here/tests/gpu/run.sh" "$@"
SCRIPT
chmod +x "$out/run.sh"
echo "$out: run its run.sh where the GPU is"
