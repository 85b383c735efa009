# The program `spillway`, which needs no LibTorch, and the library beside it that computes with
# LibTorch and is opened when needed (tools/compute_library.h). The two are moved together; the program
# looks for LibTorch beside the library (tools/torch_library.h), so a build has a link to its own there.
file(CREATE_LINK ${SPILLWAY_TORCH} ${PROJECT_BINARY_DIR}/torch SYMBOLIC)

set(build_kind "${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
string(REPLACE "GNU" "GCC" build_kind "${build_kind}")
if(SPILLWAY_CUDA)
  string(APPEND build_kind ", with CUDA")
else()
  string(APPEND build_kind ", without CUDA")
endif()
set_source_files_properties(tools/build_info.cc tools/compute_library.cc tools/compute/library_entry.cc PROPERTIES
  COMPILE_DEFINITIONS "SPILLWAY_VERSION=\"${PROJECT_VERSION}\";SPILLWAY_BUILD_KIND=\"${build_kind}\"")
set_property(SOURCE tools/build_info.cc APPEND PROPERTY
  COMPILE_DEFINITIONS "SPILLWAY_TORCH_VERSION=\"${SPILLWAY_TORCH_VERSION}\"")

file(GLOB tool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/*.cc)
# What says which build it is stays apart: it changes with every commit, and whether it has CUDA is never taken from
# another build's object.
set(build_commit ${PROJECT_BINARY_DIR}/build_commit.cc)
add_custom_target(spillway_build_commit BYPRODUCTS ${build_commit} COMMENT ""
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${build_commit}
    -P ${PROJECT_SOURCE_DIR}/cmake/SpillwayBuildCommit.cmake)
set(build_info ${PROJECT_SOURCE_DIR}/tools/build_info.cc)
list(REMOVE_ITEM tool_sources ${build_info})
add_executable(spillway ${build_info} ${build_commit})
set_source_files_properties(${build_commit} PROPERTIES GENERATED ON SKIP_PRECOMPILE_HEADERS ON)
add_dependencies(spillway spillway_build_commit)
spillway_compile_together(spillway ${tool_sources})
target_link_libraries(spillway PRIVATE spillway_engine_core spillway::cli11 ${CMAKE_DL_LIBS})
target_compile_options(spillway PRIVATE -O1) # commands wait for what they call
if(SPILLWAY_CUDA)
  set_property(SOURCE ${build_info} APPEND PROPERTY COMPILE_DEFINITIONS SPILLWAY_HAS_CUDA)
endif()
spillway_precompile(spillway <CLI/CLI.hpp> <nlohmann/json.hpp>)
# Whole and exported: the library takes from here what it needs of these, so that there is one of each.
set(whole spillway_io spillway_swap spillway_engine_core ${spillway_static_absl})
if(SPILLWAY_CUDA)
  list(APPEND whole spillway_cuda_kernels)
endif()
list(JOIN whole "," whole)
set_target_properties(spillway PROPERTIES ENABLE_EXPORTS ON LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${whole}")
target_link_options(spillway PRIVATE -Wl,--no-as-needed) # the library may need more of them

file(GLOB compute_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/compute/*.cc)
add_library(spillway_compute_commands OBJECT)
spillway_compile_together(spillway_compute_commands ${compute_sources})
set_target_properties(spillway_compute_commands PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_compile_options(spillway_compute_commands PRIVATE -O1) # as the engine's that it calls
target_link_libraries(spillway_compute_commands PRIVATE spillway_engine spillway::cli11)
spillway_precompiled_by(spillway_compute_commands spillway_engine)

# Not linked with what spillway_engine stands on, which the program has.
add_library(spillway_compute MODULE $<TARGET_OBJECTS:spillway_compute_commands>)
set_target_properties(spillway_compute PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(spillway_compute PRIVATE $<TARGET_FILE:spillway_engine> spillway::torch)
add_dependencies(spillway_compute spillway_engine)
# What libtorch_cpu.so needs is looked for where this library says (tools/setup's runtime/), too.
# What the library itself calls is resolved when it is opened, so that another LibTorch is refused there and
# not in a run; LibTorch's own calls as they come, which spares a start tens of milliseconds.
target_link_options(spillway_compute PRIVATE -Wl,--disable-new-dtags -Wl,-z,now)
add_dependencies(spillway spillway_compute)
