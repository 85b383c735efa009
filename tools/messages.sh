# Sourced by scripts, in a clone (tools/common.sh) and installed (tools/setup_torch): how they speak. Bash.

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

# free_mib DIR: what may still be written there.
free_mib() { df -Pk "$1" | awk 'NR == 2 { print int($4 / 1024) }'; }

# seconds_since START, where START was $EPOCHREALTIME.
seconds_since() { awk -v a="${1/,/.}" -v b="${EPOCHREALTIME/,/.}" 'BEGIN { printf "%.1f", b - a }'; }
