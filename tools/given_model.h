// Resolves --model, --tokenizer and --adapter: a directory, or a model's name on Hugging Face's
// hub, which is searched in the local cache and, with --download, fetched.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/config/train_flags.h"
#include "engine/weights/hub_cache.h"

namespace spillway {

// Help of the flag --download.
inline constexpr char kDownloadHelp[] =
    "fetch a model that is named as on the hub and not in its cache (runs hf download)";

// Replaces `given` by the directory if it is a name on the hub, or a repository's folder in its
// cache, and logs the snapshot. Other values are unchanged, and their reader reports errors.
// kNotFound for a name that is not in the cache, with the command that fetches it; with `download`
// that command is run, and its failure reported.
absl::Status ResolveGivenModel(const char* flag, HubFiles files, bool download, std::string& given,
                               bool logs = true);

// Resolves the three flags of train and estimate. `model_files`: the files that the model must
// have. `logs`: whether the snapshots are logged.
absl::Status ResolveGivenModels(HubFiles model_files, bool logs, TrainFlags& flags);

}  // namespace spillway
