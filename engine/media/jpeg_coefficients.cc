#include "engine/media/jpeg_coefficients.h"

#include <jerror.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace spillway {
namespace {

// One component's blocks. It lies in libjpeg's memory of the object, which runs no destructor, and
// which DestroyCoefficients still finds; jpeg_finish_decompress frees that of the picture.
struct CoefficientArray {
  char* memory = nullptr;
  size_t bytes = 0;
  size_t row_bytes = 0;
  size_t released_bytes = 0;  // from the start
  JBLOCKROW* rows = nullptr;
  CoefficientArray* next = nullptr;
};

struct CoefficientKeeper {
  void (*destroy)(j_common_ptr) = nullptr;  // libjpeg's own
  CoefficientArray* first = nullptr;
};

CoefficientKeeper& KeeperOf(j_common_ptr info) {
  return *static_cast<CoefficientKeeper*>(info->client_data);
}

jvirt_barray_ptr MakeCoefficients(j_common_ptr info, int, boolean, JDIMENSION blocks_per_row,
                                  JDIMENSION row_count, JDIMENSION) {
  auto* const array = new (info->mem->alloc_small(info, JPOOL_PERMANENT, sizeof(CoefficientArray)))
      CoefficientArray;
  array->row_bytes = blocks_per_row * sizeof(JBLOCK);
  array->bytes = array->row_bytes * row_count;
  // libjpeg needs zeroed memory, which the kernel returns.
  void* const memory = mmap(nullptr, array->bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
  array->memory = static_cast<char*>(memory);
  array->next = KeeperOf(info).first;
  KeeperOf(info).first = array;
  array->rows = static_cast<JBLOCKROW*>(
      info->mem->alloc_large(info, JPOOL_IMAGE, row_count * sizeof(JBLOCKROW)));
  for (JDIMENSION row = 0; row < row_count; ++row) {
    array->rows[row] = reinterpret_cast<JBLOCKROW>(array->memory + row * array->row_bytes);
  }
  return reinterpret_cast<jvirt_barray_ptr>(array);
}

void NothingToRealize(j_common_ptr) {}

JBLOCKARRAY AccessCoefficients(j_common_ptr, jvirt_barray_ptr which, JDIMENSION start_row,
                               JDIMENSION, boolean writable) {
  auto* const array = reinterpret_cast<CoefficientArray*>(which);
  // Scans write. Read-only access computes points in one pass over the rows: rows before the
  // requested ones are not needed again.
  if (!writable) {
    const auto page = static_cast<size_t>(getpagesize());
    const size_t done = start_row * array->row_bytes / page * page;
    if (done > array->released_bytes) {
      madvise(array->memory + array->released_bytes, done - array->released_bytes, MADV_DONTNEED);
      array->released_bytes = done;
    }
  }
  return array->rows + start_row;
}

void DestroyCoefficients(j_common_ptr info) {
  const CoefficientKeeper& keeper = KeeperOf(info);
  for (const CoefficientArray* array = keeper.first; array != nullptr; array = array->next) {
    munmap(array->memory, array->bytes);
  }
  keeper.destroy(info);
}

uint64_t RoundedUp(uint64_t number, int multiple) {
  const auto step = static_cast<uint64_t>(multiple);
  return (number + step - 1) / step * step;
}

}  // namespace

uint64_t JpegCoefficientBytes(const jpeg_decompress_struct& info) {
  if (!jpeg_has_multiple_scans(const_cast<jpeg_decompress_struct*>(&info))) return 0;
  uint64_t bytes = 0;
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& component = info.comp_info[i];
    bytes += RoundedUp(component.width_in_blocks, component.h_samp_factor) *
             RoundedUp(component.height_in_blocks, component.v_samp_factor) * sizeof(JBLOCK);
  }
  return bytes;
}

void KeepJpegCoefficients(jpeg_decompress_struct* info) {
  const auto common = reinterpret_cast<j_common_ptr>(info);
  auto* const keeper =
      new (info->mem->alloc_small(common, JPOOL_PERMANENT, sizeof(CoefficientKeeper)))
          CoefficientKeeper;
  keeper->destroy = info->mem->self_destruct;
  info->client_data = keeper;
  info->mem->self_destruct = DestroyCoefficients;
  info->mem->request_virt_barray = MakeCoefficients;
  info->mem->realize_virt_arrays = NothingToRealize;
  info->mem->access_virt_barray = AccessCoefficients;
}

}  // namespace spillway
