# The preset cuda: the kernels and what links with them.

# Turing, Ampere (data centre and not), Ada, Hopper, Blackwell (data centre and not). Others
# translate the PTX of the nearest one below them.
set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90 100-real 120)
set(SPILLWAY_CUDA_ARCHITECTURES "" CACHE STRING "Fewer of them, for a quick look: 80-real;90")
if(SPILLWAY_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES ${SPILLWAY_CUDA_ARCHITECTURES})
endif()
# Operations, division, roots and subnormals as IEEE 754 has them. But for fmad these are nvcc's
# defaults; they stand here because every bit depends on them.
set(SPILLWAY_EXACT_CUDA --fmad=false --prec-div=true --prec-sqrt=true --ftz=false)
# CMake 3.25 does not know that nvcc 13 speaks C++20.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;${SPILLWAY_EXACT_CUDA}>")
# LibTorch brings a shared CUDA runtime; a second, static one would not see its streams.
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD_DEFAULT "") # the flag above is the only one
find_package(CUDAToolkit REQUIRED)

include(SpillwayCudaKernels)

if(SPILLWAY_WITHOUT_TORCH)
  return()
endif()
if(NOT EXISTS ${SPILLWAY_TORCH}/lib/libtorch_cuda.so)
  message(FATAL_ERROR "${SPILLWAY_TORCH}/lib/libtorch_cuda.so not found: this LibTorch has no CUDA")
endif()

add_library(spillway::torch_cuda INTERFACE IMPORTED)
# libtorch_cuda.so registers itself with LibTorch when it is loaded, so it must stay in the
# list of needed libraries although nothing names a symbol of it. Its own libraries (cuBLAS,
# cuDNN, NCCL) are looked up on the machine that runs it.
target_link_libraries(spillway::torch_cuda INTERFACE spillway::torch
  -Wl,--no-as-needed torch_cuda c10_cuda -Wl,--as-needed CUDA::cudart)
target_link_options(spillway::torch_cuda INTERFACE -Wl,--allow-shlib-undefined)

# swap/device/cuda with the runtime that it calls.
add_library(spillway::cuda INTERFACE IMPORTED)
target_link_libraries(spillway::cuda INTERFACE spillway_cuda CUDA::cudart)

# LibTorch's half. An object library: its LinkedCuda is there before the linker looks into
# spillway_engine, where engine/torch/absent/no_cuda.cc would say that there is none.
file(GLOB torch_cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/engine/torch/cuda/*.cc)
add_library(spillway_torch_cuda OBJECT ${torch_cuda_sources})
target_link_libraries(spillway_torch_cuda PUBLIC spillway_engine spillway::cuda spillway::torch_cuda)
# The code of c10d's NCCL is in libtorch_cuda.so. Its header includes NCCL's, and has a class with a
# struct of NCCL's in it, which grows from release to release: only LibTorch's own will do.
set(release "2.28")
find_path(SPILLWAY_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
set(found "")
if(SPILLWAY_NCCL_INCLUDE)
  file(STRINGS ${SPILLWAY_NCCL_INCLUDE}/nccl.h found REGEX "^#define NCCL_(MAJOR|MINOR) +[0-9]+")
  list(TRANSFORM found REPLACE "[^0-9]" "")
  list(JOIN found "." found)
endif()
if(found STREQUAL release)
  target_sources(spillway_torch_cuda PRIVATE ${PROJECT_SOURCE_DIR}/engine/torch/cuda/nccl/nccl_ranks.cc)
  target_include_directories(spillway_torch_cuda SYSTEM PRIVATE ${SPILLWAY_NCCL_INCLUDE})
  target_compile_definitions(spillway_torch_cuda PRIVATE USE_C10D_NCCL)
else()
  message(WARNING "No nccl.h of NCCL ${release} (found: ${found}): several ranks can't compute on GPUs")
  target_sources(spillway_torch_cuda PRIVATE ${PROJECT_SOURCE_DIR}/engine/torch/cuda/absent/nccl_ranks.cc)
endif()
# Into the library that computes, with what of them the program does not have.
set_target_properties(spillway_torch_cuda PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_sources(spillway_compute PRIVATE $<TARGET_OBJECTS:spillway_torch_cuda>)
target_link_libraries(spillway_compute PRIVATE $<TARGET_FILE:spillway_cuda> spillway::torch_cuda)
add_dependencies(spillway_compute spillway_cuda)

# What nvcc compiles: a kernel on a stream of LibTorch's.
add_executable(cuda_check ${PROJECT_SOURCE_DIR}/cmake/check/cuda_check.cu
  ${PROJECT_SOURCE_DIR}/cmake/check/cuda_check_torch.cc)
target_link_libraries(cuda_check PRIVATE spillway::torch_cuda)

# The device suite on a GPU, for whoever has one.
add_executable(cuda_device_check ${PROJECT_SOURCE_DIR}/tests/cuda/gpu/device_check.cc
  ${PROJECT_SOURCE_DIR}/tests/cuda/gpu/add_bytes.cu)
target_link_libraries(cuda_device_check PRIVATE spillway::cuda GTest::gtest GTest::gmock)

# What ranks exchange, likewise.
add_executable(nccl_check ${PROJECT_SOURCE_DIR}/tests/torch/gpu/nccl_check.cc)
target_link_libraries(nccl_check PRIVATE spillway_torch_cuda GTest::gtest GTest::gmock)
