# Built files of blocks and recurrences, and gradients in built files: what is in them, and what cannot be.
. tests/cli/lib.sh
shapes=(--shape q=Bx2x17x6 --shape k=Bx2x17x6 --shape v=Bx2x17x5 --shape i=Bx2x17 --shape f=Bx2x17)

expect 0 "$VERTEBRA" build mlstm "${shapes[@]}" --vjp --batch 2 -o "$work/mlstm.so"
says "gradient, batch 2, 0 parameters"; says "adjoint  d:y          [2, 2, 17, 5]"; says "gradient d:f          [2, 2, 17]"
expect 0 "$VERTEBRA" build mlstm "${shapes[@]}" --vjp --wrt q --wrt 'k*' --json -o "$work/some.so"
json programs.1.role gradient
says '"d:q"'; says '"d:k"'; silent_about '"d:v"'
expect 0 "$VERTEBRA" check "$work/some.so"; says "gradient d:k"; silent_about "gradient d:v"

expect 0 "$VERTEBRA" build vil_block -D grid_height=3 -D grid_width=4 --shape x=Bx12x16 --vjp -o "$work/block.so"
says "gradient d:x"; silent_about "d:norm.weight"
expect 0 "$VERTEBRA" check "$work/block.so" --params; says "gradient d:norm.weight"; says "param    norm.weight"

# gradients do not change what the file computes otherwise
small=(vil_nano -D depth=1 -D dim=16)
expect 0 "$VERTEBRA" build "${small[@]}" --vjp -o "$work/model.so"
expect 0 "$VERTEBRA" build "${small[@]}" -o "$work/plain.so"
expect 0 "$VERTEBRA" run "$work/model.so" tests/fuzz/corpus/image/rgb.png -o "$work/a.safetensors"
expect 0 "$VERTEBRA" run "$work/plain.so" tests/fuzz/corpus/image/rgb.png -o "$work/b.safetensors"
cmp -s "$work/a.safetensors" "$work/b.safetensors" || fail "with gradients the file computes something else"

expect 2 "$VERTEBRA" build "${small[@]}" --wrt x; says "--wrt is for --vjp"
expect 2 "$VERTEBRA" build "${small[@]}" --vjp --wrt nothing -o "$work/x.so"; says "no input or parameter 'nothing'"
expect 2 "$VERTEBRA" build mlstm --shape q=Bx2x -o "$work/x.so"; says "a shape is NAME=SIZES"
expect 1 "$VERTEBRA" build mlstm --shape q=Bx2x17x6 -o "$work/x.so"; says "the shape of 'k' is not given"; says "--shape k="
expect 2 "$VERTEBRA" build tests/golden/vil/cell_gates_wide.safetensors --vjp -o "$work/x.so"; says "a case has its own"
[ ! -e "$work/x.so" ] || fail "a refused build left a file"
