// Caches the bytes of packed matrices (engine/numeric/packed_matrix.h) while several threads read
// them piece by piece, so that each is packed once.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "io/base/mutex.h"

namespace spillway {

// Keeps the last two: threads that load a model work side by side, on the current matrix and on the
// next. Any thread.
class PackedCache {
 public:
  using Bytes = std::vector<char>;

  // The bytes of `name`. If they are not cached, `make` makes them while other callers wait.
  absl::StatusOr<std::shared_ptr<const Bytes>> Get(
      const std::string& name, const std::function<absl::Status(Bytes* bytes)>& make);

 private:
  struct Entry {
    Mutex mutex;
    bool made ABSL_GUARDED_BY(mutex) = false;
    absl::Status status ABSL_GUARDED_BY(mutex);
    Bytes bytes;  // constant once made
  };
  std::shared_ptr<Entry> Find(const std::string& name);

  Mutex mutex_;
  std::deque<std::pair<std::string, std::shared_ptr<Entry>>> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spillway
