// Handshake in which two ranks of a run prove to each other that they know its secret, when one
// connects to the other. Four messages of fixed size:
//
//   caller   hello    48 bytes: "spillway ranks 2", 32 unforeseeable bytes
//   listener hello    the same
//   caller   proof    rank, number of ranks, job, conversation, and an HMAC of both hellos and
//   these listener answer   admission, and an HMAC of all before
//
// The secret itself is never sent, a recorded conversation proves nothing in another one, and no
// length comes from the wire. Later bytes are not encrypted: docs/SECURITY.md. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

// Values that all ranks of a run must share before they exchange anything.
struct RankIdentity {
  std::string secret;  // empty: none was given
  std::string job;     // the job and its attempt, as the launcher names them
  int world = 1;       // number of ranks
};

enum class Admission : uint32_t {
  kAdmitted,
  kOtherSecret,
  kOtherJob,
  kOtherWorld,    // the numbers of ranks differ
  kThereAlready,  // the rank has such a connection already
  kTooLate,       // the run has begun without this rank, or ends
  kUnexpected,    // no rank of that number is expected here
};

inline constexpr size_t kHelloBytes = 48;
inline constexpr size_t kProofBytes = 88;
inline constexpr size_t kAnswerBytes = 36;
inline constexpr size_t kMostChannelNameBytes = 32;

// The values that a caller sends about itself.
struct RankCaller {
  int rank = 0;
  std::string conversation;  // REQUIRES: 1 to kMostChannelNameBytes bytes, none of them 0
};

std::string MakeHello();
// Whether the text has kHelloBytes and begins as a hello does.
bool IsHello(absl::string_view hello);

std::string MakeProof(const RankIdentity& identity, absl::string_view caller_hello,
                      absl::string_view listener_hello, const RankCaller& caller);
// Returns kAdmitted and sets `*caller`; or returns the reason for the refusal.
Admission CheckProof(const RankIdentity& identity, absl::string_view caller_hello,
                     absl::string_view listener_hello, absl::string_view proof, RankCaller* caller);

std::string MakeAnswer(const RankIdentity& identity, absl::string_view caller_hello,
                       absl::string_view listener_hello, absl::string_view proof,
                       Admission admission);
// The listener's decision in `answer`. kOtherSecret if the listener has not proven that it knows
// the secret.
Admission CheckAnswer(const RankIdentity& identity, absl::string_view caller_hello,
                      absl::string_view listener_hello, absl::string_view proof,
                      absl::string_view answer);

}  // namespace spillway
