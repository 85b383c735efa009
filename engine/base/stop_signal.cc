#include "engine/base/stop_signal.h"

#include <signal.h>

#include <atomic>

namespace spillway {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGUSR1};
std::atomic<int> g_received{0};
struct sigaction g_previous[3];

void Handle(int signal) { g_received.store(signal, std::memory_order_relaxed); }

}  // namespace

StopSignal::StopSignal() {
  g_received = 0;
  for (int i = 0; i < 3; ++i) {
    struct sigaction action = {};
    action.sa_handler = Handle;
    // The second of a kind finds the default again: a person who insists gets out.
    action.sa_flags = SA_RESETHAND | SA_RESTART;
    sigaction(kSignals[i], &action, &g_previous[i]);
  }
}

StopSignal::~StopSignal() {
  for (int i = 0; i < 3; ++i) sigaction(kSignals[i], &g_previous[i], nullptr);
}

int StopSignal::received() { return g_received.load(std::memory_order_relaxed); }

const char* StopSignal::Name(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
  }
  return "a signal";
}

}  // namespace spillway
