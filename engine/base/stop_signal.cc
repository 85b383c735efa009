#include "engine/base/stop_signal.h"

#include <signal.h>

#include <atomic>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "io/base/clock.h"

namespace spillway {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
std::atomic<int> g_received{0};
int g_alive = 0;
struct sigaction g_previous[std::size(kSignals)];  // of the handled signals, by their index
std::vector<int> g_handled;
sigset_t g_previous_mask;

void Handle(int signal) { g_received.store(signal, std::memory_order_relaxed); }

bool IsIgnored(int signal) {
  struct sigaction now = {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

std::vector<int> StopSignal::Handled() {
  std::vector<int> handled(std::begin(kSignals), std::end(kSignals));
  std::erase_if(handled, [](int signal) { return signal == SIGHUP && IsIgnored(signal); });
  return handled;
}

StopSignal::StopSignal() {
  if (g_alive++ > 0) return;
  g_received = 0;
  g_handled = Handled();
  sigset_t ours;
  sigemptyset(&ours);
  for (size_t i = 0; i < g_handled.size(); ++i) {
    const int signal = g_handled[i];
    struct sigaction action = {};
    action.sa_handler = Handle;
    // A second signal of a kind meets the default action, so that a person can end the process.
    action.sa_flags = SA_RESTART | (signal == SIGHUP ? 0 : static_cast<int>(SA_RESETHAND));
    sigaction(signal, &action, &g_previous[i]);
    sigaddset(&ours, signal);
  }
  // Delivers signals that arrived before.
  pthread_sigmask(SIG_UNBLOCK, &ours, &g_previous_mask);
}

StopSignal::~StopSignal() {
  if (--g_alive > 0) return;
  pthread_sigmask(SIG_SETMASK, &g_previous_mask, nullptr);
  for (size_t i = 0; i < g_handled.size(); ++i) sigaction(g_handled[i], &g_previous[i], nullptr);
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
    case SIGHUP:
      return "SIGHUP";
  }
  return "a signal";
}

bool StopPatience::Ends() {
  if (StopSignal::received() == 0) return false;
  const double now = MonotonicSeconds();
  if (seen_at_ == 0) seen_at_ = now;
  return now - seen_at_ >= seconds;
}

}  // namespace spillway
