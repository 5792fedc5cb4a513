#!/usr/bin/env bash
# Every launch of 4 MB and more stays within twice the sectors that its bytes need (docs/cuda_cost.md).
#
#   cuda_audit.sh            every preset, forward and training step, at batch 128 (`./dev test --all`)
#   cuda_audit.sh FAMILY     a small preset of the family: vil, vim, vir, vit or vllama
#
# What was found of a program is kept beside a hash of its kernels and launches: a run takes up where the last one was
# stopped. VTB_AUDIT_PRECISION (bf16-all) and VTB_AUDIT_BATCH choose others.
set -u
: "${VERTEBRA:?path of the vertebra program}"
kept=${XDG_CACHE_HOME:-$HOME/.cache}/vertebra/audits
precision=${VTB_AUDIT_PRECISION:-bf16-all} batch=${VTB_AUDIT_BATCH:-128}
families="vil vim vir vit vllama"
declare -A small=([vil]=vil_tiny [vim]=vim_tiny [vir]=vir_small [vit]=deit_tiny [vllama]=visionllama_small)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$kept" || exit 1

# Kinds of kernels that are known to waste, by family. An entry that no longer does fails the test: take it out.
# `all`: only presets beyond the small one have it.
known="
vil blocks all
vim local all
vim loop all
vim product all
vir im2col all
vir strips all
"

presets_of() { grep -hoE '^preset [a-z0-9_]+' "models/$1.vtb" | awk '{print $2}'; }

# The rows of one program that offend, "SECTORS BLOCK KERNEL MB" a line, unless they are known. 1: no audit; 3: no classifier.
audit() { # PRESET ""|--train
  local options="--precision $precision --batch $batch" file="$kept/$1.${2#--}.$precision.$batch" out hash
  out=$("$VERTEBRA" dump "$1" $2 $options --stage launches 2>&1 && "$VERTEBRA" dump "$1" $2 $options --stage cuda 2>&1) || {
    case $out in *"training needs logits"*) return 3 ;; esac
    echo "FAIL $1 $2: $(tail -1 <<<"$out")" >&2
    return 1
  }
  hash=$(sha256sum <<<"audit 1 $out" | cut -c1-16)
  if [ "$(head -1 "$file" 2>/dev/null)" != "$hash" ]; then
    out=$("$VERTEBRA" dump "$1" $2 $options --stage launches --audit 2>&1) || {
      echo "FAIL $1 $2: $(tail -1 <<<"$out")" >&2
      return 1
    }
    grep -q '^[0-9]* launches of ' <<<"$out" || { echo "FAIL $1 $2: $out" >&2; return 1; }
    { echo "$hash"; sed -n 's/^!//p' <<<"$out" | awk '{ print $4, $5, $NF, $3 }'; } >"$file.new" && mv "$file.new" "$file"
  fi
  sed 1d "$file"
}

# Kernels' names are cut behind 14 characters of their kind.
is_kind() { case $1 in "$(cut -c1-14 <<<"${2}_")"*) return 0 ;; esac; return 1; }

status=0
judge() { # FAMILY PRESET TRAIN
  local sectors block kernel mb family kind where excused
  audit "$2" "$3" >"$work/rows"
  case $? in 1) status=1; return ;; 3) return ;; esac
  while read -r sectors block kernel mb; do
    excused=
    while read -r family kind where; do
      [ "$family" = "$1" ] && is_kind "$kernel" "$kind" && excused=1 && echo "$family $kind" >>"$work/seen"
    done <<<"$known"
    [ -n "$excused" ] && continue
    echo "$2 ${3:-forward}: $kernel, $mb MB: $sectors times the ideal sectors a warp's access, $block a block"
    status=1
  done <"$work/rows"
}

stale() { # FAMILY...: entries of theirs that have not been seen
  local family kind where
  while read -r family kind where; do
    case " $* " in *" ${family:-none} "*) ;; *) continue ;; esac
    [ "$mode" != all ] && [ "${where:-}" = all ] && continue
    grep -qx "$family $kind" "$work/seen" && continue
    echo "$family $kind no longer offends: take it out of the list"
    status=1
  done <<<"$known"
}

mode=${1:-all}
: >"$work/seen"
if ! command -v "${VTB_CXX:-${CXX:-g++}}" clang++ >/dev/null; then
  echo "no C++ compiler: skipped"
  exit 77
fi
if [ "$mode" = all ]; then
  for family in $families; do
    for preset in $(presets_of "$family"); do
      judge "$family" "$preset" ""
      judge "$family" "$preset" --train
    done
  done
  stale $families
else
  [ -n "${small[$mode]:-}" ] || { echo "cuda_audit.sh: no family '$mode'" >&2; exit 2; }
  judge "$mode" "${small[$mode]}" ""
  judge "$mode" "${small[$mode]}" --train
  stale "$mode"
fi
exit $status
