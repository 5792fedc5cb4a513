#!/usr/bin/env bash
# Small wrong changes against the tests that the list names, in seconds each: beside a finished build, of which nothing is
# written. The changed file alone is compiled; put before the libraries on the command line of the tests' programs, its
# object stands for the one within.
#
#   tests/mutants/quick.sh BUILD [PATTERN] [--tests "NAME..."] [--from LIST] [--jobs N]
#   tests/mutants/quick.sh BUILD --ten      ten of the list, chosen by the commit: the test mutants/ten
#
# PATTERN: as of run.sh. --tests: these instead of those that the list names. A change of a header, or of what other texts
# are made from, is for run.sh. Exit status: 0 all noticed, 1 some survive, 2 the list is wrong, 77 nothing can be tried here.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
top=$PWD
. tests/mutants/list.sh

pattern=. other= jobs=1 ten= build= from=
while [ $# -gt 0 ]; do
  case $1 in
  --ten) ten=1 jobs=2 ;; # a test that takes longer than 30 seconds has noticed something
  --tests) other=$2; shift ;;
  --from) from=$2; shift ;;
  --jobs) jobs=$2; shift ;;
  -h | --help) sed -n '2,12p' "${BASH_SOURCE[0]}" | sed 's/^# \{0,1\}//'; exit 0 ;;
  -*) echo "quick.sh: unknown option $1" >&2; exit 2 ;;
  *) if [ -z "$build" ]; then build=$(cd "$1" && pwd) || exit 2; else pattern=$1; fi ;;
  esac
  shift
done
[ -f "$build/build.ninja" ] && [ -f "$build/compile_commands.json" ] && command -v ninja >/dev/null ||
  { echo "skipped: not a build by ninja"; exit 77; }
ulimit -c 0 -v $((16 << 20)) # a change may take memory without end
export NO_COLOR=1 LC_ALL=C
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
read_list

# ---- which ---------------------------------------------------------------------------------------

