// Where files are opened that nobody else shall find.
#pragma once

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/generation/kept_positions.h"
#include "engine/run/run_directory.h"
#include "engine/run/swap_inventory.h"
#include "io/base/status.h"

namespace spillway {

// One thread. Directories below the swap paths, which go with it: files that are open by then live
// on without a name, and go with the process, even with kill -9.
class PassingDirectories {
 public:
  absl::Status Open(const std::vector<std::string>& swap_paths) {
    for (const std::string& path : swap_paths) {
      ASSIGN_OR_RETURN(auto directory,
                       RunDirectory::Open(absl::StrCat(path, "/spillway-generate-", getpid())));
      paths_.push_back(directory->path());
      directories_.push_back(std::move(directory));
    }
    return absl::OkStatus();
  }
  ~PassingDirectories() {
    std::vector<std::string> names = SwapFileNames();
    names.push_back(kKeptName);
    for (auto& directory : directories_) {
      RunDirectory::Remove(std::move(directory), names).IgnoreError();
    }
  }
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<RunDirectory>> directories_;
};

}  // namespace spillway
