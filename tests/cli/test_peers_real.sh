# `bench --peers` with the packages that there are: every peer has our numbers. Skipped where python3 has none of them.
. tests/cli/lib.sh
export PYTHONDONTWRITEBYTECODE=1
has() { python3 -c "import numpy, $1" 2>/dev/null; }
near() { printf '%s' "$out" | "$JSON_GET" "$1" | awk '{ exit !($1 >= 0 && $1 < 1e-5) }' || fail "$1 is not near: $out"; }
peers=()
for p in onnxruntime openvino torch; do has $p && peers+=($p); done
[ ${#peers[@]} -gt 0 ] || { echo "skipped: python3 has none of onnxruntime, openvino and torch"; exit 77; }
for p in "${peers[@]}"; do
  expect 0 "$VERTEBRA" bench vil_nano vim_nano --peer "$p" --threads 1 --batch 2 --rounds 1 --seconds 0.01 --json
  json peers 4 peers.1.rounds 1
  near peers.1.difference
  case $p:$out in openvino:*"Model wasn't fully converted"*Scan*) continue ;; esac # it has no Scan
  json peers.3.rounds 1; near peers.3.difference
done
has torch || exit 0
# gradients of all parameters; families with a form; what draws random numbers, and what has no form
for model in vil_nano deit_nano vir_nano vllama_nano vim_nano; do
  expect 0 "$VERTEBRA" bench $model -D drop_path=0 --peer torch --train --no-update --threads 1 --batch 2 --rounds 1 --seconds 0.01 --json
  json peers.1.rounds 1; near peers.1.difference
done
expect 0 "$VERTEBRA" bench vil_nano --peer torch --train --threads 1 --rounds 1 --seconds 0.01 --json; near peers.1.difference
expect 0 "$VERTEBRA" bench vil_nano -D drop_path=0.1 --peer torch --train --rounds 1 --seconds 0.01; says "set their rates to 0 by -D"
expect 0 "$VERTEBRA" bench swin_nano vit_nano --peer torch --rounds 1 --seconds 0.01
says "the model has no form in PyTorch: there is no"; says "has no form of the model timm_vit"
