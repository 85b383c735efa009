#include "engine/machine/probe_uring.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

TEST(ProbeUring, NamesTheFlagsWhereItWorks) {
  const UringFacts facts = ProbeUring();
  if (!facts.status.ok()) GTEST_SKIP() << "io_uring is refused here";
  EXPECT_FALSE(facts.flags.empty());
  EXPECT_GT(facts.registered_bytes, 0u);
}

TEST(ProbeUring, FindsThatSeccompRefuses) {
  EXPECT_EQ(InChild([]() -> std::string {
              sock_filter code[] = {
                  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
              };
              const sock_fprog program = {.len = 4, .filter = code};
              if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
                  ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
                return "no seccomp";
              }
              const UringFacts facts = ProbeUring();
              return absl::StrContains(facts.status.message(), "EPERM") ? "" : "allowed";
            }),
            "");
}

// Fixed buffers count against the limit of locked memory; root's do not.
TEST(ProbeUring, FindsThatLockedMemoryIsTooLittle) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  if (!ProbeUring().status.ok()) GTEST_SKIP() << "io_uring is refused here";
  EXPECT_EQ(InChild([]() -> std::string {
              const rlimit limit = {.rlim_cur = 8 << 20, .rlim_max = 8 << 20};
              if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "setrlimit failed";
              if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) return "setuid failed";
              const UringFacts facts = ProbeUring();
              if (!facts.status.ok()) return facts.status.ToString();
              return facts.register_error == ENOMEM ? "" : std::to_string(facts.register_error);
            }),
            "");
  EXPECT_EQ(ProbeUring().register_error, 0);
}

}  // namespace
}  // namespace spillway
