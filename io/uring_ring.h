// One io_uring ring with the best set-up flags this kernel takes, and the
// memory and files registered with it.
//
// The ring is asked for with COOP_TASKRUN, SINGLE_ISSUER and DEFER_TASKRUN:
// completions are then handled when we ask and not by interrupting compute.
// Older kernels get what they have. DEFER_TASKRUN ties the ring to the thread
// that enables it; so it is made disabled, by any thread, and enabled by its owner.
//
// Errors are errno values; 0 is none. One thread at a time, from Enable on always
// the same.
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

  // Once. `entries`: the most submissions that are not yet handed over.
  int Create(uint32_t entries, Mode mode);
  bool exists() const { return exists_; }
  // "DEFER_TASKRUN", ...: what the ring was made with.
  std::vector<std::string> flag_names() const;

  // Both outlive the ring, and the memory is not remapped or given back to the
  // system meanwhile: the kernel keeps the pages that are there now. All or nothing.
  int RegisterMemory(const std::vector<IoMemory>& memory);
  int RegisterFiles(const std::vector<const File*>& files);

  int Enable();

  io_uring* get() { return &ring_; }
  // Null where the kernel's thread is gone that would make room.
  io_uring_sqe* NextSqe();
  // Adds the block's submission, through what is registered where that covers it.
  // Its user data is the block. False as NextSqe.
  bool Add(IoBlock* block);
  // Whether the block's submission is here still, out of the kernel's reach until the next time
  // that it is asked to take some.
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
