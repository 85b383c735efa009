#include "engine/ranks/line_forwarder.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace spillway {

std::string LineForwarder::Add(absl::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const size_t room = kMostLineBytes - begun_.size();
    const size_t taken = std::min({bytes.find('\n'), room, bytes.size()});
    absl::StrAppend(&begun_, bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (bytes.empty()) break;
    if (bytes.front() == '\n') bytes.remove_prefix(1);
    Append(begun_, &out);
    begun_.clear();
  }
  return out;
}

std::string LineForwarder::Finish() {
  std::string out;
  if (!begun_.empty()) Append(begun_, &out);
  begun_.clear();
  return out;
}

void LineForwarder::Append(absl::string_view line, std::string* out) const {
  absl::StrAppend(out, absl::StartsWith(line, prefix_) ? "" : prefix_, line, "\n");
}

}  // namespace spillway
