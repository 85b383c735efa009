#include "tests/sim/sim_seeds.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "io/base/log.h"
#include "tests/sim/sim_run.h"

namespace spillway {
namespace {

// Of the seed that runs, made beforehand: a signal handler may only write.
char replay[256];

void SayReplay() { (void)!write(STDERR_FILENO, replay, std::strlen(replay)); }

extern "C" void SayReplayAndDie(int signal) {
  SayReplay();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  uint64_t value = otherwise;
  if (text == nullptr || absl::SimpleAtoi(text, &value)) return value;
  std::fprintf(stderr, "%s=%s is not a number\n", name, text);
  std::exit(2);
}

}  // namespace

std::string RunSeeds(const char* program, uint64_t first, uint64_t count,
                     const std::function<std::string(uint64_t seed, bool print_trace)>& run) {
  count = FromEnvironment("SPILLWAY_SIM_SEEDS", count);
  if (std::getenv("SPILLWAY_SIM_SEED") != nullptr) {
    first = FromEnvironment("SPILLWAY_SIM_SEED", first);
    count = 1;
  }
  const bool print_trace = FromEnvironment("SPILLWAY_SIM_TRACE", 0) != 0;
  std::signal(SIGABRT, SayReplayAndDie);
  std::string failure;
  for (uint64_t seed = first; seed < first + count && failure.empty(); ++seed) {
    const std::string text = absl::StrCat("seed ", seed, " failed; alone: SPILLWAY_SIM_SEED=", seed,
                                          " SPILLWAY_SIM_TRACE=1 build/release/", program, "\n");
    std::strncpy(replay, text.c_str(), sizeof(replay) - 1);
    failure = run(seed, print_trace);
    if (!failure.empty()) failure = absl::StrCat(text, "  ", failure);
  }
  std::signal(SIGABRT, SIG_DFL);
  return failure;
}

uint64_t SeedsHere(uint64_t all) {
  return std::getenv("SPILLWAY_ALL_SEEDS") != nullptr ? all : all / 4;
}

uint64_t FreshSeed() {
  std::random_device device;
  // Short enough to be typed.
  return 1'000'000'000 + device() % 1'000'000'000;
}

std::string RunSimSeeds(uint64_t first, uint64_t count) {
  SetLogLevel(LogLevel::kError);
  return RunSeeds(
      "spillway_sim_test --gtest_filter=*Sim.Seeds/0", first, count,
      [](uint64_t seed, bool print_trace) { return RunSimSeed(seed, print_trace).failure; });
}

}  // namespace spillway
