# Recipes: where a mistake is, what aliases and << take in, and files that are made to be slow.
. tests/cli/lib.sh
cat > "$work/tiny.vtb" <<'END'
use std.nn
model tiny(dim: int = 16, kinds: int = 4) {
  input image: image[1, 8, 8]
  x = patch_embed("embed", image, dim, 4x4, 4x4)
  output y = linear("head", mean(x, axis = "tokens"), kinds)
}
END
small_images 32 16
cd "$work" || exit 1

# wrong PLACE SENTENCE LINES...
wrong() {
  printf '%s\n' 'model: tiny.vtb' "${@:3}" > r.yaml
  expect 1 timeout 10 "$VERTEBRA" train --recipe r.yaml --data data --out no
  says "r.yaml:$1: $2"
  [ ! -e no ] || fail "a folder of no run"
}
wrong 2:1 "unknown option 'epoch'; did you mean 'epochs'?" 'epoch: 1'
wrong 3:3 "unknown option 'learning-rate'" '<<:' '  learning-rate: 1'
wrong 2:1 "no option of a recipe: 'resume'" 'resume: true'
wrong 2:1 "'flip' is true or false, not 'maybe'" 'flip: maybe'
wrong 2:1 "the value of 'lr' is no single value" 'lr: {a: 1}'
wrong 3:1 "duplicate key" 'epochs: 1' 'epochs: 2'
wrong 4:1 "flow sequence without a closing bracket" 'epochs: [1' 'seed: 2'
wrong 2:4 "a name is not text" '? [a, b]' ': 1'
wrong 2:1 "<< names no anchor of this file" '<<: *nothing'
wrong 2:1 "<< takes a mapping or a list of mappings" '<<: 3'
printf 'model: [tiny.vtb]\n' > r.yaml
expect 1 "$VERTEBRA" train --recipe r.yaml --data data; says "r.yaml:1:1: the value of 'model' is no single value"

# what is taken in stands below what is said, and the first of a list counts most
cat > r.yaml <<'END'
model: tiny.vtb
D: {dim: &n 8}
<<:
  - &quick {epochs: 1, lr: 0.5, seed: 9}
  - {lr: 0.25, batch: *n, quiet: true}
seed: 4
END
expect 0 "$VERTEBRA" train --recipe r.yaml --data data --out mixed
for line in 'lr: 0.5' 'batch: 8' 'seed: 4' 'epochs: 1' 'D: ["dim=8"]'; do
  grep -qxF "$line" mixed/run.yaml || fail "no \"$line\" in $(cat mixed/run.yaml)"
done

