// The mover: the one thread that decides what moves when, and owns the I/O engine.
//
// Everything here runs on the mover thread unless it says otherwise; the compute
// thread and the workers talk to it through Post. So the state machine below needs
// no locks, and can be read from top to bottom:
//
//   stays     buffers with an address and a lifetime in operations (weights, gradient
//             sums, inputs that left the device). A stay is allocated when every earlier stay that
//             overlaps its addresses has been released; then it is filled.
//   passes    walks over the tiles of one unit: rounding a complete gradient, or
//             updating (read, arithmetic on a worker, write). Tiles of a pass run
//             in order of start, several at once; passes follow each other closely.
//   versions  every training step gives a unit's state a new version. A program
//             reads the version of the training step before it, so a fetch waits
//             until that one is on storage, or is filled by the update itself.
//   a device  with memory of its own (swap/mover/mover_device.cc) has weights and sums copied to
//   and from
//             it. Then "filled" and "released" mean that the copy, or the last use, has been given
//             to one of its streams; what comes after waits there, not here.
//   a commit  of one version: waits for its updates, saves what lives in memory, then
//             a thread of its own waits for the disk. Updates to later versions wait.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "io/base/mutex.h"
#include "io/io_engine.h"
#include "swap/device/address_uses.h"
#include "swap/device/device.h"
#include "swap/device/device_times.h"
#include "swap/mover/swap_manager.h"
#include "swap/mover/worker_pool.h"

namespace spillway {

enum class StayUse : uint8_t;

class SwapManager::Mover {
 public:
  Mover(const SwapPlan& plan, SwapStore* store, Arena* host_arena, Arena* device_arena,
        TileCompute* compute, int workers, Executor* executor, Device* device, StreamId ops_stream,
        Trace* trace);
  ~Mover();

  // Starts the thread; `engine` is used by it alone. With an executor there is no
  // thread: Call and the destructor take its turns.
  void Start(std::unique_ptr<IoEngine> engine);

  // Runs what was posted, starts all that can start, and waits until something happens.
  // False when it has come to rest and shall end. On the mover thread.
  bool Turn();

  // --- From any thread.
  // Runs `task` on the mover thread, in order of posting.
  void Post(std::function<void()> task);
  // Runs `task` on the mover thread and waits until it calls its `done`. After a failure
  // that happens once nothing is under way any more, so what `task` points to stays alive
  // for as long as anybody may use it.
  using Done = std::function<void(absl::Status)>;
  absl::Status Call(const std::function<void(Done)>& task);
  absl::Status error() const;
  void Fail(const absl::Status& status);
  SwapStats stats() const;

  // --- On the mover thread, for SwapManager's methods of the same names.
  void Enqueue(Program program);
  void AbandonQueued();
  void AbandonRunning(bool* whole, Done done);
  void RequestOp(OpBuffers* buffers, Done done);
  void FinishOp();
  void AnnounceUpdate(const UpdateScalars& scalars);
  void WhenGradientsRounded(GradientTotal* total, Done done);
  void WhenFlushed(Done done);
  void StartCommit(const std::string& manifest_path, const CommitRecord& record,
                   std::function<void()> at_end, std::function<absl::Status()> publish);
  void WhenCommitted(Done done);
  void Initialize(const FillTile* fill, std::function<void(double)> progress, Done done);
  // Blocks the mover thread, with everything at rest.
  absl::Status LoadResident();
  // Points `planes` [first, last) at one tile's state, read into a tile buffer where it
  // lives in the store. Blocks.
  absl::Status ReadTile(int unit, int tile, int first_plane, int last_plane,
                        std::vector<char*>& planes);

  Device* device() const { return device_; }
  StreamId ops_stream() const { return ops_stream_; }
  absl::string_view engine_name() const { return engine_->name(); }
  void RecordEvents() { record_events_ = true; }
  std::vector<std::string> TakeEvents();

 private:
  struct Stay;
  struct Fetch;
  struct Pass;
  struct TileTask;
  struct TileAhead;
  struct CommitRun;
  struct EnqueuedProgram {
    Program kind;
    int64_t first_op;  // position of its first op in the endless line of ops
    int num_ops;
    int64_t version;  // of the state that it reads: training programs before it
  };

  // Starts all that can start. Called after anything has changed.
  void Pump();
  void Event(std::string text);

  // Stays.
  void AddStays(const EnqueuedProgram& program);
  void AllocateStays();
  bool AddressesFree(size_t index) const;
  bool CanFetch(const Stay& stay) const;
  void StartFetch(Stay& stay);
  void ReleaseStay(Stay& stay);
  Stay* FindStay(StayUse use, int unit, int64_t op);
  char* Address(const ArenaSpan& span) const;
  bool OpReady(const StepOp& op, const EnqueuedProgram& program);
  void TryGrantOp();
  SpanKind WhatOpWaitedFor(double waited_seconds) const;

