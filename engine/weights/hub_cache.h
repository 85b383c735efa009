// Finds models by their names on Hugging Face's hub in the local cache of huggingface_hub (which
// transformers and `hf download` use). Nothing is downloaded here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// "openai-community/gpt2", or "gpt2" for the first models; with an @ also a branch, tag or commit.
struct HubName {
  std::string repository;
  std::string revision;  // "": main
};

// nullopt if `text` cannot be such a name. The caller first checks for a directory of that name.
std::optional<HubName> ParseHubName(absl::string_view text);

// The words of `hf download REPOSITORY [--revision REVISION]`.
std::vector<std::string> DownloadCommand(const HubName& name);

// The value of an environment variable; none if it is not set, or empty.
using FindVariable = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> EnvironmentVariable(const char* name);

// The cache directory by huggingface_hub's rules: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
// XDG_CACHE_HOME/huggingface/hub, HOME/.cache/huggingface/hub. It need not exist.
std::string HubCacheDirectory(const FindVariable& variable = EnvironmentVariable);

struct HubSnapshot {
  std::string directory;  // has the model's files
  std::string commit;     // the commit's hash, "607a30d7..."
};

// The files that a snapshot must have.
enum class HubFiles { kConfig, kTokenizer, kWeights, kAdapter };

// The snapshot of a name in the cache. kNotFound if the cache lacks that repository or revision;
// kFailedPrecondition if files of the snapshot are missing. The messages end with what is there,
// and do not name the command that fetches the rest.
absl::StatusOr<HubSnapshot> FindInHubCache(const HubName& name, const std::string& cache,
                                           HubFiles files);

// Finds a snapshot in a repository's own folder in the cache ("models--ORG--NAME"), given as a
// path; nullopt if the directory is no such folder.
std::optional<absl::StatusOr<HubSnapshot>> FindInRepositoryFolder(const std::string& directory,
                                                                  HubFiles files);

// The path with "~" for the home directory.
std::string ShortPath(const std::string& path, const FindVariable& variable = EnvironmentVariable);

}  // namespace spillway
