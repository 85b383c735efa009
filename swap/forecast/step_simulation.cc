#include "swap/forecast/step_simulation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "io/base/check.h"
#include "swap/device/arena.h"
#include "swap/forecast/virtual_device.h"
#include "swap/forecast/virtual_disk.h"
#include "swap/forecast/virtual_machine.h"
#include "swap/forecast/virtual_workers.h"
#include "swap/mover/mover.h"
#include "swap/plan/phase_traffic.h"
#include "swap/plan/planner.h"
#include "swap/store/swap_store.h"

namespace spillway {
namespace {

constexpr int kSteps = 3;  // the last one counts
// A plan with more tiles has as many taken together as bring it below.
constexpr int kMostTilesApart = 1200;
// Under way at once all the same, where the plan has them: a tile waits for a read, a worker and a
// write in turn.
constexpr int kFewestBuffers = 6;
// More than the mover reads of a separate device's statistics, which it finds as they were: zero.
constexpr uint64_t kArenaBytes = kMaxDeviceTiles * kPartialBytes;

// The plan in larger tiles. Of its addresses only those of buffers matter, which overlap as ever.
SwapPlan InLargerTiles(SwapPlan plan) {
  int tiles = 0;
  for (int unit = 0; unit < plan.layout.num_units(); ++unit) tiles += plan.layout.NumTiles(unit);
  const int together = (tiles + kMostTilesApart - 1) / kMostTilesApart;
  if (together > 1) {
    plan.layout = StateLayout(plan.layout.units(), plan.layout.planes(),
                              plan.layout.gradient_bytes_per_parameter(),
                              plan.layout.tile_parameters() * together);
    const auto fewer = [&](auto& spans) {
      const int count = static_cast<int>(spans.size());
      spans.resize(std::max(std::min(count, kFewestBuffers), count / together));
    };
    fewer(plan.tile_spans);
    fewer(plan.stage_spans);
    fewer(plan.device_tile_spans);
    plan.tile_buffers = static_cast<int>(plan.tile_spans.size());
    int left = 0;
    for (TurnStay& stay : plan.turn_stays) {
      left += stay.tiles;
      stay.tiles = left / together;
      left %= together;
    }
  }
  plan.partials_span.offset = 0;
  plan.host_arena_bytes = plan.device_arena_bytes = kArenaBytes;
  return plan;
}

// The callers of a swap manager: the compute thread and, with several ranks, the exchange thread.
class Simulation {
 public:
  // Both outlive it.
  Simulation(const SwapPlan& plan, const StepClock& clock);

  SimulatedStep Run();

 private:
  int ops() const { return static_cast<int>(plan_.schedule.ops.size()); }
  int computations() const { return static_cast<int>(clock_.collective->computations.size()); }
  // Operations that are computed up to the loss.
  int ForwardComputations() const;
  void BeginStep();
  void Enqueue();
  // Asks for the next operation, when what it waits for is behind.
  void NextOp();
  void Granted();
  void OpEnds();
  void StepEnds();
  void Measure(int measure);
  void BeginNext();
  void Announce();
  void NextComputation();
  void NoteComputed();

  const SwapPlan plan_;
  const StepClock& clock_;
  VirtualMachine machine_;
  VirtualWorkers workers_;
  VirtualDevice device_;
  MemoryBudget budget_;
  std::unique_ptr<SwapStore> store_;
  std::unique_ptr<Arena> host_arena_, device_arena_;
  std::unique_ptr<Mover> mover_;

