#include "engine/ranks/hostfile.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace spillway {
namespace {

constexpr int kMostSlots = 1 << 20;
constexpr char kDefaultPort[] = "29500";  // DeepSpeed's and torch's

// Removes the flags about the launch (--hostfile, --launch, --ranks) and their values.
std::vector<std::string> WithoutLaunchFlags(const std::vector<std::string>& command) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word == "--launch") continue;
    bool dropped = false;
    for (const char* flag : {"--hostfile", "--ranks"}) {
      if (word == flag) ++i;  // the flag's value
      dropped = dropped || word == flag || absl::StartsWith(word, absl::StrCat(flag, "="));
    }
    if (!dropped) kept.push_back(word);
  }
  return kept;
}

// Parses "slots=4" with the `name` "slots" to 4; 0 if the word is something else.
int SlotCount(absl::string_view word, absl::string_view name) {
  int count = 0;
  const bool ok = absl::ConsumePrefix(&word, name) && absl::ConsumePrefix(&word, "=") &&
                  absl::SimpleAtoi(word, &count) && count >= 1 && count <= kMostSlots;
  return ok ? count : 0;
}

// Whether mpirun takes `name` as a host, or user@host: not an option (--mca), a place in its own
// list (+n1), or several hosts.
bool IsHostName(absl::string_view name) {
  if (name.find_first_of(",:=") != absl::string_view::npos) return false;
  for (const absl::string_view part : absl::StrSplit(name, absl::MaxSplits('@', 1))) {
    if (part.empty() || (!absl::ascii_isalnum(part[0]) && part[0] != '_')) return false;
    if (!std::all_of(part.begin(), part.end(), absl::ascii_isgraph)) return false;
  }
  return true;
}

// The number of slots in a line's words, 0 if they are not a valid line. Only `slots` counts: Open
// MPI's maximum adds nothing.
int SlotsOf(const std::vector<absl::string_view>& words) {
  if (!IsHostName(words[0]) || words.size() < 2 || words.size() > 3) return 0;
  const int slots = SlotCount(words[1], "slots");
  if (words.size() == 2) return slots;
  const int most = std::max(SlotCount(words[2], "max_slots"), SlotCount(words[2], "max-slots"));
  return most >= slots ? slots : 0;
}

std::string ValueOr(const EnvironmentMap& environment, const std::string& name,
                    const std::string& fallback) {
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? fallback : found->second;
}

}  // namespace

absl::StatusOr<std::vector<HostSlots>> ParseHostfile(absl::string_view text,
                                                     absl::string_view file) {
  std::vector<HostSlots> hosts;
  std::map<std::string, int> lines;  // line number of each host
  int number = 0;
  int total = 0;
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");  // byte order mark of a file written on Windows
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line.substr(0, line.find('#')), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const std::string where = absl::StrCat(file, ":", number, ": ");
    HostSlots entry;
    entry.slots = SlotsOf(words);
    if (entry.slots == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "'", absl::StrJoin(words, " "),
                       "' is no line of a hostfile: write HOST slots=N, such as worker-1 slots=4"));
    }
    entry.host = std::string(words[0]);
    const auto [earlier, added] = lines.emplace(entry.host, number);
    if (!added) {
      return absl::InvalidArgumentError(absl::StrCat(where, entry.host, " is in line ",
                                                     earlier->second,
                                                     " already: give all its slots in one line"));
    }
    total += entry.slots;
    if (total > kMostSlots) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "more than ", kMostSlots, " slots in all"));
    }
    hosts.push_back(std::move(entry));
  }
  if (hosts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " names no host: write lines such as worker-1 slots=4"));
  }
  return hosts;
}

absl::StatusOr<std::vector<std::string>> MpirunCommand(const std::vector<HostSlots>& hosts,
                                                       const std::vector<std::string>& command,
                                                       std::optional<int> ranks,
                                                       const EnvironmentMap& environment) {
  int slots = 0;
  std::vector<std::string> list;
  for (const HostSlots& host : hosts) {
    slots += host.slots;
    list.push_back(absl::StrCat(host.host, ":", host.slots));
  }
  if (ranks.value_or(1) > slots) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ranks ", *ranks, " is more than the ", slots,
                     " slots of the hostfile: leave it out, or add slots"));
  }
  // In user@host the address is the part after the @.
  const std::string& first = hosts.front().host;
  const std::string address = first.substr(first.rfind('@') + 1);
  // Open MPI binds a rank to one core if there are two ranks, and to one socket if there are more;
  // compute threads need all cores.
  std::vector<std::string> words = {
      "mpirun",
      "-n",
      absl::StrCat(ranks.value_or(slots)),
      "--host",
      absl::StrJoin(list, ","),
      "--bind-to",
      "none",
      "-x",
      absl::StrCat("MASTER_ADDR=", ValueOr(environment, "MASTER_ADDR", address)),
      "-x",
      absl::StrCat("MASTER_PORT=", ValueOr(environment, "MASTER_PORT", kDefaultPort))};
  // Passed by its name, not its value: all users of a machine can read a command line.
  if (!ValueOr(environment, kSecretVariable, "").empty()) {
    words.insert(words.end(), {"-x", kSecretVariable});
  }
  const std::vector<std::string> kept = WithoutLaunchFlags(command);
  words.insert(words.end(), kept.begin(), kept.end());
  return words;
}

}  // namespace spillway
