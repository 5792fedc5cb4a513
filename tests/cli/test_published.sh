#!/usr/bin/env bash
# Checkpoints of ViL and Vim as their authors' trainings wrote them, whose numbers are those of reference cases: plain
# and wrapped, they give the case's results.
. "$(dirname "$0")/lib.sh"
: "${CHECKPOINT:?path of the checkpoint program}"
cases=$PWD/tests/golden
cd "$work"

# published CASE SED MODEL...: the case's parameters under the names that SED makes of the model's
published() {
  local case=$cases/$1.safetensors sed=$2 form
  shift 2
  echo "input/x x" > one.txt
  "$CHECKPOINT" case "$case" one.txt x.safetensors safetensors || fail "no input"
  "$CHECKPOINT" names "$case" > ours.txt || fail "no case"
  sed -E "$sed" ours.txt > theirs.txt
  sed 's,^,param/,' ours.txt | paste -d ' ' - theirs.txt > names.txt
  for form in plain model trained safetensors; do
    "$CHECKPOINT" case "$case" names.txt w.pth $form || fail "no checkpoint"
    expect 0 "$VERTEBRA" run "$@" --weights w.pth --input x=x.safetensors -o got.safetensors
    "$CHECKPOINT" meets got.safetensors "$case" 1e-5 || fail "other results: $1 $form"
  done
  "$CHECKPOINT" case "$case" names.txt w.pth trained
  expect 0 "$VERTEBRA" convert w.pth own.safetensors --model "$@"
  expect 0 "$VERTEBRA" run "$@" --weights own.safetensors --input x=x.safetensors -o got.safetensors
  silent_about "names of"
  "$CHECKPOINT" meets got.safetensors "$case" 1e-5 || fail "other results after conversion"
}

# ViL: single blocks, of which ours are pairs; its tail is called by place
vil="-D dim=24 -D depth=2 -D classes=10 -D patch=4x4 -D image=20x20 -D heads=4"
training='s/^head\./head.1./; s/^norm\./xlstm.post_blocks_norm./; s/^legacy_norm/head.0/
s/^blocks.0.rowwise_from_top_left/xlstm.blocks.0/; s/^blocks.0.rowwise_from_bot_right/xlstm.blocks.1/
s/^(xlstm.blocks.[0-9]+).norm/\1.xlstm_norm/; s/^(xlstm.blocks.[0-9]+).layer.conv\./\1.xlstm.conv1d./
s/^(xlstm.blocks.[0-9]+).layer/\1.xlstm/'
published vil/vil2_published_legacynorm "$training" vil $vil
expect 0 "$VERTEBRA" run vil $vil --weights w.pth --input x=x.safetensors
says "loaded 51 of 51 tensors, names of the authors' training code, version 2"
grep -q '^xlstm.blocks.1.xlstm.conv1d.weight$' theirs.txt || fail "other names than meant"

vil="-D dim=16 -D depth=2 -D classes=10 -D patch=4x4 -D image=16x16 -D heads=4 -D stride_height=2 -D stride_width=2"
training='s/^head\./head.1./; s/^norm\./head.0./; s/^legacy_norm/xlstm.post_blocks_norm/
s/^blocks.([0-9]+).norm/xlstm.blocks.\1.xlstm_norm/; s/^blocks.([0-9]+).layer/xlstm.blocks.\1.xlstm/'
published vil/vil1_stride_overlap_interp "$training" vil -D version=1 $vil
expect 0 "$VERTEBRA" run vil -D version=1 $vil --weights w.pth --input x=x.safetensors
says "loaded 36 of 36 tensors, names of the authors' training code, version 1"
grep -q '^xlstm.blocks.1.xlstm.conv1d.conv.weight$' theirs.txt || fail "other names than meant"

# Vim: the names are ours
vim="-D dim=20 -D depth=2 -D classes=10 -D patch=4 -D image=16x16 -D d_state=4"
published vim/vim2_v2_doublecls "" vim $vim -D class_token=double
published vim/vim2_v2_flipseq_headcls "" vim $vim -D class_token=head -D flip_sequence=true

# another form of it is no match
expect 1 "$VERTEBRA" run vim $vim -D class_token=double --weights w.pth --input x=x.safetensors
says "2 missing: cls_token_head, cls_token_tail; 1 that the model does not have: cls_token;"
echo ok
