# Backbones of corrected states: they check and say why, and verify in every mode.
. tests/cli/lib.sh
for net in vil_delta_nano vim_delta_nano; do
  small=(-D depth=2 -D dim=16 -D heads=2 --image 16x12)
  expect 0 "$VERTEBRA" check $net "${small[@]}"; says "1 correction a token, scalar decay"; silent_about "VTB3006"
  expect 0 "$VERTEBRA" verify $net "${small[@]}"; says "chunkwise(7)"; says "gradients"
done
