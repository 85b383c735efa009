// Options of an I/O engine (io/io_engine.h). Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

class File;
class Trace;

struct IoMemory {
  char* data = nullptr;
  uint64_t size_bytes = 0;
};

struct IoEngineOptions {
  enum class Kind { kAuto, kUring, kThreads };
  Kind kind = Kind::kAuto;
  // Transfers are cut into blocks of this size...
  uint32_t block_bytes = 1 << 20;
  // ...and at most so many are in flight, over all requests and files.
  uint32_t depth = 32;
  // Threads of the thread-pool engine.
  uint32_t threads = 4;
  // Limit of kWriteBack bytes in flight per file (or one block), while demand reads occur and for
  // ten seconds after: the writes that a demand read may wait for.
  uint64_t write_window_bytes = 8 << 20;

  // Memory and files that most transfers will use; both outlive the engine. io_uring registers them
  // once, which saves the kernel a look-up per block. Other memory and files work as well, and so
  // does a kernel that refuses registration.
  std::vector<IoMemory> memory = {};
  std::vector<const File*> files = {};

  // io_uring only, and dropped where refused. Polls for completions of direct transfers instead of
  // waiting for interrupts (IOPOLL): a core stays busy while any are in flight.
  bool poll = false;
  // A kernel thread takes the submissions (SQPOLL): saves system calls, costs most of a core.
  // Excludes `poll`.
  bool sqpoll = false;

  // Log the chosen engine and the reason.
  bool announce = true;
  // The source of block size and depth for that line, such as "tuned"; "": omitted.
  std::string origin = {};

  // Records every request; outlives the engine. May be null.
  Trace* trace = nullptr;
};

}  // namespace spillway
