# Random numbers of a sample: by the seed and the sample's number, for any batch, number of threads and way to run it.
. tests/cli/lib.sh
runner=$(dirname "$VERTEBRA")/vertebra-run
cat > "$work/noisy.vtb" <<'EOF'
use std.draws
model noisy(classes: int = 4) {
  input image: image[1, 8, 8]
  x = patches(image, kernel = 4x4)
  x += random_normal(x) + beta(0.4, 0.4, x)
  mixed = transpose(group(3 * gamma(0.7) + random_int(4), 1), [1, 0])
  output y = mean(x, axis = "tokens")[:, :classes] + mixed * range(classes)
}
EOF
images=()
for i in 1 2 3 4 5 6 7; do cp tests/fuzz/corpus/image/rgb.png "$work/$i.png"; images+=("$work/$i.png"); done

# One image is drawn for seven times, each time another way; another seed draws others.
run() { expect 0 "$VERTEBRA" run "$@" "${images[@]}"; }
run "$work/noisy.vtb" --seed 5 --threads 1; want=$out
[ "$(grep -v png <<<"$out" | sort | uniq -c | awk '$1 > 3' | wc -l)" -lt 2 ] || fail "all images have the same numbers: $out"
run "$work/noisy.vtb" --seed 5 --threads 1; [ "$out" = "$want" ] || fail "a second run gives $out"
run "$work/noisy.vtb" --seed 5 --threads 2 --batch 4; [ "$out" = "$want" ] || fail "a batch of 4 gives $out, not $want"
run "$work/noisy.vtb" --seed 5 --batch 7; [ "$out" = "$want" ] || fail "a batch of 7 gives $out, not $want"
run "$work/noisy.vtb" --seed 6; [ "$out" != "$want" ] || fail "another seed gives the same"
run "$work/noisy.vtb"; [ "$out" != "$want" ] || fail "no seed gives the same"

# Built, by the command and by the runtime alone, whose session puts three images together of two and one.
expect 0 "$VERTEBRA" build "$work/noisy.vtb" --batch 1,2 -o "$work/noisy.so"
run "$work/noisy.so" --seed 5; [ "$out" = "$want" ] || fail "the built file gives $out, not $want"
expect 0 "$runner" --seed 5 "$work/noisy.so" "${images[@]}"; [ "$out" = "$want" ] || fail "vertebra-run gives $out, not $want"
expect 0 "$runner" --seed 6 "$work/noisy.so" "${images[@]}"; [ "$out" != "$want" ] || fail "another seed gives the same"
expect 2 "$runner" --seed x "$work/noisy.so" "${images[0]}"; says "--seed is a number"

# Uniform numbers, whole ones and choices are the same in every bit on each target; the others, which are smooth in them,
# agree to a millionth.
cat > "$work/bits.vtb" <<'EOF'
use std.draws
model bits() {
  input x: tensor[5000]
  output same = x
  output uniform = drawn(x)
  output dice = random_int(6, x)
  output far = random_int(60013, x)
  output kinds = choice([0.5, 2, 3.75], weights = [1, 2, 4], of = x)
}
model numbers() {
  input x: tensor[3000]
  output same = x
  output bell = random_normal(x)
  output waits = exponential(x)
  output mixed = beta(0.2, 0.2, x)
  output even = beta(1.5, 3, x)
  output small = gamma(0.3, of = x)
  output large = gamma(9.5, of = x)
}
EOF
for target in cpu cuda-emulated; do
  expect 0 "$VERTEBRA" verify "$work/bits.vtb" --entry bits --target $target --no-grad --tol 1e-30
  expect 0 "$VERTEBRA" verify "$work/bits.vtb" --entry numbers --target $target --no-grad --tol 1e-6
done

# Rows that meet each other do so within a run, which is a batch; what is drawn goes on from run to run.
cat > "$work/pairs.vtb" <<'EOF'
use std.nn
block drawn_for(x: tensor) { return x + random_normal(x) }
model pairs() {
  input image: image[1, 8, 8]
  x = drawn_for(mean(patches(image, kernel = 4x4), axis = "tokens"))
  output y = gather(x, range(batch), axis = "B")[:, :4]
  output z = softmax(x, axis = "B")[:, :2] + roll(x, 1, axis = "B")[:, :2]
}
EOF
expect 0 "$VERTEBRA" run "$work/pairs.vtb" --seed 5 --batch 1 "${images[@]}"; want=$out
expect 0 "$VERTEBRA" run "$work/pairs.vtb" --seed 5 --batch 3 "${images[@]}"; [ "$out" = "$want" ] || fail "rows of a batch are numbered by the run: $out"
expect 0 "$VERTEBRA" build "$work/pairs.vtb" --batch =3 -o "$work/pairs.so"
expect 0 "$VERTEBRA" run "$work/pairs.so" --seed 5 "${images[@]}"; [ "$out" = "$want" ] || fail "the built file gives $out, not $want"
