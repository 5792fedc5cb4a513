#!/usr/bin/env bash
# Schedules of one's own: what the log says of the rate, decay and averages that follow, runs that are interrupted,
# repeated, scaled, studied; what is wrong is told before anything is trained.
. "$(dirname "$0")/lib.sh"
: "${MAKE_DATA:?path of make_data}"
cd "$work"
"$MAKE_DATA" classes three/train 24 red green blue && "$MAKE_DATA" classes three/val 6 red green blue || fail "no data"
model="vit_nano -D depth=1 -D dim=16 -D heads=2"
cat > own.vtb <<'V'
schedule own(k: float = 4) {
  rate = lr * min(1, t / k)
  decay = t < 10 ? 0 : 0.5
  ema = min(ema, 1 - 1 / t)
}
V
train() { "$VERTEBRA" train $model --data three --batch 8 --epochs 3 --lr 0.01 --log-every 1 --label own --quiet "$@"; }
rates() { grep -o '"lr":[^,]*' "$1/log.jsonl" | cut -d: -f2 | head -"$2" | tr '\n' ' '; }

expect 0 train --schedule "own.vtb(k = 8)" --ema 0.9 --out whole
[ "$(rates whole 5)" = "0.00125 0.0025 0.00375 0.005 0.00625 " ] || fail "rates: $(rates whole 5)"
cmp own.vtb whole/model/own.vtb || fail "the schedule is not in the run's folder"
# Each of its three is felt.
for change in 's/0.5/0.4/' 's|1 - 1 / t|1 - 2 / (t + 1)|' 's/min(1, /min(2, /'; do
  sed "$change" own.vtb > other.vtb
  expect 0 train --schedule "other.vtb(k = 8)" --ema 0.9 --out other --overwrite
  cmp -s whole/weights.safetensors other/weights.safetensors && fail "'$change' changes nothing"
done

# Interrupted, and gone on with; repeated from the folder alone, another text of the same name notwithstanding.
expect 0 train --schedule "own.vtb(k = 8)" --ema 0.9 --out parts --max-steps 11
expect 0 "$VERTEBRA" train --resume parts --quiet
cmp whole/weights.safetensors parts/weights.safetensors || fail "the interrupted run differs"
expect 1 train --schedule "own.vtb(k = 9)" --ema 0.9 --out parts --resume
says "schedule="
expect 0 "$VERTEBRA" train --again whole --out again --quiet
cmp whole/weights.safetensors again/weights.safetensors || fail "the repeated run differs"
printf 'model: vit_nano\ndata: three\nbatch: 8\nepochs: 3\nlr: 0.01\nlog-every: 1\nlabel: own\nema: 0.9\nD: [depth=1, dim=16, heads=2]\nschedule: "own.vtb(k = 8)"\n' > recipe.yaml
expect 0 "$VERTEBRA" train --recipe recipe.yaml --out recipe --quiet
cmp whole/weights.safetensors recipe/weights.safetensors || fail "the recipe's run differs"

# A rate for batches of 16 is half of it for 8.
expect 0 train --schedule "own.vtb(k = 8)" --ema 0.9 --lr-batch 16 --out half
[ "$(rates half 3)" = "0.000625 0.00125 0.001875 " ] || fail "scaled rates: $(rates half 3)"

# What is wrong.
expect 2 train --schedule sine --out no; says "unknown schedule 'sine'; there are"; says "one_cycle"
expect 1 train --schedule "step(every = 0)" --out no; says "a step lasts some epochs"
expect 1 train --schedule "multistep(milestones = [1, 7])" --out no; says "milestones[1] is beyond the end of the run"
expect 1 train --schedule "own.vtb(k = 8)" --out no; says "no weights are averaged: --ema D"
printf 'schedule falls() {\n  rate = lr * (0.5 - t / total)\n}\n' > falls.vtb
expect 1 train --schedule falls.vtb --out no; says "falls.vtb:2:3"; says "at update 14 of 27"
printf 'schedule low() {\n  rate = lr / 2\n}\nschedule high() {\n  rate = 2 * lr\n}\n' > two.vtb
expect 2 train --schedule two.vtb --out no
says "two.vtb declares 2 schedules, low and high: say which, as in two.vtb:high"
expect 1 train --schedule two.vtb:middle --out no; says "declares no model, preset, block"
printf 'schedule list() {\n  rates = [lr, lr / 10]\n  rate = rates[int(epoch)]\n}\n' > list.vtb
expect 1 train --schedule list.vtb --out no; says "index 2 in a list of 2 elements"; says "update 19 of 27"
sed 's/schedule/optimizer/; s/  rate = .*/  w = w - lr * g/' two.vtb > rules.vtb
expect 2 train --optimizer rules.vtb --out no; says "rules.vtb declares 2 optimizers, low and high: say which"
expect 1 train --schedule rules.vtb:low --out no; says "'low' is an optimizer, not a schedule"
[ -e no ] && fail "a run was begun"
expect 0 "$VERTEBRA" train $model --data three --batch 8 --epochs 1 --schedule two.vtb:low --lr 0.01 --log-every 1 \
  --optimizer rules.vtb:low --label low --quiet --out low
[ "$(rates low 2)" = "0.005 0.005 " ] || fail "rates: $(rates low 2)"
expect 0 "$VERTEBRA" train $model --data three --batch 8 --epochs 1 --schedule constant --final-lr 1e-4 --out c
says "--final-lr changes nothing: schedule constant does not read"

# Looked at.
expect 0 "$VERTEBRA" check own.vtb; says "1000"
expect 0 "$VERTEBRA" train --schedule one_cycle --epochs 30 --draw-schedule rate.svg
grep -q "learning rate" rate.svg || fail "no picture"
expect 2 "$VERTEBRA" check vit_nano --schedule cosine

# A schedule and a fn of one name, in two files that are used, do not clash.
printf 'use std.schedules\nuse std.nn\nmodel m() {\n  input x: tensor[4]\n  output y = linear("a", x, 3)\n}\nschedule s() { rate = warmed(t, warmup, 0, lr, lr) }\n' > both.vtb
expect 0 "$VERTEBRA" check both.vtb; says "a 4 -> 3"
