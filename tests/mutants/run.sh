#!/usr/bin/env bash
# Small wrong changes, one at a time: which test notices? On demand only, minutes to an hour.
#
#   tests/mutants/run.sh [PATTERN] [--jobs N] [--list] [--first] [--baseline] [--out FILE]
#
# PATTERN: a regular expression for names or files of tests/mutants/list.txt (default: all). For each change: the
# tree is copied to build/mutants/JOB (again for each run, compiled files are kept), the change is made there, the tests
# that the list names are built and run, and if none fails the others of the quick suite. --first: the named ones alone.
# --baseline: before that the named tests without any change, which must pass, or nothing is learnt from their failing.
# A change whose text is not there exactly once, or that does not compile, is an error of the list.
# Exit status: 0 all noticed, 1 some survive, 2 the list is wrong. --out: the table as Markdown.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
top=$PWD
pattern=. jobs=1 out= list= first= baseline=
while [ $# -gt 0 ]; do
  case $1 in
  --jobs) jobs=$2; shift ;;
  --out) out=$2; shift ;;
  --list) list=1 ;;
  --first) first=1 ;;
  --baseline) baseline=1 ;;
  -h | --help) sed -n '2,13p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
  -*) echo "run.sh: unknown option $1" >&2; exit 2 ;;
  *) pattern=$1 ;;
  esac
  shift
done
home=$top/build/mutants
mkdir -p "$home"
command -v ccache >/dev/null && export CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR="$home" CCACHE_NOHASHDIR=1
export NO_COLOR=1

. tests/mutants/list.sh

# sync COPY: the tree as it stands, without what git ignores. Only files that differ are written, so that the build
# takes their time for what it is.
sync() {
  local f
  mkdir -p "$1"
  git ls-files -co --exclude-standard >"$1.files"
  while IFS= read -r f; do
    [ -f "$f" ] || continue
    cmp -s "$f" "$1/$f" && continue
    mkdir -p "$1/$(dirname "$f")"
    cp "$f" "$1/$f"
  done <"$1.files"
  (cd "$1" && find . -type f -not -path './build/*' | cut -c 3- | sort) |
    comm -23 - <(sort "$1.files") | while IFS= read -r f; do rm -f "$1/$f"; done
}

# suite BUILD LOG ARGS...: the first test that fails, in $noticed, "(too long)" behind it if it was stopped
suite() {
  local build=$1 log=$2
  shift 2
  if timeout 900 ctest --test-dir "$build" -j 2 --stop-on-failure --timeout 120 "$@" >"$log" 2>&1; then noticed=; return 0; fi
  noticed=$(sed -n 's/^.*Test *#[0-9]*: \([^ ]*\) .*\*\*\*\([A-Z][a-z]*\).*$/\1 \2/p' "$log" | head -n 1)
  case $noticed in *Timeout) noticed="${noticed% *} (too long)" ;; *) noticed=${noticed%% *} ;; esac
  [ -n "$noticed" ] || noticed="ctest: $(tail -n 1 "$log")"
  return 1
}
# What is written, not what it does, and what takes minutes.
others='^(house/|docs/|errors/|golden/|codegen/cuda_presets|compile/installed|ops/)'

# judge JOB NUMBER: sets $verdict and $noticed
judge() {
  local copy=$home/$1 n=$2 build=$home/$1/build/release log=$home/$1.log text
  verdict= noticed=
  cp "$copy/${files[n]}" "$home/$1.kept" 2>/dev/null
  changed "$n" "$copy/${files[n]}" || { verdict="does not apply"; return; }
  printf '%s' "$text" >"$copy/${files[n]}"
  # shellcheck disable=SC2086
  if ! ninja -C "$build" -j 2 $(targets ${tests[n]}) >"$log" 2>&1; then
    verdict="does not build"
  elif ! suite "$build" "$log" -R "^($(echo ${tests[n]} | tr ' ' '|'))\$"; then
    verdict=noticed
  elif [ -n "$first" ]; then
    verdict=survived
  elif ! ninja -C "$build" -j 2 >"$log" 2>&1; then
    verdict="does not build"
  elif ! suite "$build" "$log" -LE slow -E "$others"; then
    verdict=noticed
  else
    verdict=survived
  fi
  cp "$home/$1.kept" "$copy/${files[n]}"
}

work() { # JOB NUMBER...
  local job=$1 n start
  shift
  for n in "$@"; do
    start=$SECONDS
    judge "$job" "$n"
    printf '%-14s %-34s %-44s %4ds  %s\n' "$verdict" "${names[n]}" "${files[n]}" $((SECONDS - start)) "$noticed"
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$n" "$verdict" "${names[n]}" "${files[n]}" "$noticed" $((SECONDS - start)) \
      >>"$home/results.$job"
  done
}

report() {
  local all noticed survived wrong
  all=$(wc -l <"$home/results")
  noticed=$(cut -f 2 "$home/results" | grep -c '^noticed$')
  survived=$(cut -f 2 "$home/results" | grep -c '^survived$')
  wrong=$((all - noticed - survived))
  echo "$noticed of $((noticed + survived)) noticed ($(awk -v a="$noticed" -v b=$((noticed + survived)) \
    'BEGIN { printf "%.1f", b ? 100 * a / b : 0 }') %), $survived survived, $wrong do not apply or build; $((SECONDS - began)) s"
  [ "$wrong" = 0 ] || return 2
  [ "$survived" = 0 ]
}

table() {
  echo "| change | file | noticed by |"
  echo "| --- | --- | --- |"
  awk -F '\t' '{ printf "| %s | %s | %s |\n", $3, $4, $2 == "noticed" ? $5 : "**" $2 "**" }' "$home/results"
}

read_list
chosen=()
for n in "${!names[@]}"; do
  [[ "${names[n]} ${files[n]}" =~ $pattern ]] && chosen+=("$n")
done
if [ -n "$list" ]; then
  for n in "${chosen[@]}"; do printf '%-34s %-44s%s\n' "${names[n]}" "${files[n]}" "${tests[n]}"; done
  echo "${#chosen[@]} changes"
  exit 0
fi
[ "${#chosen[@]}" -gt 0 ] || { echo "no change is named like '$pattern'" >&2; exit 2; }

began=$SECONDS
named=$(for n in "${chosen[@]}"; do printf '%s\n' ${tests[n]}; done | sort -u)
for ((job = 1; job <= jobs; job++)); do
  sync "$home/$job"
  (cd "$home/$job" && { [ -f build/release/build.ninja ] || cmake --preset release >build.log 2>&1; } &&
    ninja -C build/release -j 2 $(targets $named) >"$home/$job.log" 2>&1) || { tail "$home/$job.log"; exit 2; }
done
if [ -n "$baseline" ]; then
  suite "$home/1/build/release" "$home/1.log" -R "^($(echo $named | tr ' ' '|'))\$" ||
    { echo "without any change $noticed fails: $home/1.log" >&2; exit 2; }
  echo "$(echo "$named" | wc -l) tests pass without a change, $((SECONDS - began)) s"
fi
rm -f "$home"/results*
for ((job = 1; job <= jobs; job++)); do
  mine=()
  for ((k = job - 1; k < ${#chosen[@]}; k += jobs)); do mine+=("${chosen[k]}"); done
  : >"$home/results.$job"
  work "$job" "${mine[@]}" &
done
wait
sort -n "$home"/results.* >"$home/results"
[ -z "$out" ] || table >"$out"
report
