# Sourced by the scripts in this folder: where things are, and how they speak.
# Bash. Sets `root` (the clone) and makes it the current directory.

set -euo pipefail
unset CDPATH # or cd might lead elsewhere, and print

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# A relative folder is meant from where the user stands.
if [[ -n ${SPILLWAY_TORCH:-} && $SPILLWAY_TORCH != /* ]]; then
  export SPILLWAY_TORCH=$PWD/$SPILLWAY_TORCH
fi
cd "$root"

# What tools/setup fetches goes here; nothing outside the clone is touched but
# Debian packages, and those only as root.
deps=$root/.deps
unpacked=$deps/debian

say() { printf '%s\n' "$*" >&2; }

# die MESSAGE [REMEDY...]: one line that names the thing, the rest what to do about it.
die() {
  say "error: $1"
  shift
  while (($#)); do
    say "  $1"
    shift
  done
  exit 1
}

# Programs that were unpacked for a user without root run from where they lie, and
# a compiler among them brings its own headers and libraries (build_sysroot).
build_sysroot=
use_unpacked_programs() {
  if [[ -d $unpacked/usr/bin && ":$PATH:" != *":$unpacked/usr/bin:"* ]]; then
    export PATH=$PATH:$unpacked/usr/bin
    export LD_LIBRARY_PATH=$unpacked/programs-lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  fi
  if [[ -e $unpacked/usr/bin/g++ ]]; then
    build_sysroot=$unpacked
  fi
}

# Sets `fuzz_compiler` to a clang++ that makes fuzz programs which run; empty when none does.
fuzz_compiler=
find_fuzz_compiler() {
  local candidate sysroot=() trial
  [[ -z $build_sysroot ]] || sysroot=(--sysroot="$build_sysroot")
  trial=$(mktemp -d)
  for candidate in clang++ clang++-{14..22}; do
    command -v "$candidate" >/dev/null || continue
    if "$candidate" "${sysroot[@]}" -fsanitize=fuzzer,address,undefined -x c++ - -o "$trial/fuzz" >/dev/null 2>&1 \
      <<<'#include <string>
extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long n) { return std::string(n, 0).size() != n; }' &&
      "$trial/fuzz" -runs=1 >/dev/null 2>&1; then
      fuzz_compiler=$(command -v "$candidate")
      break
    fi
  done
  rm -rf "$trial"
}

# Sets `nvcc` to a CUDA compiler, 13 or later, that runs: the one on PATH, an installed toolkit's, or what
# tools/setup --cuda fetched; empty when there is none.
nvcc=
find_nvcc() {
  local candidate
  for candidate in "$(command -v nvcc || true)" $(ls -d /usr/local/cuda*/bin/nvcc 2>/dev/null | sort -rV) \
    "$deps/cuda/bin/nvcc"; do
    if [[ -n $candidate ]] && "$candidate" --version 2>/dev/null | grep -qE 'release (1[3-9]|[2-9][0-9])\.'; then
      nvcc=$candidate
      break
    fi
  done
}

# free_mib DIR: what may still be written there.
free_mib() { df -Pk "$1" | awk 'NR == 2 { print int($4 / 1024) }'; }

# seconds_since START, where START was $EPOCHREALTIME.
seconds_since() { awk -v a="${1/,/.}" -v b="${EPOCHREALTIME/,/.}" 'BEGIN { printf "%.1f", b - a }'; }

# Lists of folders (rpaths, sanitizer options) are cut at these.
[[ $root != *[[:space:]:]* ]] || die "this clone lies in '$root', with a space or a colon in its path" \
  "move it to a folder without"
