# A run folder loses nothing: it is refused, locked, continued and repeated; signals and kills leave what was there.
. tests/cli/lib.sh
small_images 64 32
tiny_model
cd "$work" || exit 1
run=(tiny.vtb --data data --batch 8 --epochs 6 --seed 3 --val-fraction 0.25 --quiet)
sum() { sha256sum "$1/weights.safetensors" "$1/checkpoint.safetensors" "$1/log.csv" "$1/log.jsonl" "$1/run.yaml"; }

# the default folder has the names of model and data; two runs of a second are two folders
expect 0 "$VERTEBRA" train "${run[@]}"; says "weights: runs/tiny-data-20"
expect 0 "$VERTEBRA" train "${run[@]}"
[ "$(ls -d runs/tiny-data-20* | wc -l)" = 2 ] || fail "not two folders: $(ls runs)"
whole=$(ls -d runs/* | head -n 1)
for f in run.yaml log.csv log.jsonl best.safetensors weights.safetensors model/tiny.vtb model/std/nn.vtb curve.svg; do
  [ -s "$whole/$f" ] || fail "no $f in $whole"
done

# again: the same weights, although the model's file is another now, or gone; from another place too
sed -i 's/dim: int = 16/dim: int = 20/' tiny.vtb
expect 0 "$VERTEBRA" train --again "$whole" --out again --quiet
cmp -s "$whole/weights.safetensors" again/weights.safetensors || fail "--again gave other weights"
mv tiny.vtb other.vtb
(cd / && "$VERTEBRA" train --again "$work/$whole" --out "$work/twice" --quiet >/dev/null) || fail "--again from another folder"
cmp -s "$whole/weights.safetensors" twice/weights.safetensors || fail "--again from another folder gave other weights"
expect 0 "$VERTEBRA" train --again again --out thrice --quiet --threads 1
cmp -s "$whole/weights.safetensors" thrice/weights.safetensors || fail "--again of --again gave other weights"
mv other.vtb tiny.vtb
expect 0 "$VERTEBRA" train --recipe "$whole/run.yaml" --out recipe --quiet -D dim=24
expect 2 "$VERTEBRA" train --again "$whole" tiny.vtb; says "takes everything from that run"
expect 1 "$VERTEBRA" train --again data; says "no run.yaml"
cp -r data others; printf '\60' | dd of=others/train-images-idx3-ubyte bs=1 seek=20 conv=notrunc 2>/dev/null
expect 1 "$VERTEBRA" train --again "$whole" --data others --out no; says "is not what the run in"; [ ! -e no ] || fail "a folder of no run"

# nothing is written through a link, nor into a file that has another name
mkdir links hard
echo precious > victim
ln -s ../victim links/.lock
ln victim hard/.lock
expect 1 "$VERTEBRA" train "${run[@]}" --out links; says "links/.lock is a link, through which nothing is written"
expect 1 "$VERTEBRA" train "${run[@]}" --out hard; says "hard/.lock is no file of this program's own"
rm links/.lock
for f in log.csv log.jsonl curve.svg weights.safetensors run.yaml; do ln -s ../nobody links/$f; done
expect 0 "$VERTEBRA" train "${run[@]}" --out links --max-steps 8
[ "$(cat victim)" = precious ] && [ ! -e nobody ] || fail "written through a link"

# a folder with a run is left alone
before=$(sum again)
expect 1 "$VERTEBRA" train "${run[@]}" --out again; says "holds a run (checkpoint.safetensors): --resume"
expect 1 "$VERTEBRA" train "${run[@]}" --out again --overwrite -D dims=3; says "dims"
expect 5 "$VERTEBRA" train "${run[@]}" --out again --overwrite --lr 1e30; [ "$before" = "$(sum again 2>/dev/null)" ] && fail "not overwritten"
expect 0 "$VERTEBRA" train "${run[@]}" --out again --overwrite; [ -s again/run.yaml ] || fail "no record"
before=$(sum thrice)
"$VERTEBRA" train "${run[@]}" --epochs 100000 --out thrice --overwrite >by.out 2>&1 & pid=$!
waits_for hears_interrupt; kill -INT $pid; got=0; wait $pid || got=$?
[ $got = 130 ] && { [ "$before" = "$(sum thrice)" ] || [ -s thrice/checkpoint.safetensors ]; } || fail "an early SIGINT: $got"

# finished; stopped by a limit, and continued by the folder alone
expect 0 "$VERTEBRA" train --resume "$whole" --quiet; says "is finished: 36 updates"; says "val top-1"
recorded=$(tail -n 1 "$whole/log.csv" | awk -F, '{ printf "%.2f", 100 * $6 }'); says "val top-1 $recorded %"
mv tiny.vtb changed.vtb; sed 's/dim: int = 20/dim: int = 16/' changed.vtb > tiny.vtb
expect 0 "$VERTEBRA" train "${run[@]}" --out parts --max-steps 8; says "--resume continues"
expect 0 "$VERTEBRA" train --resume --out parts --quiet
cmp -s "$whole/weights.safetensors" parts/weights.safetensors || fail "a run continued by its folder differs"
[ "$(wc -l < parts/log.csv)" = 7 ] || fail "rows: $(cat parts/log.csv)"

# what differs is named
expect 0 "$VERTEBRA" train "${run[@]}" --out parts --max-steps 8 --overwrite
expect 1 "$VERTEBRA" train "${run[@]}" --out parts --resume --lr 0.5; says "lr=0.001 (now lr=0.5)"
expect 1 "$VERTEBRA" train "${run[@]}" --out parts --resume --mode recurrent; says "now mode=recurrent"
expect 1 "$VERTEBRA" train "${run[@]}" --out parts --resume --data others; says "data are not those that the run began with"
cp tiny.vtb kept.vtb; echo "// another" >> tiny.vtb
expect 1 "$VERTEBRA" train "${run[@]}" --out parts --resume; says "tiny.vtb is not what it was when the run began"; mv kept.vtb tiny.vtb
cp changed.vtb large.vtb; expect 1 "$VERTEBRA" train large.vtb "${run[@]:1}" --out parts --resume; says "large.vtb"
printf 'x' | dd of=parts/checkpoint.safetensors bs=1 seek=6000 conv=notrunc 2>/dev/null
expect 1 "$VERTEBRA" train --resume parts; says "damaged"
expect 2 "$VERTEBRA" train --resume; says "--resume DIR"
expect 1 "$VERTEBRA" train --resume data; says "no run.yaml"

# one writer; what a killed one left half written goes
"$VERTEBRA" train "${run[@]}" --epochs 100000 --out held >by.out 2>&1 & pid=$!
waits_for test -s held/log.csv
expect 1 "$VERTEBRA" train "${run[@]}" --epochs 100000 --out held --resume; says "process $pid writes into held"
kill -9 $pid; wait $pid 2>/dev/null
: > held/checkpoint.safetensors.tmp-0badcafe
expect 0 "$VERTEBRA" train "${run[@]}" --epochs 100000 --out held --resume --max-seconds 0.1; says "removed held/checkpoint.safetensors.tmp-0badcafe"
[ ! -e held/checkpoint.safetensors.tmp-0badcafe ] || fail "it is still there"

# signals
for signal in INT:130 TERM:143 HUP:129; do
  "$VERTEBRA" train "${run[@]}" --epochs 100000 --out "by_$signal" >"by.out" 2>&1 & pid=$!
  waits_for test -s "by_$signal/log.csv"
  kill -"${signal%:*}" $pid; got=0; wait $pid || got=$?
  [ "$got" = "${signal#*:}" ] || fail "SIG${signal%:*} ends with $got: $(cat by.out)"
  grep -q "(stopped early; --resume continues)" by.out || fail "what it says: $(cat by.out)"
  expect 0 "$VERTEBRA" train --resume "by_$signal" --max-seconds 0.1 --json; json finished false stopped false
done

# what was asked for is the run's label, in its files; a run that repeats it says what it has otherwise
expect 0 "$VERTEBRA" train tiny.vtb --data data --batch=8 --epochs 1 -Ddim=12 --seed 4 --val-fraction 0.25 --out label --json
asked="batch 8, epochs 1, dim 12, seed 4, val-fraction 0.25"
json label "$asked" seed 4 split val score top1 best_epoch 1 curve.0.epoch 1
[ "$(printf '%s' "$out" | "$JSON_GET" peak_bytes)" -gt 1000000 ] || fail "the peak of memory: $out"
grep -qF "label: \"$asked\"" label/run.yaml || fail "$(cat label/run.yaml)"
for f in weights best checkpoint; do
  expect 0 "$VERTEBRA" weights label/$f.safetensors --json; json metadata.label "$asked"
done
expect 0 "$VERTEBRA" eval tiny.vtb -D dim=12 --weights label/best.safetensors --data data --json; json label "$asked" split test images 32
expect 0 "$VERTEBRA" train --again label --out other --seed 5 --flip --threads 1 --json; json label "${asked/seed 4/seed 5}, flip"
expect 0 "$VERTEBRA" train --again other --out named --label "mine, of course" --json; json label "mine, of course"
expect 0 "$VERTEBRA" train --again named --out named2 --json; json label "mine, of course"

# side by side: by folder, with what differs; a last line that was cut is left out
expect 0 "$VERTEBRA" train "${run[@]}" --out one --epochs 1 --lr 5e-3
printf '{"event":"epo' >> twice/log.jsonl
expect 0 "$VERTEBRA" compare "$whole" twice one -o runs.svg
says "| tiny-data-20"; says "| twice | tiny.vtb | 612 | 36 "; says "epochs 1, lr 0.005 |"; says "epochs 6, lr 0.001 |"; says "twice/log.jsonl is not whole"
[ "$(grep -c '<circle' runs.svg)" = 13 ] || fail "markers: $(grep -c '<circle' runs.svg)"
[ "$(grep -c '<circle' one/curve.svg)" = 7 ] || fail "the curve of one epoch: $(cat one/curve.svg)"

# event files, and numbers that are out of range
expect 0 "$VERTEBRA" train "${run[@]}" --out board --tensorboard --epochs 1
grep -q "eval/top1" board/tensorboard/events.out.tfevents.* || fail "no event file"
expect 2 "$VERTEBRA" train "${run[@]}" --out no --batch 99999999999; says "--batch takes a whole number from 1 to"
expect 2 "$VERTEBRA" train "${run[@]}" --out no --lr inf; says "--lr takes a finite number"
