#include "engine/ranks/collectives.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/utf8.h"
#include "engine/machine/memory_limits.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr char kBecauseOfRank[] = "stopped because of rank ";
// A code beyond absl's: kResourceExhausted with an exit code of its own (the run does not fit).
constexpr int64_t kDoesNotFit = 256;

constexpr char kNotAnswered[] = " has not answered for ";

}  // namespace

absl::Status AllGather(Collectives& ranks, const void* own, void* all, uint64_t bytes) {
  const std::vector<const char*> send(ranks.size(), static_cast<const char*>(own));
  std::vector<char*> receive;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    receive.push_back(static_cast<char*>(all) + rank * bytes);
  }
  return ranks.Exchange(send, receive, bytes);
}

absl::StatusOr<std::vector<double>> AllGatherNumber(Collectives& ranks, double own) {
  std::vector<double> all(ranks.size());
  RETURN_IF_ERROR(AllGather(ranks, &own, all.data(), sizeof(own)));
  return all;
}

absl::StatusOr<std::vector<int64_t>> AllGatherCount(Collectives& ranks, int64_t own) {
  std::vector<int64_t> all(ranks.size());
  RETURN_IF_ERROR(AllGather(ranks, &own, all.data(), sizeof(own)));
  return all;
}

absl::StatusOr<std::vector<std::string>> AllGatherText(Collectives& ranks, const std::string& own) {
  // Texts are exchanged padded to one length, after an exchange of their own lengths.
  ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, AllGatherCount(ranks, own.size()));
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<std::string> texts(lengths.size());
  if (longest == 0) return texts;
  std::string padded = own;
  padded.resize(longest);
  std::string all(longest * lengths.size(), '\0');
  RETURN_IF_ERROR(AllGather(ranks, padded.data(), all.data(), longest));
  for (size_t rank = 0; rank < lengths.size(); ++rank) {
    texts[rank] = all.substr(rank * longest, lengths[rank]);
  }
  return texts;
}

absl::StatusOr<std::string> FromFirstRank(Collectives& ranks, const std::string& text) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   AllGatherText(ranks, ranks.rank() == 0 ? text : std::string()));
  return texts[0];
}

int64_t CodeForOthers(const absl::Status& status) {
  return ExitCodeOf(status) == 3 ? kDoesNotFit : static_cast<int64_t>(status.code());
}

absl::Status BecauseOf(int rank, int64_t code, const std::string& message) {
  // If two ranks fail at once, the failure that arrives first is reported.
  const std::string clean = AsCleanLine(message);
  const std::string text = absl::StrContains(clean, kBecauseOfRank)
                               ? clean
                               : absl::StrCat(kBecauseOfRank, rank, ": ", clean);
  if (code == kDoesNotFit) return DoesNotFitError(text);
  // The sender has failed even if the code it sent is not valid.
  const bool is_code = code > 0 && code <= static_cast<int64_t>(absl::StatusCode::kUnauthenticated);
  return absl::Status(is_code ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      text);
}

bool IsBecauseOfAnother(const absl::Status& status) {
  return absl::StrContains(status.message(), kBecauseOfRank);
}

absl::Status HasNotAnswered(int rank, double seconds) {
  return absl::DeadlineExceededError(absl::StrCat(
      "rank ", rank, kNotAnswered, seconds,
      " s: it hangs, or its machine is gone (slower on purpose: --collective-timeout)"));
}

int NotAnswering(const absl::Status& status) {
  const absl::string_view message = status.message();
  const size_t said = message.find(kNotAnswered);
  if (!absl::IsDeadlineExceeded(status) || said == absl::string_view::npos) return -1;
  const absl::string_view before = message.substr(0, said);
  int rank = 0;
  return absl::SimpleAtoi(before.substr(before.rfind(' ') + 1), &rank) ? rank : -1;
}

absl::Status Agree(Collectives& ranks, const absl::Status& own) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> codes, AllGatherCount(ranks, CodeForOthers(own)));
  if (std::all_of(codes.begin(), codes.end(), [](int64_t code) { return code == 0; })) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   AllGatherText(ranks, std::string(own.message())));
  int first = -1;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (codes[rank] == 0) continue;
    if (first < 0) first = rank;
    if (absl::StrContains(texts[rank], kBecauseOfRank)) continue;
    first = rank;
    break;
  }
  return first == ranks.rank() ? own : BecauseOf(first, codes[first], texts[first]);
}

}  // namespace spillway
