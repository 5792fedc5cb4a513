# Presets and examples are listed with what there is to know of them, all of them within a second or two.
. tests/cli/lib.sh
expect 0 "$VERTEBRA" models vil_tiny
says "Vision-LSTM"; says "vil_tiny_patch16_224    6.39 M     1.27  224x224    2406.04303  vil_tiny  vil2-tiny of nx-ai"
says "vil_tiny_patch16_192"; silent_about vim_tiny
expect 0 "$VERTEBRA" models 'twins*small*'; says "timm twins_svt_small.in1k"; says 2104.13840; silent_about twins_svt_base
expect 0 "$VERTEBRA" models griffin; says "Griffin (De et al. 2024, arXiv 2402.19427)"
expect 1 "$VERTEBRA" models vil_tinny; says "did you mean vil_tiny?"
expect 2 "$VERTEBRA" models a b; says "one PATTERN"

# The columns that do not fit are left out from the right; nothing wraps.
for columns in 60 80; do
  COLUMNS=$columns expect 0 "$VERTEBRA" models 'vi[lm]*tiny*'
  longest=$(printf '%s\n' "$out" | awk '{ if (length($0) > n) n = length($0) } END { print n }')
  [ "$longest" -le $columns ] || fail "a line of $longest characters on $columns columns"
  says GMACs; silent_about "nx-ai"
done

# Every name that is listed is one that can be opened; names alone compile nothing.
expect 0 "$VERTEBRA" models --names; says twins_svt_small_224
[ "$(printf '%s\n' "$out" | sort | uniq -d)" = "" ] || fail "a name twice"
expect 0 "$VERTEBRA" models 'deit_tiny*' --json
json families 1 families.0.models.0.name deit_tiny_patch16_224 families.0.models.0.parameters 5717416 \
  families.0.models.0.paper "arXiv 2012.12877" families.0.models.0.image.0 224
