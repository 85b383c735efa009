#include "engine/ranks/rank_store.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Largest number of keys; a run with the most ranks has a few for each.
constexpr size_t kMostStoreKeys = 16384;

constexpr uint32_t kHasText = 0, kHasNone = 1, kHasFailed = 2;

void AppendStoreNumber(size_t number, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(number >> shift));
}

uint32_t StoreNumberAt(absl::string_view bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = 4; i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

std::string MakeStoreReply(uint32_t outcome, absl::string_view text) {
  std::string reply;
  AppendStoreNumber(outcome, &reply);
  AppendStoreNumber(text.size(), &reply);
  absl::StrAppend(&reply, text);
  return reply;
}

absl::StatusOr<std::optional<std::string>> DoStoreRequest(StoreOperation operation,
                                                          absl::string_view key,
                                                          absl::string_view value,
                                                          RankStore& store) {
  switch (operation) {
    case StoreOperation::kSet:
      RETURN_IF_ERROR(store.Set(key, value));
      return std::nullopt;
    case StoreOperation::kGet:
      return store.Get(key);
    case StoreOperation::kSetIfAbsent:
      return store.SetIfAbsent(key, value);
    case StoreOperation::kAdd: {
      int64_t amount = 0;
      if (!absl::SimpleAtoi(value, &amount)) return absl::InvalidArgumentError("no number");
      ASSIGN_OR_RETURN(const int64_t sum, store.Add(key, amount));
      return absl::StrCat(sum);
    }
    case StoreOperation::kErase: {
      ASSIGN_OR_RETURN(const bool was_there, store.Erase(key));
      return was_there ? std::optional<std::string>("") : std::nullopt;
    }
  }
  return absl::InvalidArgumentError("no such operation");
}

}  // namespace

absl::Status RankTable::Put(absl::string_view key, absl::string_view value) {
  if (key.size() > kMostStoreKeyBytes || value.size() > kMostStoreValueBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a key of ", key.size(), " and a value of ", value.size(),
                     " bytes are beyond what ranks tell one another"));
  }
  const auto found = values_.find(std::string(key));
  if (found != values_.end()) {
    found->second = std::string(value);
    return absl::OkStatus();
  }
  if (values_.size() >= kMostStoreKeys) {
    return absl::ResourceExhaustedError("the ranks' table is full");
  }
  values_.emplace(key, value);
  return absl::OkStatus();
}

absl::Status RankTable::Set(absl::string_view key, absl::string_view value) {
  MutexLock lock(mutex_);
  return Put(key, value);
}

absl::StatusOr<std::optional<std::string>> RankTable::Get(absl::string_view key) {
  MutexLock lock(mutex_);
  const auto found = values_.find(std::string(key));
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

absl::StatusOr<std::string> RankTable::SetIfAbsent(absl::string_view key,
                                                   absl::string_view desired) {
  MutexLock lock(mutex_);
  const auto found = values_.find(std::string(key));
  if (found != values_.end()) return found->second;
  RETURN_IF_ERROR(Put(key, desired));
  return std::string(desired);
}

absl::StatusOr<int64_t> RankTable::Add(absl::string_view key, int64_t amount) {
  MutexLock lock(mutex_);
  const auto found = values_.find(std::string(key));
  int64_t number = 0;
  if (found != values_.end() && !absl::SimpleAtoi(found->second, &number)) {
    return absl::InvalidArgumentError(absl::StrCat("'", key, "' is no number"));
  }
  number = static_cast<int64_t>(static_cast<uint64_t>(number) + static_cast<uint64_t>(amount));
  RETURN_IF_ERROR(Put(key, absl::StrCat(number)));
  return number;
}

absl::StatusOr<bool> RankTable::Erase(absl::string_view key) {
  MutexLock lock(mutex_);
  return values_.erase(std::string(key)) > 0;
}

std::string MakeStoreRequest(StoreOperation operation, absl::string_view key,
                             absl::string_view value) {
  std::string request;
  AppendStoreNumber(static_cast<size_t>(operation), &request);
  AppendStoreNumber(key.size(), &request);
  AppendStoreNumber(value.size(), &request);
  absl::StrAppend(&request, key, value);
  return request;
}

absl::StatusOr<size_t> StoreRequestBody(absl::string_view header) {
  SPILLWAY_CHECK(header.size() == kStoreRequestHeader);
  const uint32_t key = StoreNumberAt(header, 4), value = StoreNumberAt(header, 8);
  if (StoreNumberAt(header, 0) > static_cast<uint32_t>(StoreOperation::kErase) ||
      key > kMostStoreKeyBytes || value > kMostStoreValueBytes) {
    return absl::InvalidArgumentError("no request of a rank");
  }
  return size_t{key} + value;
}

std::string AnswerStoreRequest(absl::string_view request, RankStore& store) {
  const size_t key_bytes = StoreNumberAt(request, 4);
  const absl::string_view body = request.substr(kStoreRequestHeader);
  const auto done = DoStoreRequest(static_cast<StoreOperation>(StoreNumberAt(request, 0)),
                                   body.substr(0, key_bytes), body.substr(key_bytes), store);
  if (!done.ok()) {
    return MakeStoreReply(kHasFailed + static_cast<uint32_t>(done.status().code()),
                          done.status().message());
  }
  return done->has_value() ? MakeStoreReply(kHasText, **done) : MakeStoreReply(kHasNone, "");
}

absl::StatusOr<size_t> StoreReplyBody(absl::string_view header) {
  SPILLWAY_CHECK(header.size() == kStoreReplyHeader);
  const uint32_t bytes = StoreNumberAt(header, 4);
  if (bytes > kMostStoreValueBytes) {
    return absl::DataLossError(absl::StrCat("rank 0 announces an answer of ", bytes, " bytes"));
  }
  return bytes;
}

absl::StatusOr<std::optional<std::string>> ReadStoreReply(absl::string_view reply) {
  const uint32_t outcome = StoreNumberAt(reply, 0);
  const absl::string_view text = reply.substr(kStoreReplyHeader);
  if (outcome == kHasText) return std::string(text);
  if (outcome == kHasNone) return std::nullopt;
  const uint32_t code = outcome - kHasFailed;
  constexpr auto kLastCode = static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  if (code == 0 || code > kLastCode) {
    return absl::DataLossError(absl::StrCat("rank 0 answers with ", outcome, ", which is nothing"));
  }
  return absl::Status(static_cast<absl::StatusCode>(code), text);
}

}  // namespace spillway