  OpBuffers buffers_;
  GradientTotal total_;
  UpdateScalars scalars_;
  int step_ = 0;
  int next_op_ = 0;     // in the line of all steps' ops: asked for, or waiting for that
  bool asked_ = false;  // for it
  int ops_behind_ = 0;
  int computed_ = 0;        // in the line of all steps' computations, which are the ops of one rank
  bool computing_ = false;  // with several ranks
  double forward_end_ = 0;
  VirtualMachine::Seconds before_;
  bool ended_ = false;
};

Simulation::Simulation(const SwapPlan& plan, const StepClock& clock)
    : plan_(InLargerTiles(plan)),
      clock_(clock),
      machine_(clock),
      workers_(plan_, clock, &machine_),
      device_(plan_, clock, &machine_),
      budget_("forecast", 2 * kArenaBytes) {
  SPILLWAY_CHECK((clock.collective ? clock.collective->seconds : clock.op_seconds).size() ==
                 plan.schedule.ops.size());
  if (plan_.any_nvme()) store_ = SwapStore::WithoutFiles(plan_.layout, plan_.spill_room);
  auto host = Arena::Create(kArenaBytes, &budget_);
  auto device = plan_.separate_device ? Arena::CreateOn(&device_, kArenaBytes, &budget_)
                                      : Arena::Create(kArenaBytes, &budget_);
  SPILLWAY_CHECK(host.ok() && device.ok());  // two pages
  host_arena_ = *std::move(host);
  device_arena_ = *std::move(device);
  SwapManagerOptions options;
  options.workers = machine_.workers();
  options.executor = &workers_;
  if (plan_.separate_device) options.device = &device_;
  if (clock.collective) options.ops_stream = StreamId::kExchange;
  mover_ = std::make_unique<Mover>(plan_, store_.get(), host_arena_.get(), device_arena_.get(),
                                   &device_.compute(), options,
                                   std::make_unique<VirtualDisk>(&machine_));
}

int Simulation::ForwardComputations() const {
  if (clock_.collective) {
    const auto& all = clock_.collective->computations;
    return static_cast<int>(
        std::count_if(all.begin(), all.end(), [](const auto& each) { return each.forward; }));
  }
  const auto& all = plan_.schedule.ops;
  return static_cast<int>(std::find_if(all.begin(), all.end(),
                                       [](const StepOp& op) { return op.kind == OpKind::kLoss; }) -
                          all.begin());
}

void Simulation::Announce() {
  ++scalars_.step;
  mover_->passes().Announce(scalars_);
}

void Simulation::BeginStep() {
  if (step_ == 0) Enqueue();
  if (plan_.schedule.update == UpdateMode::kImmediate) {
    Announce();
    Enqueue();  // its first fetches overlap this step's end
  } else if (step_ > 0) {
    Enqueue();
  }
  NextOp();
}

// The part of its unit that the first operation reads is spread evenly over the tiles.
void Simulation::Enqueue() {
  FirstRead first_read;
  if (clock_.first_read_share < 1) {
    first_read.unit = plan_.schedule.ops.front().unit;
    const int64_t tiles = plan_.layout.NumTiles(first_read.unit);
    const auto read = static_cast<int64_t>(std::ceil(clock_.first_read_share * tiles));
    for (int64_t i = 0; i < read; ++i) {
      first_read.tiles.push_back(static_cast<int>(i * tiles / read));
    }
  }
  mover_->gate().Enqueue(Program::kTrain, std::move(first_read));
}

void Simulation::NextOp() {
  if (asked_ || ended_ || next_op_ == (step_ + 1) * ops()) return;
  if (clock_.collective) {
    NextComputation();
    const int after = clock_.collective->after[next_op_ % ops()];
    if (computed_ < step_ * computations() + after) return;
  }
  asked_ = true;
  buffers_ = {};
  mover_->gate().Request(&buffers_, [this](const absl::Status& status) {
    SPILLWAY_CHECK(status.ok());
    mover_->thread().Post([this] { Granted(); });
  });
}

void Simulation::Granted() {
  const int index = next_op_++ % ops();
  const StepOp& op = plan_.schedule.ops[index];
  if (!plan_.separate_device) {
    if (clock_.collective) {
      return machine_.Begin(VirtualMachine::kExchange, clock_.collective->seconds[index],
                            [this] { OpEnds(); });
    }
    return machine_.Begin(VirtualMachine::kCompute, clock_.op_seconds[index], [this] {
      NoteComputed();
      OpEnds();
    });
  }
  if (clock_.collective) {
    device_.Occupy(StreamId::kExchange, VirtualMachine::kExchange,
                   clock_.collective->seconds[index]);
    return device_.Notify(StreamId::kExchange, [this](const absl::Status&) {
      mover_->thread().Post([this] { OpEnds(); });
    });
  }
  // First what it copies of its inputs; and all of that later, while the next one is asked for.
  const double input = static_cast<double>(InputCopyBytes(plan_, op.unit));
  if (input > 0 && op.kind == OpKind::kForward) {
    device_.Occupy(StreamId::kCompute, VirtualMachine::kInputToHost,
                   clock_.link.SecondsToHost(input));
  } else if (input > 0 && op.kind == OpKind::kBackward) {
    device_.Occupy(StreamId::kCompute, VirtualMachine::kInputToDevice,
                   clock_.link.SecondsToDevice(input));
  }
  device_.Occupy(StreamId::kCompute, VirtualMachine::kCompute, clock_.op_seconds[index]);
  device_.Notify(StreamId::kCompute, [this](const absl::Status&) {
    NoteComputed();
    ++ops_behind_;
    if (ops_behind_ == (step_ + 1) * ops()) mover_->thread().Post([this] { StepEnds(); });
  });
  mover_->gate().Finish();
  asked_ = false;
  NextOp();
}

// On the device of one rank they end before.
void Simulation::OpEnds() {
  mover_->gate().Finish();
  asked_ = false;
  ++ops_behind_;
  if (ops_behind_ == (step_ + 1) * ops()) return StepEnds();
  NextOp();
}

void Simulation::NoteComputed() {
  if (++computed_ !=
      (kSteps - 1) * (clock_.collective ? computations() : ops()) + ForwardComputations()) {
    return;
  }
  forward_end_ = machine_.seconds().now;
}

void Simulation::NextComputation() {
  if (computing_ || computed_ == kSteps * computations()) return;
  const auto& next = clock_.collective->computations[computed_ % computations()];
  if (ops_behind_ < computed_ / computations() * ops() + next.needs_ops) return;
  computing_ = true;
  machine_.Begin(VirtualMachine::kCompute, next.seconds, [this] {
    computing_ = false;
    NoteComputed();
    NextOp();
    NextComputation();
  });
}

void Simulation::StepEnds() {
  if (++step_ == kSteps - 1) before_ = machine_.seconds();
  if (step_ == kSteps) {
    ended_ = true;
    return;
  }
  if (plan_.schedule.update == UpdateMode::kImmediate) return BeginStep();
  mover_->passes().AwaitGradients(&total_, [this](const absl::Status& status) {
    SPILLWAY_CHECK(status.ok());
    mover_->thread().Post([this] { Measure(0); });
  });
}

void Simulation::Measure(int measure) {
  if (measure == plan_.schedule.measures.all()) return BeginNext();
  mover_->passes().Measure(scalars_, measure, [this, measure](const absl::Status& status) {
    SPILLWAY_CHECK(status.ok());
    mover_->thread().Post([this, measure] { Measure(measure + 1); });
  });
}

// The step whose gradients have come is updated beside the one that begins.
void Simulation::BeginNext() {
  Announce();
  BeginStep();
}

SimulatedStep Simulation::Run() {
  BeginStep();
  while (!ended_) mover_->RunOnce();
  const VirtualMachine::Seconds& now = machine_.seconds();
  SimulatedStep step;
  step.seconds = now.now - before_.now;
  step.forward_seconds = std::max(0.0, forward_end_ - before_.now);
  step.disk_seconds = now.disk - before_.disk;
  step.copy_seconds = now.link - before_.link;
  step.collective_seconds = now.exchange - before_.exchange;
  step.stall_seconds = now.stalled - before_.stalled;
  return step;
}

}  // namespace

SimulatedStep SimulateStep(const SwapPlan& plan, const StepClock& clock) {
  return Simulation(plan, clock).Run();
}

absl::StatusOr<SwapPlan> PlanByClock(const PlanRequest& request) {
  return PlanSwaps(request, nullptr, nullptr, [](const SwapPlan& plan, const StepClock& clock) {
    return SimulateStep(plan, clock).seconds;
  });
}

}  // namespace spillway
