#include "tests/sim/sim_fibers.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "tests/sanitizers.h"

#if SPILLWAY_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

namespace spillway {
namespace {

constexpr size_t kStackBytes = 512 << 10;

// What the address sanitizer must be told: which stack comes, and which it was.
void StartSwitch([[maybe_unused]] void** save, [[maybe_unused]] const void* stack,
                 [[maybe_unused]] size_t bytes) {
#if SPILLWAY_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(save, stack, bytes);
#endif
}

void FinishSwitch([[maybe_unused]] void* saved, [[maybe_unused]] const void** from,
                  [[maybe_unused]] size_t* from_bytes) {
#if SPILLWAY_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(saved, from, from_bytes);
#endif
}

}  // namespace

SimFibers::~SimFibers() { SPILLWAY_CHECK(fibers_.empty()); }

void SimFibers::Begin(int process, const char* name, std::function<void()> run) {
  auto fiber = std::make_unique<Fiber>();
  fiber->process = process;
  fiber->name = name;
  fiber->run = std::move(run);
  if (stacks_.empty()) {
    fiber->stack = std::make_unique<char[]>(kStackBytes);
  } else {
    fiber->stack = std::move(stacks_.back());
    stacks_.pop_back();
  }
  fibers_.push_back(std::move(fiber));
}

// makecontext hands on ints alone.
void SimFibers::Enter(unsigned high, unsigned low) {
  auto* const fibers =
      reinterpret_cast<SimFibers*>((static_cast<uintptr_t>(high) << 32) | uintptr_t{low});
  FinishSwitch(nullptr, &fibers->outside_stack_, &fibers->outside_stack_bytes_);
  Fiber* const fiber = fibers->current_;
  fiber->run();
  fiber->run = nullptr;
  fiber->ended = true;
  fibers->SwitchBack();
}

void SimFibers::SwitchTo(Fiber* fiber) {
  current_ = fiber;
  if (!std::exchange(fiber->begun, true)) {
    SPILLWAY_CHECK(::getcontext(&fiber->context) == 0);
    fiber->context.uc_stack.ss_sp = fiber->stack.get();
    fiber->context.uc_stack.ss_size = kStackBytes;
    fiber->context.uc_link = nullptr;
    const auto self = reinterpret_cast<uintptr_t>(this);
    ::makecontext(&fiber->context, reinterpret_cast<void (*)()>(&Enter), 2,
                  static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  }
  StartSwitch(&outside_fake_stack_, fiber->stack.get(), kStackBytes);
  SPILLWAY_CHECK(::swapcontext(&outside_, &fiber->context) == 0);
  FinishSwitch(outside_fake_stack_, nullptr, nullptr);
  current_ = nullptr;
}

void SimFibers::SwitchBack() {
  Fiber* const fiber = current_;
  StartSwitch(fiber->ended ? nullptr : &fiber->fake_stack, outside_stack_, outside_stack_bytes_);
  SPILLWAY_CHECK(::swapcontext(&fiber->context, &outside_) == 0);
  FinishSwitch(fiber->fake_stack, &outside_stack_, &outside_stack_bytes_);
}

void SimFibers::Wait(const char* what, std::function<bool()> ready) {
  SPILLWAY_CHECK(inside());
  if (ready()) return;
  current_->waits_for = what;
  current_->ready = std::move(ready);
  SwitchBack();
}

bool SimFibers::RunOne() {
  SPILLWAY_CHECK(!inside());
  std::vector<size_t> ready;
  for (size_t i = 0; i < fibers_.size(); ++i) {
    if (fibers_[i]->ready == nullptr || fibers_[i]->ready()) ready.push_back(i);
  }
  if (ready.empty()) return false;
  const size_t chosen = ready[ready.size() == 1 ? 0 : random_.Below(ready.size())];
  Fiber* const fiber = fibers_[chosen].get();
  fiber->ready = nullptr;
  SwitchTo(fiber);
  if (!fiber->ended) return true;
  stacks_.push_back(std::move(fiber->stack));
  std::erase_if(fibers_, [&](const auto& one) { return one.get() == fiber; });
  return true;
}

std::string SimFibers::Waiting() const {
  std::string text;
  for (const auto& fiber : fibers_) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", fiber->name, " of process ", fiber->process,
                    " for ", fiber->waits_for);
  }
  return text;
}

}  // namespace spillway
