#!/usr/bin/env bash
# The compiler and the command line give memory back with vtb_free(): see "Memory and errors" in docs/architecture.md.
set -u
cd "$(dirname "$0")/../.."
found=$(grep -rnE '(^|[^_a-zA-Z0-9>.])(free|malloc|calloc|realloc|strdup)\(' --include='*.[chly]' ir passes codegen frontend |
        grep -vE '^[^:]*:[0-9]+: \*|^[^:]*/text/')
[ -z "$found" ] && exit 0
echo "the compiler uses vtb_free(), vtb_xmalloc(), vtb_xcalloc(), vtb_xrealloc(), vtb_xstrdup():"
echo "$found"
exit 1
