#include "engine/inspect/inspect.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/adapters/adapter_file.h"
#include "engine/run/run_record.h"
#include "engine/run/run_state.h"
#include "engine/weights/safetensors.h"
#include "engine/weights/safetensors_model.h"
#include "engine/weights/torch_file.h"
#include "engine/weights/weight_files.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "io/base/terminal.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr absl::string_view kManifestBegins = "spillway-manifest ";
constexpr absl::string_view kIndex = "model.safetensors.index.json";
constexpr absl::string_view kReads =
    "inspect reads a run's OUTPUT, a copy of a commit, a manifest, a .safetensors file, one of "
    "torch.save, or the directory of a model or an adapter";

bool Has(const std::string& directory, absl::string_view name) {
  return Exists(absl::StrCat(directory, "/", name));
}

// The beginning of the file, as many bytes as a manifest's mark has.
std::string BeginOf(const std::string& path) {
  std::string begin(kManifestBegins.size(), '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), static_cast<long>(begin.size()));
  return begin;
}

bool BeginsAsManifest(const std::string& path) { return BeginOf(path) == kManifestBegins; }

// Adds the tensors of one file.
void AddTensors(const SafetensorsFile& file, nlohmann::json* json,
                std::map<std::string, uint64_t>* elements) {
  uint64_t bytes = 0;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    bytes += tensor.size_bytes;
    (*elements)[tensor.dtype] += tensor.elements;
    (*json)["tensors"].push_back({{"name", tensor.name},
                                  {"dtype", tensor.dtype},
                                  {"shape", tensor.shape},
                                  {"file", file.path()},
                                  {"offset", tensor.offset_bytes},
                                  {"bytes", tensor.size_bytes}});
  }
  (*json)["files"].push_back({{"file", file.path()}, {"bytes", bytes}});
}

nlohmann::json InspectTensors(const std::vector<const SafetensorsFile*>& files) {
  nlohmann::json json;
  json["kind"] = BeginsAsTorchFile(BeginOf(files[0]->path())) ? "torch" : "safetensors";
  json["metadata"] = files[0]->metadata();
  json["tensors"] = nlohmann::json::array();
  json["files"] = nlohmann::json::array();
  std::map<std::string, uint64_t> elements;
  for (const SafetensorsFile* file : files) AddTensors(*file, &json, &elements);
  uint64_t parameters = 0, bytes = 0;
  for (const auto& [dtype, count] : elements) parameters += count;
  for (const nlohmann::json& file : json["files"]) bytes += file["bytes"].get<uint64_t>();
  json["parameters"] = parameters;
  json["bytes"] = bytes;
  json["dtypes"] = elements;
  return json;
}

absl::StatusOr<nlohmann::json> InspectFile(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
  return InspectTensors({file.get()});
}

absl::StatusOr<nlohmann::json> InspectModel(const std::string& directory) {
  ASSIGN_OR_RETURN(const auto model, SafetensorsModel::Open(directory));
  return InspectTensors(model->files());
}

// The newest copy of a commit in a directory of them; "" if there is none.
std::string NewestCopy(const std::string& directory) {
  std::string newest;
  const auto names = FileSystem::Real().List(directory);
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    const bool copy = absl::StartsWith(name, "step-") &&
                      Has(absl::StrCat(directory, "/", name), "manifest-rank0");
    if (copy) newest = name;
  }
  return newest;
}

// Describes a directory that is neither a run with a commit nor a model.
absl::Status NothingIn(const std::string& path) {
  if (const std::string newest = NewestCopy(path); !newest.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " holds copies of commits: inspect one of them, the newest is ", path, "/", newest));
  }
  if (Has(path, "tiles")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     " is a run's swap directory: what its bytes mean is written in the "
                     "manifest in that run's OUTPUT, inspect that"));
  }
  if (Has(path, "config.resolved.json") || Has(path, "metrics.jsonl")) {
    return absl::NotFoundError(absl::StrCat(
        "the run in ", path,
        " has made no commit, and --resume starts at step 1: a run commits at its end, when a "
        "signal stops it, and by --commit-every (about every 15 minutes), but not with "
        "--no-commit"));
  }
  return absl::NotFoundError(
      absl::StrCat("there is no commit and no model in ", path, "; ", kReads));
}

