#!/bin/sh
# docs/reading.md is tests/docs/reading.md.in with excerpts of what the compiler prints in place of its markers, so that
# the page cannot lie. A page that differs fails; VTB_UPDATE=1 writes it. Run in the root of the tree.
#
#   <!-- TEXT | from REGEX | to REGEX | lines REGEX ; REGEX | drop REGEX -->
#
# TEXT is a file of models/, a stage of `vertebra dump`, `after PASS`, the IR after the first run of a pass, or
# `change PASS`, the lines of the function `from` that this run took (-) and gave (+). excerpt.awk says what the fields
# mean; all but `from` may be left out.
set -eu
: "${VERTEBRA:?path of the vertebra program}"
here=tests/docs page=docs/reading.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# No dump may depend on the machine: the processor is named.
dump() { "$VERTEBRA" dump vil_nano -D depth=2 --cpu x86-64-v3 "$@"; }

# $work/after/N.PASS, the IR after the N-th pass.
mkdir "$work/after"
dump --stage fused --print-after all 2>&1 >"$work/fused" |
  awk -v folder="$work/after/" '/^\/\/ after / { file = folder (++n) "." $3 } { print > file }'
first_run() { # PASS: its number
  ls "$work/after" | sort -n | awk -F. -v pass="$1" '$2 == pass { print $1; exit }'
}

function_of() { # FILE: the function whose first line matches $from
  awk '$0 ~ ENVIRON["from"] { on = 1 } on { print } on && /^}/ { exit }' "$1"
}

changed() { # PASS
  run=$(first_run "$1")
  [ "$run" ] || { echo "no pass $1 ran" >&2; exit 1; }
  function_of "$work/after/$((run - 1))".* >"$work/before"
  function_of "$work/after/$run".* | diff "$work/before" - | sed -n 's/^< /-/p; s/^> /+/p'
}

text() { # TEXT
  case $1 in
    *.vtb) cat "models/$1" ;;
    "after "*) cat "$work/after/$(first_run "${1#after }")".* ;;
    "change "*) changed "${1#change }" ;;
    *)
      [ -e "$work/$1" ] || dump --stage "$1" >"$work/$1"
      cat "$work/$1" ;;
  esac
}

field() { # MARKER NAME
  printf '%s\n' "$1" | awk -F ' [|] ' -v name="$2 " '
    { for (i = 2; i <= NF; i++) if (index($i, name) == 1) print substr($i, length(name) + 1) }'
}

language() { # TEXT: what a reader's editor colours it as
  case $1 in cuda) echo '```cpp' ;; llvm) echo '```llvm' ;; "change "*) echo '```diff' ;; *) echo '```' ;; esac
}

excerpt() { # MARKER
  name=${1%% | *} from=$(field "$1" from) to=$(field "$1" to) lines=$(field "$1" lines) drop=$(field "$1" drop) signed=
  export from to lines drop signed
  text "$name" >"$work/text"
  case $name in "change "*) from=. signed=1 ;; esac
  language "$name"
  awk -f "$here/excerpt.awk" "$work/text" || { echo "in the marker <!-- $1 -->" >&2; exit 1; }
  echo '```'
}

while IFS= read -r line; do
  case $line in
    '<!-- '*' -->') line=${line#'<!-- '}; excerpt "${line%' -->'}" ;;
    *) printf '%s\n' "$line" ;;
  esac
done <"$here/reading.md.in" >"$work/page"

if [ "${VTB_UPDATE:-}" ]; then cp "$work/page" "$page"; fi
diff "$page" "$work/page" || { echo "$page is not what the compiler prints; VTB_UPDATE=1 tests/docs/reading.sh writes it" >&2; exit 1; }

# the recurrence that README begins with is the library's
export from='^recurrence mlstm'
function_of README.md >"$work/readme"
function_of models/std/mlstm.vtb | diff "$work/readme" - ||
  { echo "README.md has another mlstm than models/std/mlstm.vtb" >&2; exit 1; }
