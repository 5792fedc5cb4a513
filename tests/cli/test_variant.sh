# A user's own recurrence, block and model: checked, verified in every mode, varied, trained and used without a line of C.
. tests/cli/lib.sh
model=models/examples/snake_memory.vtb
expect 0 "$VERTEBRA" check $model; says "linscan"
expect 0 "$VERTEBRA" verify $model -D dim=16 --image 20; says "chunkwise(7)"; silent_about "FAIL"
expect 0 "$VERTEBRA" verify $model -D dim=16 -D depth=1 --image 20x12 -D "directions=[hilbert, hilbert~, diagonal.hflip]" --mode auto
sed 's/sigmoid(i)/exp(i)/' $model >"$work/exponential.vtb"
expect 0 "$VERTEBRA" verify "$work/exponential.vtb" -D dim=16 -D depth=1 --image 16 --mode auto
expect 0 "$VERTEBRA" train $model -D dim=16 -D depth=1 --data fashion-mnist --limit 256 --batch 32 --epochs 1 --quiet --out "$work/run"
expect 0 "$VERTEBRA" eval $model --weights "$work/run/weights.safetensors" --data fashion-mnist --limit 200; says "top-1"