absl::StatusOr<nlohmann::json> InspectDirectory(const std::string& path,
                                                const InspectProgress& progress, bool digests) {
  const auto commit = FileSystem::Real().Stat(CommitManifestPath(path), SymbolicLink::kFollow);
  if (commit.ok()) return InspectRun(path, progress, digests);
  if (!absl::IsNotFound(commit.status())) return commit.status();
  if (const auto freed = ReadFreedState(path); freed.ok()) return InspectFreed(path, *freed);
  const auto weights = FindWeightFiles(path);
  if (weights.ok()) return InspectModel(path);
  for (const char* name : {kAdapterWeightsName, kFormerAdapterWeightsName}) {
    const std::string file = absl::StrCat(path, "/", name);
    if (Exists(file)) return InspectFile(file);
  }
  // A model whose weights cannot be read gets the same message as from train.
  if (Has(path, "config.json") && !absl::IsNotFound(weights.status())) return weights.status();
  RETURN_IF_ERROR(DescribeShardedCheckpoint(path));
  return NothingIn(path);
}

}  // namespace

absl::StatusOr<nlohmann::json> Inspect(const std::string& path, const InspectProgress& progress,
                                       bool digests) {
  const auto found = FileSystem::Real().Stat(path, SymbolicLink::kFollow);
  if (absl::IsNotFound(found.status())) {
    return absl::NotFoundError(absl::StrCat(path, " does not exist; ", kReads));
  }
  RETURN_IF_ERROR(found.status());
  if (found->kind == FileInfo::Kind::kDirectory) return InspectDirectory(path, progress, digests);
  if (found->kind == FileInfo::Kind::kFile) {
    if (BeginsAsManifest(path)) return InspectCommit(path, progress, digests);
    if (absl::EndsWith(path, kIndex)) return InspectModel(ParentPath(path));
    if (absl::EndsWith(path, ".bin.index.json")) return InspectModel(ParentPath(path));
    for (const absl::string_view other : {".npy", ".bin", ".txt", ".jsonl", ".json", ".pt"}) {
      if (absl::EndsWith(path, other) && !BeginsAsTorchFile(BeginOf(path))) {
        return absl::InvalidArgumentError(absl::StrCat(path, " is a ", other, " file; ", kReads));
      }
    }
  }
  return InspectFile(path);
}

