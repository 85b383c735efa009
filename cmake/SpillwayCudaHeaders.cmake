# The headers of the CUDA runtime, spillway::cuda_headers, for swap/device/cuda and for its tests against
# a stand-in (tests/cuda): both are built on every machine that has the headers, no library of
# CUDA's is linked, and no GPU is needed. Without them both are left out.

if(SPILLWAY_CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(found ${CUDAToolkit_INCLUDE_DIRS})
else()
  # Those that tools/setup fetches, else a toolkit's.
  find_path(SPILLWAY_CUDA_INCLUDE cuda_runtime_api.h HINTS ${PROJECT_SOURCE_DIR}/.deps/cuda/include
    PATHS /usr/local/cuda/include)
  set(found ${SPILLWAY_CUDA_INCLUDE})
endif()

# LibTorch's is CUDA 13, and the names of some calls hang on it.
set(least 13000)
set(version "")
foreach(folder ${found})
  if(EXISTS ${folder}/cuda_runtime_api.h)
    file(STRINGS ${folder}/cuda_runtime_api.h version REGEX "^#define CUDART_VERSION +[0-9]+" LIMIT_COUNT 1)
    string(REGEX REPLACE "[^0-9]" "" version "${version}")
  endif()
endforeach()
if(version AND version GREATER_EQUAL least)
  add_library(spillway::cuda_headers INTERFACE IMPORTED)
  target_include_directories(spillway::cuda_headers SYSTEM INTERFACE ${found})
else()
  message(STATUS "No headers of CUDA 13 or later (tools/setup fetches some): swap/device/cuda is left out")
endif()
