# Data sets as they come: what `vertebra data` finds, classes by name, damaged images, folders and lists for `run`.
. tests/cli/lib.sh
: "${MAKE_DATA:?path of make_data}"
"$MAKE_DATA" classes "$work/colours" 12 red green blue
"$MAKE_DATA" classes "$work/few" 5 green red
model=(vil_nano -D depth=1 -D dim=16 --image 16)

expect 0 "$VERTEBRA" data "$work/colours" --sheet "$work/sheet.png"
says "no splits"; says "36 images, 3 classes"; says "width 16 to 16"
[ "$(head -c 4 "$work/sheet.png" | tail -c 3)" = PNG ] || fail "no contact sheet"
expect 1 "$VERTEBRA" data "$work/none"; says "no data set at"

expect 0 "$VERTEBRA" train "${model[@]}" --data "$work/colours" --epochs 8 --batch 8 --lr 1e-2 --quiet --out "$work/run"
says "3 of its 36 images are held out"; says "val top-1 100.00 %"
weights=(--weights "$work/run/weights.safetensors")
expect 0 "$VERTEBRA" eval "${model[@]}" "${weights[@]}" --data "$work/colours"; says "3 images: top-1 100.00 %"
# a folder with two of the three classes is judged by their names, not by their places
expect 0 "$VERTEBRA" eval "${model[@]}" "${weights[@]}" --data "$work/few"; says "by name"; says "10 images: top-1 100.00 %"
mv "$work/few/red" "$work/few/crimson"
expect 1 "$VERTEBRA" eval "${model[@]}" "${weights[@]}" --data "$work/few"; says "not known to the model: crimson"
mv "$work/few/crimson" "$work/few/red"

# what lies among the images and is none of them, and a class without images, are said
mkdir -p "$work/odd/white/.hidden"; cp -r "$work/few/green" "$work/few/red" "$work/odd"
expect 0 "$VERTEBRA" data "$work/odd"; silent_about "left out"; says "1 of the 3 classes has no image: white"
cp -r "$work/few/green" "$work/odd/red/deeper"; : > "$work/odd/red/001.BMP"; : > "$work/odd/green/notes.txt"; : > "$work/odd/red/.hidden"
expect 0 "$VERTEBRA" train "${model[@]}" --data "$work/odd" --max-steps 1 --batch 4 --quiet --out "$work/odd-run"
says "1 folder inside the classes' folders left out: $work/odd/red/deeper"; says "2 files in the classes' folders left out"
says "odd/green/notes.txt ..."; says "10 images"

# one damaged image of 36 is skipped and named; a second is too many
head -c 50 "$work/colours/red/003.png" > "$work/cut.png"
cp "$work/cut.png" "$work/colours/red/003.png"
mkfifo "$work/colours/red/pipe.png"
again=(train "${model[@]}" --data "$work/colours" --epochs 1 --batch 8 --quiet --val-fraction 0)
expect 0 "$VERTEBRA" "${again[@]}" --workers 1 --out "$work/one"
says "1 damaged sample of colours skipped"; says "red/003.png"; says "pipe.png is left out"; says "not evaluated"
expect 0 "$VERTEBRA" "${again[@]}" --workers 5 --out "$work/five"
cmp -s "$work/one/weights.safetensors" "$work/five/weights.safetensors" || fail "weights depend on the number of workers"
expect 1 "$VERTEBRA" "${again[@]}" --skip-damaged 0 --out "$work/no"; says "003.png"
cp "$work/cut.png" "$work/colours/blue/001.png"
expect 1 "$VERTEBRA" "${again[@]}" --out "$work/no"; says "more than 1 of the 36"
expect 0 "$VERTEBRA" "${again[@]}" --skip-damaged 2 --out "$work/two"; says "2 damaged samples"
expect 1 "$VERTEBRA" data "$work/colours"; says "damaged: 2"; says "blue/001.png"

# run: folders, lists, standard input; a bad image has its reason, the others their classes
run=(run "${model[@]}" "${weights[@]}" --top 1)
expect 1 "$VERTEBRA" "${run[@]}" "$work/few/green" "$work/cut.png" "$work/few/red"
says "1 of 11 images could not be read"; says "not classified"
[ "$(grep -c '%  ' "$work/out")" = 10 ] || fail "not all images: $out"
ls "$work"/few/red/*.png > "$work/list"
expect 0 "$VERTEBRA" "${run[@]}" "@$work/list"; [ "$(grep -c 'red$' "$work/out")" = 5 ] || fail "$out"
expect 0 "$VERTEBRA" "${run[@]}" - < "$work/list"; [ "$(grep -c 'red$' "$work/out")" = 5 ] || fail "$out"
expect 0 "$VERTEBRA" "${run[@]}" - < "$work/few/green/000.png"; says "green"
expect 1 "$VERTEBRA" "${run[@]}" --json "$work/cut.png" "$work/few/red/001.png"; says '"error"'; says '"name":	"red"'

# numbers that are not finite are no result
"$MAKE_DATA" poison "$work/run/weights.safetensors" "$work/nan.safetensors"
expect 5 "$VERTEBRA" "${run[@]::1}" "${model[@]}" -D classes=3 --weights "$work/nan.safetensors" "$work/few/red"; says "are not finite"
expect 5 "$VERTEBRA" eval "${model[@]}" -D classes=3 --weights "$work/nan.safetensors" --data "$work/few"; says "are not finite"; silent_about "top-1"

again=(train "${model[@]}" --data "$work/few" --quiet)
expect 2 "$VERTEBRA" "${again[@]}" --erase 2 --out "$work/no"; says "probability from 0 to 1"
expect 2 "$VERTEBRA" "${again[@]}" --shift 2147483647 --out "$work/no"; says "not 2147483647"
expect 0 "$VERTEBRA" bench --data "$work/few" --seconds 0.2 --image 16 --workers 2; says "decode alone"; says "2 workers"

# a library that is not there is no damage of the images'
expect 4 env VTB_LIBPNG=/absent/libpng.so "$VERTEBRA" data "$work/colours"; says "VTB_LIBPNG=/absent/libpng.so cannot be loaded"; silent_about damaged
