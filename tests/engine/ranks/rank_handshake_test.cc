#include "engine/ranks/rank_handshake.h"

#include <string>

#include "gtest/gtest.h"

namespace spillway {
namespace {

constexpr char kHandshakeSecret[] = "a secret of sixteen or more";

RankIdentity RankIdentityOf(const std::string& secret = kHandshakeSecret,
                            const std::string& job = "7/0", int world = 4) {
  return {secret, job, world};
}

// What a listener thinks of a caller, and the caller of the listener's answer.
struct RanksMet {
  Admission by_listener, by_caller;
  RankCaller caller;
};

RanksMet MeetRanks(const RankIdentity& listener, const RankIdentity& caller,
                   const RankCaller& who) {
  const std::string own = MakeHello(), theirs = MakeHello();
  const std::string proof = MakeProof(caller, own, theirs, who);
  EXPECT_EQ(proof.size(), kProofBytes);
  RanksMet met;
  met.by_listener = CheckProof(listener, own, theirs, proof, &met.caller);
  const std::string answer = MakeAnswer(listener, own, theirs, proof, met.by_listener);
  EXPECT_EQ(answer.size(), kAnswerBytes);
  met.by_caller = CheckAnswer(caller, own, theirs, proof, answer);
  return met;
}

TEST(RankHandshake, RanksOfARunKnowEachOther) {
  for (const std::string& secret : {std::string(kHandshakeSecret), std::string()}) {
    for (const absl::string_view conversation :
         {"store", "world", "a name of thirty-two bytes, so: 32"}) {
      const std::string name(conversation.substr(0, kMostChannelNameBytes));
      const RanksMet met = MeetRanks(RankIdentityOf(secret), RankIdentityOf(secret), {3, name});
      EXPECT_EQ(met.by_listener, Admission::kAdmitted);
      EXPECT_EQ(met.by_caller, Admission::kAdmitted);
      EXPECT_EQ(met.caller.rank, 3);
      EXPECT_EQ(met.caller.conversation, name);
    }
  }
}

TEST(RankHandshake, WhatDiffersIsNamed) {
  const RankIdentity ours = RankIdentityOf();
  EXPECT_EQ(MeetRanks(ours, RankIdentityOf("another secret, as long"), {1, "w"}).by_caller,
            Admission::kOtherSecret);
  EXPECT_EQ(MeetRanks(ours, RankIdentityOf(""), {1, "w"}).by_caller, Admission::kOtherSecret);
  EXPECT_EQ(MeetRanks(RankIdentityOf(""), ours, {1, "w"}).by_caller, Admission::kOtherSecret);
  EXPECT_EQ(MeetRanks(ours, RankIdentityOf(kHandshakeSecret, "8/0"), {1, "w"}).by_caller,
            Admission::kOtherJob);
  EXPECT_EQ(MeetRanks(ours, RankIdentityOf(kHandshakeSecret, "7/1"), {1, "w"}).by_caller,
            Admission::kOtherJob);
  EXPECT_EQ(MeetRanks(ours, RankIdentityOf(kHandshakeSecret, "7/0", 5), {1, "w"}).by_caller,
            Admission::kOtherWorld);
  EXPECT_EQ(MeetRanks(ours, ours, {4, "w"}).by_caller, Admission::kOtherWorld);
  EXPECT_EQ(MeetRanks(ours, ours, {-1, "w"}).by_caller, Admission::kOtherWorld);
}

// Every bit of every message counts.
TEST(RankHandshake, NoChangedBitGetsThrough) {
  const RankIdentity identity = RankIdentityOf();
  const std::string own = MakeHello(), theirs = MakeHello();
  const std::string proof = MakeProof(identity, own, theirs, {1, "world"});
  const std::string answer = MakeAnswer(identity, own, theirs, proof, Admission::kAdmitted);
  RankCaller caller;
  for (size_t bit = 0; bit < 8 * kProofBytes; ++bit) {
    std::string other = proof;
    other[bit / 8] ^= 1 << bit % 8;
    EXPECT_EQ(CheckProof(identity, own, theirs, other, &caller), Admission::kOtherSecret) << bit;
  }
  for (size_t bit = 0; bit < 8 * kHelloBytes; ++bit) {
    std::string other = own;
    other[bit / 8] ^= 1 << bit % 8;
    EXPECT_EQ(CheckProof(identity, other, theirs, proof, &caller), Admission::kOtherSecret) << bit;
    EXPECT_EQ(CheckAnswer(identity, other, theirs, proof, answer), Admission::kOtherSecret) << bit;
  }
  for (size_t bit = 0; bit < 8 * kAnswerBytes; ++bit) {
    std::string other = answer;
    other[bit / 8] ^= 1 << bit % 8;
    EXPECT_EQ(CheckAnswer(identity, own, theirs, proof, other), Admission::kOtherSecret) << bit;
  }
}

// A proof that was seen on the network is none in another connection, nor as an answer.
TEST(RankHandshake, WhatWasRecordedProvesNothing) {
  const RankIdentity identity = RankIdentityOf();
  const std::string own = MakeHello();
  const std::string proof = MakeProof(identity, own, MakeHello(), {1, "world"});
  RankCaller caller;
  EXPECT_EQ(CheckProof(identity, own, MakeHello(), proof, &caller), Admission::kOtherSecret);
  // To a listener that sends back what it got: its own hello is then the caller's.
  const std::string reflected = MakeProof(identity, own, own, {1, "world"});
  const std::string answer = std::string(4, '\0') + reflected.substr(kProofBytes - 32);
  EXPECT_EQ(CheckAnswer(identity, own, own, reflected, answer), Admission::kOtherSecret);
}

TEST(RankHandshake, HellosAreNotAlike) {
  EXPECT_TRUE(IsHello(MakeHello()));
  EXPECT_NE(MakeHello(), MakeHello());
  EXPECT_FALSE(IsHello(MakeHello() + "x"));
  EXPECT_FALSE(IsHello(""));
  EXPECT_FALSE(IsHello(std::string(kHelloBytes, 'x')));
}

}  // namespace
}  // namespace spillway
