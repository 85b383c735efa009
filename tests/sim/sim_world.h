// Time, chance and the trace of a simulated run: everything that happens in it is an
// event here, in an order that the seed decides, on one thread. Of several processes each has lines
// of execution of its own (sim_fibers.h), and waits in them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/strings/string_view.h"
#include "swap/mover/executor.h"
#include "tests/sim/sim_fibers.h"
#include "tests/sim/sim_random.h"

namespace spillway {

class SimWorld final : public Executor {
 public:
  // With `print_trace` every event is a line on stderr.
  SimWorld(uint64_t seed, bool print_trace);

  SimRandom& random() { return random_; }
  // Where the run is of several processes, their lines of execution. A job is one, too, then.
  SimFibers& fibers() { return fibers_; }
  // Whose call this is.
  int process() const { return fibers_.process(); }

  // `event` happens `delay` ticks from now; of two at the same time the first given goes first.
  void After(uint64_t delay, std::function<void()> event);
  // A job of the swap manager: after a random while.
  void Run(std::function<void()> job) override;
  void RunUntil(const std::function<bool()>& done) override;

  // Lets the next event happen. False when there is none.
  bool RunOne();
  // Lets all that is due within `delay` ticks happen. A system call that takes its time
  // does this: what other threads and the devices do meanwhile.
  void PassTime(uint64_t delay);
  bool idle() const { return events_.empty(); }
  // An engine waits for `woken`. False: nothing is under way that could do it.
  bool AwaitEngine(const std::function<bool()>& woken);
  // Outside of fibers: lets all of them run to their ends.
  void RunFibers();

  // Somebody waits and nothing is under way. A real wait ends after a second; who goes on
  // then without having been woken relied on that. It is a stall, and ends the process, as
  // do waiting on and on and events without an end.
  void NoteWaitingForNothing();
  void NoteWoken() { waited_for_nothing_ = 0; }

  void Trace(const char* what, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0);
  // Beside it, for who reads it: what it was done to.
  void Explain(absl::string_view text) const;
  // Of everything traced so far.
  uint64_t trace_hash() const { return trace_hash_; }

 private:
  struct Event {
    uint64_t time;
    uint64_t order;
    std::function<void()> run;
  };
  static bool Later(const Event& a, const Event& b);

  SimRandom random_;
  SimFibers fibers_{&random_};
  const bool print_trace_;
  const uint64_t job_ticks_;
  uint64_t now_ = 0;
  uint64_t order_ = 0;
  std::vector<Event> events_;  // a heap, the next one at the front
  int waited_for_nothing_ = 0;
  int time_outs_ = 0;  // of all engines, since something happened last
  uint64_t trace_hash_ = 14695981039346656037u;
};

}  // namespace spillway
