// Each in a child, whose signals are its own.
#include "engine/base/stop_signal.h"

#include <csignal>
#include <string>

#include "gtest/gtest.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

TEST(StopSignal, WhatCameWhileItWasHeldBackIsTaken) {
  EXPECT_EQ(InChild([]() -> std::string {
              sigset_t held, after;
              sigemptyset(&held);
              sigaddset(&held, SIGTERM);
              sigprocmask(SIG_BLOCK, &held, nullptr);
              raise(SIGTERM);
              std::string said;
              {
                const StopSignal signals;
                if (StopSignal::received() != SIGTERM) return "not received";
                const absl::Status status = StopSignal::Check();
                if (!absl::IsCancelled(status)) return "not cancelled";
                said = std::string(status.message());
              }
              sigprocmask(SIG_SETMASK, nullptr, &after);
              return sigismember(&after, SIGTERM) != 0 ? said : "held back no more";
            }),
            "stopped by SIGTERM");
}

TEST(StopSignal, OneInsideAnotherChangesNothing) {
  EXPECT_EQ(InChild([]() -> std::string {
              const StopSignal outer;
              if (!StopSignal::Check().ok()) return "before any came";
              raise(SIGUSR1);
              {
                const StopSignal inner;
                if (StopSignal::received() != SIGUSR1) return "forgotten";
              }
              raise(SIGINT);  // which would end the process
              return StopSignal::Name(StopSignal::received());
            }),
            "SIGINT");
}

TEST(StopSignal, OfAnotherRankItIsAsIfItHadComeHere) {
  EXPECT_EQ(InChild([]() -> std::string {
              const StopSignal signals;
              StopSignal::Receive(SIGUSR1);
              return std::string(StopSignal::Check().message());
            }),
            "stopped by SIGUSR1");
}

}  // namespace
}  // namespace spillway
