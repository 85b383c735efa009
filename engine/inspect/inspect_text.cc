// InspectText: what engine/inspect/inspect.h found, for people.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/inspect/inspect.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

using nlohmann::json;

// "1,234,567".
std::string Grouped(uint64_t number) {
  std::string digits = absl::StrCat(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

void Field(std::string* out, absl::string_view name, absl::string_view value) {
  absl::StrAppendFormat(out, "  %-17s %s\n", name, value);
}

std::string Text(const json& value) { return value.get<std::string>(); }

void Files(std::string* out, const json& files) {
  absl::StrAppend(out, "Files\n");
  for (const json& file : files) {
    absl::StrAppendFormat(out, "  %10s  %s\n", FormatBytes(file["bytes"].get<uint64_t>()),
                          Text(file["file"]));
  }
}

// The first half of each digest: enough to compare by eye.
void Digests(std::string* out, const json& digests) {
  absl::StrAppend(out, "Digests (their first half)\n");
  std::vector<std::string> planes;
  size_t longest = 9;
  for (const auto& [name, of] : digests.items()) {
    longest = std::max(longest, std::min<size_t>(name.size(), 40));
    if (!planes.empty()) continue;
    for (const auto& [plane, digest] : of.items()) planes.push_back(plane);
  }
  const auto row = [&](absl::string_view name, const auto& cell) {
    std::string line = absl::StrFormat("  %-*s", static_cast<int>(longest), name);
    for (const std::string& plane : planes) {
      absl::StrAppendFormat(&line, " %-*s", static_cast<int>(std::max<size_t>(plane.size(), 8)),
                            cell(plane));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(out, line, "\n");
  };
  row("parameter", [](const std::string& plane) { return plane; });
  for (const auto& [name, of] : digests.items()) {
    row(name, [&, &digest_of = of](const std::string& plane) {
      return Text(digest_of[plane]).substr(0, 8);
    });
  }
}

std::string RunText(const json& run) {
  std::string out = absl::StrCat("Commit of step ", run["step"].get<int64_t>(),
                                 run["finished"].get<bool>() ? ", finished\n" : ", not finished\n");
  const int64_t skipped = run["step"].get<int64_t>() - run["applied_steps"].get<int64_t>();
  if (skipped > 0) Field(&out, "skipped steps", absl::StrCat(skipped, " (fp16 overflowed)"));
  Field(&out, "compute",
        absl::StrCat(Text(run["dtype"]), ", ", run["threads"].get<int>(), " threads"));
  Field(&out, "parameters",
        absl::StrCat(Grouped(run["parameters"].get<uint64_t>()), " in ", run["units"].get<int>(),
                     " units"));
  Field(&out, "digest", Text(run["digest"]));
  Field(&out, "manifest", Text(run["manifest"]));
  absl::StrAppend(&out, "Identity (the same on every --resume)\n");
  for (const json& pair : run["identity"]) Field(&out, Text(pair[0]), Text(pair[1]));
  Files(&out, run["files"]);
  Digests(&out, run["digests"]);
  return out;
}

std::string TensorsText(const json& model) {
  std::string out;
  for (const json& tensor : model["tensors"]) {
    absl::StrAppendFormat(&out, "%-6s %-20s %s", Text(tensor["dtype"]), tensor["shape"].dump(),
                          Text(tensor["name"]));
    if (model["files"].size() > 1) {
      absl::StrAppend(&out, "  ", std::filesystem::path(Text(tensor["file"])).filename().string());
    }
    absl::StrAppend(&out, "\n");
  }
  if (!model["metadata"].empty()) absl::StrAppend(&out, "Metadata\n");
  for (const auto& [name, value] : model["metadata"].items()) Field(&out, name, Text(value));
  Files(&out, model["files"]);
  absl::StrAppend(&out, Grouped(model["parameters"].get<uint64_t>()), " elements in ",
                  model["tensors"].size(), " tensors, ",
                  FormatBytes(model["bytes"].get<uint64_t>()));
  for (const auto& [dtype, elements] : model["dtypes"].items()) {
    absl::StrAppend(&out, ", ", dtype);
    if (model["dtypes"].size() > 1) absl::StrAppend(&out, " ", Grouped(elements.get<uint64_t>()));
  }
  return out + "\n";
}

}  // namespace

std::string InspectText(const json& found) {
  return found["kind"] == "run" ? RunText(found) : TensorsText(found);
}

}  // namespace spillway
