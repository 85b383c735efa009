// Lines of execution on one thread, each with a stack of its own: what ranks, and jobs of theirs
// that wait for other ranks, are in a simulation. Who goes on is the world's to choose.
#pragma once

#include <ucontext.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/sim_random.h"

namespace spillway {

class SimFibers {
 public:
  explicit SimFibers(SimRandom* random) : random_(*random) {}
  ~SimFibers();
  SimFibers(const SimFibers&) = delete;
  SimFibers& operator=(const SimFibers&) = delete;

  // `run` begins when RunOne chooses it. `process`: whose it is. `name` for reports.
  void Begin(int process, const char* name, std::function<void()> run);

  // Whether the caller is one; then which process it is of, else 0.
  bool inside() const { return current_ != nullptr; }
  int process() const { return current_ != nullptr ? current_->process : 0; }

  // Lets others go on until `ready`, which is asked again after everything that happens.
  // REQUIRES: inside.
  void Wait(const char* what, std::function<bool()> ready);

  // Outside: lets one of those that can go on do so, until it waits or ends. False: none can.
  bool RunOne();
  bool any() const { return !fibers_.empty(); }
  // What those that are there wait for.
  std::string Waiting() const;

 private:
  struct Fiber {
    int process = 0;
    const char* name = "";
    const char* waits_for = "its turn";
    std::function<void()> run;
    std::function<bool()> ready;
    std::unique_ptr<char[]> stack;
    ucontext_t context = {};
    bool begun = false;
    bool ended = false;
    void* fake_stack = nullptr;  // of the address sanitizer
  };
  static void Enter(unsigned high, unsigned low);
  void SwitchTo(Fiber* fiber);
  void SwitchBack();

  SimRandom& random_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::unique_ptr<char[]>> stacks_;  // to be used again
  Fiber* current_ = nullptr;
  ucontext_t outside_ = {};
  void* outside_fake_stack_ = nullptr;
  const void* outside_stack_ = nullptr;
  size_t outside_stack_bytes_ = 0;
};

}  // namespace spillway
