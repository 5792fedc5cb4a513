# `augment { }` and views: what training makes of samples. Classes of places move with their image, views differ and repeat,
# threads, pieces of updates, ranks and interruptions change nothing, and what is no sample ends with a sentence.
. tests/cli/lib.sh
: "${MAKE_DATA:?path of make_data}"
"$MAKE_DATA" masks "$work/seg" 40 13
common=(--batch 8 --eval-batch 8 --warmup 0 --quiet --seed 3 --lr 1e-3)
cd "$work" || exit 1
column() { awk -F, -v name="$3" -v row="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i } NR == row + 1 { print $c }' "$1/log.csv"; }
is() { awk "BEGIN { exit !($1) }" || fail "not $1: $2"; }

# bright places are those with a class: as long as both are mirrored; where only the image is, many are not
cat > moved.vtb <<'END'
use std.draws
model moved(both: bool = true) {
  input picture: image[3, 16, 16]
  input labels: labels[16, 16]
  augment {
    mirror = random_int(2) == 1
    picture = where(mirror, reverse(picture, axis = "width"), picture)
    if both { labels = where(mirror, reverse(labels, axis = "width"), labels) }
  }
  output bright = amax(picture, axis = "channels")
  x = amax(picture, axis = "channels") > 0.5
  loss none = mean(square(picture * param w: [1] ~ ones), axis = "sample")
  metric mistaken lower = mean(square(x - (unsqueeze(labels, 1) > 0)) * (unsqueeze(labels, 1) < 255), axis = "sample")
}
END
pixels=(--mean 0 --std 1)
expect 0 "$VERTEBRA" train moved.vtb --data seg "${common[@]}" "${pixels[@]}" --epochs 1 --out both
expect 0 "$VERTEBRA" train moved.vtb --data seg "${common[@]}" "${pixels[@]}" --epochs 1 --out one -D both=false
is "$(column both 1 mistaken) < 0.02" "classes and image moved apart"
is "$(column one 1 mistaken) > 0.05" "the image did not move"
is "$(column one 1 eval_mistaken) < 0.02" "the evaluation was augmented"
expect 0 "$VERTEBRA" train moved.vtb --data seg "${common[@]}" "${pixels[@]}" --epochs 1 --out flags --flip --crop-scale 0.5
is "$(column flags 1 mistaken) < 0.05" "flags and augment do not fit"

# two views of a picture, and a small one: they differ in training, not in evaluation, and repeat
cat > views.vtb <<'END'
use std.nn
use std.draws
model views(draws: bool = true) {
  input a, b: view(picture, image[3, 16, 16])
  input small: view(picture, image[3, 8, 8])
  augment { picture = draws ? picture * (0.5 + random(batch)) : 255 - picture }
  x = mean(patch_embed("stem", a, 8, 4x4, 4x4), axis = "tokens")
  y = mean(patch_embed("small", small, 8, 4x4, 4x4), axis = "tokens")
  output z = x
  loss pull = mean(square(x - y), axis = "sample")
  metric apart = mean(square(a - b), axis = "sample")
  metric light = mean(a, axis = "sample")
}
END
all=(views.vtb --data seg "${common[@]}" --epochs 3)
expect 0 "$VERTEBRA" train "${all[@]}" --out whole --threads 1 --workers 1
is "$(column whole 1 apart) > 0.05" "views are the same"
is "$(column whole 1 eval_apart) == 0" "views differ in evaluation"
is "$(column whole 1 light) != $(column whole 2 light)" "epochs are the same"
expect 0 "$VERTEBRA" train "${all[@]}" --out alike -D draws=false
is "$(column alike 1 apart) == 0" "without draws views differ"
expect 0 "$VERTEBRA" train "${all[@]}" --out cropped -D draws=false --crop-scale 0.5
is "$(column cropped 1 apart) > 0.01" "views are the same part"
for n in 2 3; do
  expect 0 "$VERTEBRA" train "${all[@]}" --out "threads$n" --threads $n --workers $n
  cmp -s whole/weights.safetensors "threads$n/weights.safetensors" || fail "$n threads draw otherwise"
done
expect 0 "$VERTEBRA" train "${all[@]}" --out parts --max-steps 7
expect 0 "$VERTEBRA" train --resume parts --quiet
cmp -s whole/weights.safetensors parts/weights.safetensors || fail "the resumed run differs"
expect 0 "$VERTEBRA" train --again whole --out again --quiet
cmp -s whole/weights.safetensors again/weights.safetensors || fail "the run once more differs"
near() { is "$(column "$1" 3 apart) - $(column whole 3 apart) < 1e-5 && $(column whole 3 apart) - $(column "$1" 3 apart) < 1e-5" "$1 has other views"; }
expect 0 "$VERTEBRA" train "${all[@]}" --out pieces --accumulate 2; near pieces
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
if command -v mpirun > /dev/null && mpirun --oversubscribe -n 2 true > /dev/null 2>&1; then
  expect 0 timeout 100 mpirun --oversubscribe --bind-to none -n 2 "$VERTEBRA" train "${all[@]}" --out ranks --threads 1; near ranks
  expect 0 timeout 100 mpirun --oversubscribe --bind-to none -n 2 "$VERTEBRA" train "${all[@]}" --out inside --threads 1 --augment-in step; near inside
fi

# an image that is an array is augmented, as the numbers that it has; so is what lies beside it
"$MAKE_DATA" arrays boxes.safetensors 24 picture=3x8x8 boxes=2x4
cat > boxes.vtb <<'END'
model boxes() {
  input picture: image[3, 8, 8]
  input boxes: tensor[2, 4]
  augment {
    boxes = 0 * boxes + 7
    picture = picture - 3
  }
  output y = mean(picture, axis = "channels")
  loss none = mean(square(picture * param w: [1] ~ ones), axis = "sample")
  metric box = mean(boxes, axis = "sample")
  metric light = mean(picture, axis = "sample")
}
END
boxes=(boxes.vtb --data boxes.safetensors "${common[@]}" --epochs 1)
expect 0 "$VERTEBRA" train "${boxes[@]}" --out boxes
is "$(column boxes 1 box) == 7 && $(column boxes 1 light) < -2" "arrays are not augmented"
expect 2 "$VERTEBRA" train boxes.vtb --data boxes.safetensors --augmented look.png
says "--augmented draws images, and the data has arrays, whose numbers are no colours"
for name in boxes picture; do
  sed "s|picture = picture - 3|$name = 1 / (0 * $name)|" boxes.vtb > endless.vtb
  expect 1 "$VERTEBRA" train endless.vtb "${boxes[@]:1}" --out endless
  says "augment gives $name that is not finite, of sample"
done

# inside the step: the same draws, and the same results but for rounding; of a classifier too
step() { # RUN COLUMN ARGS...: a training as RUN was, in the step
  local run=$1 name=$2 row; row=$(wc -l < "$run/log.csv"); row=$((row - 1))
  expect 0 "$VERTEBRA" train "${@:3}" --augment-in step --out "$run.step" --overwrite
  is "($(column "$run.step" $row "$name") - $(column "$run" $row "$name")) ^ 2 < 1e-9" "$run in the step is another"
}
step boxes light "${boxes[@]}"; step boxes box "${boxes[@]}"
step flags mistaken moved.vtb --data seg "${common[@]}" "${pixels[@]}" --epochs 1 --flip --crop-scale 0.5
step whole apart "${all[@]}"; step whole light "${all[@]}" --accumulate 2; step cropped apart "${all[@]}" -D draws=false --crop-scale 0.5
"$MAKE_DATA" classes "$work/kinds" 12 red green
cat > kind.vtb <<'END'
use std.nn
use std.augment
model kind(num_classes: int = 2) {
  input picture: image[3, 16, 16]
  augment { picture = color_jitter(picture) }
  output scores = linear("head", mean(patch_embed("stem", picture, 8, 4x4, 4x4), axis = "tokens"), num_classes)
}
END
kinds=(kind.vtb --data kinds "${common[@]}" --epochs 3 --val-fraction 0)
expect 0 "$VERTEBRA" train "${kinds[@]}" --out kinds.run; step kinds.run loss "${kinds[@]}"
step kinds.run loss "${kinds[@]}" --target cuda-emulated
expect 2 "$VERTEBRA" train "${kinds[@]}" --augment-in step --erase 0.5 --out erased; says "--augment-in step comes behind it"
grep -v 'augment {' kind.vtb > plain.vtb
expect 2 "$VERTEBRA" train plain.vtb "${kinds[@]:1}" --augment-in step --out plain; says "the model says no augment"
sed 's/color_jitter(picture)/picture + 0 * sum(random(4))/' kind.vtb > alone.vtb
expect 1 "$VERTEBRA" train alone.vtb "${kinds[@]:1}" --augment-in step --out alone; says "or without the batch, which the step cannot do"

# where it runs is said; a built file does not have it
expect 0 "$VERTEBRA" check views.vtb; says "in training, by views.vtb:6"
expect 0 "$VERTEBRA" train views.vtb --data seg --batch 8 --epochs 1 --out said; says "augmented by views.vtb:6"
expect 0 "$VERTEBRA" build views.vtb --train --batch 8 -o views.so
expect 2 "$VERTEBRA" train views.so --data seg --out built; says "a model with augment (views.vtb:6), which a training of the model's source runs"
expect 0 "$VERTEBRA" train moved.vtb --data seg --flip --augmented look.png; says "look.png: what training makes of some samples"
[ "$(head -c 4 look.png | tail -c 3)" = PNG ] || fail "no picture"
[ ! -e runs ] || fail "--augmented trains"

# what is no sample
broken() { # WORDS BODY
  cat > broken.vtb <<END
model broken() {
  input picture: image[3, 16, 16]
  input labels: labels[16, 16]
  augment { $2 }
  output y = picture
  loss l = mean(square(picture * param w: [1] ~ ones), axis = "sample") * mean(one_hot(labels, 3), axis = "sample")
}
END
  expect 1 "$VERTEBRA" train broken.vtb --data seg "${common[@]}" --epochs 1 --out broken; says "$1"
}
broken "broken.vtb:4: augment gives picture that is not a number (NaN), of sample" 'picture = sqrt(0 - 1 - picture)'
says ".png)"
broken "broken.vtb:4: augment gives labels class 3; the model takes 0 to 2, of sample" 'labels = 0 * labels + 3'
# the step names no sample, and does not train on such either
unfit() { # BODY
  broken 'broken.vtb:4: augment gives' "$1"
  expect 5 "$VERTEBRA" train broken.vtb --data seg "${common[@]}" --epochs 1 --out unfit --augment-in step
  says "the loss is not finite at update 0"
}
unfit 'picture = sqrt(0 - 1 - picture)'
for labels in '+ 3' '- 2' '+ 254' '+ sqrt(0 - 1 - labels)'; do unfit "labels = 0 * labels $labels"; done
cat > broken.vtb <<'END'
model fit() {
  input picture: image[3, 16, 16]
  input labels: labels[16, 16]
  augment { labels = where(labels > 1, labels - labels + 255, where(labels > 0, labels - labels - 1, labels + 2)) }
  output y = picture
  loss l = mean(square(picture * param w: [1] ~ ones), axis = "sample") * mean(one_hot(labels, 3), axis = "sample")
  metric known = mean(sum(one_hot(labels, 3)), axis = "sample")
}
END
expect 0 "$VERTEBRA" train broken.vtb --data seg "${common[@]}" --epochs 1 --out fit; step fit known broken.vtb --data seg "${common[@]}" --epochs 1
cat > masks.vtb <<'END'
model masks() {
  input a, b: view(picture, image[3, 16, 16])
  input labels: labels[16, 16]
  output y = a
  loss l = mean(square((a + b) * param w: [1] ~ ones), axis = "sample") + mean(float(labels), axis = "sample")
}
END
expect 1 "$VERTEBRA" train masks.vtb --data seg "${common[@]}" --epochs 1 --out masks
says "the input labels is a class for each place of the image, and the view b shows others of its places"
