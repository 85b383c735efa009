#include "tests/sim/sim_world.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace spillway {
namespace {

// A seed has some ten thousand events; one with so many goes round in circles.
constexpr uint64_t kMostEvents = 2'000'000;

// The mover polls once after it has answered a call, with nothing under way.
constexpr int kMostWaitsForNothing = 3;

[[noreturn]] void Hang(const char* why) {
  std::fprintf(stderr, "sim: the run hangs: %s\n", why);
  std::fflush(stderr);
  std::abort();
}

}  // namespace

SimWorld::SimWorld(uint64_t seed, bool print_trace)
    : random_(seed), print_trace_(print_trace), job_ticks_(1 + random_.Below(40)) {}

bool SimWorld::Later(const Event& a, const Event& b) {
  return a.time != b.time ? a.time > b.time : a.order > b.order;
}

void SimWorld::After(uint64_t delay, std::function<void()> event) {
  if (order_ >= kMostEvents) Hang("it does not end");
  if (waited_for_nothing_ > 0 && !fibers_.any()) Hang("it went on only because its wait timed out");
  events_.push_back({now_ + delay, order_++, std::move(event)});
  std::push_heap(events_.begin(), events_.end(), Later);
}

void SimWorld::Run(std::function<void()> job) {
  const uint64_t delay = 1 + random_.Below(job_ticks_);
  if (!fibers_.inside()) {
    return After(delay, [this, job = std::move(job)] {
      Trace("job");
      job();
    });
  }
  // It may wait for other processes, whose compute threads wait for this one's.
  After(delay, [this, process = process(), job = std::move(job)]() mutable {
    fibers_.Begin(process, "a job", [this, job = std::move(job)] {
      Trace("job");
      job();
    });
  });
}

void SimWorld::RunUntil(const std::function<bool()>& done) {
  if (fibers_.inside()) return fibers_.Wait("a job", done);
  while (!done()) {
    if (!RunOne()) Hang("it waits for a job, and nothing is under way");
  }
}

bool SimWorld::AwaitEngine(const std::function<bool()>& woken) {
  if (!fibers_.inside()) return RunOne();
  const int before = time_outs_;
  fibers_.Wait("its engine", [this, before, &woken] { return woken() || time_outs_ != before; });
  return time_outs_ == before || woken();
}

void SimWorld::RunFibers() {
  time_outs_ = 0;
  while (fibers_.any()) {
    if (fibers_.RunOne()) continue;
    if (RunOne()) {
      time_outs_ = waited_for_nothing_ = 0;
      continue;
    }
    // Movers that have answered a call look once more whether there is anything to do.
    if (++time_outs_ > kMostWaitsForNothing) Hang(fibers_.Waiting().c_str());
  }
  while (RunOne()) {
  }
}

bool SimWorld::RunOne() {
  if (events_.empty()) return false;
  std::pop_heap(events_.begin(), events_.end(), Later);
  const Event event = std::move(events_.back());
  events_.pop_back();
  now_ = std::max(now_, event.time);
  event.run();
  return true;
}

void SimWorld::PassTime(uint64_t delay) {
  if (fibers_.inside()) {
    bool passed = false;
    After(delay, [&passed] { passed = true; });
    return fibers_.Wait("time to pass", [&passed] { return passed; });
  }
  const uint64_t until = now_ + delay;
  while (!events_.empty() && events_.front().time <= until) RunOne();
  now_ = std::max(now_, until);
}

void SimWorld::NoteWaitingForNothing() {
  if (fibers_.any()) return;  // RunFibers counts
  if (++waited_for_nothing_ > kMostWaitsForNothing) Hang("it waits, and nothing is under way");
}

void SimWorld::Explain(absl::string_view text) const {
  if (!print_trace_) return;
  std::fprintf(stderr, "         %.*s\n", static_cast<int>(text.size()), text.data());
}

void SimWorld::Trace(const char* what, uint64_t a, uint64_t b, uint64_t c) {
  const auto mix = [this](uint64_t value) {
    trace_hash_ = (trace_hash_ ^ value) * 0x9e3779b97f4a7c15u;
    trace_hash_ ^= trace_hash_ >> 29;
  };
  for (const char* p = what; *p != 0; ++p) mix(static_cast<unsigned char>(*p));
  mix(now_);
  mix(static_cast<uint64_t>(process()));
  mix(a);
  mix(b);
  mix(c);
  if (print_trace_) {
    std::fprintf(stderr, "%8" PRIu64 " [%d] %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", now_,
                 process(), what, a, b, c);
  }
}

}  // namespace spillway
