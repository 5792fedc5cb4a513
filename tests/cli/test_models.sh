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

# Papers and weights are declared: a preset's own, its model's, its file's. What a comment says is a comment.
mkdir -p "$work/models"
cat >"$work/models/notes.vtb" <<'END'
// Notes (arXiv 1234.56789): Paper: arXiv 1234.56789
paper "2001.00001"
paper m = "2001.00002v3"
paper own = "cs/0112017"
weights short = "own.pth of us"
model m(dim: int = 3) {
  input x: image[dim, 8, 8]
  output paper = x * 2
}
model n(weights: float = 2) {
  input x: image[3, 8, 8]
  output y = x * weights
}
// Published weights:
//   of_n: n.pth of a comment
preset own alias short = m()
preset of_m = m()
preset of_it = of_m()
preset of_n = n()
END
export VTB_MODELS=$work/models
paper() { expect 0 "$VERTEBRA" models "$1"; printf '%s\n' "$out" | grep -q "^  $1 .*$2" || fail "$1: not $2"; }
paper own "cs/0112017.*own.pth of us"; paper of_m "2001.00002v3 *$"; paper of_it "2001.00002v3 *$"
paper of_n "2001.00001 *$"; silent_about "of a comment"
expect 0 "$VERTEBRA" dump "$work/models/notes.vtb" --entry own --stage ast
says '(paper "2001.00001")'; says '(weights short "own.pth of us")'
unset VTB_MODELS
wrong() { printf '%s\nmodel m() {\n  input x: image[3]\n  output y = x\n}\n' "$1" >"$work/w.vtb"
  expect 1 "$VERTEBRA" check "$work/w.vtb"; says "$2"; }
wrong 'paper "2406.043"' "number at arXiv"; wrong 'paper "cs/0112017x"' "number at arXiv";
wrong 'paper "2406.04303v"' "number at arXiv"; wrong 'paper "x{1}"' "plain text"; wrong 'paper' "expected"
wrong 'weights "w.pth"' "expected"; wrong 'paper m = "2406.04303" paper m = "2406.04303"' "expected"
wrong 'paper mm = "2406.04303"' "no model or preset"; wrong 'paper ""' "number at arXiv"
