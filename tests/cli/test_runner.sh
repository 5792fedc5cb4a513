# vertebra-run: what `vertebra run` gives, by the runtime alone.
. tests/cli/lib.sh
runner=$(dirname "$VERTEBRA")/vertebra-run
images=(tests/fuzz/corpus/image/rgb.png tests/runtime/images/turned6.jpg)
small_images 16 8
small=(vil_nano -D depth=1 -D dim=16 --image 8)
expect 0 "$VERTEBRA" train "${small[@]}" --data "$work/data" --batch 8 --max-steps 2 --quiet --out "$work/run"
weights=$work/run/weights.safetensors
expect 0 "$VERTEBRA" build "${small[@]}" --weights "$weights" --batch 2 -o "$work/model.so"
expect 0 "$VERTEBRA" build "${small[@]}" -D classes=4 -o "$work/bare.so"

# three images, of which the last stands alone in its run
expect 0 "$VERTEBRA" run "$work/model.so" "${images[@]}" "${images[0]}"; want=$out
expect 0 "$runner" "$work/model.so" "${images[@]}" "${images[0]}"
[ "$out" = "$want" ] || fail "vertebra-run gives $out, not $want"
expect 0 "$runner" --top 1 --threads 1 "$work/model.so" "${images[0]}"; [ "$(wc -l <<<"$out")" = 2 ] || fail "not one class: $out"
expect 0 "$runner" "$work/model.so"; says "inference, batch 2: cpu"; says "output   y [2, 4]"

# an image that cannot be read has its place, and the others their results
expect 1 "$runner" "$work/model.so" "${images[0]}" "$work/absent.png" "${images[1]}"
[ "$(grep -nE 'png$|jpg$' <<<"$out" | sed 's/:.*//' | tr '\n' ' ')" = "1 5 7 " ] || fail "order: $out"
[ "$(sed -n 6p <<<"$out" | grep -c '  not classified: .*absent.png')" = 1 ] || fail "no reason: $out"
expect 1 "$runner" "$work/model.so" "$(printf 'a\033[2Jb')"; case $out$err in *$'\033'*) fail "an escape sequence" ;; esac

# wrong files, wrong use
expect 1 "$runner" "$work/bare.so" "${images[0]}"; says "weights"
expect 1 "$runner" "$weights" "${images[0]}"; says "is not a file that"
expect 1 "$runner" "$work/absent.so" "${images[0]}"; says "absent.so"
head -c $(($(stat -c %s "$work/model.so") - 1)) "$work/model.so" > "$work/cut.so"
expect 1 "$runner" "$work/cut.so" "${images[0]}"; says "cut short"
expect 2 "$runner"; says "FILE is needed"; says "vertebra-run --help"
expect 2 "$runner" --bogus x; says "no option '--bogus'"
expect 2 "$runner" --top 0 x; says "--top is a number"
expect 2 "$runner" --target gpu x; says "cpu or cuda"
expect 4 "$runner" --target cuda "$work/model.so" "${images[0]}"; says "no code for CUDA"
expect 0 "$runner" --help; [ "$(wc -L <<<"$out")" -le 80 ] || fail "lines of more than 80 columns"
expect 1 sh -c "'$runner' '$work/model.so' '${images[0]}' >/dev/full"; says "standard output"

needed=$(ldd "$runner")
! grep -qiE 'llvm|libz3|icu|cairo|archive|fyaml|protobuf' <<<"$needed" || fail "vertebra-run needs $needed"
grep -q libvertebra_rt <<<"$needed" || fail "vertebra-run has the runtime inside: $needed"
