#!/usr/bin/env bash
# The machine code of chosen kernels, counted (cuda_ceilings.awk) and held to the bounds in cuda_ceilings.txt.
#
#   cuda_ceilings.sh        fails where a count is beyond its bound
#   cuda_ceilings.sh show   prints the counts of every kernel in the table
#
# Needs nvcc and nvdisasm: of the toolkit, VTB_NVCC and VTB_NVDISASM, or the Python package nvidia-cuda-nvdisasm. Code is
# kept under a hash of text and compiler, so that only what changed is compiled again. VTB_ARCHS chooses architectures.
set -u
: "${VERTEBRA:?path of the vertebra program}"
here=$(dirname "$0")
table=${VTB_CEILINGS:-$here/cuda_ceilings.txt} texts=$here/../../codegen/cuda/text
library=${VTB_BUILD:-$(dirname "$VERTEBRA")}/codegen/cuda/library.cuh # with the functions of ir/scalar_ops.def
kept=${XDG_CACHE_HOME:-$HOME/.cache}/vertebra/ceilings
options="-std=c++17 -diag-suppress=177 --prec-div=false --prec-sqrt=false"

find_tool() { # NAME VALUE-OF-VARIABLE
  local found packages
  if [ -n "$2" ]; then echo "$2"; return; fi
  command -v "$1" && return
  for found in /usr/local/cuda/bin/"$1" "${CUDA_HOME:-/usr/local/cuda}"/bin/"$1"; do [ -x "$found" ] && echo "$found" && return; done
  packages=$(python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null)
  for found in $packages; do
    find "$found" -name "$1" -type f -perm -u+x 2>/dev/null
  done | head -1
}
nvcc=$(find_tool nvcc "${VTB_NVCC:-}") nvdisasm=$(find_tool nvdisasm "${VTB_NVDISASM:-}")
[ -n "$nvcc" ] || { echo "no nvcc: skipped"; exit 77; }
[ -n "$nvdisasm" ] || { echo "no nvdisasm (Python package nvidia-cuda-nvdisasm): skipped"; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
mkdir -p "$kept" || exit 1

# Of a dump: what stands before the first kernel, and the kernels of a list (separated by |).
only() {
  cat "$texts/intrinsics.cuh" "$library"
  awk -v list="$1" '
    /^VTB_KERNEL/ { kernels = 1; split($0, part, /[(),]/); name = part[3]; gsub(/ /, "", name); on = name ~ ("^(" list ")$") }
    !kernels || on { print }'
}

# The counts of the kernels of one model's rows on one architecture: lines of awk's output.
counts() { # LIST ARCH
  local text=$work/text.cu key
  only "$1" <"$work/dump" >"$text"
  key=$( (cat "$text" "$here/cuda_ceilings.awk"; "$nvcc" --version; "$nvdisasm" --version; echo "$2 $options") | sha256sum | cut -c1-32)
  if [ ! -s "$kept/$key" ]; then
    "$nvcc" -cubin -arch "$2" $options -o "$work/cubin" "$text" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
    "$nvdisasm" -c "$work/cubin" | awk -f "$here/cuda_ceilings.awk" >"$kept/$key.$$" && mv "$kept/$key.$$" "$kept/$key" || return 1
  fi
  cat "$kept/$key"
}

# Lines "model WORDS" begin the rows of a dump; a row is PATTERN ARCH BOUND..., a bound key<=N or key>=N, kept by every
# kernel whose name is the pattern (an extended regular expression).
awk '/^ *(#|$)/ { next } $1 == "model" { model = substr($0, 7); next } { print model "\t" $0 }' "$table" >"$work/rows"
status=0 rows=0
while IFS= read -r model; do
  "$VERTEBRA" dump $model --stage cuda >"$work/dump" 2>"$work/log" || { cat "$work/log"; exit 1; }
  awk -F'\t' -v m="$model" '$1 == m { print $2 }' "$work/rows" >"$work/own"
  for arch in $(awk '{ print $2 }' "$work/own" | sort -u); do
    case " ${VTB_ARCHS:-$arch} " in *" $arch "*) ;; *) continue ;; esac
    awk -v a="$arch" '$2 == a' "$work/own" >"$work/bounds"
    counts "$(awk '{ printf "%s%s", (NR > 1 ? "|" : ""), $1 }' "$work/bounds")" "$arch" >"$work/counts" || exit 1
    [ "${1:-}" = show ] && { echo "$model $arch"; sed 's/^/  /' "$work/counts"; continue; }
    awk -v what="$model $arch" '
      function fail(text) { print "FAIL " what " " text; bad = 1 }
      function judge(name, text,    at, key, bound, is) {
        at = match(text, /[<>]=/)
        key = substr(text, 1, at - 1)
        bound = substr(text, at + 2) + 0
        if (!at || !((name, key) in count)) return fail(name ": nothing is known of " text)
        is = count[name, key]
        if (substr(text, at, 1) == "<" ? is > bound : is < bound) fail(name ": " key " is " is ", bound " text)
      }
      FILENAME ~ /counts$/ { for (i = 2; i <= NF; i++) { split($i, c, "="); count[$1, c[1]] = c[2] } known[$1] = 1; next }
      { found = 0
        for (name in known) if (name ~ ("^(" $1 ")$")) { found = 1; for (i = 3; i <= NF; i++) judge(name, $i) }
        if (!found) fail("no kernel " $1) }
      END { exit bad }' "$work/counts" "$work/bounds" || status=1
    rows=$((rows + $(wc -l <"$work/bounds")))
  done
done < <(cut -f1 "$work/rows" | uniq | sort -u)
[ "${1:-}" = show ] || [ "$rows" -gt 0 ] || { echo "FAIL: no row was looked at"; status=1; }
[ "${1:-}" = show ] || echo "$rows kernels counted"
exit $status
