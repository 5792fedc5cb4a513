# What is said to mistakes on the command line: the rows of tests/cli/mistakes.txt.
. tests/cli/lib.sh
tiny_model
cp "$work/tiny.vtb" "$work/m.vtb"
small_images 16 8
expect 0 "$VERTEBRA" train "$work/m.vtb" --data "$work/data" --batch 8 --updates 1 --quiet --out "$work/run"
cp "$work/run/weights.safetensors" "$work/w.safetensors"
table=$PWD/tests/cli/mistakes.txt rows=0 bad=
cd "$work" || exit 1
while IFS= read -r row; do
  case $row in '#'* | '') continue ;; esac
  words=${row#* => } command=${row%% => *}
  read -ra args <<< "${command//\$d/$work}"
  rows=$((rows + 1))
  answer=$("$VERTEBRA" "${args[@]}" 2>&1) && bad+="$command: exit status 0"$'\n'
  case $answer in *"$words"*) ;; *) bad+="$command: no \"$words\" in: $answer"$'\n' ;; esac
done < "$table"
[ -z "$bad" ] || fail "$bad"
[ "$rows" -ge 48 ] || fail "only $rows rows"
