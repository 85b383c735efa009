#include "engine/base/stop_signal.h"

#include <signal.h>

#include <atomic>

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGUSR1};
std::atomic<int> g_received{0};
int g_alive = 0;
struct sigaction g_previous[3];
sigset_t g_previous_mask;

void Handle(int signal) { g_received.store(signal, std::memory_order_relaxed); }

}  // namespace

StopSignal::StopSignal() {
  if (g_alive++ > 0) return;
  g_received = 0;
  sigset_t ours;
  sigemptyset(&ours);
  for (int i = 0; i < 3; ++i) {
    struct sigaction action = {};
    action.sa_handler = Handle;
    // The second of a kind finds the default again: a person who insists gets out.
    action.sa_flags = SA_RESETHAND | SA_RESTART;
    sigaction(kSignals[i], &action, &g_previous[i]);
    sigaddset(&ours, kSignals[i]);
  }
  // What has come before is handled now.
  pthread_sigmask(SIG_UNBLOCK, &ours, &g_previous_mask);
}

StopSignal::~StopSignal() {
  if (--g_alive > 0) return;
  pthread_sigmask(SIG_SETMASK, &g_previous_mask, nullptr);
  for (int i = 0; i < 3; ++i) sigaction(kSignals[i], &g_previous[i], nullptr);
  g_received = 0;
}

int StopSignal::received() { return g_received.load(std::memory_order_relaxed); }

absl::Status StopSignal::Check() {
  const int signal = received();
  if (signal == 0) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat("stopped by ", Name(signal)));
}

void StopSignal::Receive(int signal) { Handle(signal); }

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
