// --model, --tokenizer and --adapter as they are given: a directory, or a model's name on Hugging
// Face's hub, which is looked up in the cache on this machine and, with --download, fetched.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/config/train_flags.h"
#include "engine/weights/hub_cache.h"

namespace spillway {

// Help of the flag --download.
inline constexpr char kDownloadHelp[] =
    "fetch a model that is named as on the hub and not in its cache (runs hf download)";

// Puts the directory in `given`'s place where it is a name of the hub, or a repository's folder in
// its cache, and logs which snapshot that is. What is neither stays as it is, for whoever opens it
// to say what is wrong. kNotFound for a name that is not in the cache, with the command that
// fetches it; with `download` that command is run, and its failure named.
absl::Status ResolveGivenModel(const char* flag, HubFiles files, bool download, std::string& given,
                               bool logs = true);

// The three of train's and estimate's flags. `model_files`: what of the model must be there.
// `logs`: whether the snapshots are logged.
absl::Status ResolveGivenModels(HubFiles model_files, bool logs, TrainFlags& flags);

}  // namespace spillway
