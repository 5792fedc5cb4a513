# Loops at run time on CUDA, by the emulator: they agree with the interpreter, gradients included, and what is compiled
# does not depend on the number of steps.
. tests/cli/lib.sh
file=tests/cli/loops.vtb
for model in euler newton ends nested; do
  expect 0 "$VERTEBRA" verify $file --entry $model --target cuda-emulated; says "ok   cuda-emulated"; says "gradients"
done

launches() { # STEPS: how many launches the plan has, what its workspace takes
  expect 0 "$VERTEBRA" dump $file --entry euler -D steps="$1" --stage launches
  says "$(($1 / 2)) x steps"
  plan="$(printf '%s' "$out" | wc -l), workspace${out##*workspace}"
}
launches 10; ten=$plan
launches 250
[ "$plan" = "$ten" ] || fail "10 steps: $ten; 250 steps: $plan"

# the weights of a step have 16 bits where they are read so, what it hands on has 32
expect 0 "$VERTEBRA" verify flow_sampler -D steps=3 -D depth=1 --target cuda-emulated --precision bf16-all
says "ok   cuda-emulated"
