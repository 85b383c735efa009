// One io_uring ring with the best set-up flags this kernel takes, and the
// memory and files registered with it.
//
// The ring is created with COOP_TASKRUN, SINGLE_ISSUER and DEFER_TASKRUN where the kernel has them:
// completions are then processed when we ask for them, without interrupting compute. DEFER_TASKRUN
// ties the ring to the thread that enables it, so any thread creates it disabled, and the owner
// enables it.
//
// Errors are errno values; 0 is success. One thread at a time, from Enable on always the same.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <string>
#include <vector>

#include "io/block_queue.h"
#include "io/io_engine.h"

namespace spillway {

class UringRing {
 public:
  enum class Mode {
    kInterrupts,
    kPoll,    // IOPOLL: direct reads and writes only, found complete by asking
    kSqpoll,  // a kernel thread takes the submissions
  };

  UringRing() = default;
  ~UringRing();
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;

  // Call once. `entries`: the most submissions that are not yet handed to the kernel.
  int Create(uint32_t entries, Mode mode);
  bool exists() const { return exists_; }
  // The set-up flags of the ring: "DEFER_TASKRUN", ...
  std::vector<std::string> flag_names() const;

  // Both outlive the ring, and the memory is not remapped or freed meanwhile: the kernel keeps its
  // current pages. All or nothing.
  int RegisterMemory(const std::vector<IoMemory>& memory);
  int RegisterFiles(const std::vector<const File*>& files);

  int Enable();

  io_uring* get() { return &ring_; }
  // Null if the kernel's submission thread, which would make room, has ended.
  io_uring_sqe* NextSqe();
  // Adds the block's submission, with registered memory and files where they cover it. Its user
  // data is the block. Returns false if NextSqe is null.
  bool Add(IoBlock* block);
  // Whether the block's submission has not been handed to the kernel yet.
  bool Holds(const IoBlock* block) const;

 private:
  // One registered buffer: [begin, end).
  struct Registered {
    uintptr_t begin;
    uintptr_t end;
    int index;
  };
  const Registered* BufferOf(const IoBlock& block) const;

  io_uring ring_ = {};
  unsigned setup_flags_ = 0;
  bool exists_ = false;
  std::vector<Registered> buffers_;  // by address
  std::vector<int> fds_;             // by index
};

}  // namespace spillway
