#!/usr/bin/env bash
# Every launch of 4 MB and more stays within twice the sectors that its bytes need (docs/cuda_cost.md).
#
#   cuda_audit.sh            every preset, forward and training step, at batch 128 (`./dev test --all`)
#   cuda_audit.sh FAMILY     a small preset of the family: vil, vim, vir, vit or vllama
#   cuda_audit.sh table      what is known of all presets, as Markdown
#
# Models of few blocks are looked at, since blocks repeat. What was found of a program is kept beside a
# hash of its kernels and launches: a run takes up where the last one was stopped, VTB_AUDIT_JOBS (2) programs at a
# time: an hour on two cores at first, minutes from then on. VTB_AUDIT_PRECISION (bf16-all) and VTB_AUDIT_BATCH choose
# others, VTB_AUDIT_PRESETS some presets.
set -u
: "${VERTEBRA:?path of the vertebra program}"
kept=${XDG_CACHE_HOME:-$HOME/.cache}/vertebra/audits
precision=${VTB_AUDIT_PRECISION:-bf16-all} batch=${VTB_AUDIT_BATCH:-128}
families="vil vim vir vit vllama mambar vrwkv swin convnext"
declare -A small=([vil]=vil_tiny [vim]=vim_tiny [vir]=vir_small [vit]=deit_tiny [vllama]=visionllama_small)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$kept" || exit 1

# Kinds of kernels that are known to waste, by family, and why, a line each: "vim local all reason". None is; keep it so.
# An entry that no longer does fails the test: take it out. `all`: only presets beyond the small one have it.
known="
"

presets_of() { grep -hoE '^preset [a-z0-9_]+' "models/$1.vtb" | awk '{print $2}' | grep -v nano; }
file_of() { echo "$kept/$1.${2#--}.$precision.$batch"; }

# Options that make the preset a model of few blocks, "" if it has no number of them.
few_blocks() { # PRESET
  local option
  for option in "-D depth=2" "-D depths=[1,1,2,1]"; do
    "$VERTEBRA" check "$1" $option >/dev/null 2>&1 && echo "$option" && return
  done
}

# The rows of one program that offend, "SECTORS BLOCK KERNEL MB" a line, unless they are known. 1: no audit; 3: no classifier.
audit() { # PRESET ""|--train
  local options="--precision $precision --batch $batch" file out hash
  file=$(file_of "$1" "$2")
  options="$options $(few_blocks "$1")"
  out=$("$VERTEBRA" dump "$1" $2 $options --stage launches 2>&1 && "$VERTEBRA" dump "$1" $2 $options --stage cuda 2>&1) || {
    case $out in *"training needs logits"*) return 3 ;; esac
    echo "FAIL $1 $2: $(tail -1 <<<"$out")" >&2
    return 1
  }
  hash=$(sha256sum <<<"audit 2 $out" | cut -c1-16)
  if [ "$(head -1 "$file" 2>/dev/null)" != "$hash" ]; then
    out=$("$VERTEBRA" dump "$1" $2 $options --stage launches --audit 2>&1) || {
      echo "FAIL $1 $2: $(tail -1 <<<"$out")" >&2
      return 1
    }
    grep -q '^[0-9]* launches of ' <<<"$out" || { echo "FAIL $1 $2: $out" >&2; return 1; }
    { echo "$hash"; sed -n 's/^!//p' <<<"$out" | awk '{ print $4, $5, $NF, $3 }'; } >"$file.$$" && mv "$file.$$" "$file"
  fi
  sed 1d "$file"
}

# Kernels' names are cut behind 14 characters of their kind.
is_kind() { case $1 in "$(cut -c1-14 <<<"${2}_")"*) return 0 ;; esac; return 1; }

status=0
judge() { # FAMILY PRESET TRAIN
  local sectors block kernel mb family kind where why excused
  audit "$2" "$3" >"$work/rows"
  case $? in 1) status=1; return ;; 3) return ;; esac
  while read -r sectors block kernel mb; do
    excused=
    while read -r family kind where why; do
      [ "$family" = "$1" ] && is_kind "$kernel" "$kind" && excused=1 && echo "$family $kind" >>"$work/seen"
    done <<<"$known"
    [ -n "$excused" ] && continue
    echo "$2 ${3:-forward}: $kernel, $mb MB: $sectors times the ideal sectors a warp's access, $block a block"
    status=1
  done <"$work/rows"
}

stale() { # FAMILY...: entries of theirs that have not been seen
  local family kind where why
  while read -r family kind where why; do
    case " $* " in *" ${family:-none} "*) ;; *) continue ;; esac
    [ "$mode" != all ] && [ "$where" = all ] && continue
    grep -qx "$family $kind" "$work/seen" && continue
    echo "$family $kind no longer offends: take it out of the list"
    status=1
  done <<<"$known"
}

programs() { # FAMILY PRESET TRAIN a line
  local family preset
  for family in $families; do
    for preset in $(presets_of "$family"); do
      case " ${VTB_AUDIT_PRESETS:-$preset} " in *" $preset "*) ;; *) continue ;; esac
      printf '%s %s forward\n%s %s --train\n' "$family" "$preset" "$family" "$preset"
    done
  done
}

# A line a kernel that offends: where it does so most.
table() {
  local family preset train
  echo "| kernel | program | MB | sectors over ideal | of a block |"
  echo "| --- | --- | --- | --- | --- |"
  programs | while read -r family preset train; do
    sed 1d "$(file_of "$preset" "${train#forward}")" 2>/dev/null | awk -v what="$preset ${train#--}" '{ print $3, $4, $1, $2, what }'
  done | sort -k1,1 -k2,2nr | awk '{ kind = substr($1, 1, 14); if (kind != last) print "| `" $1 "` | " $5 " " $6 " | " $2 " | " $3 " | " $4 " |"; last = kind }'
}

mode=${1:-all}
: >"$work/seen"
[ "$mode" = table ] && { table; exit 0; }
if ! command -v "${VTB_CXX:-${CXX:-g++}}" clang++ >/dev/null; then
  echo "no C++ compiler: skipped"
  exit 77
fi
case $mode in
one) # FAMILY PRESET forward|--train, of all
  mode=all
  audit "$3" "${4#forward}" >/dev/null
  ;;
all)
  programs | xargs -P "${VTB_AUDIT_JOBS:-2}" -L 1 "$BASH" "$0" one
  while read -r family preset train; do judge "$family" "$preset" "${train#forward}"; done < <(programs)
  [ -n "${VTB_AUDIT_PRESETS:-}" ] || stale $families
  ;;
*)
  [ -n "${small[$mode]:-}" ] || { echo "cuda_audit.sh: no family '$mode'" >&2; exit 2; }
  judge "$mode" "${small[$mode]}" --train # the forward pass is in it
  stale "$mode"
  ;;
esac
exit $status
