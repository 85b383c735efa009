// Models by their names on Hugging Face's hub, looked up in the cache that huggingface_hub (and so
// transformers, and `hf download`) keeps on this machine. Nothing is fetched here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// "openai-community/gpt2", or "gpt2" of the first models, with a branch, tag or commit behind an @.
struct HubName {
  std::string repository;
  std::string revision;  // "": main
};

// None for what cannot be such a name. Whether there is a directory of that name is for the caller
// to see first.
std::optional<HubName> ParseHubName(absl::string_view text);

// `hf download REPOSITORY [--revision REVISION]`, as words.
std::vector<std::string> DownloadCommand(const HubName& name);

// The value of an environment variable; none where it is not set, or empty.
using FindVariable = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> EnvironmentVariable(const char* name);

// Where the cache is, by huggingface_hub's rules: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
// XDG_CACHE_HOME/huggingface/hub, HOME/.cache/huggingface/hub. It need not exist.
std::string HubCacheDirectory(const FindVariable& variable = EnvironmentVariable);

struct HubSnapshot {
  std::string directory;  // of the model's files
  std::string commit;     // its name, "607a30d7..."
};

// The files that a snapshot must have.
enum class HubFiles { kConfig, kTokenizer, kWeights, kAdapter };

// The snapshot of a name in the cache. kNotFound where the cache has none of that repository or
// revision; kFailedPrecondition where it lacks some of the files, and is therefore not whole. The
// messages end with what is there, and do not name the command that fetches the rest.
absl::StatusOr<HubSnapshot> FindInHubCache(const HubName& name, const std::string& cache,
                                           HubFiles files);

// The same of a repository's own folder in the cache ("models--ORG--NAME"), as a path; none where
// the directory is no such folder.
std::optional<absl::StatusOr<HubSnapshot>> FindInRepositoryFolder(const std::string& directory,
                                                                  HubFiles files);

// With "~" for the home directory.
std::string ShortPath(const std::string& path, const FindVariable& variable = EnvironmentVariable);

}  // namespace spillway
