#!/usr/bin/env bash
# What variants of models take beside what was published, by the estimate (docs/cuda_cost.md), as a table: no GPU is asked.
#   tests/bench/variants.sh [PATTERN] [GPU]     (default all, h200; VERTEBRA the program, default build/release/vertebra)
# bf16-all, batch 128. A variant may take 1.15 times what the published model takes, times what it computes or moves more:
# its FLOPs, or bytes of parameters and of tensors between blocks. Other widths, whose rows are no multiples of 64, 1.3 times.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
pattern=${1:-.} gpu=${2:-h200} vertebra=${VERTEBRA:-build/release/vertebra}
export VTB_MODELS=${VTB_MODELS:-$PWD/models}

# "ms launches" of a run
run() {
  "$vertebra" dump "$@" --batch 128 --stage launches --precision bf16-all --estimate "$gpu" |
    sed -n "s|^$gpu: \([0-9]*\) launches, \([0-9.]*\) ms a run of .*|\2 \1|p"
}

# What stands behind "NAME": in the JSON of a model
number() { sed -n "s/.*\"$1\":[[:space:]]*\([0-9]*\).*/\1/p" | head -1; }

# "FLOPs bytes ms launches ms launches" of MODEL WIDTH DEPTH [OPTIONS...]: of an image; of parameters, and between blocks of a batch
measure() {
  local model=$1 width=$2 depth=$3 check options=() option
  shift 3
  for option; do
    options+=(-D "$option")
    case $option in dim=* | embed_dim=*) width=${option#*=} ;; depth=*) depth=${option#*=} ;; esac
  done
  check=$("$vertebra" check "$model" "${options[@]}" --json | tr -d '\n' | tr ',' '\n')
  echo "$(number flops <<<"$check") $(awk -v p="$(number parameters <<<"$check")" -v t="$(number tokens <<<"$check")" -v w="$width" -v d="$depth" \
    'BEGIN { printf "%.0f", 4 * (p + 128 * t * w * (d + 1)) }') $(run "$model" "${options[@]}") $(run "$model" "${options[@]}" --train)"
}

published() { model=$1 width=$2 depth=$3 base=; }

# variant OPTION... of the model above, beside it
variant() {
  [[ "$model $*" =~ $pattern ]] || return 0
  if [ -z "$base" ]; then
    base=$(measure "$model" "$width" "$depth")
    echo "$base" | awk -v name="$model" '{ printf "| **%s** | | | %s | %s | | %s | %s | |\n", name, $4, $3, $6, $5 }'
  fi
  echo "$base $(measure "$model" "$width" "$depth" "$@")" | awk -v name="$*" '
    function cell(time, most) { return time <= most ? sprintf("%.2f", time) : sprintf("**%.2f** (%.2f)", time, most) }
    {
      flops = $7 / $1; bytes = $8 / $2; most = match(name, /dim=[0-9]+/) && substr(name, RSTART + 4, RLENGTH - 4) % 64 ? 1.3 : 1.15
      if (flops > 1 || bytes > 1) most *= flops > bytes ? flops : bytes
      printf "| %s | %.2f | %.2f | %s | %s | %s | %s | %s | %s |\n", name, flops, bytes, $10, $9, cell($9 / $3, most), $12, $11, cell($11 / $5, most)
    }'
}

echo "| variant | FLOPs | bytes | launches | ms | times published | launches | ms | times published |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
published vil_tiny 192 24
variant num_heads=1
variant num_heads=2
variant num_heads=3
variant num_heads=6
variant num_heads=8
variant num_heads=12
variant num_heads=24
variant qkv_block_size=1
variant qkv_block_size=2
variant qkv_block_size=3
variant qkv_block_size=6
variant qkv_block_size=8
variant qkv_block_size=12
variant qkv_block_size=16
variant qkv_block_size=32
variant qkv_block_size=64
variant conv_kernel_size=5
variant conv_kernel_size=7
variant conv_kind=conv1d
variant conv_kind=causal1d conv_kernel_size=4
variant conv_kind=none
variant expansion=1
variant expansion=3
variant expansion=4
variant norm_bias=false
variant proj_bias=false
variant conv_bias=false
variant depth=12
variant image=160x160
variant image=192x192
variant image=256x256
variant image=288x288
variant image=320x320
variant image=224x448
variant image=384x384
variant image=512x512
variant stride_height=8 stride_width=8
variant directions=quad
variant concurrency=in_block_bidirectional
variant concurrency=in_block_quaddirectional
variant cls_tokens=1
variant cls_tokens=1 cls_location=first
variant cls_tokens=2 cls_location=bilateral
variant cls_tokens=1 image=256x256
variant dim=128
variant dim=200
variant dim=256
variant dim=320
variant qkv_block_size=8 num_heads=6 conv_kernel_size=5
variant expansion=3 conv_kernel_size=5
published vil_small 384 24
variant num_heads=12
variant conv_kernel_size=7
published vil_base 768 24
variant num_heads=8
variant qkv_block_size=8
variant conv_kernel_size=5
variant expansion=3
published vim_tiny 192 24
variant d_state=8
variant d_state=12
variant d_state=24
variant d_state=32
variant d_state=48
variant d_state=64
variant d_conv=5
variant d_conv=7
variant expand=1
variant expand=3
variant bimamba_type=v1
variant bimamba_type=none
variant dt_rank=24
variant if_rope=true
variant depth=12
variant image=256x256
variant dim=200
variant dim=256
published vim_small 384 24
variant d_state=32
published vir_small 384 12
variant heads=1
variant heads=3
variant heads=8
variant heads=12
variant heads=24
variant form=recurrent
variant ret_norm=group_norm
variant ret_norm=head_rms
variant ret_norm=none
variant ret_activation=swish
variant ret_activation=swish_gate
variant mlp_ratio=3.0
variant class_token=false
variant depth=6
variant image=256x256
variant dim=400 heads=10
published visionllama_small 384 12
variant heads=1
variant heads=3
variant heads=8
variant heads=12
variant heads=24
variant norm=rmsnorm
variant mlp=gelu
variant layer_scale=false
variant rope_kind=sequence
variant image=256x256
variant dim=400 heads=10
published deit_small 384 12
variant heads=1
variant heads=3
variant heads=8
variant heads=12
variant heads=24
variant mlp_hidden=384
variant mlp_hidden=1152
variant depth=24
variant image=256x256
published deit_tiny 192 12
variant heads=2
variant dim=200 heads=5
