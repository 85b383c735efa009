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

TEST(StopSignal, ATerminalMayHangUpMoreThanOnce) {
  EXPECT_EQ(InChild([]() -> std::string {
              signal(SIGHUP, SIG_DFL);
              {
                const StopSignal signals;
                raise(SIGHUP);
                raise(SIGHUP);
                if (StopSignal::received() != SIGHUP) return "not received";
                if (StopSignal::Handled().back() != SIGHUP) return "not handled";
              }
              struct sigaction after = {};
              sigaction(SIGHUP, nullptr, &after);
              return after.sa_handler == SIG_DFL ? "as before" : "not given back";
            }),
            "as before");
}

TEST(StopSignal, UnderNohupAHangUpStaysIgnored) {
  EXPECT_EQ(InChild([]() -> std::string {
              signal(SIGHUP, SIG_IGN);
              const StopSignal signals;
              raise(SIGHUP);
              if (StopSignal::received() != 0) return "received";
              for (const int signal : StopSignal::Handled()) {
                if (signal == SIGHUP) return "handled";
              }
              raise(SIGTERM);
              return StopSignal::Name(StopSignal::received());
            }),
            "SIGTERM");
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
