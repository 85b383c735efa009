# The preset cuda: compiled and linked, never run by the tests. There is no CUDA path in the
# program yet; this shows that toolkit, LibTorch and this code fit together.

if(NOT TARGET spillway::torch)
  message(FATAL_ERROR "SPILLWAY_CUDA needs LibTorch")
endif()
if(NOT EXISTS ${SPILLWAY_TORCH}/lib/libtorch_cuda.so)
  message(FATAL_ERROR "${SPILLWAY_TORCH}/lib/libtorch_cuda.so not found: this LibTorch has no CUDA")
endif()

# Turing to Hopper; later ones translate the last one's PTX.
set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90)
# CMake 3.25 does not know that nvcc 13 speaks C++20. Fused multiply-adds would change the numbers.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--fmad=false>")
# LibTorch brings a shared CUDA runtime; a second, static one would not see its streams.
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD_DEFAULT "") # the flag above is the only one
find_package(CUDAToolkit REQUIRED)

add_library(spillway::torch_cuda INTERFACE IMPORTED)
# libtorch_cuda.so registers itself with LibTorch when it is loaded, so it must stay in the
# list of needed libraries although nothing names a symbol of it. Its own libraries (cuBLAS,
# cuDNN, NCCL) are looked up on the machine that runs it.
target_link_libraries(spillway::torch_cuda INTERFACE spillway::torch
  -Wl,--no-as-needed torch_cuda c10_cuda -Wl,--as-needed CUDA::cudart)
target_link_options(spillway::torch_cuda INTERFACE -Wl,--allow-shlib-undefined)

target_link_libraries(spillway PRIVATE spillway::torch_cuda)

# What nvcc compiles: a kernel on a stream of LibTorch's.
add_executable(cuda_check ${CMAKE_SOURCE_DIR}/cmake/check/cuda_check.cu
  ${CMAKE_SOURCE_DIR}/cmake/check/cuda_check_torch.cc)
target_link_libraries(cuda_check PRIVATE spillway::torch_cuda)
