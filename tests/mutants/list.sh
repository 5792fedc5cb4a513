# shellcheck shell=bash
# The list of small wrong changes, for the scripts beside it: sourced in the root of the tree.

# ---- "@ name file" begins a change, "-" lines are its text, "+" lines what stands there instead, "?" the tests that should
# notice it, in the order in which they are tried
names=() files=() olds=() news=() tests=()
read_list() {
  local line n=-1 number=0
  while IFS= read -r line || [ -n "$line" ]; do
    number=$((number + 1))
    case $line in
    '' | '#'*) ;;
    '@ '*) n=$((n + 1)); read -r _ names[n] files[n] <<<"$line"; olds[n]= news[n]= tests[n]= ;;
    '- '* | '-') olds[n]+=${olds[n]:+$'\n'}${line:2} ;;
    '+ '* | '+') news[n]+=${news[n]:+$'\n'}${line:2} ;;
    '? '*) tests[n]+=" ${line:2}" ;;
    *) echo "${from:-tests/mutants/list.txt}:$number: neither @, -, + nor ?" >&2; exit 2 ;;
    esac
  done <"${from:-tests/mutants/list.txt}"
}

# changed NUMBER FILE: its text with the change, in $text; 1 if what it changes is not there exactly once
changed() {
  local old=${olds[$1]} rest
  [ -f "$2" ] && [ -n "$old" ] || return 1
  text=$(cat "$2"; printf .)
  text=${text%.}
  rest=${text#*"$old"}
  [ "$rest" != "$text" ] && [ "${rest#*"$old"}" = "$rest" ] || return 1
  text=${text%%"$old"*}${news[$1]}$rest
}

# targets TEST...: what must be built for tests of the suite
targets() {
  local t
  for t in "$@"; do
    case $t in
    cli/* | std/* | examples/* | docs/* | golden/*) echo vertebra make_data ;;
    ranks/mpi) echo ranks_job ;;
    fuzz/*) echo "${t/\//_}" ;;
    *) echo "${t%%/*}_test_${t#*/}" ;;
    esac
  done | tr ' ' '\n' | sort -u
}
