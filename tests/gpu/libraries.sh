# shellcheck shell=bash
# Sourced by the scripts that fill folders for another machine: what programs are linked with and that machine may lack.
# The C and C++ libraries and the shell's are its own: build on a system that is not newer.
carry_libraries() { # FOLDER PROGRAM...
  local folder=$1
  shift
  mkdir -p "$folder"
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libgcc_s|libtinfo|libstdc\+\+)\.so' | while read -r file; do cp -L "$file" "$folder/"; done
}
