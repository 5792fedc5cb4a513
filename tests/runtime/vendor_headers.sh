#!/usr/bin/env bash
# Compiles vendor_headers.cpp where the toolkit's headers are (CUDA_HOME, /usr/local/cuda, NVIDIA's Python packages).
set -u
cxx=${CXX:-g++}
command -v "$cxx" >/dev/null || { echo "skipped: no C++ compiler"; exit 77; }
shopt -s nullglob
folders=() cuda='' lt=''
for folder in ${CUDA_HOME:+"$CUDA_HOME/include"} /usr/local/cuda/include /usr/include \
  {"$HOME"/.local,/usr,/usr/local,"$HOME"/.pyenv/versions/*}/lib/python3*/{site,dist}-packages/nvidia/*/include; do
  [ -d "$folder" ] || continue
  [ -z "$cuda" ] && [ -f "$folder/cuda.h" ] && { cuda=yes; folders+=(-isystem "$folder"); }
  [ -z "$lt" ] && [ -f "$folder/cublasLt.h" ] && { lt=yes; folders+=(-isystem "$folder"); }
  [ -f "$folder/nccl.h" ] && folders+=(-isystem "$folder")
done
[ -n "$cuda$lt" ] && [ "$cuda" = "$lt" ] || { echo "skipped: no cuda.h or no cublasLt.h"; exit 77; }
exec "$cxx" -std=c++20 -fsyntax-only -Wall -Wno-unused -I"$(cd "$(dirname "$0")/../.." && pwd)" "${folders[@]}" \
  "$(dirname "$0")/vendor_headers.cpp"
