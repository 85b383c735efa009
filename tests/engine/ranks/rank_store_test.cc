#include "engine/ranks/rank_store.h"

#include <string>

#include "gtest/gtest.h"

namespace spillway {
namespace {

using TableText = std::optional<std::string>;

// What a call comes to, over bytes.
absl::StatusOr<TableText> AskTable(RankStore& store, StoreOperation operation,
                                   const std::string& key, const std::string& value = "") {
  const std::string request = MakeStoreRequest(operation, key, value);
  const auto body = StoreRequestBody(request.substr(0, kStoreRequestHeader));
  if (!body.ok()) return body.status();
  EXPECT_EQ(*body, request.size() - kStoreRequestHeader);
  const std::string reply = AnswerStoreRequest(request, store);
  EXPECT_EQ(*StoreReplyBody(reply.substr(0, kStoreReplyHeader)), reply.size() - kStoreReplyHeader);
  return ReadStoreReply(reply);
}

TEST(RankStore, CallsAreTheSameOverBytes) {
  RankTable table;
  EXPECT_EQ(*AskTable(table, StoreOperation::kGet, "a"), std::nullopt);
  EXPECT_EQ(*AskTable(table, StoreOperation::kSet, "a", "1"), std::nullopt);
  EXPECT_EQ(*AskTable(table, StoreOperation::kGet, "a"), TableText("1"));
  EXPECT_EQ(*AskTable(table, StoreOperation::kSetIfAbsent, "a", "2"), TableText("1"));
  EXPECT_EQ(*AskTable(table, StoreOperation::kSetIfAbsent, "b", std::string("2\0\n", 3)),
            TableText(std::string("2\0\n", 3)));
  EXPECT_EQ(*AskTable(table, StoreOperation::kAdd, "a", "41"), TableText("42"));
  EXPECT_EQ(*AskTable(table, StoreOperation::kAdd, "n", "-3"), TableText("-3"));
  EXPECT_EQ(*AskTable(table, StoreOperation::kErase, "a"), TableText(""));
  EXPECT_EQ(*AskTable(table, StoreOperation::kErase, "a"), std::nullopt);
  EXPECT_EQ(*AskTable(table, StoreOperation::kSet, "", ""), std::nullopt);
  EXPECT_EQ(*AskTable(table, StoreOperation::kGet, ""), TableText(""));
}

TEST(RankStore, ErrorsAreTheSameOverBytes) {
  RankTable table;
  ASSERT_TRUE(table.Set("b", "no number").ok());
  const auto sum = AskTable(table, StoreOperation::kAdd, "b", "1");
  EXPECT_EQ(sum.status(), table.Add("b", 1).status());
  EXPECT_TRUE(absl::IsInvalidArgument(sum.status()));
  EXPECT_TRUE(absl::IsInvalidArgument(AskTable(table, StoreOperation::kAdd, "n", "x").status()));
}

// The announced length alone is refused: nothing is kept for it.
TEST(RankStore, LengthsAreBounded) {
  const auto header = [](uint32_t operation, uint32_t key, uint32_t value) {
    std::string bytes;
    for (const uint32_t number : {operation, key, value}) {
      for (int shift = 0; shift < 32; shift += 8)
        bytes.push_back(static_cast<char>(number >> shift));
    }
    return StoreRequestBody(bytes);
  };
  EXPECT_EQ(*header(0, 3, 5), 8);
  EXPECT_EQ(*header(4, kMostStoreKeyBytes, kMostStoreValueBytes),
            kMostStoreKeyBytes + kMostStoreValueBytes);
  EXPECT_FALSE(header(0, 3, 3'221'225'472).ok());  // 3 GiB
  EXPECT_FALSE(header(0, 3, kMostStoreValueBytes + 1).ok());
  EXPECT_FALSE(header(0, kMostStoreKeyBytes + 1, 0).ok());
  EXPECT_FALSE(header(0, ~0u, ~0u).ok());
  EXPECT_FALSE(header(5, 3, 5).ok());
  EXPECT_FALSE(StoreReplyBody(std::string(4, '\0') + std::string(4, '\xff')).ok());
  RankTable table;
  EXPECT_FALSE(table.Set("k", std::string(kMostStoreValueBytes + 1, 'x')).ok());
  EXPECT_FALSE(table.SetIfAbsent(std::string(kMostStoreKeyBytes + 1, 'x'), "").ok());
}

TEST(RankStore, AReplyOfNoKnownOutcomeIsAnError) {
  for (const char outcome : {2, 19, 20, 127}) {
    const auto reply = ReadStoreReply(std::string(1, outcome) + std::string(7, '\0'));
    EXPECT_TRUE(absl::IsDataLoss(reply.status())) << int{outcome} << reply.status();
  }
  EXPECT_TRUE(absl::IsDataLoss(ReadStoreReply("\xff\xff\xff\xff" + std::string(4, '\0')).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(
      ReadStoreReply(std::string(1, 2 + 16) + std::string(7, '\0')).status()));
}

TEST(RankStore, ATableIsFullOnce) {
  RankTable table;
  absl::Status status;
  int keys = 0;
  while (status.ok() && keys < 1 << 20) status = table.Set(std::to_string(keys++), "");
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status << keys;
  EXPECT_TRUE(table.Set("0", "a value that is replaced").ok());
}

}  // namespace
}  // namespace spillway
