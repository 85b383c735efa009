// The real machine: what is found must be so, whatever it is.
#include "engine/machine/machine_facts.h"

#include <sched.h>
#include <sys/resource.h>

#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

TEST(MachineFacts, AreThoseOfThisMachine) {
  ScratchDirectory scratch;
  const MachineFacts facts = ProbeMachine({scratch.path(), scratch / "missing"});
  EXPECT_THAT(facts.kernel, testing::MatchesRegex("[0-9]+\\.[0-9]+.*"));
  ASSERT_EQ(facts.paths.size(), 2u);
  EXPECT_TRUE(facts.paths[0].writable) << facts.paths[0].status;
  EXPECT_FALSE(facts.paths[1].exists);
  EXPECT_GT(facts.memory_bytes, 0u);
  EXPECT_LE(facts.available_bytes, facts.memory_bytes);
  EXPECT_LT(facts.spendable_bytes, facts.available_bytes);
  EXPECT_GE(facts.cores, facts.cores_allowed);
  EXPECT_GE(facts.cores_allowed, 1);
  EXPECT_EQ(facts.simd, ActiveSimdTarget());
  const bool avx2 = std::count(facts.cpu_features.begin(), facts.cpu_features.end(), "avx2") > 0;
  EXPECT_EQ(avx2, SimdTargetSupported(SimdTarget::kAvx2));
}

TEST(MachineFacts, FollowLimitsAffinityAndLaunchers) {
  EXPECT_EQ(InChild([]() -> std::string {
              const rlimit files = {.rlim_cur = 99, .rlim_max = 199};
              if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return "setrlimit failed";
              cpu_set_t one;
              CPU_ZERO(&one);
              CPU_SET(::sched_getcpu(), &one);
              if (::sched_setaffinity(0, sizeof(one), &one) != 0) return "sched_setaffinity failed";
              ::setenv("WORLD_SIZE", "3", 1);
              const MachineFacts facts = ProbeMachine({});
              if (facts.open_files.soft != 99 || facts.open_files.hard != 199) return "open files";
              if (facts.cores_allowed != 1) return "cores";
              for (const auto& [name, value] : facts.launcher) {
                if (name == "WORLD_SIZE" && value == "3") return "";
              }
              return "launcher";
            }),
            "");
}

}  // namespace
}  // namespace spillway
