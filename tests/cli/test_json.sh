# With --json every command leaves one document on stdout, whether it works or not, and the exit status says the same.
. tests/cli/lib.sh

# Wrong use, of all of them.
expect 0 "$VERTEBRA" help --json
n=$(printf '%s' "$out" | "$JSON_GET" commands)
[ "$n" -ge 15 ] || fail "only $n commands"
for ((i = 0; i < n; i++)); do
  command=$("$VERTEBRA" help --json | "$JSON_GET" "commands.$i.command")
  expect 2 "$VERTEBRA" "$command" --no-such-option --json
  json error.code usage error.notes 0 status 2
  expect 0 "$VERTEBRA" "$command" --help --json
  json command "$command"
done
expect 2 "$VERTEBRA" chekc --json; json error.message "unknown command 'chekc'; did you mean 'check'?"
expect 2 "$VERTEBRA" --json; json error.code usage
expect 0 "$VERTEBRA" --version --json; says '"version"'

# Wrong input: a diagnostic has its place, other errors a sentence.
printf 'model m() {\n  input x: image[3, 4, 4]\n  output y = foo(x)\n}\n' >"$work/bad.vtb"
for command in check build dump paths bench verify summary; do
  expect 1 "$VERTEBRA" $command "$work/bad.vtb" --json
  json error.code VTB1101 error.file "$work/bad.vtb" error.line 3 error.column 14
done
printf 'model m( {\n' >"$work/worse.vtb"
expect 1 "$VERTEBRA" fmt "$work/worse.vtb" --json; json error.line 1
expect 1 "$VERTEBRA" explain VTB9999 --json; json error.code input
expect 1 "$VERTEBRA" run vil_nano "$work/none.png" --json; json error.code input
expect 1 "$VERTEBRA" eval vil_nano --weights "$work/none.st" --data "$work" --json; json status 1
expect 1 "$VERTEBRA" train vil_nano --data "$work/none" --json; json status 1
expect 1 "$VERTEBRA" compare "$work/none" --json; json status 1
expect 1 "$VERTEBRA" models no_such_model --json; json error.code input
expect 2 "$VERTEBRA" man no_such_command --json; json error.code usage
expect 2 "$VERTEBRA" completions tcsh --json; json error.code usage
expect 1 "$VERTEBRA" check "$work/$(printf 'x\033[31m').vtb" --json; says '\\x1b[31m'

# What works.
expect 0 "$VERTEBRA" check vil_nano --json; json model vil_nano_patch4_28
expect 0 "$VERTEBRA" check vil_nano vit_nano --json; json 1.model vit_nano_patch4_28
expect 0 "$VERTEBRA" dump vil_nano --stage ir --json; json stage ir
expect 0 "$VERTEBRA" fmt --check models/vil.vtb --json; json 0.changed false
expect 0 "$VERTEBRA" explain VTB1101 --json; json code VTB1101
expect 0 "$VERTEBRA" explain --list --json
expect 0 "$VERTEBRA" man check --json; json page check
expect 0 "$VERTEBRA" completions fish --json; json shell fish
XDG_CACHE_HOME="$work/cache" expect 0 "$VERTEBRA" cache ls --json; json entries 0
XDG_CACHE_HOME="$work/cache" expect 0 "$VERTEBRA" cache clear --json; json removed 0
