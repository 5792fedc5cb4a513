#!/usr/bin/env bash
# Runs every libFuzzer program of a fuzz build for some seconds. usage: run.sh BUILD_FOLDER SECONDS
set -euo pipefail
build=$1 seconds=${2:-10}
cd "$(dirname "$0")"
for program in "../../$build"/tests/fuzz_*; do
  [ -x "$program" ] || continue
  name=$(basename "$program")
  corpus=$(mktemp -d)
  cp corpus/"${name#fuzz_}"/* "$corpus"/ 2>/dev/null || true
  echo "== $name"
  "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 "$corpus" 2>&1 | tail -n 4
  rm -rf "$corpus"
done
