// What comes over the network before and after a rank has proven itself.
#include "engine/ranks/rank_guest.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {
namespace {

// Gives a guest all of it, in pieces of the size that it asks for. False where it is to be closed.
bool GiveAll(RankGuest& guest, absl::string_view bytes, std::string* out) {
  while (!bytes.empty() && guest.wanted() > 0) {
    SPILLWAY_CHECK(guest.wanted() <=
                   kStoreRequestHeader + kMostStoreKeyBytes + kMostStoreValueBytes);
    const absl::string_view piece = bytes.substr(0, guest.wanted());
    bytes.remove_prefix(piece.size());
    if (!guest.Take(piece, out).ok()) return false;
  }
  return true;
}

}  // namespace

// The input begins with a hello, or not; nobody gets in without the secret.
SPILLWAY_FUZZ(rank_stranger, 20000) {
  const RankIdentity identity = {"a secret of this process", "job", 4};
  RankTable table;
  RankGuest guest(identity, &table, [](const RankCaller&) {
    SPILLWAY_CHECK(false);
    return Admission::kAdmitted;
  });
  std::string out;
  const bool open = GiveAll(guest, input, &out);
  SPILLWAY_CHECK(!guest.admitted());
  SPILLWAY_CHECK(out.size() <= kHelloBytes + kAnswerBytes);
  return open && guest.was_refused();
}

// The input is what a rank asks for once it is let in.
SPILLWAY_FUZZ(rank_requests, 20000) {
  const RankIdentity identity = {"a secret of this process", "job", 4};
  RankTable table;
  RankGuest guest(identity, &table, [](const RankCaller&) { return Admission::kAdmitted; });
  std::string out;
  const std::string hello = MakeHello();
  SPILLWAY_CHECK(guest.Take(hello, &out).ok() && out.size() == kHelloBytes);
  const std::string proof = MakeProof(identity, hello, out, {3, kStoreConversation});
  std::string answer;
  SPILLWAY_CHECK(guest.Take(proof, &answer).ok() && guest.admitted());
  std::string replies;
  const bool open = GiveAll(guest, input, &replies);
  size_t count = 0;
  for (absl::string_view rest = replies; !rest.empty(); ++count) {
    const auto body = StoreReplyBody(rest.substr(0, kStoreReplyHeader));
    SPILLWAY_CHECK(body.ok() && rest.size() >= kStoreReplyHeader + *body);
    (void)ReadStoreReply(rest.substr(0, kStoreReplyHeader + *body));
    rest.remove_prefix(kStoreReplyHeader + *body);
  }
  SPILLWAY_CHECK(count <= input.size() / kStoreRequestHeader);
  return open && count > 0;
}

// What rank 0 answers to a rank that asks.
SPILLWAY_FUZZ(rank_replies, 10000) {
  if (input.size() < kStoreReplyHeader) return false;
  const auto body = StoreReplyBody(input.substr(0, kStoreReplyHeader));
  if (!body.ok()) return Refuse(body.status(), {absl::StatusCode::kDataLoss});
  SPILLWAY_CHECK(*body <= kMostStoreValueBytes);
  if (input.size() < kStoreReplyHeader + *body) return false;
  const auto text = ReadStoreReply(input.substr(0, kStoreReplyHeader + *body));
  return text.ok();
}

}  // namespace spillway
