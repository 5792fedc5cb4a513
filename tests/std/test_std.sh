# Every function and recurrence of models/std stands in an example here, and each example is compiled and compared with the
# interpreter, in every mode and with gradients; arguments are options of `verify`. What it computes: tests/lang/test_values.c.
. tests/cli/lib.sh

# What a function of the same file calls is exercised by that function's example.
used_within() { # FILE NAME
  grep -vE "^(fn|block|recurrence) $2\(" "$1" | grep -v '^ *//' | grep -qE "(^|[^A-Za-z_0-9])$2\("
}

# Optimizers are compared with plain C in tests/whole/test_update.c.
optimizers="adamw lamb lars lion sgd"
for file in models/std/*.vtb; do
  stem=$(basename "$file" .vtb)
  case " $optimizers " in *" $stem "*) continue ;; esac
  for name in $(sed -n 's/^\(fn\|block\|recurrence\) \([A-Za-z_0-9]*\)(.*/\2/p' "$file"); do
    grep -lw "use std.$stem" tests/std/*.vtb | xargs -r grep -qE "(^|[^A-Za-z_0-9])$name\(" ||
      used_within "$file" "$name" || fail "no example of $name of std.$stem: write one into a file of tests/std that has \"use std.$stem\""
  done
done

for file in ${STD_FILES:-tests/std/*.vtb}; do
  for model in $(sed -n 's/^model \([A-Za-z_0-9]*\)(.*/\1/p' "$file"); do
    expect 0 "$VERTEBRA" verify "$file" --entry "$model" "$@"
    says "gradients"; silent_about "error"
  done
done
