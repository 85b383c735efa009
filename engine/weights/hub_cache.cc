#include "engine/weights/hub_cache.h"

#include <cstdlib>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/model_file.h"
#include "engine/base/shallow_json.h"
#include "engine/weights/weight_files.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

using Names = std::vector<std::string>;

constexpr absl::string_view kPrefix = "models--";
constexpr uint64_t kMostIndexBytes = 64 << 20;
constexpr size_t kCommitLetters = 40, kShownRevisions = 4;

Names List(const std::string& directory) {
  return FileSystem::Real().List(directory).value_or(Names());
}

bool Has(const std::string& directory, absl::string_view name) {
  return Exists(absl::StrCat(directory, "/", name));
}

// Whether `word` can be part of a repository's name, or of a revision's path.
bool IsWord(absl::string_view word) {
  return !word.empty() && word != "." && word != ".." && absl::c_all_of(word, [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

// Whether it is one of the first models, which have no owner.
bool IsFirstModel(absl::string_view name) {
  constexpr absl::string_view kFirst[] = {"gpt2",        "distilgpt2", "bert-",
                                          "distilbert-", "t5-",        "roberta-"};
  return absl::c_any_of(kFirst,
                        [&](absl::string_view first) { return absl::StartsWith(name, first); });
}

std::string Home(const FindVariable& variable) { return variable("HOME").value_or(""); }

std::string ExpandHome(const std::string& path, const FindVariable& variable) {
  const bool begins = path == "~" || absl::StartsWith(path, "~/");
  return begins ? absl::StrCat(Home(variable), path.substr(1)) : path;
}

// The shards that an index names and the snapshot lacks.
Names MissingShards(const std::string& directory, absl::string_view index) {
  const auto text = ReadModelFile(directory, index, kMostIndexBytes);
  Names missing;
  if (!text.ok()) return missing;
  const nlohmann::json json = ParseShallowJson(*text);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object())
    return missing;  // the reader of the index reports the error
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) continue;
    const auto name = file.get<std::string>();
    if (!Has(directory, name) && !absl::c_linear_search(missing, name)) missing.push_back(name);
  }
  return missing;
}

// The files that a snapshot lacks; "" if it is complete.
std::string Lacks(const std::string& directory, HubFiles files) {
  if (files == HubFiles::kAdapter) {
    return Has(directory, "adapter_config.json") ? "" : "adapter_config.json";
  }
  if (files == HubFiles::kTokenizer) {
    for (const char* name : {"tokenizer.json", "vocab.json", "tokenizer.model", "vocab.txt"}) {
      if (Has(directory, name)) return "";
    }
    return "tokenizer.json";
  }
  if (!Has(directory, "config.json")) return "config.json";
  if (files == HubFiles::kConfig) return "";
  if (Has(directory, "model.safetensors")) return "";
  for (const char* index : {"model.safetensors.index.json", "pytorch_model.bin.index.json"}) {
    if (!Has(directory, index)) continue;
    const Names missing = MissingShards(directory, index);
    return missing.empty()
               ? ""
               : absl::StrCat(missing.size(), " files of weights, such as ", missing.front());
  }
  // Weights of other formats count, too: their reader names the problem.
  for (const std::string& name : List(directory)) {
    if (CanHoldWeights(name) && Has(directory, name)) return "";
  }
  return "model.safetensors (its weights)";
}

// Describes what the cache holds of a repository, for messages.
std::string ShownRevisions(const std::string& folder) {
  Names names = List(folder + "/refs");
  for (const std::string& commit : List(folder + "/snapshots"))
    names.push_back(commit.substr(0, 8));
  const size_t more = names.size() - std::min(names.size(), kShownRevisions);
  names.resize(names.size() - more);
  return names.empty() ? "no snapshot"
                       : absl::StrCat(absl::StrJoin(names, ", "), more > 0 ? ", ..." : "");
}

