# What a command writes is called what it is: other names are refused before anything is read or computed, and nothing
# is written.
. tests/cli/lib.sh
image=tests/fuzz/corpus/image/rgb.png
refused() { # OPTION-VALUE ADVICE COMMAND...
  local name=$1 advice=$2
  shift 2
  expect 2 "$VERTEBRA" "$@"; says "$advice"
  [ ! -e "$name" ] || fail "$name is written"
}
for name in o.txt o.npy o .safetensors; do
  refused "$work/$name" "writes .safetensors, which" run vil_nano $image -o "$work/$name"
done
says "call it $work/.safetensors.safetensors"
refused "$work/w.pth" "call it $work/w.safetensors" convert absent.safetensors "$work/w.pth"
refused "$work/v.gif" "-o writes .svg, .png or .pdf, which '$work/v.gif' is not: call it $work/v.svg" compare absent -o "$work/v.gif"
refused "$work/p.gif" "writes .svg, .png or .pdf" paths vil_nano -o "$work/p.gif"
refused "$work/g.gif" "writes .svg, .png, .pdf or .dot" graph vil_nano -o "$work/g.gif"
refused "$work/m.so" "call it $work/m.onnx" export vil_nano -o "$work/m.so"
refused "$work/m" "call it $work/m.so" build vil_nano -o "$work/m"
refused "$work/s.jpg" "--sheet writes .png" data absent --sheet "$work/s.jpg"
refused "$work/t.txt" "--csv writes .csv" bench vil_nano --runs 1 --csv "$work/t.txt"
refused "$work/t.svg" "--trace writes .json" bench vil_nano --runs 1 --trace "$work/t.svg"
refused "$work/t.csv" "-o is for --calibrate" bench vil_nano --runs 1 -o "$work/t.csv"
refused "$work/t.txt" "-o writes .json" bench --calibrate --target cuda-emulated -o "$work/t.txt"
refused "$work/r.html" "names a folder, and '$work/r.html' a file: call it $work/r" \
  ablate vil_nano --vary depth=1,2 -o "$work/r.html"
refused "$work/r.pth" "call it $work/r" train vil_nano --data absent --out "$work/r.pth"
# a folder where a file is meant; a name of many parts keeps them
mkdir "$work/dir.so" "$work/run.v1.csv"
expect 2 "$VERTEBRA" build vil_nano -o "$work/dir.so"; says "is a folder"
expect 2 "$VERTEBRA" paths vil_nano -o "$work/"; says "is a folder"
expect 2 "$VERTEBRA" build vil_nano -o "$work/none/"; says "names a file"
expect 1 "$VERTEBRA" train vil_nano --data "$work/absent" --out "$work/run.v1.csv"; says "absent"
expect 0 "$VERTEBRA" build vil_nano -D depth=1 -D dim=16 -o "$work/model-0.5.so.2"; says "inference, batch 1"
