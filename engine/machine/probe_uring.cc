#include "engine/machine/probe_uring.h"

#include <liburing.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "io/uring_engine.h"

namespace spillway {
namespace {

// 32 blocks of 2 MiB, which keep a fast drive busy.
constexpr uint64_t kRegisteredBytes = uint64_t{64} << 20;

int TryToRegister(uint64_t size_bytes) {
  io_uring ring;
  if (const int error = -io_uring_queue_init(2, &ring, 0); error != 0) return error;
  void* memory = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  int error = errno;
  if (memory != MAP_FAILED) {
    const iovec buffer = {.iov_base = memory, .iov_len = size_bytes};
    error = -io_uring_register_buffers(&ring, &buffer, 1);
    if (error == 0) io_uring_unregister_buffers(&ring);
    ::munmap(memory, size_bytes);
  }
  io_uring_queue_exit(&ring);
  return error;
}

}  // namespace

UringFacts ProbeUring() {
  UringFacts facts;
  const auto engine = UringEngine::Create({});
  facts.status = engine.status();
  if (!engine.ok()) return facts;
  facts.flags = (*engine)->flags();
  facts.registered_bytes = kRegisteredBytes;
  facts.register_error = TryToRegister(kRegisteredBytes);
  return facts;
}

}  // namespace spillway
