#include "engine/tuning/null_steps.h"

#include <future>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/base/thread_name.h"
#include "swap/mover/executor.h"
#include "swap/mover/worker_pool.h"
#include "swap/plan/planner.h"

namespace spillway {

PlanRequest LayersRequest(UpdateMode update, int layers, uint64_t layer_parameters,
                          uint64_t tile_parameters) {
  PlanRequest request;
  std::vector<UnitLayout> units = {{"embedding", layer_parameters}};
  ScheduleModel model{{{}}};
  for (int i = 0; i < layers; ++i) {
    units.push_back({absl::StrCat("h.", i), layer_parameters});
    model.borrows.push_back({});
  }
  units.push_back({"head", 2048});
  model.borrows.push_back({0});
  request.layout = StateLayout(
      std::move(units),
      {{Plane::kWeight, 2}, {Plane::kResidual, 2}, {Plane::kExpAvg, 4}, {Plane::kExpAvgSq, 4}}, 2,
      tile_parameters);
  request.schedule = BuildTrainSchedule(model, update);
  request.weights = request.optimizer = TierChoice::kNvme;
  request.has_storage = true;
  request.host_bytes = request.device_bytes = uint64_t{1} << 40;
  return request;
}

// Arithmetic that maps zeros to zeros.
class NullSteps::Arithmetic final : public TileCompute {
 public:
  GradientPartial Round(int, int, uint64_t, const float*, void*) override { return {}; }
  GradientPartial Learn(int, int, uint64_t, const void*) override { return {}; }
  absl::Status Update(const TileView&, const UpdateScalars&) override { return absl::OkStatus(); }
};

// Threads that accept and complete jobs as a manager's own do, but ignore the bytes.
class NullSteps::IdleWorkers final : public Executor {
 public:
  explicit IdleWorkers(int threads) : pool_(threads) {}
  // Jobs before this call are run, so that the first state is made and recorded in the store.
  void BeIdle() { idle_ = true; }
  double busy_seconds() const { return pool_.busy_seconds(); }

  void Run(std::function<void()> job) override { pool_.Run(std::move(job)); }
  void RunUntil(const std::function<bool()>&) override {
    SPILLWAY_CHECK(false && "nothing is committed");
  }
  void RunJob(WorkerJob job) override {
    const int64_t needed_by_op = job.needed_by_op;
    pool_.RunFirst(needed_by_op, [idle = idle_.load(), job = std::move(job)] {
      if (!idle) job.work();
      job.then();
    });
  }

