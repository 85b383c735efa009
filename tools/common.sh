# Sourced by the scripts in this folder and by those of examples/: where things are, and how they speak.
# Bash. Sets `root` (the clone), makes it the current directory, and `script` (what was started).

set -euo pipefail
unset CDPATH # or cd might lead elsewhere, and print

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# A relative folder is meant from where the user stands.
if [[ -n ${SPILLWAY_TORCH:-} && $SPILLWAY_TORCH != /* ]]; then
  export SPILLWAY_TORCH=$PWD/$SPILLWAY_TORCH
fi
script=$(realpath "$0")
cd "$root"

# What tools/setup fetches goes here; nothing outside the clone is touched but
# Debian packages, and those only as root.
deps=$root/.deps
unpacked=$deps/debian

source "$root/tools/messages.sh"

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

# What tools/quickstart and examples/*/run share: they show their comment, their commands and their parts.

# The comment at the top of the script, where it is asked for; otherwise the script takes no argument.
show_help_or_go_on() {
  if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    sed -n '2,/^$/s/^# \{0,1\}//p' "$script"
    exit 0
  fi
  (($# == 0)) || die "${script#"$root"/} takes no argument, and got: $*" "its numbers are set by variables: see --help"
}

# step WORDS...: begins a part of the script, of which there are `steps_in_all`.
step_number=0
steps_in_all=0
step() {
  step_begin=$EPOCHREALTIME
  step_number=$((step_number + 1))
  say ""
  say "[$step_number/$steps_in_all] $*"
}
step_done() { say "      done in $(seconds_since "$step_begin") s"; }

# Shows the command before it runs, so that what is done can be done again by hand.
# `budget_variables` says which variables change the budgets, `out` where the run writes.
show_and_run() {
  local line='$' group='' word code=0
  # A flag and its value stay on one line.
  for word in "$@" --end; do
    if [[ $word == -* ]]; then
      if ((${#line} + ${#group} > 100)); then
        say "$line \\"
        line='   '
      fi
      line+=$group
      group=''
    fi
    [[ $word =~ ^[a-zA-Z0-9_./,:=-]+$ ]] || word=${word@Q}
    group+=" $word"
  done
  say "$line"
  "$@" </dev/null || code=$?
  ((code != 0)) || return 0
  case $code in
    3) say "The budgets are too small; ${budget_variables:-the flags in the message} change them." ;;
    4) say "Bytes came back from $out that were not written there: suspect the disk." ;;
    75) say "Stopped after committing. The command above with --resume goes on where it stopped." ;;
  esac
  exit $code
}

# make_output OUT NAME MIB: an empty folder with room for so much, in place of what an earlier run of
# NAME made there. What something else made stays as it is, and ends the script.
check_output() {
  if [[ -e $1 && ! -e $1/made-by-$2 ]]; then
    die "$(realpath "$1") was not made by $2, so it stays as it is" "move it away, and run this again"
  fi
}
make_output() {
  check_output "$1" "$2"
  if [[ -e $1 ]]; then
    say "      replacing the run that is in $1"
    rm -rf "$1"
  fi
  mkdir -p "$1" || die "cannot make $1" "the folder must be writable"
  local free
  free=$(free_mib "$1")
  ((free >= $3)) || die "the run needs $3 MiB in $1, and $free MiB are free" \
    "free some space, or run this in a clone on another disk"
  : >"$1/made-by-$2"
}

# The King James Bible, a verse a line behind its mark (Ge1:1), from Debian's bible-kjv.
bible_verses() {
  command -v bible >/dev/null || die "the program bible (Debian package bible-kjv) is not there" \
    "install it (tools/setup does), or train on a text of your own: README.md has the command"
  local bible=(bible)
  [[ ! -e $unpacked/usr/lib/bible.data ]] || bible+=(-p "$unpacked/usr/lib/")
  local verses
  verses=$("${bible[@]}" -f "Genesis 1:1-Revelation 22:21" </dev/null) || verses=''
  [[ -n $verses ]] ||
    die "the program bible gave no text" "is the Debian package bible-kjv-text whole? (dpkg -V bible-kjv-text)"
  printf '%s\n' "$verses"
}

# Lists of folders (rpaths, sanitizer options) are cut at these.
[[ $root != *[[:space:]:]* ]] || die "this clone lies in '$root', with a space or a colon in its path" \
  "move it to a folder without"
