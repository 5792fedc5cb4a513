# A model called in another, whose weights come from a file of their own: --init PREFIX=FILE.
. tests/cli/lib.sh
small_images 64 16
model=tests/cli/distilled.vtb

train() { # OUT ARGS...
  expect 0 "$VERTEBRA" train $model --data "$work/data" --batch 16 --lr 1e-2 --seed 3 --quiet --out "$work/$1" "${@:2}"
}
bytes_of() { # FILE NAME
  local head begin end
  head=$(od -An -tu8 -N8 "$1" | tr -d ' ')
  read -r begin end < <(dd if="$1" bs=1 skip=8 count="$head" 2>/dev/null |
    sed -n "s/.*\"$2\":{[^}]*\"data_offsets\":\[\([0-9]*\),\([0-9]*\)\].*/\1 \2/p")
  [ -n "${end:-}" ] || fail "no $2 in $1"
  dd if="$1" bs=1 skip=$((8 + head + begin)) count=$((end - begin)) 2>/dev/null | sha256sum
}

# every mode, the frozen part beside the other
expect 0 "$VERTEBRA" verify $model --entry distilled
expect 0 "$VERTEBRA" check $model --entry distilled --params
says "teacher.layers.1.mlp.fc1.weight"; says "student.embed.weight"; says "of them frozen"

# what a training made is the teacher's to the bit, before and after
train teacher --entry large --epochs 2
train student --entry distilled --epochs 2 --init "teacher=$work/teacher/weights.safetensors"
for w in embed.weight layers.1.mlp.fc2.bias head.weight; do
  [ "$(bytes_of "$work/teacher/weights.safetensors" $w)" = "$(bytes_of "$work/student/weights.safetensors" teacher.$w)" ] ||
    fail "teacher.$w is not that of the file"
done

# once more is the same; the file is remembered with its prefix
expect 0 "$VERTEBRA" train --again "$work/student" --out "$work/again" --quiet
cmp -s "$work/student/weights.safetensors" "$work/again/weights.safetensors" || fail "--again is another training"

# a trained model has all of it in one file; a file for a part counts over it, and is there for what else takes weights
train other --entry large --epochs 1 --seed 4
run() { expect 0 "$VERTEBRA" eval $model --data "$work/data" --entry distilled "$@"; grep -o "taught.*" "$work/out" | sed 's/ (.*//'; }
own=$(run --weights "$work/student/weights.safetensors")
same=$(run --weights "$work/student/weights.safetensors" --weights "teacher=$work/teacher/weights.safetensors")
another=$(run --weights "$work/student/weights.safetensors" --weights "teacher=$work/other/weights.safetensors")
[ -n "$own" ] && [ "$own" = "$same" ] || fail "the teacher's file gives '$same', not '$own'"
[ "$own" != "$another" ] || fail "the file of the part was not read"
expect 0 "$VERTEBRA" build $model --entry distilled --weights "teacher=$work/teacher/weights.safetensors" -o "$work/d.so"
says "16 of 16 tensors below teacher"

# what does not fit is said of the part
expect 1 "$VERTEBRA" eval $model --entry distilled --data "$work/data" --weights "teach=$work/teacher/weights.safetensors"
says "no parameters below 'teach'; its scopes are teacher, student"
expect 1 "$VERTEBRA" eval $model --entry distilled --data "$work/data" --weights "student=$work/teacher/weights.safetensors"
says "below student: "; says "embed.weight is [16, 1, 4, 4], the model's [8, 1, 4, 4]"
expect 1 "$VERTEBRA" eval $model --entry distilled --data "$work/data" --weights "teacher=$work/student/weights.safetensors"
says "below teacher: "; says "that the model does not have: student."
