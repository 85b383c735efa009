#include "engine/run/run_record.h"

#include <unistd.h>

#include <fstream>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace spillway {
namespace {

// More than the paths and names of a record need.
constexpr size_t kMaxBytes = 64 << 10;

std::string ReadLink(const char* path) {
  char target[256];
  const ssize_t length = ::readlink(path, target, sizeof(target));
  return length > 0 ? std::string(target, length) : "";
}

std::string FirstWord(const char* path) {
  std::ifstream in(path);
  std::string word;
  in >> word;
  return word;
}

}  // namespace

RunRecord ThisProcess() {
  RunRecord record;
  record.process = ::getpid();
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  record.host = host;
  record.machine = FirstWord("/etc/machine-id");
  record.boot = FirstWord("/proc/sys/kernel/random/boot_id");
  record.process_ids = ReadLink("/proc/self/ns/pid");
  record.since_seconds = absl::ToUnixSeconds(absl::Now());
  return record;
}

std::string EncodeRunRecord(const RunRecord& record) {
  std::string text = absl::StrCat("process ", record.process, "\n");
  const auto add = [&](absl::string_view name, const std::string& value) {
    // Escaped, since a path may contain a newline.
    if (!value.empty()) absl::StrAppend(&text, name, " ", absl::CEscape(value), "\n");
  };
  add("host", record.host);
  add("machine", record.machine);
  add("boot", record.boot);
  add("process-ids", record.process_ids);
  absl::StrAppend(&text, "since ", record.since_seconds, "\n");
  add("output", record.output);
  add("run", record.run);
  return text + "\n";
}

std::optional<RunRecord> DecodeRunRecord(absl::string_view text) {
  if (text.size() > kMaxBytes || !absl::ConsumeSuffix(&text, "\n\n")) return std::nullopt;
  std::map<absl::string_view, std::string> values;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (!absl::CUnescape(parts.second, &values[parts.first])) return std::nullopt;
  }
  RunRecord record;
  if (!absl::SimpleAtoi(values["process"], &record.process) ||
      !absl::SimpleAtoi(values["since"], &record.since_seconds)) {
    return std::nullopt;
  }
  record.host = values["host"];
  record.machine = values["machine"];
  record.boot = values["boot"];
  record.process_ids = values["process-ids"];
  record.output = values["output"];
  record.run = values["run"];
  return record;
}

std::string TimeText(int64_t seconds) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixSeconds(seconds),
                          absl::UTCTimeZone());
}

std::string DescribeHolder(const RunRecord& holder, const RunRecord& here) {
  std::string text = absl::StrCat("process ", holder.process, " on ", holder.host, " since ",
                                  TimeText(holder.since_seconds));
  if (!holder.output.empty()) absl::StrAppend(&text, ", which runs ", holder.output);
  if (holder.boot != here.boot) {
    absl::StrAppend(&text, " (another machine, so that number means nothing on ", here.host, ")");
  } else if (holder.process_ids != here.process_ids) {
    absl::StrAppend(&text, " (in another container, where that is its number)");
  }
  return text;
}

}  // namespace spillway
