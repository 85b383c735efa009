// One connection to a listener as a state machine of bytes received and bytes to send. It begins
// with the handshake (rank_handshake.h), and trusts and stores nothing before that is complete.
// Without sockets, so that a test or a fuzzer can be the other end. One thread.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/ranks/rank_handshake.h"
#include "engine/ranks/rank_store.h"

namespace spillway {

// The conversation for requests to the table; all others are between two ranks.
inline constexpr char kStoreConversation[] = "store";

class RankGuest {
 public:
  // Decides whether a rank that has proven itself is admitted. Called at most once.
  using Admit = std::function<Admission(const RankCaller&)>;

  // `identity` and `store` outlive the object; `store` may be null if no rank asks for it.
  RankGuest(const RankIdentity& identity, RankStore* store, Admit admit)
      : identity_(identity), store_(store), admit_(std::move(admit)) {}

  // Number of bytes that it takes next. 0: it takes no more, since the connection now belongs to a
  // pair of ranks, or is closed once the output has been sent.
  size_t wanted() const { return wanted_ - in_.size(); }
  // REQUIRES: at most wanted() bytes. Appends the reply to `out`. After an error the connection
  // must be closed.
  absl::Status Take(absl::string_view bytes, std::string* out);

  // The result of the handshake: admitted (to the table, or as one of a pair), or refused.
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
  std::string in_;  // received part of the current message; at most one request
  std::string caller_hello_, listener_hello_;
  RankCaller caller_;
};

}  // namespace spillway
