#include "engine/inspect/doctor_page.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "engine/inspect/doctor.h"
#include "io/base/terminal.h"

namespace spillway {
namespace {

constexpr size_t kPageColumns = 80;
constexpr size_t kFoundColumn = 24;   // after "  warn  locked memory   "
constexpr size_t kAdviceColumn = 11;  // after "        -> "

// Wraps `text` at blanks and indents every line but the first by `indent`. `column` is where the
// first one begins.
std::string Wrapped(const std::string& text, size_t column, size_t indent) {
  std::string out;
  bool line_begins = true;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!line_begins && column + 1 + word.size() > kPageColumns) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '));
      column = indent;
      line_begins = true;
    }
    absl::StrAppend(&out, line_begins ? "" : " ", word);
    column += word.size() + (line_begins ? 0 : 1);
    line_begins = false;
  }
  return out;
}

std::array<int, 3> CountMarks(const std::vector<DoctorLine>& lines) {
  std::array<int, 3> counts = {};
  for (const DoctorLine& line : lines) ++counts[static_cast<size_t>(line.mark)];
  return counts;
}

}  // namespace

std::string DoctorPage(const std::vector<DoctorLine>& lines) {
  std::string page;
  std::string section;
  for (const DoctorLine& line : lines) {
    if (line.section != section) {
      section = line.section;
      absl::StrAppend(&page, page.empty() ? "" : "\n", ShownText(section), "\n");
    }
    const std::string head = absl::StrFormat("  %-4s  %-15s ", MarkName(line.mark), line.name);
    absl::StrAppend(&page, head, Wrapped(ShownText(line.found), head.size(), kFoundColumn), "\n");
    if (line.advice.empty()) continue;
    absl::StrAppend(&page, "        -> ",
                    Wrapped(ShownText(line.advice), kAdviceColumn, kAdviceColumn), "\n");
  }
  const auto [ok, warn, bad] = CountMarks(lines);
  absl::StrAppend(&page, "\n", ok, " ok, ", warn, " to improve, ", bad, " bad\n");
  return page;
}

nlohmann::json DoctorJson(const MachineFacts& facts, const std::vector<DoctorLine>& lines) {
  const auto limit = [](uint64_t value) {
    return value == UINT64_MAX ? nlohmann::json(nullptr) : nlohmann::json(value);
  };
  nlohmann::json json;
  const auto [ok, warn, bad] = CountMarks(lines);
  json["ok"] = ok;
  json["warn"] = warn;
  json["bad"] = bad;
  json["lines"] = nlohmann::json::array();
  for (const DoctorLine& line : lines) {
    json["lines"].push_back({{"section", line.section},
                             {"name", line.name},
                             {"mark", std::string(MarkName(line.mark))},
                             {"found", line.found},
                             {"advice", line.advice}});
  }
  nlohmann::json& out = json["facts"];
  out["kernel"] = facts.kernel;
  out["io_uring"] = facts.uring.status.ok();
  out["io_uring_registers_buffers"] = facts.uring.status.ok() && facts.uring.register_error == 0;
  out["locked_memory_bytes"] = limit(facts.locked_memory_bytes.soft);
  out["open_files"] = limit(facts.open_files.soft);
  out["paths"] = nlohmann::json::array();
  for (const PathFacts& path : facts.paths) {
    out["paths"].push_back(
        {{"path", path.path},
         {"writable", path.writable},
         {"filesystem", path.filesystem},
         {"direct", path.direct},
         {"alignment_bytes", path.alignment_bytes},
         {"free_bytes", path.free_bytes},
         {"total_bytes", path.total_bytes},
         {"rotational", path.rotational ? nlohmann::json(*path.rotational) : nullptr}});
  }
  out["memory_bytes"] = facts.memory_bytes;
  out["available_bytes"] = facts.available_bytes;
  out["cgroup_limit_bytes"] = limit(facts.cgroup_limit_bytes);
  out["budget_bytes"] = facts.spendable_bytes;
  out["cores"] = facts.cores_allowed;
  out["cores_quota"] = facts.cores_quota > 0 ? nlohmann::json(facts.cores_quota) : nullptr;
  out["cpu_features"] = facts.cpu_features;
  out["simd"] = std::string(SimdTargetName(facts.simd));
  out["torch"] = {{"version", facts.torch_version},
                  {"cuda", facts.torch_has_cuda},
                  {"folder", facts.torch_folder}};
  out["device"] = facts.device.ok() ? nlohmann::json(facts.device->Text()) : nullptr;
  out["has_gpu"] = facts.gpu.hardware;
  out["gpus"] = nlohmann::json::array();
  for (const GpuFacts::Device& gpu : facts.gpu.devices) {
    out["gpus"].push_back(
        {{"name", gpu.name}, {"free_bytes", gpu.free_bytes}, {"total_bytes", gpu.total_bytes}});
  }
  return json;
}

}  // namespace spillway
