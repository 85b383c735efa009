# Sourced by examples/*/run: where an example's files go, and the program that trains it.
# Bash. Sets `here` (the example's folder), `name`, `out` and `program`, and shows the help.
#
# Every example knows these variables beside its own:
#   SPILLWAY=FILE       the program; without it build/release/spillway, which is built where it is not there
#   EXAMPLE_OUT=DIR     where everything goes; without it out/NAME of this clone

# Relative files are meant from where the user stands.
for variable in SPILLWAY EXAMPLE_OUT; do
  if [[ -n ${!variable:-} && ${!variable} != /* ]]; then
    declare "$variable=$PWD/${!variable}"
  fi
done
source "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"

here=$(dirname "${script#"$root"/}")
name=$(basename "$here")
out=${EXAMPLE_OUT:-out/$name}
program=${SPILLWAY:-build/release/spillway}
show_help_or_go_on "$@"
begin=$EPOCHREALTIME

# prepare MIB: the program, and an empty folder with room for so much.
prepare() {
  check_output "$out" "$name"
  step "Getting ready"
  use_unpacked_programs
  if [[ ! -x $program ]]; then
    [[ -z ${SPILLWAY:-} ]] || die "SPILLWAY=$SPILLWAY is no program"
    tools/build release spillway
  fi
  make_output "$out" "$name" "$1"
  say "      everything goes to $out"
  step_done
}

# all_done WORDS...: the last line.
all_done() {
  say ""
  say "All of it took $(seconds_since "$begin") s. $*"
}
