#!/usr/bin/env bash
# Pages of reports in a real browser: nothing on the console, sorting, filtering, folding, contrast, narrow windows,
# print. usage: browser.sh [FOLDER for screenshots]; exits with 77 where there is no chromium.
set -u
cd "$(dirname "$0")"
: "${MAKE_PAGE:?the program make_page}"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# Chromium wants a home of its own; as root it has no sandbox.
chrome() {
  HOME=$work timeout 60 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
    --user-data-dir="$work/profile" --no-first-run --disable-extensions --disable-background-networking \
    --enable-logging=stderr --virtual-time-budget=2000 "$@"
}

fail() { printf '%s\n' "$*" >&2; failures=$((failures + 1)); }

# NAME WIDTH: the page with browser.js behind it
try() {
  local page=$work/$1.html
  "$MAKE_PAGE" "$1.json" "$page" || { fail "$1: no page"; return; }
  { sed '/^<\/body>/,$d' "$page"; echo '<script>'; cat browser.js; echo '</script></body></html>'; } >"$work/tried.html"
  chrome --window-size="$2",900 --dump-dom "file://$work/tried.html" >"$work/dom" 2>"$work/log"
  grep -q 'id="outcome">RIGHT' "$work/dom" ||
    fail "$1 at $2 pixels: $(sed -n '/id="outcome"/,/<\/pre>/p' "$work/dom" | head -25; tail -3 "$work/log")"
  grep 'CONSOLE' "$work/log" && fail "$1: something on the console"
}

try grid 1200
try sweep 800
try troubled 360
try hostile 500
try empty 1200

chrome --no-pdf-header-footer --print-to-pdf="$work/grid.pdf" "file://$work/grid.html" >/dev/null 2>&1
[ "$(head -c 5 "$work/grid.pdf")" = %PDF- ] || fail "nothing printed"

shots() { # FOLDER
  mkdir -p "$1"
  for name in grid sweep troubled; do
    chrome --screenshot="$1/$name-light.png" --window-size=1200,4000 "file://$work/$name.html" 2>/dev/null
    chrome --screenshot="$1/$name-dark.png" --window-size=1200,4000 "file://$work/$name.html#theme=dark" 2>/dev/null
    chrome --screenshot="$1/$name-phone.png" --window-size=360,4000 "file://$work/$name.html" 2>/dev/null
  done
  sed '/^<script>/,/<\/script>/d' "$work/grid.html" >"$work/no-script.html"
  chrome --screenshot="$1/grid-no-script.png" --window-size=1200,9000 "file://$work/no-script.html" 2>/dev/null
  cp "$work/grid.pdf" "$1"
  echo "screenshots in $1"
}
[ $# = 0 ] || shots "$1"
exit $((failures > 0))
