#!/usr/bin/env bash
# blas.sh CC LINKER NM OBJCOPY AR ARCHIVE OUT OBJECT...: the objects, which are blas.c and blas_kernels.c, and what
# their product needs of ARCHIVE, a single-threaded OpenBLAS, as one object OUT that shows only what blas.h declares.
# Tables of that library name every kernel of every processor, 25 MB: those of other functions become 0, and 1 MB
# remains. One kernel asks for 32 KiB of alignment, at which mold 1.10 lays segments out for ever: a page is enough.
set -euo pipefail
cc=$1 linker=$2 nm=$3 objcopy=$4 ar=$5 archive=$6 out=$7
shift 7
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mapfile -t tables < <("$ar" t "$archive" | grep '^setparam_' | sort -u)
[ ${#tables[@]} -gt 0 ] || { echo "$archive has no tables of kernels: it must choose them at run time" >&2; exit 1; }
"$ar" x "$archive" "${tables[@]}"
{
  "$nm" -u "${tables[@]}" | sed -n 's/^ *U //p' | sort -u | grep -E '_[A-Z0-9_]+$' | grep -v sgemm |
    grep -v '^_GLOBAL_OFFSET_TABLE_$' | sed 's/.*/.globl &\n.set &, 0/'
  echo '.section .note.GNU-stack,"",%progbits'
} >others.s
"$cc" -c others.s -o others.o
"$linker" -r -o whole.o "$@" others.o "$archive"
"$objcopy" --wildcard --keep-global-symbol='vtb__blas_*' whole.o
"$objcopy" --strip-unneeded --set-section-alignment .text=4096 whole.o "$out"