 private:
  std::atomic<bool> idle_{false};
  WorkerPool pool_;
};

NullSteps::NullSteps(SwapPlan plan)
    : plan_(std::move(plan)),
      budget_("steps without a disk", uint64_t{1} << 40),
      arithmetic_(std::make_unique<Arithmetic>()) {}

NullSteps::~NullSteps() {
  if (!mover_thread_.joinable()) return;
  stopping_ = true;
  mover_->thread().Post([] {});
  mover_thread_.join();
}

absl::StatusOr<std::unique_ptr<NullSteps>> NullSteps::Create(const PlanRequest& request,
                                                             const Options& options) {
  ASSIGN_OR_RETURN(SwapPlan plan, PlanSwaps(request));
  auto steps = std::unique_ptr<NullSteps>(new NullSteps(std::move(plan)));
  const SwapPlan& planned = steps->plan_;
  StoreOptions store;
  store.directories = {"/null"};
  store.spill = planned.spill_room;
  store.files = &steps->disk_;
  ASSIGN_OR_RETURN(steps->store_, SwapStore::Create(request.layout, store));
  ASSIGN_OR_RETURN(steps->host_, Arena::Create(planned.host_arena_bytes, &steps->budget_));
  ASSIGN_OR_RETURN(steps->device_, Arena::Create(planned.device_arena_bytes, &steps->budget_));
  SwapManagerOptions manager;
  manager.workers = options.workers;
  if (!options.checksums) {
    steps->idle_workers_ = std::make_unique<IdleWorkers>(options.workers);
    manager.executor = steps->idle_workers_.get();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<IoEngine> engine, steps->disk_.CreateEngine(manager.io));
  steps->mover_ = std::make_unique<Mover>(planned, steps->store_.get(), steps->host_.get(),
                                          steps->device_.get(), steps->arithmetic_.get(), manager,
                                          std::move(engine));
  if (!options.checksums) {
    steps->mover_thread_ = std::thread([steps = steps.get()] {
      NameThisThread("spill-mover");
      while (!steps->stopping_) steps->mover_->RunOnce();
    });
  }
  const FillTile fill = [](const TileView&) { return absl::OkStatus(); };
  RETURN_IF_ERROR(steps->Call([&](MoverThread::Done done) {
    steps->mover_->passes().Initialize(&fill, /*progress=*/{}, std::move(done));
  }));
  if (!options.checksums) steps->idle_workers_->BeIdle();
  steps->before_ = steps->Counted();
  return steps;
}

absl::Status NullSteps::Call(const std::function<void(MoverThread::Done)>& task) {
  if (!mover_thread_.joinable()) return mover_->thread().Call(task);
  std::promise<absl::Status> result;
  mover_->thread().Post(
      [&] { task([&result](absl::Status status) { result.set_value(std::move(status)); }); });
  return result.get_future().get();
}

absl::Status NullSteps::Step() {
  MoverThread& thread = mover_->thread();
  ++scalars_.step;
  const auto announce = [this, scalars = scalars_] { mover_->passes().Announce(scalars); };
  const auto enqueue = [this] { mover_->gate().Enqueue(Program::kTrain); };
  if (!std::exchange(enqueued_, true)) thread.Post(enqueue);
  const bool immediate = plan_.schedule.update == UpdateMode::kImmediate;
  if (immediate) thread.Post(announce);
  const int ops = static_cast<int>(plan_.schedule.ops.size());
  for (int op = 0; op < ops; ++op) {
    OpBuffers buffers;
    RETURN_IF_ERROR(
        Call([&](MoverThread::Done done) { mover_->gate().Request(&buffers, std::move(done)); }));
    if (op == ops - 1) thread.Post(enqueue);  // its fetches overlap this operation
    thread.Post([this] { mover_->gate().Finish(); });
  }
  if (immediate) return absl::OkStatus();
  GradientTotal total;
  RETURN_IF_ERROR(Call(
      [&](MoverThread::Done done) { mover_->passes().AwaitGradients(&total, std::move(done)); }));
  thread.Post(announce);
  return absl::OkStatus();
}

absl::Status NullSteps::Flush() {
  if (std::exchange(enqueued_, false)) {
    mover_->thread().Post([this] { mover_->gate().AbandonQueued(); });
  }
  return Call([&](MoverThread::Done done) { mover_->passes().Flush(std::move(done)); });
}

NullSteps::Work NullSteps::Counted() const {
  const SwapStats stats = mover_->stats();
  Work work;
  work.steps = scalars_.step;
  work.tiles = stats.tiles_updated;
  work.moved_bytes = disk_.moved_bytes();
  work.mover_seconds = disk_.owner_seconds();
  work.worker_seconds =
      idle_workers_ != nullptr ? idle_workers_->busy_seconds() : stats.update_busy_seconds;
  return work;
}

NullSteps::Work NullSteps::Work::Since(const Work& earlier) const {
  Work work;
  work.steps = steps - earlier.steps;
  work.tiles = tiles - earlier.tiles;
  work.moved_bytes = moved_bytes - earlier.moved_bytes;
  work.mover_seconds = mover_seconds - earlier.mover_seconds;
  work.worker_seconds = worker_seconds - earlier.worker_seconds;
  return work;
}

}  // namespace spillway
