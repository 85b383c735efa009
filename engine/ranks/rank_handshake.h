// How two ranks of a run prove to each other that both know its secret, when one connects to the
// other. Four messages of fixed size:
//
//   caller   hello    48 bytes: "spillway ranks 2", 32 unforeseeable bytes
//   listener hello    the same
//   caller   proof    rank, number of ranks, job, conversation, and an HMAC of both hellos and
//   these listener answer   admission, and an HMAC of all before
//
// The secret itself is never sent, a recorded conversation proves nothing in another one, and no
// length comes from the wire. What follows is not encrypted: docs/SECURITY.md. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

// What all ranks of a run must have in common before they exchange anything.
struct RankIdentity {
  std::string secret;  // empty: none was given
  std::string job;     // which job and which attempt of it, as the launcher names them
  int world = 1;       // number of ranks
};

enum class Admission : uint32_t {
  kAdmitted,
  kOtherSecret,
  kOtherJob,
  kOtherWorld,    // another number of ranks
  kThereAlready,  // this rank has such a connection
  kTooLate,       // the run has begun without this rank, or ends
  kUnexpected,    // nobody of that number is expected here
};

inline constexpr size_t kHelloBytes = 48;
inline constexpr size_t kProofBytes = 88;
inline constexpr size_t kAnswerBytes = 36;
inline constexpr size_t kMostChannelNameBytes = 32;

// What a caller says about itself.
struct RankCaller {
  int rank = 0;
  std::string conversation;  // REQUIRES: 1 to kMostChannelNameBytes bytes, none of them 0
};

std::string MakeHello();
// Whether these are kHelloBytes that begin as a hello does.
bool IsHello(absl::string_view hello);

std::string MakeProof(const RankIdentity& identity, absl::string_view caller_hello,
                      absl::string_view listener_hello, const RankCaller& caller);
// kAdmitted, and who it is in `*caller`; or why not.
Admission CheckProof(const RankIdentity& identity, absl::string_view caller_hello,
                     absl::string_view listener_hello, absl::string_view proof, RankCaller* caller);

std::string MakeAnswer(const RankIdentity& identity, absl::string_view caller_hello,
                       absl::string_view listener_hello, absl::string_view proof,
                       Admission admission);
// The answer's admission. kOtherSecret where the listener has not proven that it knows the secret.
Admission CheckAnswer(const RankIdentity& identity, absl::string_view caller_hello,
                      absl::string_view listener_hello, absl::string_view proof,
                      absl::string_view answer);

}  // namespace spillway
