# Manual pages and completions are made of the tables of options: formatters and shells read them without complaint, and
# complete commands, options, values and presets. Shells that are not installed are left out.
. tests/cli/lib.sh
have() { command -v "$1" >/dev/null; }
commands=$("$VERTEBRA" help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')
for command in "" $commands; do
  # shellcheck disable=SC2086
  expect 0 "$VERTEBRA" man $command
  says ".TH VERTEBRA"; says ".SH EXIT STATUS"
  have groff || continue
  expect 0 groff -man -ww -Tutf8 "$work/out"
  [ -z "$err" ] || fail "groff says of vertebra $command: $err"
done
expect 0 "$VERTEBRA" man train; says '\fB\-\-optimizer\fR \fINAME\fR'; says '\fB\-\-json\fR'

for shell in bash zsh fish; do
  expect 0 "$VERTEBRA" completions $shell
  cp "$work/out" "$work/vertebra.$shell"
  have $shell || continue
  expect 0 $shell -n "$work/vertebra.$shell"
done
expect 2 "$VERTEBRA" completions tcsh; says "bash, zsh or fish"

# What bash offers behind a line: the last word is the one being written.
mkdir "$work/bin" && ln -s "$VERTEBRA" "$work/bin/vertebra"
PATH="$work/bin:$PATH"
offers() {
  bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _vertebra; printf "%s\n" "${COMPREPLY[@]}"' \
    - "$work/vertebra.bash" "$@" 2>&1
}
[ "$(offers vertebra che)" = check ] || fail "no command"
[ "$(offers vertebra check --num)" = --numerics ] || fail "no option"
[ "$(offers vertebra bench vil_nano --mode ch)" = chunkwise ] || fail "no value"
[ "$(offers vertebra check vim_tiny_patch16_stride)" = vim_tiny_patch16_stride8_224 ] || fail "no preset"
[ "$(offers vertebra cache c)" = clear ] || fail "no word"
[ "$(offers vertebra help comp)" = "compare
completions" ] || fail "no command to help with"
if have fish; then
  [ "$(fish --no-config -c "source $work/vertebra.fish; complete -C 'vertebra check --num'" | cut -f1)" = --numerics ] ||
    fail "fish offers no option"
fi