namespace {

using nlohmann::json;

// Returns "1,234,567".
std::string Grouped(uint64_t number) {
  std::string digits = absl::StrCat(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

void Field(std::string* out, absl::string_view name, absl::string_view value) {
  absl::StrAppendFormat(out, "  %-17s %s\n", name, value);
}

std::string Text(const json& value) { return ShownText(value.get<std::string>()); }

void Files(std::string* out, const json& files) {
  absl::StrAppend(out, "Files\n");
  for (const json& file : files) {
    absl::StrAppendFormat(out, "  %10s  %s\n", FormatBytes(file["bytes"].get<uint64_t>()),
                          Text(file["file"]));
  }
}

// The first half of each digest, which suffices for a comparison by eye.
void Digests(std::string* out, const json& digests) {
  absl::StrAppend(out, "Digests (their first half)\n");
  // The planes of all parameters: frozen ones have fewer than trained ones, and buffers one of
  // their own.
  std::set<std::string> planes;
  size_t longest = 9;
  for (const auto& [name, of] : digests.items()) {
    longest = std::max(longest, std::min<size_t>(name.size(), 40));
    for (const auto& [plane, digest] : of.items()) planes.insert(plane);
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
    row(ShownText(name), [&digest_of = of](const std::string& plane) {
      return digest_of.contains(plane) ? Text(digest_of[plane]).substr(0, 8) : "";
    });
  }
}

// The steps from which on the run's settings changed.
void Changes(std::string* out, const json& changes) {
  for (const json& change : changes) {
    Field(out, absl::StrCat("from step ", change["step"].get<int64_t>()),
          absl::StrCat(Text(change["name"]), " ", Text(change["to"]), " instead of ",
                       Text(change["from"])));
  }
}

std::string IdentityText(const json& run) {
  std::string out = "Identity (the same on every --resume, but for --allow-change)\n";
  for (const json& pair : run["identity"]) Field(&out, Text(pair[0]), Text(pair[1]));
  Changes(&out, run.value("changes", json::array()));
  return out;
}

// Returns "0.5123 at step 12".
std::string LossText(const json& row) {
  const json& loss = row["loss"];
  return absl::StrCat(
      loss.is_number() ? absl::StrFormat("%.4f", loss.get<double>()) : std::string("none"),
      " at step ", row["step"].get<int64_t>());
}

// Joins one path, or several.
std::string GivenText(const json& given) {
  if (given.is_string()) return Text(given);
  std::string text;
  for (const json& one : given.is_array() ? given : json::array()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", one.is_string() ? Text(one) : one.dump());
  }
  return text;
}

// The directories that have the state, each with its bytes.
void States(std::string* out, const json& files) {
  std::map<std::string, uint64_t> bytes;
  for (const json& file : files) {
    bytes[ParentPath(file["file"].get<std::string>())] += file["bytes"].get<uint64_t>();
  }
  const char* name = "state";
  for (const auto& [directory, size] : bytes) {
    Field(out, name, absl::StrCat(FormatBytes(size), " in ", ShownText(directory)));
    name = "";
  }
}

std::string SummaryText(const json& run) {
  const json& summary = run["summary"];
  const std::string directory = ParentPath(run["manifest"].get<std::string>());
  const auto step = run["step"].get<int64_t>();
  const std::string of =
      summary.contains("steps") ? absl::StrCat(" of ", summary["steps"].get<int64_t>()) : "";
  std::string out = absl::StrCat(
      ShownText(directory), ": ",
      summary.contains("state")     ? Text(summary["state"])
      : run["finished"].get<bool>() ? "a finished run"
                                    : "a run",
      summary.contains("message") ? absl::StrCat(" (", Text(summary["message"]), ")") : "", "\n");
  const std::string when =
      run.contains("committed") ? ", " + TimeText(run["committed"].get<int64_t>()) : "";
  Field(&out, "last commit", absl::StrCat("step ", step, of, when));
  if (summary.contains("loss")) {
    std::string text = LossText(summary["loss"].front());
    if (summary["loss"].size() > 1) {
      absl::StrAppend(&text, ", ", LossText(summary["loss"].back()));
    }
    Field(&out, "loss", text);
  }
  if (summary.contains("held_out")) {
    const json& held_out = summary["held_out"];
    std::string text = LossText(held_out);
    if (held_out.contains("best_step")) {
      absl::StrAppend(&text, "; the best of all at step ", held_out["best_step"].get<int64_t>());
    }
    Field(&out, "held out", text);
  }
  if (summary.contains("model")) Field(&out, "model", GivenText(summary["model"]));
  if (summary.contains("data")) Field(&out, "data", GivenText(summary["data"]));
  Field(&out, "parameters",
        absl::StrCat(Grouped(run["parameters"].get<uint64_t>()), " in ", run["units"].get<int>(),
                     " units"));
  Field(&out, "compute",
        absl::StrCat(Text(run["dtype"]), ", ", run["threads"].get<int>(), " threads",
                     summary.contains("optimizer") ? ", " + Text(summary["optimizer"]) : ""));
  Changes(&out, run.value("changes", json::array()));
  States(&out, run["files"]);
  if (summary.contains("exported")) Field(&out, "exported", Text(summary["exported"]));
  Field(&out, "--digests", "reads and checks all of the state, and shows its digests");
  return out;
}

std::string RunText(const json& run) {
  if (!run.contains("digests")) return SummaryText(run);
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
  absl::StrAppend(&out, IdentityText(run));
  Files(&out, run["files"]);
  Digests(&out, run["digests"]);
  return out;
}

std::string FreedText(const json& run) {
  return absl::StrCat("Finished at step ", run["step"].get<int64_t>(),
                      "; its state was freed (spillway clean), so there is nothing to resume\n",
                      IdentityText(run));
}

std::string TensorsText(const json& model) {
  std::string out;
  for (const json& tensor : model["tensors"]) {
    absl::StrAppendFormat(&out, "%-6s %-20s %s", Text(tensor["dtype"]), tensor["shape"].dump(),
                          Text(tensor["name"]));
    if (model["files"].size() > 1) {
      absl::StrAppend(&out, "  ", FileName(Text(tensor["file"])));
    }
    absl::StrAppend(&out, "\n");
  }
  if (!model["metadata"].empty()) absl::StrAppend(&out, "Metadata\n");
  for (const auto& [name, value] : model["metadata"].items())
    Field(&out, ShownText(name), Text(value));
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
  if (found["kind"] == "freed") return FreedText(found);
  return found["kind"] == "run" ? RunText(found) : TensorsText(found);
}

}  // namespace spillway
