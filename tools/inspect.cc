// spillway inspect: what a run's last commit, or a safetensors file, holds.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/inspect_run.h"
#include "engine/safetensors.h"
#include "io/status.h"
#include "tools/commands.h"

namespace spillway {
namespace {

absl::StatusOr<nlohmann::json> InspectFile(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
  nlohmann::json json;
  json["metadata"] = file->metadata();
  json["tensors"] = nlohmann::json::array();
  for (const SafetensorsTensor& tensor : file->tensors()) {
    json["tensors"].push_back(
        {{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}});
  }
  return json;
}

void PrintForPeople(const nlohmann::json& json) {
  if (json.contains("tensors")) {
    for (const auto& tensor : json["tensors"]) {
      std::printf("%-6s %-24s %s\n", tensor["dtype"].get<std::string>().c_str(),
                  tensor["shape"].dump().c_str(), tensor["name"].get<std::string>().c_str());
    }
    return;
  }
  std::printf("step %s%s, %s, digest %s, %zu extents\n", json["step"].dump().c_str(),
              json["finished"] == true ? " (finished)" : "",
              json["dtype"].get<std::string>().c_str(), json["digest"].get<std::string>().c_str(),
              json["extents"].size());
  for (const auto& [name, planes] : json["digests"].items()) {
    std::printf("%s", name.c_str());
    for (const auto& [plane, digest] : planes.items()) {
      std::printf("  %s %s", plane.c_str(), digest.get<std::string>().c_str());
    }
    std::printf("\n");
  }
}

CommandOutcome RunInspect(const std::string& path, bool as_json) {
  std::error_code error;
  const bool run = std::filesystem::is_directory(path, error);
  if (!run && !std::filesystem::exists(path, error)) {
    return {absl::NotFoundError(absl::StrCat(path, " does not exist"))};
  }
  auto json = run ? InspectRun(path) : InspectFile(path);
  if (!json.ok()) return {json.status()};
  if (as_json) {
    std::printf("%s\n", json->dump().c_str());
  } else {
    PrintForPeople(*json);
  }
  return {};
}

}  // namespace

void AddInspectCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show what a run's last commit or a safetensors file holds");
  auto path = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  command->add_option("path", *path, "OUTPUT of a run, or a .safetensors file")->required();
  command->add_flag("--json", *as_json, "one JSON object on stdout");
  command->footer("Example:\n  spillway inspect run --json");
  command->callback(
      [run, path, as_json] { *run = [path, as_json] { return RunInspect(*path, *as_json); }; });
}

}  // namespace spillway
