# cases.map: what the config of a reference case says beside the hyperparameters of its entry.
. tests/cli/lib.sh
mkdir -p "$work/own/cases"
cat > "$work/own/half.vtb" <<'END'
block half(x: tensor, rate: float = 0.5, sign: float = 1.0) {
  y = x * param scale: [x.dim] ~ ones
  return y * (rate * sign)
}
END
case=$work/own/cases/one.safetensors
write_case() { # write_case CONFIG: y = half(x = (1, 2)), where the case calls the parameter old.scale
  local config=${1//\"/\\\"}
  local header="{\"__metadata__\":{\"entry\":\"theirs\",\"config\":\"$config\"}"
  header+=',"input/x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}'
  header+=',"param/old.scale":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}'
  header+=',"output/y":{"dtype":"F32","shape":[1,2],"data_offsets":[16,24]}}'
  printf "\\x$(printf %02x $((${#header} % 256)))\\x$(printf %02x $((${#header} / 256)))\0\0\0\0\0\0" >"$case"
  printf '%s' "$header" >>"$case"
  printf '\0\0\x80\x3f\0\0\0\x40\0\0\x80\x3f\0\0\x80\x3f\0\0\0\x3f\0\0\x80\x3f' >>"$case"
}
map() { cat >"$work/own/cases.map"; }
verify() { expect "$1" "$VERTEBRA" verify "${@:2}" "$case"; }
write_case '{"family": "own", "width": 2, "p": 0.5, "turned": "no", "who": "us"}'
good() {
  cat <<'END'
# of this folder
[other]
width = 3
[theirs o*]  # a comment
entry half.vtb half
family = "own"
width = x.dim
p -> rate
turned = "yes" -> sign = -1.0
turned = "no" -> sign = 1.0
who ->
names old.* -> *
END
}
good | map
verify 0; says "1 runs of 1 cases, 0 failed"
# in the case's own folder first, and by --map
mv "$work/own/cases.map" "$work/own/elsewhere.map"
verify 1; says "theirs"
verify 0 --map "$work/own/elsewhere.map"
good >"$work/own/cases/cases.map"; cp "$work/own/half.vtb" "$work/own/cases/"; echo "[" >"$work/own/cases.map"
verify 0
rm "$work/own/cases/cases.map"

# every line counts
good | sed 's/family = "own"/family = "their"/' | map; verify 1; says "VTB1504"; says "config field 'family'"
good | sed 's/x.dim/x.dim + 1/' | map; verify 1; says "'width' is the int 2"
good | sed 's/= x.dim/= x.dimm/' | map; verify 1; says "dimm"
good | sed '/who/d' | map; verify 1; says "VTB1503"; says "neither a hyperparameter nor a let 'who'"
good | sed '/"no"/d' | map; verify 1; says "'turned'"
good | sed 's/"no" -> sign = 1.0/"no" -> sign = -1.0/' | map; verify 5; says "FAIL output/y"
good | sed 's/p -> rate/p ->/' | sed '$a -> rate = 0.25' | map; verify 5
good | sed '/names/d' | map; verify 1; says "has no parameter old.scale"
good | sed 's/half.vtb half/half.vtb quarter/' | map; verify 1; says "quarter"

# a line that no case needs is told, of all cases together
unused() { expect "$1" "$VERTEBRA" verify --map "$work/own/cases.map" --unused "$case"; }
good | map; unused 1; says 'cases.map:3: no case needs: width = 3'; says 'cases.map:9: no case needs: turned = "yes" -> sign'
says "2 of 9 lines"; silent_about ok
good | sed '/^width = 3/d; /"yes"/d' | map; unused 0
good | sed 's/old/other/; s/who/whom/; s/^entry/[none]\nentry/' | map; unused 1; says "names other"; says "whom"; says "entry half"
expect 2 "$VERTEBRA" verify --unused "$case"; says "--map FILE"

# and what is no line says so, with its place
wrong() { { echo; echo "$1"; } | map; verify 1; says "cases.map:2: $2"; }
wrong "[theirs" "[ENTRY...] is meant"
wrong "width = 2" "a line before the first"
for line in "width" "width =" "= 2" "-> rate" "->" "names a" "entry half.vtb" "names a.* ->" "names a[ -> b"; do
  printf '[theirs]\n%s\n' "$line" | map; verify 1; says "cases.map:2: "
done
expect 1 "$VERTEBRA" verify --map "$work/none.map" "$case"; says "none.map"
# cases of the published models need none of their own, wherever they are
mkdir -p "$work/alone/one"
cp tests/golden/vil/block_droppath_subset_b8.safetensors "$work/alone/one/case.safetensors"
expect 0 "$VERTEBRA" verify "$work/alone/one/case.safetensors"
# a built case has the same map
good >"$work/own/elsewhere.map"
expect 0 "$VERTEBRA" build "$case" --map "$work/own/elsewhere.map" -o "$work/case.so"
expect 1 "$VERTEBRA" build "$case" -o "$work/case.so"; says "cases.map"
echo ok
