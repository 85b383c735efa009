// Fills buffers from the store ahead of their operations, weights tile by tile and spilled inputs
// piece by piece, and writes spilled inputs there.
//
// A worker checks the bytes that were read before an operation uses them. Weights on their way from
// the store to a separate device pass through stages in the host's memory; weights that live in the
// host's memory are copied from there. Tiles that lie in the model's files are read as many at a
// time as there is memory for (swap/mover/in_place_reads.h). A transfer that fails, or brings wrong
// bytes, is the mover's failure.
#pragma once

#include <vector>

#include "swap/mover/buffers.h"
#include "swap/mover/in_place_reads.h"
#include "swap/mover/mover_context.h"

namespace spillway {

// The mover's thread.
class Prefetch {
 public:
  Prefetch(const MoverContext& context, Buffers* buffers, InPlaceReads* in_place);

  // Begins to fill every buffer that has its addresses and whose contents are complete where they
  // live. Buffers that operation `next_op` waits for go before the others.
  void Start(int64_t next_op);
  // The forward has put its input into the buffer, in the host's memory: writes it to the store,
  // and then releases the buffer.
  void Save(Buffer& buffer);
  // Workers still use buffers, or have posted a result that was not taken yet.
  bool busy() const { return checks_running_ > 0; }

 private:
  void Fill(Buffer& buffer, int64_t next_op);
  void FillOnDevice(Buffer& buffer);
  void FillTileByTile(int64_t next_op);
  bool InPlace(const Buffer& buffer) const {
    return buffer.use == BufferUse::kWeights && store_ != nullptr && store_->IsInPlace(buffer.unit);
  }
  BufferTransfer& Prepare(Buffer& buffer, int piece, IoOp op, char* data, int64_t next_op);
  void Read(BufferTransfer& transfer);
  void Arrived(BufferTransfer& transfer, const absl::Status& status);
  absl::Status PlaceAndVerify(const BufferTransfer& transfer) const;
  void Verified(BufferTransfer& transfer);
  void CopyFromStage(BufferTransfer& transfer);
  void Filled(BufferTransfer& transfer, const absl::Status& status);
  void Summed(BufferTransfer& transfer);
  static void SaveDone(IoRequest& request, const absl::Status& status);

  const MoverContext& context_;
  const SwapPlan& plan_ = context_.plan;
  const StateLayout& layout_ = context_.layout;
  SwapStore* const store_ = context_.store;
  Buffers* const buffers_;
  InPlaceReads* const in_place_;
  std::vector<int> free_stages_;  // by the plan's stage_spans
  int checks_running_ = 0;        // jobs that verify buffers, or make checksums of saved inputs
};

}  // namespace spillway
