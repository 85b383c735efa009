// What says which machines and ranks there are: a hostfile, and launchers' variables.
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/base/shell_line.h"
#include "engine/ranks/hostfile.h"
#include "engine/ranks/launch_environment.h"
#include "engine/ranks/node_list.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {
namespace {

// As a shell splits a line that has words, and words in single quotes.
std::vector<std::string> ShellWords(absl::string_view line) {
  std::vector<std::string> words = {""};
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\'') {
      quoted = !quoted;
    } else if (quoted) {
      words.back() += line[i];
    } else if (line[i] == ' ') {
      words.emplace_back();
    } else if (line[i] == '\\') {
      words.back() += line[++i];
    } else {
      SPILLWAY_CHECK(absl::string_view("\t\n;&|<>$`\"*?[]#~!(){}").find(line[i]) ==
                     absl::string_view::npos);
      words.back() += line[i];
    }
  }
  return words;
}

}  // namespace

SPILLWAY_FUZZ(hostfile, 5000) {
  const auto hosts = ParseHostfile(input, "hosts");
  if (!hosts.ok()) return Refuse(hosts.status(), {absl::StatusCode::kInvalidArgument});
  int slots = 0;
  for (const HostSlots& host : *hosts) {
    SPILLWAY_CHECK(!host.host.empty() && host.slots > 0);
    slots += host.slots;
  }
  const auto command = MpirunCommand(
      *hosts, {"spillway", "train", "--hostfile", "hosts", "--data", "it's"}, std::nullopt, {});
  SPILLWAY_CHECK(command.ok() && (*command)[2] == std::to_string(slots));
  SPILLWAY_CHECK(ShellWords(ShellLine(*command)) == *command);
  return true;
}

// Lines NAME=VALUE; --ranks=N is the flag.
SPILLWAY_FUZZ(launch_environment, 1000) {
  EnvironmentMap environment;
  for (const absl::string_view line : absl::StrSplit(input, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    environment.emplace(parts.first, parts.second);
    const auto nodes = ExpandNodeList(parts.second);
    if (!nodes.ok()) Refuse(nodes.status(), {absl::StatusCode::kInvalidArgument});
    for (const std::string& node : nodes.ok() ? *nodes : std::vector<std::string>()) {
      SPILLWAY_CHECK(!node.empty() && node.find_first_of("[]") == std::string::npos);
    }
    const auto tasks = ExpandTasksPerNode(parts.second);
    if (!tasks.ok()) Refuse(tasks.status(), {absl::StatusCode::kInvalidArgument});
    for (const int count : tasks.ok() ? *tasks : std::vector<int>()) SPILLWAY_CHECK(count > 0);
  }
  std::optional<int> ranks;
  if (int given = 0; absl::SimpleAtoi(environment["--ranks"], &given) && given > 0) ranks = given;
  const auto launch = ReadLaunch(environment, ranks);
  if (!launch.ok()) return Refuse(launch.status(), {absl::StatusCode::kInvalidArgument});
  SPILLWAY_CHECK(0 <= launch->rank && launch->rank < launch->world);
  SPILLWAY_CHECK(0 <= launch->local_rank && launch->local_rank < launch->local_world);
  SPILLWAY_CHECK(launch->local_world <= launch->world);
  if (launch->world > 1 && !launch->launcher.empty()) {
    SPILLWAY_CHECK(!launch->master_address.empty());
    SPILLWAY_CHECK(launch->master_port > 0 && launch->master_port < 65536);
  }
  return !launch->launcher.empty();
}

}  // namespace spillway
