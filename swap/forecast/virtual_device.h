// The separate device of a forecast: streams whose copies and kernels take simulated time, without
// memory.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "swap/device/device.h"
#include "swap/device/tile_compute.h"
#include "swap/forecast/virtual_machine.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// One thread. Its addresses are its own, with nothing behind them.
class VirtualDevice final : public Device {
 public:
  // All outlive it.
  VirtualDevice(const SwapPlan& plan, const StepClock& clock, VirtualMachine* machine);

  std::string name() const override { return "virtual device"; }
  absl::StatusOr<char*> Allocate(uint64_t bytes) override;
  void Free(char* data) override {}
  absl::Status RegisterHost(char* data, uint64_t bytes) override { return absl::OkStatus(); }
  void UnregisterHost(char* data) override {}

  void Copy(StreamId stream, void* to, const void* from, uint64_t bytes) override;
  void Launch(StreamId stream, Kernel kernel) override;
  DeviceEvent Record(StreamId stream) override;
  void Wait(StreamId stream, const DeviceEvent& event) override;
  void Notify(StreamId stream, Done done) override;
  absl::Status Synchronize() override;

  // Puts work into the stream that keeps a line of the machine busy for `seconds`.
  void Occupy(StreamId stream, int line, double seconds);
  // The arithmetic that the mover's kernels call; it computes nothing and takes simulated time.
  TileCompute& compute() { return compute_; }

 private:
  struct Event : DeviceEventState {
    bool happened = false;
    std::vector<int> waiting;  // streams that stand before it
  };
  struct Item {
    std::shared_ptr<Event> awaited = {}, recorded = {};
    Done note = {};
    Kernel kernel = {};
    int line = -1;
    double seconds = 0;
  };
  struct Stream {
    std::deque<Item> items;
    bool working = false;
  };
  // Computes nothing, and notes how long the real arithmetic would take.
  class Compute final : public TileCompute {
   public:
    explicit Compute(const VirtualDevice& device) : device_(device) {}
    GradientPartial Round(int, int, uint64_t, const float*, void*) override { return {}; }
    GradientPartial Learn(int, int, uint64_t, const void*) override { return {}; }
    absl::Status Update(const TileView&, const UpdateScalars&) override { return {}; }
    absl::Status RoundOnDevice(void*, int unit, int tile, uint64_t parameters, const float*, void*,
                               GradientPartial*) override;
    absl::Status UpdateOnDevice(void*, const TileView& tile, const UpdateScalars&,
                                uint32_t*) override;
    double seconds = 0;  // of what was called last

   private:
    const VirtualDevice& device_;
  };

  void Put(StreamId stream, Item item);
  void GoOn(int stream);
  bool IsOwn(const void* data) const;

  const SwapPlan& plan_;
  const StepClock& clock_;
  VirtualMachine* const machine_;
  Compute compute_;
  Stream streams_[kStreams];
};

}  // namespace spillway
