# Recurrences that nobody foresaw: those that are linear agree with the interpreter in every mode, gradients included; those that are
# not run step after step, and another mode is refused with the term that stands in its way.
. tests/cli/lib.sh
file=tests/cli/recurrences.vtb
expect 0 "$VERTEBRA" verify $file --entry users; says "chunkwise(7)"; says "gradients"; silent_about "VTB3006"

refused() { # NAME REASON
  expect 0 "$VERTEBRA" check $file --entry refused -D which="$1"; says "warning[VTB3006]"; says "$2"
  expect 1 "$VERTEBRA" check $file --entry refused -D which="$1" -D mode=parallel; says "$2"; says "help: "
}
refused gru "applies tanh to a state"
refused crossed "reads the state along both of its axes"
refused tropical "applies max to a state"
