# Parts of the program built again with changed files, all else linked from the build folder: what is beneath $scratch comes
# before the tree. To be sourced behind lib.sh.
: "${VTB_BUILD:?build folder}"
[ -f "$VTB_BUILD/build.ninja" ] && command -v ninja >/dev/null || { echo "skipped: not a build by ninja"; exit 77; }
tree=$PWD scratch=$work/tree

# The command that built FILE, with the copy before the tree; extra options follow.
command_of() { # FILE
  sed -n 's/^ *"command": "\(.*\)",$/\1/p' "$VTB_BUILD/compile_commands.json" | sed 's/\\\(.\)/\1/g' |
    grep -F -- "-c $tree/$1" | head -n 1 | sed -E "s# -I# -I$scratch -I#; s# -o [^ ]+##; s# -O[23] # -O0 #"
}
compile() { # FILE [OPTION...]
  local file=$1 command
  shift
  command=$(command_of "$file")
  [ -n "$command" ] || fail "no command compiles $file"
  [ ! -f "$scratch/$file" ] || command=${command/"-c $tree/$file"/"-c $scratch/$file"}
  (cd "$VTB_BUILD" && eval "$command" "$@")
}
objects() { # FILE...: compiles them into $work/obj/<first folder>
  for file; do
    mkdir -p "$work/obj/${file%%/*}"
    compile "$file" -o "$work/obj/${file%%/*}/${file//\//_}.o" || fail "compiling $file"
  done
}
link() { # PROGRAM LIBRARIES [FILE]: the command that linked it, rooms as archives, our objects of these first; a test's own FILE compiled again
  local program=$1 libraries=$2 file=${3-} command own=
  command=$(ninja -C "$VTB_BUILD" -t commands "$program" | tail -n 1 | sed -E 's#tests/(lib[a-z_]+)_shared\.so#\1.a#g')
  if [ -n "$file" ]; then
    own=$work/own.o
    compile "$file" -o "$own" || fail "compiling $file"
    command=$(sed -E "s# [^ ]+/${file##*/}\.o # #" <<<"$command")
  fi
  command=$(sed -E "s# -o [^ ]+# $own $work/obj/$libraries/*.o -o $work/${program##*/}#" <<<"$command")
  (cd "$VTB_BUILD" && eval "$command") || fail "linking $program"
}
