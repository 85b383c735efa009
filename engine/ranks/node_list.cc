#include "engine/ranks/node_list.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// More than any cluster has, so that a typing error in a range fails before it takes memory.
constexpr size_t kMostHosts = 65536;
// Longest name of a host; longer ones would take too much memory, multiplied by the hosts.
constexpr size_t kMostNameBytes = 255;

absl::Status Malformed(absl::string_view list, absl::string_view why) {
  constexpr size_t kMostShown = 100;
  return absl::InvalidArgumentError(absl::StrCat("'", list.substr(0, kMostShown),
                                                 list.size() > kMostShown ? "..." : "", "' ", why));
}

absl::Status TooLong(absl::string_view name) {
  return Malformed(name, absl::StrCat("is longer than a host's name can be, ", kMostNameBytes));
}

// Commas outside of brackets separate names.
std::vector<absl::string_view> SplitNames(absl::string_view list) {
  std::vector<absl::string_view> names;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') inside = true;
    if (list[i] == ']') inside = false;
    if (list[i] != ',' || inside) continue;
    names.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  names.push_back(list.substr(begin));
  return names;
}

// Expands "01-03" or "07" to "01", "02", "03".
absl::StatusOr<std::vector<std::string>> Numbers(absl::string_view range) {
  const std::vector<absl::string_view> ends = absl::StrSplit(range, '-');
  uint32_t low = 0;
  uint32_t high = 0;
  const auto digits = [](absl::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == absl::string_view::npos;
  };
  if (ends.size() > 2 || !digits(ends[0]) || !digits(ends.back()) ||
      !absl::SimpleAtoi(ends[0], &low) || !absl::SimpleAtoi(ends.back(), &high) || high < low) {
    return Malformed(range, "is no range of hosts such as 01-03");
  }
  if (ends[0].size() > kMostNameBytes) return TooLong(range);
  if (high - low >= kMostHosts) return Malformed(range, "is a range of too many hosts");
  std::vector<std::string> numbers;
  for (uint32_t number = low; number <= high; ++number) {
    numbers.push_back(absl::StrFormat("%0*u", static_cast<int>(ends[0].size()), number));
  }
  return numbers;
}

// Expands one name with its brackets; the text before the first bracket is copied.
absl::StatusOr<std::vector<std::string>> ExpandName(absl::string_view name) {
  // Checked before the recursion: every bracket adds at least a digit to the name.
  if (std::count(name.begin(), name.end(), '[') > kMostNameBytes) return TooLong(name);
  const size_t open = name.find('[');
  if (open == absl::string_view::npos) {
    if (name.empty()) return Malformed(name, "is an empty host name");
    if (name.find(']') != absl::string_view::npos) {
      return Malformed(name, "has a bracket that nothing opens");
    }
    if (name.size() > kMostNameBytes) return TooLong(name);
    return std::vector<std::string>{std::string(name)};
  }
  if (name.substr(0, open).find(']') != absl::string_view::npos) {
    return Malformed(name, "has a bracket that nothing opens");
  }
  const size_t close = name.find(']', open);
  if (close == absl::string_view::npos) return Malformed(name, "has a bracket without an end");
  std::vector<std::string> tails = {""};
  if (close + 1 < name.size()) {
    ASSIGN_OR_RETURN(tails, ExpandName(name.substr(close + 1)));
  }
  std::vector<std::string> hosts;
  for (absl::string_view range : absl::StrSplit(name.substr(open + 1, close - open - 1), ',')) {
    ASSIGN_OR_RETURN(const std::vector<std::string> numbers, Numbers(range));
    if (hosts.size() + numbers.size() * tails.size() > kMostHosts) {
      return Malformed(name, "names too many hosts");
    }
    for (const std::string& number : numbers) {
      for (const std::string& tail : tails) {
        hosts.push_back(absl::StrCat(name.substr(0, open), number, tail));
        if (hosts.back().size() > kMostNameBytes) return TooLong(name);
      }
    }
  }
  return hosts;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandNodeList(absl::string_view list) {
  std::vector<std::string> hosts;
  for (absl::string_view name : SplitNames(list)) {
    ASSIGN_OR_RETURN(const std::vector<std::string> found, ExpandName(name));
    hosts.insert(hosts.end(), found.begin(), found.end());
    if (hosts.size() > kMostHosts) return Malformed(list, "names too many hosts");
  }
  return hosts;
}

absl::StatusOr<std::vector<int>> ExpandTasksPerNode(absl::string_view list) {
  std::vector<int> counts;
  for (absl::string_view part : absl::StrSplit(list, ',')) {
    const size_t open = part.find("(x");
    int tasks = 0;
    uint32_t times = 1;
    bool valid = absl::SimpleAtoi(part.substr(0, open), &tasks) && tasks > 0;
    if (open != absl::string_view::npos) {
      valid = valid && part.back() == ')' &&
              absl::SimpleAtoi(part.substr(open + 2, part.size() - open - 3), &times);
    }
    if (!valid || counts.size() + times > kMostHosts) {
      return Malformed(list, "is no list of tasks a node such as 2(x3),1");
    }
    counts.insert(counts.end(), times, tasks);
  }
  return counts;
}

}  // namespace spillway