# Of a header its readers would be compiled, what is made from two texts has no compiler of its own here.
tried_here() { # NUMBER
  case ${files[$1]} in
  */library.cuh | */intrinsics.cuh) return 1 ;;
  *.c | codegen/cuda/text/* | codegen/cpu/text/*) return 0 ;;
  esac
  return 1
}
# Those that take more than a few seconds.
slow=' (golden|cli|examples|ranks|compile|std)/| whole/update| codegen/(cuda|linscan|recurrence|ptx)| fuzz/| hostile/'
seed() {
  git -C "$top" rev-parse HEAD 2>/dev/null && return
  cksum <tests/mutants/list.txt
}
choose_ten() {
  local n seed
  seed=$(seed)
  git -C "$top" rev-parse HEAD >/dev/null 2>&1 || echo "no git: chosen by the list's checksum"
  for n in "${!names[@]}"; do
    tried_here "$n" && [[ ! ${tests[n]} =~ $slow ]] && echo "$(cksum <<<"$seed ${names[n]}" | cut -d ' ' -f 1) $n"
  done | sort -n | head -n 10 | cut -d ' ' -f 2 >"$home/chosen"
  mapfile -t chosen <"$home/chosen"
}

# ---- one -----------------------------------------------------------------------------------------

# command_of FILE: what compiles it, up to "-o OBJECT"
command_of() {
  grep -F -- " -c $top/$1\"" "$build/compile_commands.json" | head -n 1 |
    sed -e 's/^ *"command": "//' -e 's/",\{0,1\}$//' -e 's/\\\(["\\]\)/\1/g'
}

# compile NUMBER FOLDER: FOLDER/changed.o and its name in the build, in $object
compile() {
  local file=${files[$1]} dir=$2 source command
  mkdir -p "$dir/$(dirname "$file")"
  printf '%s' "$text" >"$dir/$file"
  local room=${file#codegen/}
  room=${room%%/*}
  case $file in
  codegen/*/text/*) # what is made of texts, and the table of all
    command=$(ninja -C "$build" -t commands "codegen/$room/texts.gen.c" | grep -E "codegen/$room/text(/.*\.bc|s\.gen\.c)")
    command=${command//"-I$top "/"-I$dir -I$top "}
    command=${command//"$top/$file"/"$dir/$file"}
    command=${command//"$build/codegen/$room/text"/"$dir/text"}
    mkdir -p "$dir/text"
    (cd "$build" && eval "$command") || return 1
    command=$(grep -F -- "$room/texts.gen.c.o -c" "$build/compile_commands.json" | head -n 1 |
      sed -e 's/^ *"command": "//' -e 's/",\{0,1\}$//' -e 's/\\\(["\\]\)/\1/g')
    source=$dir/texts.gen.c
    ;;
  *)
    command=$(command_of "$file")
    source=$dir/$file
    ;;
  esac
  [ -n "$command" ] || return 1
  object=${command##* -o }
  object=${object%% -c *}
  (cd "$build" && eval "${command%% -o *} -I$top/$(dirname "$file") -o $dir/changed.o -c $source")
}

# link TARGET FOLDER: FOLDER/TARGET with the changed object, rooms as archives; nothing where the target does not have it
link() {
  local command library=${object#CMakeFiles/}
  library=lib${library%%.dir/*}.a
  command=$(ninja -C "$build" -t commands "$1" | tail -n 1 | sed -E 's#tests/(lib[a-z_]+)_shared\.so#\1.a#g')
  case $command in
  *" $object "*) command=${command/" $object "/" $2/changed.o "} ;;
  *"$library"*) command=${command/ -o / "$2/changed.o" -o } ;;
  *) return 0 ;;
  esac
  (cd "$build" && eval "$(sed -E "s# -o (tests/)?$1 # -o $2/$1 #" <<<"$command")")
}

# try NUMBER: sets $verdict and $noticed
try() {
  local dir=$home/$1 text object target name named=${other:-${tests[$1]}} edit=() ran=
  verdict= noticed=
  mkdir -p "$dir/ctest"
  tried_here "$1" || { verdict="not here"; return; }
  changed "$1" "${files[$1]}" || { verdict="does not apply"; return; }
  compile "$1" "$dir" >"$dir/log" 2>&1 || { verdict="does not build"; tail -n 6 "$dir/log"; return; }
  # shellcheck disable=SC2086
  for target in $(targets $named); do
    link "$target" "$dir" >"$dir/log" 2>&1 || { verdict="does not build"; tail -n 6 "$dir/log"; return; }
    [ ! -f "$dir/$target" ] || edit+=(-e "s#$build/(tests/)?$target([\"; ])#$dir/$target\\2#g")
  done
  [ ${#edit[@]} -gt 0 ] || { verdict="does not build"; return; }
  sed -E "${edit[@]}" "$build/tests/CTestTestfile.cmake" >"$dir/ctest/CTestTestfile.cmake"
  for name in $named; do
    # a test that keeps files of its own is not run twice at once
    flock "$home/${name//\//_}.lock" timeout 300 ctest --test-dir "$dir/ctest" --timeout $((ten ? 30 : 120)) -R "^$name\$" >"$dir/log" 2>&1 ||
      { verdict=noticed noticed=$name; break; }
    grep -q 'Skipped' "$dir/log" || ran=1
  done
  [ -n "$verdict" ] || verdict=${ran:+survived}
  [ -n "$verdict" ] || verdict="skipped"
  rm -rf "$dir"
}

work() { # NUMBER...
  local n start
  for n in "$@"; do
    start=$SECONDS
    [ -n "$ten" ] && [ $SECONDS -gt 60 ] && { echo "no time left for ${names[n]}"; continue; }
    try "$n"
    printf '%-14s %-34s %-44s %4ds  %s\n' "$verdict" "${names[n]}" "${files[n]}" $((SECONDS - start)) "$noticed"
    echo "$verdict" >>"$home/verdicts"
  done
}

chosen=()
if [ -n "$ten" ]; then
  choose_ten
else
  for n in "${!names[@]}"; do [[ "${names[n]} ${files[n]}" =~ $pattern ]] && chosen+=("$n"); done
fi
[ ${#chosen[@]} -gt 0 ] || { echo "no change is named like '$pattern'" >&2; exit 2; }
touch "$home/verdicts"
for ((job = 0; job < jobs; job++)); do
  mine=()
  for ((k = job; k < ${#chosen[@]}; k += jobs)); do mine+=("${chosen[k]}"); done
  work "${mine[@]}" &
done
wait
count() { grep -c "^$1" "$home/verdicts"; }
echo "$(count noticed) noticed, $(count survived) survived, $(count skipped) skipped, $(count 'not here') for run.sh," \
  "$(count does) do not apply or build; $SECONDS s"
[ "$(count does)" = 0 ] || exit 2
[ "$(count survived)" = 0 ]
