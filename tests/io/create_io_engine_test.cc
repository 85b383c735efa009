// Which engine comes out where io_uring is allowed, refused, or short of rights.
#include "io/create_io_engine.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/io_engine.h"
#include "io/uring_refusal.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = IoEngineOptions::Kind;

// From here on, `system_call` fails with `error` in this process.
bool Refuse(long system_call, int error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(system_call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {.len = 4, .filter = code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Writes and reads 4 MiB through the engine; empty when all is well.
std::string RoundTrip(IoEngine& engine, const std::string& path) {
  auto file = File::Open(path, {.write = true, .create = true});
  if (!file.ok()) return file.status().ToString();
  AlignedMemory expected(4 << 20);
  AlignedMemory memory(4 << 20);
  FillRandom(expected.data(), expected.size(), 1);
  for (const IoOp op : {IoOp::kWrite, IoOp::kRead}) {
    absl::Status result;
    IoRequest request;
    request.op = op;
    request.file = file->get();
    request.data = op == IoOp::kWrite ? expected.data() : memory.data();
    request.size_bytes = memory.size();
    request.context = &result;
    request.done = [](IoRequest& r, const absl::Status& status) {
      *static_cast<absl::Status*>(r.context) = status;
    };
    engine.Submit(&request);
    while (engine.pending() > 0) engine.Poll(absl::Seconds(10));
    if (!result.ok()) return result.ToString();
  }
  return std::memcmp(expected.data(), memory.data(), memory.size()) == 0 ? "" : "other bytes";
}

bool UringIsAllowed() { return CreateIoEngine({.kind = Kind::kUring}).ok(); }

TEST(CreateIoEngine, GivesWhatIsAskedForAndLogsItInOneLine) {
  testing::internal::CaptureStderr();
  const auto threads = CreateIoEngine({.kind = Kind::kThreads, .threads = 3});
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(threads.ok()) << threads.status();
  EXPECT_EQ((*threads)->name(), "threads");
  EXPECT_EQ(log, "I/O engine: 3 threads, 32 blocks of 1024 KiB in flight, as asked for\n");
}

TEST(CreateIoEngine, AutoPrefersUring) {
  if (!UringIsAllowed()) GTEST_SKIP() << "io_uring is refused here";
  testing::internal::CaptureStderr();
  const auto engine = CreateIoEngine({});
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ((*engine)->name(), "io_uring");
  EXPECT_THAT(log, HasSubstr("I/O engine: io_uring ("));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1);
}

TEST(CreateIoEngine, ImpossibleOptionsAreRefused) {
  for (const IoEngineOptions& options : std::vector<IoEngineOptions>{
           {.block_bytes = 0},
           {.block_bytes = 1000},
           {.block_bytes = (1u << 30) + 512},
           {.depth = 0},
           {.depth = 4097},
           {.threads = 0},
           {.threads = 257},
           {.write_window_bytes = 0},
       }) {
    EXPECT_TRUE(absl::IsInvalidArgument(CreateIoEngine(options).status()));
  }
}

// A container's profile may refuse io_uring at any of its three calls.
class Seccomp : public testing::TestWithParam<std::pair<long, int>> {};

TEST_P(Seccomp, AutoFallsBackToThreads) {
  const std::pair<long, int> call = GetParam();
  ScratchDirectory scratch;
  EXPECT_EQ(InChild([&]() -> std::string {
              if (!Refuse(call.first, call.second)) return "no seccomp";
              testing::internal::CaptureStderr();
              auto engine = CreateIoEngine({});
              const std::string log = testing::internal::GetCapturedStderr();
              if (!engine.ok()) return engine.status().ToString();
              if ((*engine)->name() != "threads") return "not the thread engine";
              if (!absl::StrContains(log, "because io_uring is refused: ")) return "log: " + log;
              const std::vector<IoFeatures::Refused> refused = (*engine)->features().refused;
              if (refused.size() != 1 || refused[0].feature != "io_uring" ||
                  !absl::StrContains(log, refused[0].reason)) {
                return "no reason";
              }
              return RoundTrip(**engine, scratch / "data");
            }),
            "");
}

TEST_P(Seccomp, UringIsRefusedWithCauseAndRemedy) {
  const std::pair<long, int> call = GetParam();
  EXPECT_EQ(InChild([&]() -> std::string {
              if (!Refuse(call.first, call.second)) return "no seccomp";
              const absl::Status status = CreateIoEngine({.kind = Kind::kUring}).status();
              if (status.ok()) return "created all the same";
              // A kernel without io_uring at all answers ENOSYS to everything.
              return absl::StrContains(status.message(), "set up io_uring") &&
                             absl::StrContains(status.message(), "seccomp profile") &&
                             absl::StrContains(status.message(), "`--io-engine threads`")
                         ? ""
                         : status.ToString();
            }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Calls, Seccomp,
                         testing::Values(std::pair(long{SYS_io_uring_setup}, EPERM),
                                         std::pair(long{SYS_io_uring_setup}, ENOSYS),
                                         std::pair(long{SYS_io_uring_enter}, EPERM),
                                         std::pair(long{SYS_io_uring_register}, EPERM)));

// Old kernels charge the ring to RLIMIT_MEMLOCK; an ordinary user has 8 MiB.
TEST(CreateIoEngine, WorksForAnOrdinaryUserWithLittleLockedMemory) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const bool uring = UringIsAllowed();
  ScratchDirectory scratch;
  ASSERT_EQ(::chown(scratch.path().c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(InChild([&]() -> std::string {
              const rlimit limit = {.rlim_cur = 8 << 20, .rlim_max = 8 << 20};
              if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "setrlimit failed";
              if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) return "setuid failed";
              auto engine = CreateIoEngine({});
              if (!engine.ok()) return engine.status().ToString();
              const bool got_uring = (*engine)->name() == "io_uring";
              if (uring && !got_uring) return "not io_uring";
              return RoundTrip(**engine, scratch / "data");
            }),
            "");
}

bool Has(const std::vector<std::string>& names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The reason why a feature is missing; empty where it is not.
std::string Missing(const IoEngine& engine, absl::string_view feature) {
  for (const IoFeatures::Refused& refused : engine.features().refused) {
    if (refused.feature == feature) return refused.reason;
  }
  return "";
}

TEST(UringFeatures, MemoryAndFilesAreRegisteredAndLogged) {
  if (!UringIsAllowed()) GTEST_SKIP() << "io_uring is refused here";
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, for whom there is no limit";
  ScratchDirectory scratch;
  auto file = File::Open(scratch / "data", {.write = true, .create = true});
  ASSERT_TRUE(file.ok());
  AlignedMemory memory(16 << 20);
  testing::internal::CaptureStderr();
  const auto engine =
      CreateIoEngine({.memory = {{memory.data(), memory.size()}}, .files = {file->get()}});
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_TRUE(Has((*engine)->features().on, "registered buffers"));
  EXPECT_TRUE(Has((*engine)->features().on, "registered files"));
  EXPECT_THAT(log, AllOf(HasSubstr("registered buffers, registered files)"),
                         ::testing::Not(HasSubstr("without"))));
}

// What runs as an ordinary user who may lock so much memory.
std::string AsNobody(rlim_t memlock_bytes, const ScratchDirectory& scratch,
                     const std::function<std::string()>& body) {
  if (::chown(scratch.path().c_str(), kNobody, kNobody) != 0) return "chown failed";
  return InChild([&]() -> std::string {
    const rlimit limit = {.rlim_cur = memlock_bytes, .rlim_max = memlock_bytes};
    if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "setrlimit failed";
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) return "setuid failed";
    return body();
  });
}

// One rung that breaks leaves the others.
TEST(UringFeatures, TooLittleLockedMemoryLosesRegisteredBuffersAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  if (!UringIsAllowed()) GTEST_SKIP() << "io_uring is refused here";
  ScratchDirectory scratch;
  EXPECT_EQ(AsNobody(8 << 20, scratch,
                     [&]() -> std::string {
                       auto file = File::Open(scratch / "given", {.write = true, .create = true});
                       if (!file.ok()) return file.status().ToString();
                       AlignedMemory memory(32 << 20);
                       testing::internal::CaptureStderr();
                       auto engine = CreateIoEngine({.kind = Kind::kUring,
                                                     .memory = {{memory.data(), memory.size()}},
                                                     .files = {file->get()}});
                       const std::string log = testing::internal::GetCapturedStderr();
                       if (!engine.ok()) return engine.status().ToString();
                       const std::string reason = Missing(**engine, "registered buffers");
                       for (const char* part : {"ENOMEM", "32768 KiB", "ulimit -l", "LimitMEMLOCK",
                                                "docker run --ulimit memlock=-1"}) {
                         if (!absl::StrContains(reason, part)) return "reason: " + reason;
                       }
                       if (!absl::StrContains(log, reason)) return "log: " + log;
                       if (std::count(log.begin(), log.end(), '\n') != 1) return "log: " + log;
                       if (!Has((*engine)->features().on, "registered files")) return "no files";
                       return RoundTrip(**engine, scratch / "data");
                     }),
            "");
}

// Some kernels charge the ring itself: then it is threads, and the log says why.
TEST(UringFeatures, WithoutAnyLockedMemoryItWorksAllTheSame) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  ScratchDirectory scratch;
  EXPECT_EQ(AsNobody(0, scratch,
                     [&]() -> std::string {
                       AlignedMemory memory(4 << 20);
                       testing::internal::CaptureStderr();
                       auto engine = CreateIoEngine({.memory = {{memory.data(), memory.size()}}});
                       const std::string log = testing::internal::GetCapturedStderr();
                       if (!engine.ok()) return engine.status().ToString();
                       if (!absl::StrContains(log, "ulimit -l")) return "log: " + log;
                       return RoundTrip(**engine, scratch / "data");
                     }),
            "");
}

// Where the drive has no poll queues; where it has, there is nothing to fall back from.
TEST(UringFeatures, ADriveThatCannotBePolledIsReadAllTheSame) {
  if (!UringIsAllowed()) GTEST_SKIP() << "io_uring is refused here";
  ScratchDirectory scratch;
  // Not among the files given: found out by the first transfer.
  testing::internal::CaptureStderr();
  const auto engine = CreateIoEngine({.kind = Kind::kUring, .poll = true});
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ(RoundTrip(**engine, scratch / "data"), "");
  const std::string log = testing::internal::GetCapturedStderr();
  const IoFeatures features = (*engine)->features();
  EXPECT_NE(Has(features.on, "IOPOLL"), !Missing(**engine, "IOPOLL").empty());
  if (!Has(features.on, "IOPOLL")) {
    EXPECT_THAT(log, HasSubstr("without IOPOLL: EOPNOTSUPP"));
    EXPECT_THAT(Missing(**engine, "IOPOLL"), HasSubstr("poll queues"));
    EXPECT_EQ(RoundTrip(**engine, scratch / "again"), "");
  }
}

TEST(UringFeatures, SqpollIsOnOrRefusedForAReason) {
  if (!UringIsAllowed()) GTEST_SKIP() << "io_uring is refused here";
  ScratchDirectory scratch;
  const auto engine = CreateIoEngine({.kind = Kind::kUring, .sqpoll = true, .announce = false});
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_NE(Has((*engine)->features().on, "SQPOLL"), !Missing(**engine, "SQPOLL").empty());
  EXPECT_EQ(RoundTrip(**engine, scratch / "data"), "");
}

TEST(UringRefused, FeaturesNameCauseAndRemedy) {
  EXPECT_THAT(UringFeatureRefused(ENOMEM, 64 << 20, 8 << 20),
              AllOf(HasSubstr("65536 KiB"), HasSubstr("now 8192 KiB"), HasSubstr("ulimit -l")));
  EXPECT_THAT(UringFeatureRefused(EPERM, 0, 0), HasSubstr("seccomp"));
  EXPECT_THAT(UringFeatureRefused(EACCES, 0, 0), HasSubstr("EACCES"));
  EXPECT_THAT(UringFeatureRefused(ENOMEM, 1 << 20, RLIM_INFINITY), HasSubstr("now unlimited"));
  EXPECT_THAT(UringFeatureRefused(EOPNOTSUPP, 0, 0), HasSubstr("poll queues"));
  EXPECT_THAT(UringFeatureRefused(EMFILE, 0, 0), HasSubstr("ulimit -n"));
  EXPECT_THAT(UringFeatureRefused(EINVAL, 0, 0), HasSubstr("EINVAL"));
}

TEST(UringRefused, NamesTheLikelyCause) {
  const auto message = [](int error, int disabled, uint64_t memlock) {
    return std::string(UringRefused(error, disabled, memlock).message());
  };
  EXPECT_THAT(message(EPERM, -1, 0), AllOf(HasSubstr("EPERM"), HasSubstr("seccomp")));
  EXPECT_THAT(message(EPERM, 0, 0), HasSubstr("seccomp"));
  EXPECT_THAT(message(EPERM, 1, 0), HasSubstr("kernel.io_uring_group"));
  EXPECT_THAT(message(EPERM, 2, 0), HasSubstr("kernel.io_uring_disabled is 2"));
  EXPECT_THAT(message(ENOSYS, -1, 0), HasSubstr("older than 5.6"));
  EXPECT_THAT(message(ENOMEM, 0, 65536), AllOf(HasSubstr("65536 bytes"), HasSubstr("ulimit -l")));
  EXPECT_THAT(message(EMFILE, 0, 0), HasSubstr("ulimit -n"));
  for (const int error : {EPERM, ENOSYS, ENOMEM, EMFILE, EINVAL}) {
    EXPECT_THAT(message(error, 0, 0), HasSubstr("thread-pool engine"));
  }
  EXPECT_TRUE(absl::IsPermissionDenied(UringRefused(EPERM, 0, 0)));
}

}  // namespace
}  // namespace spillway
