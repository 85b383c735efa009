// A life of the simulated program: open or create, train, evaluate, commit, until it ends.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"
#include "io/own_files.h"
#include "swap/mover/whole_store.h"
#include "swap/store/store_reader.h"
#include "tests/sim/sim_run_internal.h"

namespace spillway {
namespace {

// What a life says when it stops by itself in the middle, as a program told to does.
absl::Status Stopped() { return absl::CancelledError("stopped"); }

}  // namespace

absl::Status SimRun::CreateStore(Life& life) {
  for (const std::string& directory : directories_) {
    RETURN_IF_ERROR(SwapStore::RemoveLeftovers(directory, files_));
  }
  StoreOptions options;
  options.directories = directories_;
  options.files = &files_;
  options.spill = life.plan.spill_room;
  auto store = SwapStore::Create(shape_.Layout(), options);
  if (store.ok()) {
    life.store = *std::move(store);
    return absl::OkStatus();
  }
  if (!disk_.crashed() && !disk_.Names().empty()) {
    Fail(absl::StrCat("a store that could not be made left ", disk_.Names().front()));
  }
  return store.status();
}

// Finds the last commit, or starts anew where there was none.
absl::Status SimRun::OpenStore(Life& life) {
  for (const std::string& name : disk_.Names()) {
    if (IsAtomicWriteLeftover(name)) RETURN_IF_ERROR(files_.Remove(name));
  }
  const SpillRoom& spill = life.plan.spill_room;
  tally_.spilled_gradients += std::count(spill.gradients.begin(), spill.gradients.end(), true) > 0;
  tally_.spilled_inputs += !life.plan.activation_stays.empty();
  CommitRecord record;
  auto store = SwapStore::Open(manifest_path_, /*read_only=*/false, spill, &record, files_);
  if (absl::IsNotFound(store.status())) {
    if (acknowledged_) {
      Fail(absl::StrCat("the commit of step ", acknowledged_->step,
                        " is gone: ", store.status().ToString()));
    }
    under_way_.reset();
    oracle_.emplace(shape_);
    step_ = 0;
    applied_ = 0;
    return CreateStore(life);
  }
  if (!store.ok()) return store.status();
  life.store = *std::move(store);
  ++tally_.resumes;
  if (under_way_ && record.step == under_way_->step) {
    acknowledged_ = std::move(under_way_);
    ++tally_.resumes_in_doubt;
  } else if (!acknowledged_ || record.step != acknowledged_->step) {
    Fail(absl::StrCat(
        "resume found the commit of step ", record.step, ", and ",
        acknowledged_ ? absl::StrCat("that of step ", acknowledged_->step) : std::string("none"),
        " was the last"));
    return Stopped();
  }
  under_way_.reset();
  if (record.engine_state != absl::StrCat("{\"step\":", record.step, "}")) {
    Fail(absl::StrCat("step ", record.step, " came back with the text ", record.engine_state));
  }
  oracle_ = acknowledged_->state;
  step_ = acknowledged_->step;
  applied_ = acknowledged_->applied;
  return absl::OkStatus();
}

// One tile of the commit is read by itself. Its bytes under another generation or in another place
// are not the right bytes.
absl::Status SimRun::CheckTile(const SwapStore& store) {
  const StateLayout& layout = store.layout();
  const int unit = static_cast<int>(random_.Below(layout.num_units()));
  if (layout.NumTiles(unit) == 0) return absl::OkStatus();
  const int tile = static_cast<int>(random_.Below(layout.NumTiles(unit)));
  const std::unique_ptr<char, decltype(&std::free)> buffer(
      static_cast<char*>(std::aligned_alloc(4096, layout.TileBytes(unit, tile))), &std::free);
  RETURN_IF_ERROR(ReadStoreTile(store, unit, tile, 0, shape_.num_planes(), buffer.get()));
  std::vector<char*> planes(shape_.num_planes(), nullptr);
  for (int plane = 0; plane < layout.NumPlanes(unit); ++plane) {
    planes[plane] = buffer.get() + layout.PlaneOffset(unit, tile, plane);
  }
  TileView view;
  view.unit = unit;
  view.tile = tile;
  view.first_parameter = layout.TileBegin(tile);
  view.parameters = layout.TileParameters(unit, tile);
  view.planes = planes.data();
  if (!SimSameTile(view, *oracle_)) {
    Fail(absl::StrCat("unit ", unit, " tile ", tile, ", read by itself, is not the oracle's"));
  }
  ChecksumIdentity other =
      store.PlaneIdentity(unit, tile, 0, store.CurrentGeneration(unit, tile, 0));
  switch (random_.Below(4)) {
    case 0:
      ++other.generation;
      break;
    case 1:
      ++other.tile;
      break;
    case 2:
      ++other.unit;
      break;
    default:
      other.plane = static_cast<uint32_t>(Plane::kMomentum);
      break;
  }
  const uint64_t checksum = Checksum(other, buffer.get(), layout.PlaneBytes(unit, tile, 0));
  if (store.VerifyChecksum(unit, tile, 0, checksum).ok()) {
    Fail("the bytes of one generation and place pass for those of another");
  }
  return absl::OkStatus();
}

absl::Status SimRun::Live(Life& life) {
  RETURN_IF_ERROR(OpenStore(life));
  const bool resumed = step_ > 0;
  auto host = Arena::Create(life.plan.host_arena_bytes, &life.budget, life.gpu.get());
  auto device = life.gpu
                    ? Arena::CreateOn(life.gpu.get(), life.plan.device_arena_bytes, &life.budget)
                    : Arena::Create(life.plan.device_arena_bytes, &life.budget);
  if (!host.ok() || !device.ok()) return absl::InternalError("no memory for the arenas");
  life.host = *std::move(host);
  life.device = *std::move(device);
  auto manager = SwapManager::Create(life.plan, life.store.get(), life.host.get(),
                                     life.device.get(), &life.compute, life.options);
  if (!manager.ok()) return manager.status();
  life.manager = *std::move(manager);
  if (resumed) {
    RETURN_IF_ERROR(CheckTile(*life.store));
    RETURN_IF_ERROR(life.manager->LoadResident());
  } else {
    RETURN_IF_ERROR(life.manager->Initialize(SimFill));
  }
  if (random_.OneIn(3)) RETURN_IF_ERROR(Compare(life));
  return Train(life);
}

// What the mover does while the compute thread computes.
void SimRun::LetItGoOn(Life& life) {
  for (uint64_t turns = random_.Below(6); turns > 0 && !world_.idle(); --turns) {
    life.manager->RunOnce();
  }
}

absl::Status SimRun::RunOps(Life& life, int count, bool train, const FirstRead& first_read) {
  const auto weights = std::make_shared<std::vector<std::vector<uint16_t>>>(oracle_->weights);
  for (int number = 0; number < count; ++number) {
    if (!life.last && random_.OneIn(300)) return Stopped();
    world_.Trace("op", number, train);
    ASSIGN_OR_RETURN(const OpBuffers buffers, life.manager->BeginOp());
    const Op op = {buffers, number, step_, life.salt, train, first_read, weights};
    if (!life.last && random_.OneIn(150)) return GiveUp(life);
    if (life.gpu) {
      LaunchOp(life, op);
    } else {
      CheckWeights(op);
      UseInputs(op);
      for (size_t i = 0; i < buffers.gradients.size(); ++i) {
        AddGradient(op, i);
        LetItGoOn(life);
      }
      LetItGoOn(life);
    }
    if (random_.OneIn(40)) JudgeCommit();
    if (!life.gpu) CheckWeights(op);  // they stay until EndOp
    life.manager->EndOp();
    if (random_.OneIn(4)) LetItGoOn(life);
  }
  return absl::OkStatus();
}

// The operation cannot be done: the state before its step is kept where it is whole.
absl::Status SimRun::GiveUp(Life& life) {
  world_.Trace("give up", step_);
  ASSIGN_OR_RETURN(const bool whole, life.manager->AbandonRunning());
  RETURN_IF_ERROR(life.manager->Flush());
  RETURN_IF_ERROR(life.manager->AwaitCommit());
  if (whole) {
    RETURN_IF_ERROR(Compare(life));
    if (step_ > (acknowledged_ ? acknowledged_->step : 0)) RETURN_IF_ERROR(Commit(life));
    RETURN_IF_ERROR(life.manager->AwaitCommit());
  }
  ++(whole ? tally_.given_up_whole : tally_.given_up_torn);
  return Stopped();
}

// On a device of its own the operation is done later, and so is the next one's beginning.
void SimRun::LaunchOp(Life& life, const Op& op) {
  world_.NoteWoken();  // the compute thread gives the device work without the mover
  const auto launch = [&](std::function<void()> part) {
    life.gpu->Launch(StreamId::kCompute, [part = std::move(part)](void*) {
      part();
      return absl::OkStatus();
    });
  };
  launch([this, op] {
    world_.Trace("device op", op.number, op.step);
    CheckWeights(op);
    UseInputs(op);
  });
  for (size_t i = 0; i < op.buffers.gradients.size(); ++i) {
    launch([this, op, i] { AddGradient(op, i); });
  }
  launch([this, op] { CheckWeights(op); });
}

// Whether these tiles of its i-th unit are (ascending).
bool SimRun::AreTheOracles(const Op& op, size_t i, const std::vector<int>& tiles) const {
  const auto& expected = (*op.weights)[op.buffers.op->weights[i]];
  const auto* found = reinterpret_cast<const uint16_t*>(op.buffers.weights[i]);
  return std::all_of(tiles.begin(), tiles.end(), [&](int tile) {
    const uint64_t begin = tile * shape_.tile_parameters;
    const uint64_t end = std::min<uint64_t>(begin + shape_.tile_parameters, expected.size());
    return std::equal(expected.begin() + begin, expected.begin() + end, found + begin);
  });
}

void SimRun::CheckWeights(const Op& op) {
  const std::vector<int>& units = op.buffers.op->weights;
  for (size_t i = 0; i < units.size(); ++i) {
    std::vector<int> all(shape_.Layout().NumTiles(units[i]));
    std::iota(all.begin(), all.end(), 0);
    const bool part = op.number == 0 && units[i] == op.first_read.unit;
    if (part && !AreTheOracles(op, i, all)) ++tally_.early_begins;
    if (!AreTheOracles(op, i, part ? op.first_read.tiles : all)) {
      Fail(absl::StrCat("operation ", op.number, " after step ", op.step,
                        " computes with wrong weights of unit ", units[i]));
    }
  }
}

void SimRun::AddGradient(const Op& op, size_t i) {
  const auto& weights = (*op.weights)[op.buffers.op->gradients[i]];
  SimAddGradient(op.number, weights.data(), weights.size(), op.buffers.fresh[i],
                 op.buffers.Rounded(i), op.buffers.gradients[i]);
}

// A forward puts something in place of its inputs, which its backward must find.
void SimRun::UseInputs(const Op& op) {
  const OpBuffers& buffers = op.buffers;
  if (!op.train || buffers.inputs == nullptr) return;
  auto* words = reinterpret_cast<uint64_t*>(buffers.inputs);
  for (uint64_t i = 0; i < buffers.inputs_bytes / sizeof(uint64_t); ++i) {
    const uint64_t word =
        (op.salt << 48) ^ (op.step << 24) ^ (static_cast<uint64_t>(buffers.op->unit) << 20) ^ i;
    if (buffers.op->kind == OpKind::kForward) {
      words[i] = word;
    } else if (words[i] != word) {
      Fail(absl::StrCat("the backward of unit ", buffers.op->unit, " after step ", op.step,
                        " computes with other inputs than its forward"));
      return;
    }
  }
}

absl::Status SimRun::Compare(Life& life) {
  return life.manager->ReadState(0, shape_.num_planes(), [&](const TileView& tile) {
    if (!SimSameTile(tile, *oracle_)) {
      Fail(absl::StrCat("unit ", tile.unit, " tile ", tile.tile, " after step ", step_,
                        " is not the oracle's"));
    }
    return absl::OkStatus();
  });
}

// With what its first operation reads of a unit, or nothing of that.
void SimRun::EnqueueTraining(Life& life) {
  life.first_read = {};
  if (!random_.OneIn(3) && life.gpu == nullptr) {
    const std::vector<int>& units = life.schedule.ops.front().weights;
    life.first_read.unit = units[random_.Below(units.size())];
    for (int tile = 0; tile < life.plan.layout.NumTiles(life.first_read.unit); ++tile) {
      if (random_.OneIn(2)) life.first_read.tiles.push_back(tile);
    }
  }
  life.manager->Enqueue(Program::kTrain, life.first_read);
}

absl::Status SimRun::TrainStep(Life& life, bool more) {
  SwapManager& manager = *life.manager;
  const bool deferred = life.update == UpdateMode::kDeferred;
  if (life.enqueued && random_.OneIn(6)) {  // another one in its place, while updates go on
    LetItGoOn(life);
    manager.AbandonQueued();
    life.enqueued = false;
  }
  if (!std::exchange(life.enqueued, false)) EnqueueTraining(life);
  const FirstRead first_read = life.first_read;
  UpdateScalars scalars;
  scalars.step = applied_ + 1;
  if (!deferred) {
    manager.AnnounceUpdate(scalars);
    if (more && !random_.OneIn(4)) {
      EnqueueTraining(life);
      life.enqueued = true;
    }
  }
  RETURN_IF_ERROR(RunOps(life, static_cast<int>(life.schedule.ops.size()), true, first_read));
  if (deferred) {
    scalars.skip = random_.OneIn(5);
    world_.Trace("gradients", scalars.skip);
    ASSIGN_OR_RETURN(const GradientTotal total, manager.AwaitGradients());
    const int measures = scalars.skip ? 0 : life.schedule.measures.all();
    for (int measure = 0; measure < measures; ++measure) {
      RETURN_IF_ERROR(manager.MeasureUpdate(scalars, measure));
    }
    manager.AnnounceUpdate(scalars);
    const double squares = oracle_->Step(life.schedule, scalars.step, scalars.skip);
    if (measures > 0 &&
        !SimMeasuredAll(life.compute.TakeMeasured(), measures, life.plan.layout, *oracle_)) {
      Fail("not all tiles were measured, or not as they are updated");
    }
    if (total.sum_of_squares != squares) Fail("the gradients have another norm");
  } else {
    oracle_->Step(life.schedule, scalars.step, false);
  }
  ++step_;
  ++tally_.steps;
  if (!scalars.skip) ++applied_;
  return absl::OkStatus();
}

absl::Status SimRun::MaybeCommit(Life& life) {
  return random_.OneIn(2) ? Commit(life) : absl::OkStatus();
}

// Begins a commit, which goes on beside what follows.
absl::Status SimRun::Commit(Life& life) {
  // One that was lost costs no other. Was it more than that, the manager says so again.
  const bool lost = !life.manager->AwaitCommit().ok();
  RETURN_IF_ERROR(life.manager->AwaitNoCommit());
  if (lost) under_way_.reset();
  if (under_way_) Fail(absl::StrCat("the commit of step ", under_way_->step, " did not end"));
  world_.Trace("commit", step_);
  under_way_.emplace(SimCommit{step_, applied_, *oracle_});
  return life.manager->StartCommit(manifest_path_, {step_, absl::StrCat("{\"step\":", step_, "}")},
                                   [this] {
                                     world_.Trace("acknowledged", under_way_->step);
                                     acknowledged_ = std::move(under_way_);
                                     under_way_.reset();
                                     ++tally_.commits;
                                   });
}

// Now and then everything comes to rest between two steps.
absl::Status SimRun::RestAWhile(Life& life) {
  if (random_.OneIn(2)) return absl::OkStatus();
  SwapManager& manager = *life.manager;
  if (std::exchange(life.enqueued, false)) manager.AbandonQueued();
  world_.Trace("flush");
  RETURN_IF_ERROR(manager.Flush());
  while (random_.OneIn(3)) {  // begun, and thought better of
    manager.Enqueue(random_.OneIn(2) ? Program::kTrain : Program::kEvaluate);
    LetItGoOn(life);
    manager.AbandonQueued();
  }
  if (random_.OneIn(2)) {
    manager.Enqueue(Program::kEvaluate);
    RETURN_IF_ERROR(RunOps(life, static_cast<int>(shape_.borrows.size()), false));
    ++tally_.evaluations;
  }
  if (random_.OneIn(2)) RETURN_IF_ERROR(Compare(life));
  if (random_.OneIn(2)) RETURN_IF_ERROR(manager.AwaitCommit());
  if (acknowledged_ && !under_way_ && !copied_ && random_.OneIn(8)) {
    RETURN_IF_ERROR(CopyCommit());
  }
  return absl::OkStatus();
}

// The last commit to a store of one slot, which is committed once and then only read.
absl::Status SimRun::CopyCommit() {
  world_.Trace("copy");
  RETURN_IF_ERROR(SwapStore::RemoveLeftovers(kSimCopyDirectory, files_));
  CommitRecord record;
  ASSIGN_OR_RETURN(const std::unique_ptr<SwapStore> from,
                   SwapStore::Open(manifest_path_, /*read_only=*/true, {}, &record, files_));
  StoreOptions options;
  options.directories = {kSimCopyDirectory};
  options.two_slots = false;
  options.files = &files_;
  ASSIGN_OR_RETURN(const std::unique_ptr<SwapStore> to,
                   SwapStore::Create(shape_.Layout(), options));
  RETURN_IF_ERROR(CopyStore(*from, *to));
  RETURN_IF_ERROR(to->Commit(absl::StrCat(kSimCopyDirectory, "/manifest"), record));
  copied_ = acknowledged_;
  return absl::OkStatus();
}

absl::Status SimRun::Train(Life& life) {
  for (int i = 0; i < life.steps; ++i) {
    RETURN_IF_ERROR(TrainStep(life, i + 1 < life.steps));
    if (random_.OneIn(2)) {
      RETURN_IF_ERROR(MaybeCommit(life));
      RETURN_IF_ERROR(RestAWhile(life));
    } else {
      RETURN_IF_ERROR(RestAWhile(life));
      RETURN_IF_ERROR(MaybeCommit(life));
    }
  }
  if (std::exchange(life.enqueued, false)) life.manager->AbandonQueued();
  RETURN_IF_ERROR(life.manager->Flush());
  RETURN_IF_ERROR(Compare(life));
  return life.manager->AwaitCommit();
}

}  // namespace spillway
