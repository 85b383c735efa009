#include "engine/machine/process_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/machine/memory_limits.h"
#include "gtest/gtest.h"
#include "tests/io/io_testing.h"
#include "tests/sanitizers.h"

namespace spillway {
namespace {

// "", or what is missing of a refusal with exit code 2.
std::string Refuses(const absl::Status& status, std::initializer_list<const char*> words) {
  if (ExitCodeOf(status) != 2) return absl::StrCat("not refused: ", status.ToString());
  for (const char* word : words) {
    if (!absl::StrContains(status.message(), word)) {
      return absl::StrCat("without ", word, ": ", status.message());
    }
  }
  return "";
}

// To what is mapped now, and so many more.
void LimitAddresses(uint64_t more_bytes) {
  constexpr uint64_t kAmple = uint64_t{1} << 46;
  rlimit limit = {kAmple, RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = kAmple - SpareAddressBytes() + more_bytes;
  ::setrlimit(RLIMIT_AS, &limit);
}

TEST(ProcessLimits, NothingIsRefusedWhereNothingLimits) {
  EXPECT_EQ(SpareAddressBytes(), UINT64_MAX);
  EXPECT_TRUE(CheckAddressesForLibrary().ok());
  EXPECT_TRUE(CheckLimitsForCompute(8, uint64_t{1} << 50).ok());
}

TEST(ProcessLimits, AddressesAreAskedForBeforeTheyAreTaken) {
  if (kAddressSanitizer || kThreadSanitizer) return;  // they take all addresses there are
  EXPECT_EQ(InChild([]() -> std::string {
              LimitAddresses(uint64_t{1} << 30);
              if (SpareAddressBytes() > uint64_t{1} << 30) return "more than are left";
              if (SpareAddressBytes() < AvailableMemoryBytes()) return "more than can be mapped";
              if (!CheckAddressesForLibrary().ok()) return "a GiB is enough for libraries";
              if (!CheckLimitsForCompute(2, 0).ok()) return "and for threads";
              return Refuses(CheckLimitsForCompute(2, uint64_t{1} << 30),
                             {"`ulimit -v`", "1 GiB", "budgets of", "set it to at least"});
            }),
            "");
  EXPECT_EQ(
      InChild([]() -> std::string {
        LimitAddresses(uint64_t{400} << 20);
        return Refuses(CheckAddressesForLibrary(), {"`ulimit -v`", "400 MiB are left", "LibTorch"});
      }),
      "");
}

TEST(ProcessLimits, ThreadsAreStartedOnceToSeeThatTheyCanBe) {
  EXPECT_EQ(InChild([]() -> std::string {
              const rlimit limit = {4, 4};  // of all processes of a user, and it does not bind root
              constexpr uid_t kNobody = 65534;
              if (::setrlimit(RLIMIT_NPROC, &limit) != 0) return "no limit was set";
              if (::geteuid() == 0 && ::setuid(kNobody) != 0) return "still root";
              return Refuses(CheckLimitsForCompute(4, 0),
                             {"threads", "`ulimit -u` (4 now", "pids.max", "--threads"});
            }),
            "");
}

}  // namespace
}  // namespace spillway
