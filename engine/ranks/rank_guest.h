// One connection to a listener as the bytes that come and those that go: it begins with the
// handshake (rank_handshake.h), and nothing is believed or kept of it before that is over. Without
// sockets, so that a test and a fuzzer can be the other end. One thread.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/ranks/rank_handshake.h"
#include "engine/ranks/rank_store.h"

namespace spillway {

// The conversation of those that ask the table; all others are between a pair of ranks.
inline constexpr char kStoreConversation[] = "store";

class RankGuest {
 public:
  // Whether a rank that has proven itself is let in. Called once, at most.
  using Admit = std::function<Admission(const RankCaller&)>;

  // `identity` and `store` outlive it; the latter may be null where nobody asks for it.
  RankGuest(const RankIdentity& identity, RankStore* store, Admit admit)
      : identity_(identity), store_(store), admit_(std::move(admit)) {}

  // How many bytes it takes next; 0 where it takes no more: the connection is a pair's from now on,
  // or to be closed once what goes out has gone.
  size_t wanted() const { return wanted_ - in_.size(); }
  // REQUIRES: at most wanted() bytes. Appends to `out` what goes to the other end. An error: the
  // connection is to be closed.
  absl::Status Take(absl::string_view bytes, std::string* out);

  // Whether it was let in, and then as whom.
  bool admitted() const { return stage_ == Stage::kHeader || stage_ == Stage::kBody || is_pair(); }
  bool is_pair() const { return stage_ == Stage::kPair; }
  bool was_refused() const { return stage_ == Stage::kRefused; }
  const RankCaller& caller() const { return caller_; }

 private:
  enum class Stage { kHello, kProof, kHeader, kBody, kPair, kRefused };

  void Expect(Stage stage, size_t bytes);
  absl::Status TakeWhole(std::string* out);

  const RankIdentity& identity_;
  RankStore* const store_;
  const Admit admit_;
  Stage stage_ = Stage::kHello;
  size_t wanted_ = kHelloBytes;
  std::string in_;  // of what is expected now; never longer than a request
  std::string caller_hello_, listener_hello_;
  RankCaller caller_;
};

}  // namespace spillway
