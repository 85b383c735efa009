# The kernels of engine/cuda, and what shows that they are right: programs for a machine with a
# GPU, and a look into the code that nvcc made, which needs none. No LibTorch here.

file(GLOB kernel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/engine/cuda/*.cu)
add_library(spillway_cuda_kernels STATIC ${kernel_sources})
target_include_directories(spillway_cuda_kernels PUBLIC ${PROJECT_SOURCE_DIR})
target_compile_options(spillway_cuda_kernels PRIVATE -Xcompiler=-Wall,-Wextra)
target_link_libraries(spillway_cuda_kernels PRIVATE CUDA::cudart)
# engine/cuda/*.cc, which launch them, are in the core; other presets link no launch.
target_link_libraries(spillway_engine_core PUBLIC spillway_cuda_kernels)

# Needs of what is not everywhere only libcudart, also beside itself: it is carried to machines
# where nothing can be built.
file(GLOB gpu_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/gpu/*.cc)
add_executable(spillway_gpu_test ${gpu_tests})
target_link_libraries(spillway_gpu_test PRIVATE spillway_engine_core CUDA::cudart GTest::gtest GTest::gtest_main)
target_link_options(spillway_gpu_test PRIVATE -static-libstdc++ -static-libgcc)
set_target_properties(spillway_gpu_test PROPERTIES BUILD_RPATH "$ORIGIN;${CUDAToolkit_LIBRARY_DIR}")
gtest_discover_tests(spillway_gpu_test DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
  TEST_PREFIX gpu/ NO_PRETTY_VALUES PROPERTIES TIMEOUT 300 LABELS gpu)

find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME gpu/exact_ptx COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/check/exact_ptx.py
    --nvcc ${CMAKE_CUDA_COMPILER} --include ${PROJECT_SOURCE_DIR} "--flags=${SPILLWAY_EXACT_CUDA}" ${kernel_sources})
  set_tests_properties(gpu/exact_ptx PROPERTIES TIMEOUT 300 LABELS gpu)
endif()
