#!/usr/bin/env bash
# Every preset, forward and training step, through NVRTC for every architecture, with a table of registers and spills.
#
#   cuda_presets.sh          all of them: hours where nothing is cached (`./dev test --all`)
#   cuda_presets.sh sample   the nano model of each family, forward or training, for an architecture and in a precision:
#                            all of them move on from day to day
#   cuda_presets.sh table    the table of what is known, as Markdown
#
# What a program gave is kept under its name beside a hash of its kernels' text: a run takes up where the last one was
# stopped, and only what changed is compiled again. Several may run at once: each takes programs nobody else has.
# VTB_PRESETS, VTB_ARCHS and VTB_PRECISIONS (fp32 bf16-all) choose; VTB_ROTATE (a number) instead of the day.
set -u
: "${VERTEBRA:?path of the vertebra program}"
known=${VTB_PRESET_RESULTS:-${XDG_CACHE_HOME:-$HOME/.cache}/vertebra/presets}
families="vil vim vir vit vllama" # sampled; all of them: with these
others="mambar vrwkv swin convnext"
mkdir -p "$known" || exit 1

presets_of() { grep -hoE '^preset [a-z0-9_]+' "models/$1.vtb" | awk '{print $2}'; }
file_of() { echo "$known/$1.${2:-forward}.$4.$3"; }

# One program: its kernels with registers and spills, unless they are known. 1: it does not compile; 3: not a classifier.
compile() { # FAMILY PRESET ""|--train ARCH PRECISION
  local file hash out start
  file=$(file_of "$2" "${3#--}" "$4" "$5")
  exec 9>"$file.lock"
  flock -n 9 || return 0
  if ! out=$("$VERTEBRA" dump "$2" $3 --precision "$5" --stage cuda 2>&1); then
    case $out in *"training needs logits"*) return 3 ;; esac
    echo "FAIL $2 $3 $5: $(tail -1 <<<"$out")"
    return 1
  fi
  hash=$(sha256sum <<<"$out" | cut -c1-16)
  [ "$(head -1 "$file" 2>/dev/null)" = "$hash" ] && return 0
  start=$(date +%s.%N)
  if ! out=$("$VERTEBRA" dump "$2" $3 --precision "$5" --stage resources --arch "$4" 2>&1); then
    echo "FAIL $2 $3 $4 $5: $(tail -1 <<<"$out")"
    return 1
  fi
  { echo "$hash"
    echo "$1 $2 ${3:-forward}:$5 $4 $(awk "BEGIN { print $(date +%s.%N) - $start }")"
    awk '$2 ~ /^[0-9]+$/ && $5 ~ /^[0-9]+$/ { print $1, $4, $5, $NF }' <<<"$out"
  } >"$file.new" && mv "$file.new" "$file"
  awk -v what="$2 $3 $4 $5" '$2 ~ /^[0-9]+$/ && $5 > 0 { print "spills " $5 " bytes: " what " " $1 " " $NF }' <<<"$out"
}

# A line a family and architecture; below it every kernel that spills, once a source line.
table() {
  cat "$known"/*.sm_* 2>/dev/null | awk '
    NF == 5 { split($3, how, ":"); key = $1 " | " how[2] " | " $4; programs[key]++; seconds[key] += $5; what = $2 " " $3 " " $4; next }
    NF == 4 { kernels[key]++; if ($2 > most[key]) most[key] = $2
              if ($3 > 0) { spilling[key]++; kind = $1; sub(/_[0-9]+$/, "", kind); s = kind " " $4 " " what " " $3
                            spills[s]++ } }
    END {
      print "| family | precision | architecture | programs | kernels | registers, at most | kernels that spill | seconds |"
      print "| --- | --- | --- | --- | --- | --- | --- | --- |"
      n = 0
      for (k in programs) keys[++n] = k
      for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (keys[j] < keys[i]) { t = keys[i]; keys[i] = keys[j]; keys[j] = t }
      for (i = 1; i <= n; i++) { k = keys[i]
        printf "| %s | %d | %d | %d | %d | %.0f |\n", k, programs[k], kernels[k], most[k], spilling[k], seconds[k] }
      print ""
      for (s in spills) { split(s, f, " "); print "- `" f[1] "` (" f[2] "), " f[3] " " f[4] " " f[5] ": " f[6] " bytes" }
    }'
}

sample() {
  local turn=${VTB_ROTATE:-$(date +%-j)} i=0 family preset train
  local trains=("" --train) archs=(sm_80 sm_90a sm_100a) precisions=(fp32 bf16-all)
  for family in $families; do
    preset=$(presets_of "$family" | grep nano | head -1)
    train=${trains[(turn + i) % 2]}
    compile "$family" "$preset" "$train" "${archs[(turn / 2 + i) % 3]}" "${precisions[(turn / 6 + i) % 2]}"
    [ $? = 1 ] && status=1
    i=$((i + 1))
  done
}

all() {
  local family preset train arch precision
  for family in $families $others; do
    for preset in ${VTB_PRESETS:-$(presets_of "$family")}; do
      [ -z "${VTB_PRESETS:-}" ] || presets_of "$family" | grep -qx "$preset" || continue
      for train in "" --train; do
        for arch in ${VTB_ARCHS:-sm_80 sm_90a sm_100a}; do
          for precision in ${VTB_PRECISIONS:-fp32 bf16-all}; do
            compile "$family" "$preset" "$train" "$arch" "$precision"
            case $? in 1) status=1 ;; 3) break 2 ;; esac
          done
        done
      done
    done
  done
}

status=0
[ "${1:-}" = table ] && { table; exit 0; }
"$VERTEBRA" dump vit_nano --stage ptx >/dev/null 2>&1 || { echo "no NVRTC: skipped"; exit 77; }
case ${1:-all} in
sample) sample ;;
all) all ;;
*) echo "cuda_presets.sh: '$1' is neither sample, all nor table" >&2; exit 2 ;;
esac
table
exit $status