  IoRequest& PrepareTransfer(Stay& stay, int tile, IoOp op, char* data);
  static void FetchReadDone(IoRequest& request, const absl::Status& status);
  void FetchRead(Fetch& fetch, const absl::Status& status);
  void FetchDone(Fetch& fetch, const absl::Status& status);

  // A device with memory of its own.
  bool OnDevice(const Stay& stay) const;
  void NoteWhenDone(StreamId stream, Done then);
  void CopyToDevice(int unit, char* to, const char* from, uint64_t bytes);
  void CopyToHost(int unit, char* to, const char* from, uint64_t bytes);
  void TimedCopy(StreamId stream, SpanKind direction, int unit, char* to, const char* from,
                 uint64_t bytes);
  void WaitForAddresses(Stay& stay, StreamId stream);
  void WaitInComputeStream(const StepOp& op, bool sums, SpanKind waited_for);
  void StartFilling(Stay& stay);
  void StageFetches();
  void CopyStaged(Fetch& fetch, const absl::Status& status);
  void LeaveAddresses(Stay& stay);
  struct LearnedOfTile;
  LearnedOfTile* Learned() const;
  LearnedOfTile* TakeLearned(TileTask* task);
  void TimedLaunch(const TileTask& task, Device::Kernel kernel);
  void RoundOnDevice(TileTask* task, char* gradient);
  void BringFromDevice(TileTask* task);
  void TakeToDevice(TileTask* task);
  void UpdateOnDevice(TileTask* task);
  void LaunchUpdate(TileTask* task, std::vector<char*> planes, char* gradient);
  void CheckUpdated(TileTask* task, uint32_t largest_magnitude);
  void CopyPlanes(int unit, int tile, bool to_device, const std::vector<char*>& planes);
  void EndOpOnDevice(int64_t op);

  // Updates streamed through it.
  bool Streams(const Pass& pass) const;
  void CheckBeforeStreaming(TileTask* task);
  void StreamTile(TileTask* task);
  void StreamTiles();
  void PutIntoStreams(TileTask* task);
  void PassStreamed(Pass& pass);
  void TileStreamed(TileTask* task, const LearnedOfTile& learned, absl::Status status);
  void ChecksumStreamed(TileTask* task, const absl::Status& status);

  // Spilled inputs.
  bool InputReady(const StepOp& op);
  void PointAtInputs(const StepOp& op, OpBuffers& buffers);
  void StartSavingInput(Stay& stay);
  void SaveDone(Fetch& piece, const absl::Status& status);

  // Passes.
  void AddPass(std::unique_ptr<Pass> pass);
  void StartRounding(int unit, Stay* sums, int64_t version);
  void StartUpdate(int unit, Stay* sums, int64_t version);
  void StartTiles();
  bool HasTaskRoom(const Pass& pass) const;
  bool CanStartTile(Pass& pass);
  bool IsItsTurn(const Pass& pass) const;
  int NumTiles(const Pass& pass) const;
  bool NeedsTileBuffer(const Pass& pass) const;
  bool UpdatesOnDevice(const Pass& pass) const;
  bool Brings(const TileTask& task) const;
  bool Takes(const TileTask& task) const;
  char* GradientPlace(const TileTask& task) const;
  bool GradientInStore(int unit) const {
    return plan_.deferred[unit] && plan_.placements[unit].gradient == Tier::kNvme;
  }
  // The update of a deferred unit, not at a flush, goes from the store into the forward.
  bool FillsForward(const Pass& pass) const;
  void StartDeferredUpdates(int64_t version);
  bool FindDestination(Pass& pass);
  void StartTile(Pass& pass);
  char* PlaneHome(int unit, int tile, int plane) const;
  void PointAtPlanes(int unit, int tile, int tile_buffer, std::vector<char*>& planes) const;
  void SubmitTransfer(TileTask* task, IoRequest& request, IoOp op, const TileLocation& location,
                      char* data, uint64_t bytes);
  void ReadTilePlanes(TileTask* task);
  void TransferEnded(TileTask* task, IoOp op, const absl::Status& status);
  void TileRead(TileTask* task);
  void RunTile(TileTask* task);
  TileView ViewOf(const TileTask& task) const;
  absl::Status VerifyTile(const TileTask& task) const;
  void RoundTile(TileTask& task) const;
  absl::Status ComputeTile(TileTask& task) const;
  void ChecksumTile(TileTask& task) const;
  static ChecksumIdentity GradientIdentity(int unit, int tile, uint64_t generation);
  void TileComputed(TileTask* task, const absl::Status& status);
  void WriteTilePlanes(TileTask* task);
  void TileWritten(TileTask* task);
  void EndTask(TileTask* task);
  void PassComputed(Pass& pass);
  void PassDone(Pass& pass);
  void CheckWaiters();
  void FailWaiters();