# by name: a file here, then recipes/ of the folders with models; updates instead of epochs, on data that are seen many times
mkdir -p mine/recipes
printf '# A few.\n# Updates.\nupdates: 21\nwarmup-updates: 5\nbatch: 16\nseed: 3\n' > mine/recipes/few.yaml
export VTB_MODELS=$work/mine:$VTB_MODELS
expect 0 "$VERTEBRA" models --recipes; says "A few. Updates."; says quick
expect 1 "$VERTEBRA" train tiny.vtb --recipe fow --data data; says "no recipe 'fow'"; says "did you mean 'few'?"
expect 1 "$VERTEBRA" train tiny.vtb --recipe nothing_like_it --data data; says "\`vertebra models --recipes\` lists them"
few=(train tiny.vtb --recipe few --data data --val-fraction 0.25)
expect 0 "$VERTEBRA" "${few[@]}" --out few --json; json steps 21 finished true
[ -s few/best.safetensors ] || fail "nothing is best of 21 updates of 1 an epoch"
[ "$(grep -c '"eval_top1":[0-9]' few/log.jsonl)" = 11 ] || fail "evaluations: $(grep eval_top1 few/log.jsonl)"
says "21 updates are 21 epochs of 1: evaluated after every 2 of them"
expect 0 "$VERTEBRA" "${few[@]}" --out parts --max-steps 9 --json; json finished false
expect 0 "$VERTEBRA" train --resume parts --json; json steps 21 finished true
cmp -s few/weights.safetensors parts/weights.safetensors || fail "a run of so many updates, continued, differs"
expect 0 "$VERTEBRA" train --again few --out again --quiet; cmp -s few/weights.safetensors again/weights.safetensors || fail "--again"
expect 0 "$VERTEBRA" "${few[@]}" --out long --epochs 2 --warmup 0.1 --json; json steps 2 epochs 2
grep -qx 'updates: 0' long/run.yaml && grep -qx 'warmup-updates: 0' long/run.yaml || fail "$(cat long/run.yaml)"
expect 2 "$VERTEBRA" "${few[@]}" --epochs 2 --updates 3; says "both say how long"
expect 2 "$VERTEBRA" "${few[@]}" --fit-seconds 2 --updates 3; says "both say how long"
# one that ends within an epoch leaves what was best as well
expect 0 "$VERTEBRA" "${few[@]}" --out cut --batch 8 --updates 4 --json; json steps 4 epochs 1 finished true
[ -s cut/best.safetensors ] || fail "nothing is best of 4 updates of 3 an epoch"
# fewer epochs than evaluations are wanted: some are within an epoch, and a run that is continued has the same
within=("${few[@]}" --batch 8 --updates 10)
evaluations() { grep '"eval_top1":[0-9]' "$1/log.jsonl" | sed 's/,"images_per_second.*//; s/,"lr".*//'; }
expect 0 "$VERTEBRA" "${within[@]}" --out within --json; json curve.0.step 2 curve.1.epoch 1 finished true
[ "$(evaluations within | grep -c '"event":"eval","step":[248],"epoch":[0-2].[36]')" = 3 ] || fail "$(cat within/log.jsonl)"
expect 0 "$VERTEBRA" "${within[@]}" --out within2 --max-steps 5; expect 0 "$VERTEBRA" train --resume within2 --json; json finished true
cmp -s within/weights.safetensors within2/weights.safetensors && cmp -s within/best.safetensors within2/best.safetensors || fail "evaluations changed the run"
[ "$(evaluations within)" = "$(evaluations within2 | grep -v '"end","step":5')" ] || fail "$(evaluations within) and $(evaluations within2)"
printf 'epochs: 1\nbatch: 8\n' > few.yaml
expect 0 "$VERTEBRA" train tiny.vtb --recipe few --data data --out here --json; json epochs 1 steps 3

# of itself, or of itself many times over, nothing becomes large
wrong 2:16 "too much is taken in by <<" '<<: &x {lr: 1, <<: *x}'
{
  printf 'model: tiny.vtb\n<<:\n- &a0 {lr: 0.1}\n'
  for i in {1..7}; do printf -- '- &a%d {<<: [' "$i"; for k in {1..9}; do printf '*a%d, ' $((i - 1)); done; printf ']}\n'; done
} > r.yaml
expect 1 timeout 10 "$VERTEBRA" train --recipe r.yaml --data data --out no; says "too much is taken in by <<"
{
  printf 'model: tiny.vtb\nD: [&a0 x'
  for i in {1..12}; do printf ', &a%d [' "$i"; for k in {1..9}; do printf '*a%d, ' $((i - 1)); done; printf ']'; done; echo ']'
} > r.yaml
expect 1 timeout 10 "$VERTEBRA" train --recipe r.yaml --data data --out no; says "the value of 'D' is no list"
{ printf 'D: '; printf '[%.0s' {1..100000}; } > r.yaml
expect 1 timeout 10 "$VERTEBRA" train --recipe r.yaml --data data --out no; says "r.yaml:1:"

# damaged ones: a sentence, whatever they became
printf 'model: tiny.vtb\n"D": {dim: &n 8}\n<<: [&q {epochs: 1, lr: 0.5}, {lr: 0.25, batch: *n}]\nfreeze: ["x", y]\nflip: true # so\n' > sound.yaml
size=$(wc -c < sound.yaml)
wrongs=('\0' '\377' '{' '[' '*' '&' ':' '"' '\t' '\n' '-' '!' '%%' '|')
for ((i = 0; i < 42; i++)); do
  cp sound.yaml r.yaml
  at=$((i * 7919 % size))
  if ((i % 3)); then
    printf "${wrongs[i % 14]}" | dd of=r.yaml bs=1 seek=$at conv=notrunc 2>/dev/null
  else
    head -c $at sound.yaml > r.yaml
  fi
  got=0; timeout 10 "$VERTEBRA" train --recipe r.yaml --data nowhere >out 2>&1 || got=$?
  { [ $got = 1 ] || [ $got = 2 ]; } && grep -q '^vertebra' out || fail "form $i, byte $at: status $got: $(cat out) of $(cat r.yaml)"
done
