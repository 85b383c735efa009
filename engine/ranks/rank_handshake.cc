#include "engine/ranks/rank_handshake.h"

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/keyed_hash.h"
#include "io/base/check.h"

namespace spillway {
namespace {

constexpr absl::string_view kHelloWords = "spillway ranks 2";
constexpr size_t kJobBytes = 16;
constexpr size_t kProofFields = kProofBytes - kDigestBytes;
static_assert(kHelloWords.size() + 32 == kHelloBytes);
static_assert(4 + 4 + kJobBytes + kMostChannelNameBytes == kProofFields);
static_assert(4 + kDigestBytes == kAnswerBytes);

void AppendNumber(uint32_t number, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(number >> shift));
}

uint32_t NumberAt(absl::string_view bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = 4; i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

std::string JobDigest(const RankIdentity& identity) {
  return Sha256(identity.job).substr(0, kJobBytes);
}

// Both sides' digests differ by the word in front: neither can be sent back as the other's.
std::string DigestOf(const RankIdentity& identity, absl::string_view word, absl::string_view caller,
                     absl::string_view listener, absl::string_view rest) {
  return HmacSha256(identity.secret, absl::StrCat(word, caller, listener, rest));
}

}  // namespace

std::string MakeHello() {
  return absl::StrCat(kHelloWords, UnforeseeableBytes(kHelloBytes - kHelloWords.size()));
}

bool IsHello(absl::string_view hello) {
  return hello.size() == kHelloBytes && absl::StartsWith(hello, kHelloWords);
}

std::string MakeProof(const RankIdentity& identity, absl::string_view caller_hello,
                      absl::string_view listener_hello, const RankCaller& caller) {
  SPILLWAY_CHECK(!caller.conversation.empty() &&
                 caller.conversation.size() <= kMostChannelNameBytes);
  std::string proof;
  AppendNumber(static_cast<uint32_t>(caller.rank), &proof);
  AppendNumber(static_cast<uint32_t>(identity.world), &proof);
  proof += JobDigest(identity);
  proof += caller.conversation;
  proof.resize(kProofFields, '\0');
  return proof + DigestOf(identity, "caller", caller_hello, listener_hello, proof);
}

Admission CheckProof(const RankIdentity& identity, absl::string_view caller_hello,
                     absl::string_view listener_hello, absl::string_view proof,
                     RankCaller* caller) {
  SPILLWAY_CHECK(proof.size() == kProofBytes);
  const absl::string_view fields = proof.substr(0, kProofFields);
  if (!SameSecretBytes(proof.substr(kProofFields),
                       DigestOf(identity, "caller", caller_hello, listener_hello, fields))) {
    return Admission::kOtherSecret;
  }
  if (fields.substr(8, kJobBytes) != JobDigest(identity)) return Admission::kOtherJob;
  const uint32_t rank = NumberAt(fields, 0), world = static_cast<uint32_t>(identity.world);
  if (NumberAt(fields, 4) != world || rank >= world) return Admission::kOtherWorld;
  const absl::string_view padded = fields.substr(8 + kJobBytes);
  caller->rank = static_cast<int>(rank);
  caller->conversation = std::string(padded.substr(0, padded.find('\0')));
  return caller->conversation.empty() ? Admission::kUnexpected : Admission::kAdmitted;
}

std::string MakeAnswer(const RankIdentity& identity, absl::string_view caller_hello,
                       absl::string_view listener_hello, absl::string_view proof,
                       Admission admission) {
  std::string answer;
  AppendNumber(static_cast<uint32_t>(admission), &answer);
  return answer +
         DigestOf(identity, "listener", caller_hello, listener_hello, absl::StrCat(proof, answer));
}

Admission CheckAnswer(const RankIdentity& identity, absl::string_view caller_hello,
                      absl::string_view listener_hello, absl::string_view proof,
                      absl::string_view answer) {
  SPILLWAY_CHECK(answer.size() == kAnswerBytes);
  const std::string digest = DigestOf(identity, "listener", caller_hello, listener_hello,
                                      absl::StrCat(proof, answer.substr(0, 4)));
  const uint32_t number = NumberAt(answer, 0);
  if (!SameSecretBytes(answer.substr(4), digest) ||
      number > static_cast<uint32_t>(Admission::kUnexpected)) {
    return Admission::kOtherSecret;
  }
  return static_cast<Admission>(number);
}

}  // namespace spillway