absl::StatusOr<HubSnapshot> FindSnapshot(const std::string& folder, const std::string& revision,
                                         HubFiles files) {
  HubSnapshot found;
  const auto ref = FileSystem::Real().ReadSmallFile(absl::StrCat(folder, "/refs/", revision));
  if (ref.ok()) {
    found.commit = std::string(absl::StripAsciiWhitespace(*ref));
  } else if (revision.size() >= 7 && revision.size() <= kCommitLetters) {
    for (const std::string& commit : List(folder + "/snapshots")) {
      if (absl::StartsWith(commit, revision)) found.commit = commit;
    }
  }
  found.directory = absl::StrCat(folder, "/snapshots/", found.commit);
  if (!IsWord(found.commit) || !IsDirectory(found.directory)) {
    return absl::NotFoundError(absl::StrCat(folder, " has no snapshot of ", revision, "; it has ",
                                            ShownRevisions(folder)));
  }
  const std::string lacks = Lacks(found.directory, files);
  if (lacks.empty()) return found;
  Names names = List(found.directory);
  return absl::FailedPreconditionError(
      absl::StrCat("the snapshot in ", found.directory, " is not whole: it lacks ", lacks,
                   ", and has ", names.empty() ? "nothing" : absl::StrJoin(names, ", ")));
}

}  // namespace

std::optional<HubName> ParseHubName(absl::string_view text) {
  HubName name;
  const size_t at = text.find('@');
  if (at != absl::string_view::npos) {
    name.revision = std::string(text.substr(at + 1));
    const Names words = absl::StrSplit(name.revision, '/');
    if (!absl::c_all_of(words, [](const std::string& word) { return IsWord(word); })) {
      return std::nullopt;
    }
    text = text.substr(0, at);
  }
  const Names words = absl::StrSplit(text, '/');
  if (words.size() > 2 || !absl::c_all_of(words, [](const std::string& word) {
        return IsWord(word) && absl::ascii_isalnum(word[0]) && !absl::StrContains(word, "--");
      })) {
    return std::nullopt;
  }
  if (words.size() == 1 && !IsFirstModel(words[0])) return std::nullopt;
  name.repository = std::string(text);
  return name;
}

std::vector<std::string> DownloadCommand(const HubName& name) {
  Names words = {"hf", "download", name.repository};
  if (!name.revision.empty()) words.insert(words.end(), {"--revision", name.revision});
  return words;
}

std::optional<std::string> EnvironmentVariable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::string HubCacheDirectory(const FindVariable& variable) {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const auto value = variable(name)) return ExpandHome(*value, variable);
  }
  if (const auto home = variable("HF_HOME")) return ExpandHome(*home, variable) + "/hub";
  const std::string caches = variable("XDG_CACHE_HOME").value_or(Home(variable) + "/.cache");
  return ExpandHome(caches, variable) + "/huggingface/hub";
}

absl::StatusOr<HubSnapshot> FindInHubCache(const HubName& name, const std::string& cache,
                                           HubFiles files) {
  const std::string folder =
      absl::StrCat(cache, "/", kPrefix, absl::StrReplaceAll(name.repository, {{"/", "--"}}));
  if (!IsDirectory(folder)) {
    return absl::NotFoundError(absl::StrCat("it is not in ", ShortPath(cache), " either"));
  }
  return FindSnapshot(folder, name.revision.empty() ? "main" : name.revision, files);
}

std::optional<absl::StatusOr<HubSnapshot>> FindInRepositoryFolder(const std::string& directory,
                                                                  HubFiles files) {
  const std::string folder = NormalPath(directory);
  const bool is_repository = absl::StartsWith(FileName(folder), kPrefix) &&
                             IsDirectory(folder + "/snapshots") && !Has(folder, "config.json");
  if (!is_repository) return std::nullopt;
  return FindSnapshot(folder, "main", files);
}

std::string ShortPath(const std::string& path, const FindVariable& variable) {
  const std::string home = Home(variable);
  const bool below = home.size() > 1 && absl::StartsWith(path, home + "/");
  return below ? "~" + path.substr(home.size()) : path;
}

}  // namespace spillway