  // The turn of two steps.
  bool IsAtTurn(const Pass& pass) const;
  bool CanOpenTurnStay(const Stay& stay) const;
  int FirstTurnBuffer(int turn_stay) const;
  void OpenTurnStay(Stay& stay);
  void ReadAheadAtTurn();
  bool HasTileBuffer(const Pass& pass) const;
  void TakeTileBuffer(TileTask* task);
  void ReturnTileBuffer(int tile_buffer);
  void CloseTurn();
  bool RunTileReadAhead(TileTask* task);

  // Commits.
  bool HeldByCommit(const Pass& pass);
  void AdvanceCommit();
  void StartSaves();
  absl::Status ChecksumSaved(TileTask& task) const;
  void WriteSaved(TileTask* task);
  void CommitDone(const absl::Status& status);

  absl::Status LoadOntoDevice(int unit);

  // With everything at rest: transfers that are waited for, all at once.
  struct Piece;
  absl::Status TransferAll(IoOp op, std::vector<Piece>& pieces);

  const SwapPlan& plan_;
  const StateLayout& layout_;
  SwapStore* const store_;
  Arena* const arenas_[2];  // by tier: device, host
  TileCompute* const compute_;
  const bool deferred_;
  const int evaluate_ops_;  // operations up to and with the loss
  const int max_tasks_;     // tiles under way at once
  const int max_updates_;   // of them, of those that workers update, and of those streamed

  Executor* const executor_;
  Device* const device_;  // null: compute uses the host's memory
  const StreamId ops_stream_;
  Trace* const trace_;  // may be null
  Trace* const waits_;  // likewise: where operations' waits go
  std::unique_ptr<IoEngine> engine_;
  WorkerPool workers_;
  std::thread thread_;

  // Between threads.
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> inbox_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  SwapStats stats_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> record_events_{false};

  // The mover thread's own.
  bool failed_ = false;
  bool pump_again_ = false;
  std::deque<EnqueuedProgram> programs_;  // front: the one whose ops run
  int64_t next_op_ = 0;                   // next op to be granted
  int64_t end_op_ = 0;                    // after the last op enqueued
  int64_t train_programs_ = 0;            // enqueued so far
  Done op_waiter_;
  OpBuffers* op_buffers_ = nullptr;
  double op_wait_began_ = 0;
  double update_busy_at_wait_ = 0;
  // With a separate device only.
  double disk_busy_at_wait_ = 0, copy_busy_at_wait_ = 0, device_update_at_wait_ = 0;

  std::deque<std::unique_ptr<Stay>> stays_;    // by first op; released ones are dropped
  std::vector<int64_t> settled_;               // [unit] version that stands in its place
  std::vector<int64_t> saved_;                 // [unit] version whose input was written last
  std::vector<std::unique_ptr<Pass>> passes_;  // in order of start
  std::vector<ArenaSpan> tile_spans_;          // by tile buffer: the plan's, then the turn's
  std::vector<int> free_tile_buffers_;
  // The turn of two steps.
  std::vector<Stay*> turn_stays_;  // by the plan's; null where it has no memory
  std::vector<int> free_turn_buffers_;
  std::vector<std::unique_ptr<TileAhead>> tiles_ahead_;  // read for its update, from tile 0 on
  int64_t turn_version_ = 0;                             // of the update that the memory is for
  int64_t turn_begun_ = 0;  // of the last one all of whose tiles have begun
  int tasks_running_ = 0;
  int updates_running_[2] = {0, 0};  // of them: by workers, streamed through a device
  int checks_running_ = 0;           // of fetches that workers check, and inputs to be written

  // A device with memory of its own.
  std::vector<int> free_stages_;  // by the plan's stage_spans
  std::vector<int> free_partials_;
  std::vector<int> free_device_tiles_;     // by the plan's device_tile_spans
  std::deque<TileTask*> tiles_to_stream_;  // which wait for one
  AddressUses uses_;
  DeviceEvent op_done_;  // of the op that ended last
  DeviceTimes times_;    // any thread

  bool flushing_ = false;
  Done flush_waiter_;
  UpdateScalars scalars_;
  int64_t train_version_ = 0;  // that the training program whose ops run has read

  std::unique_ptr<CommitRun> commit_;  // under way
  Done commit_waiter_;
  bool held_by_commit_ = false;  // an update was, since the op was asked for
  WorkerPool commit_thread_;

  int gradients_to_round_ = 0;  // units whose gradient of this step is not rounded yet
  std::vector<std::vector<GradientPartial>> partials_;  // [unit][tile]
  Done gradients_waiter_;
  GradientTotal* gradients_total_ = nullptr;

  const FillTile* initialize_fill_ = nullptr;
  std::function<void(double)> initialize_progress_;
  Done initialize_waiter_;
  int64_t initialize_tiles_ = 0;
  int64_t initialize_tiles_done_ = 0;
};

}  // namespace spillway
