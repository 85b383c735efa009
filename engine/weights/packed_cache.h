// The bytes of packed matrices (engine/numeric/packed_matrix.h) while they are asked for piece by
// piece, by several threads: each is made once.
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

// Keeps the last two: threads that load a model work side by side, on the matrix at hand and on
// the next. Any thread.
class PackedCache {
 public:
  using Bytes = std::vector<char>;

  // Those of `name`. Where they are not kept, `make` makes them, while others who want them wait.
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
