#include "io/file_lock.h"

#include <fcntl.h>

#include <cerrno>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/unique_fd.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

int NoLocks(int, int) {
  errno = ENOLCK;
  return -1;
}
int Broken(int, int) {
  errno = EBADF;
  return -1;
}

class FileLockTest : public testing::TestWithParam<int (*)(int, int)> {
 protected:
  FileLockTest() { std::ofstream(scratch_ / "lock").put('x'); }
  UniqueFd Open() { return UniqueFd(::open((scratch_ / "lock").c_str(), O_RDWR | O_CLOEXEC)); }
  bool Lock(const UniqueFd& fd, LockKind kind) {
    const auto locked = TryLockFile(fd.get(), kind, "lock", GetParam());
    EXPECT_TRUE(locked.ok()) << locked.status();
    return locked.value_or(false);
  }
  ScratchDirectory scratch_;
};

TEST_P(FileLockTest, OneExclusiveOrSeveralShared) {
  UniqueFd a = Open(), b = Open(), c = Open();
  EXPECT_TRUE(Lock(a, LockKind::kExclusive));
  EXPECT_FALSE(Lock(b, LockKind::kExclusive));
  EXPECT_FALSE(Lock(b, LockKind::kShared));
  a = UniqueFd();
  EXPECT_TRUE(Lock(b, LockKind::kShared));
  EXPECT_TRUE(Lock(c, LockKind::kShared));
  a = Open();
  EXPECT_FALSE(Lock(a, LockKind::kExclusive));
}

TEST_P(FileLockTest, AnotherProcessIsKeptOutUntilTheHolderEnds) {
  UniqueFd a = Open();
  EXPECT_TRUE(Lock(a, LockKind::kExclusive));
  EXPECT_EQ(InChild([&]() -> std::string {
              UniqueFd b = Open();
              return Lock(b, LockKind::kExclusive) ? "it got the lock" : "";
            }),
            "");
  a = UniqueFd();
  UniqueFd b = Open();
  EXPECT_TRUE(Lock(b, LockKind::kExclusive));
}

INSTANTIATE_TEST_SUITE_P(FlockAndItsSubstitute, FileLockTest, testing::Values(::flock, NoLocks));

TEST(FileLock, AnotherErrorIsAnError) {
  ScratchDirectory scratch;
  std::ofstream(scratch / "lock").put('x');
  const UniqueFd fd(::open((scratch / "lock").c_str(), O_RDWR));
  EXPECT_FALSE(TryLockFile(fd.get(), LockKind::kExclusive, "lock", Broken).ok());
  // A descriptor that takes no lock of either kind.
  const UniqueFd reading(::open((scratch / "lock").c_str(), O_RDONLY));
  const auto none = TryLockFile(reading.get(), LockKind::kExclusive, "lock", NoLocks);
  EXPECT_FALSE(none.ok());
  EXPECT_THAT(std::string(none.status().message()), testing::HasSubstr("no locks"));
}

}  // namespace
}  // namespace spillway
