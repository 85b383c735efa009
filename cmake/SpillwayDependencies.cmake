# The libraries Spillway stands on, found where Debian (or tools/setup, which unpacks
# the same packages for a user without root) puts them. A missing one is named with
# its package.

set(unpacked ${PROJECT_SOURCE_DIR}/.deps/debian)
if(EXISTS ${unpacked}/usr)
  list(PREPEND CMAKE_PREFIX_PATH ${unpacked}/usr)
  # Programs find the unpacked libraries by themselves, and those libraries one another.
  list(APPEND CMAKE_BUILD_RPATH ${unpacked}/programs-lib)
  add_link_options(-Wl,--disable-new-dtags)
endif()

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(GTest REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(benchmark QUIET)

# Abseil is linked statically where Debian's archives are: a program starts sooner without some forty shared
# libraries (docs/BENCHMARKS.md), LibTorch's symbols are not looked for in them, and a machine with a GPU to
# which the program is carried need not have them.
set(spillway_static_absl "")
get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
list(FILTER imported INCLUDE REGEX "^absl::")
foreach(target ${imported})
  get_target_property(location ${target} IMPORTED_LOCATION_NONE)
  string(REGEX REPLACE "\\.so[.0-9]*$" ".a" static "${location}")
  if(EXISTS ${static})
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_NONE ${static})
    list(APPEND spillway_static_absl ${target})
  endif()
endforeach()

# spillway_find(target header library package): a plain library, static where there is one.
function(spillway_find target header library package)
  find_path(${target}_INCLUDE ${header})
  if(library)
    find_library(${target}_LIBRARY NAMES lib${library}.a ${library})
  endif()
  if(NOT ${target}_INCLUDE OR (library AND NOT ${target}_LIBRARY))
    message(FATAL_ERROR "${header} or its library not found: install ${package} (tools/setup does)")
  endif()
  add_library(spillway::${target} INTERFACE IMPORTED)
  target_include_directories(spillway::${target} SYSTEM INTERFACE ${${target}_INCLUDE})
  if(library)
    target_link_libraries(spillway::${target} INTERFACE ${${target}_LIBRARY} Threads::Threads)
  endif()
endfunction()

spillway_find(uring liburing.h uring liburing-dev)
spillway_find(pcre2 pcre2.h pcre2-8 libpcre2-dev)
# Its tables have 30 MB: programs share them, unless they are carried to another machine.
find_path(icu_INCLUDE unicode/normalizer2.h)
foreach(part uc data)
  if(SPILLWAY_CUDA)
    find_library(icu${part}_LIBRARY NAMES libicu${part}.a)
  else()
    find_library(icu${part}_LIBRARY NAMES icu${part})
  endif()
endforeach()
if(NOT icu_INCLUDE OR NOT icuuc_LIBRARY OR NOT icudata_LIBRARY)
  message(FATAL_ERROR "ICU not found: install libicu-dev (tools/setup does)")
endif()
add_library(spillway::icu INTERFACE IMPORTED)
target_include_directories(spillway::icu SYSTEM INTERFACE ${icu_INCLUDE})
target_link_libraries(spillway::icu INTERFACE ${icuuc_LIBRARY} ${icudata_LIBRARY} ${CMAKE_DL_LIBS})
# Sound: decoded, brought to another rate, and into frequencies. They are shared: libsndfile needs
# others of its own.
function(spillway_find_shared target header library package)
  find_path(${target}_INCLUDE ${header})
  find_library(${target}_LIBRARY NAMES ${library})
  if(NOT ${target}_INCLUDE OR NOT ${target}_LIBRARY)
    message(FATAL_ERROR "${header} or its library not found: install ${package} (tools/setup does)")
  endif()
  add_library(spillway::${target} INTERFACE IMPORTED)
  target_include_directories(spillway::${target} SYSTEM INTERFACE ${${target}_INCLUDE})
  target_link_libraries(spillway::${target} INTERFACE ${${target}_LIBRARY})
endfunction()
spillway_find_shared(sndfile sndfile.h sndfile libsndfile1-dev)
spillway_find_shared(soxr soxr.h soxr libsoxr-dev)
set_target_properties(spillway::soxr PROPERTIES INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}") # engine/media/resampler.h loads it
spillway_find_shared(fftw fftw3.h fftw3 libfftw3-dev)
spillway_find(jpeg jpeglib.h jpeg libjpeg62-turbo-dev)
spillway_find(zlib zlib.h z zlib1g-dev)
spillway_find(png png.h png16 libpng-dev)
target_link_libraries(spillway::png INTERFACE spillway::zlib m)
spillway_find(yaml yaml-cpp/parser.h yaml-cpp libyaml-cpp-dev)
spillway_find(xxhash xxhash.h "" libxxhash-dev)
spillway_find(cli11 CLI/CLI.hpp "" libcli11-dev)
target_compile_definitions(spillway::xxhash INTERFACE XXH_INLINE_ALL)

# LibTorch as the PyPI wheel lays it out. Its own CMake config insists on a CUDA
# toolkit even to link the CPU library, so this is ours.
if(SPILLWAY_WITHOUT_TORCH)
  message(STATUS "Without LibTorch: only io, swap, the engine's core and a program that computes nothing are built")
elseif(EXISTS ${SPILLWAY_TORCH}/include/torch/csrc/api/include/torch/torch.h)
  add_library(spillway::torch INTERFACE IMPORTED)
  target_include_directories(spillway::torch SYSTEM INTERFACE ${SPILLWAY_TORCH}/include
    ${SPILLWAY_TORCH}/include/torch/csrc/api/include)
  target_link_directories(spillway::torch INTERFACE ${SPILLWAY_TORCH}/lib)
  target_link_libraries(spillway::torch INTERFACE torch_cpu c10)
  list(APPEND CMAKE_BUILD_RPATH ${SPILLWAY_TORCH}/lib ${SPILLWAY_TORCH}/runtime)
  # libtorch_cpu.so needs libcudart.so.13 and libcupti.so.13 even on a machine without a
  # GPU; tools/setup puts both in runtime/.
  target_link_options(spillway::torch INTERFACE -Wl,--allow-shlib-undefined
    -Wl,-rpath-link,${SPILLWAY_TORCH}/runtime)
  # Its version, for those who do not load it.
  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(EXISTS ${SPILLWAY_TORCH}/include/${header})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SPILLWAY_TORCH}/include/${header})
      file(STRINGS ${SPILLWAY_TORCH}/include/${header} found REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
      if(found)
        list(TRANSFORM found REPLACE "[^0-9]" "")
        list(JOIN found "." SPILLWAY_TORCH_VERSION)
      endif()
    endif()
  endforeach()
else()
  message(FATAL_ERROR "LibTorch not found in ${SPILLWAY_TORCH}: run tools/setup, or set SPILLWAY_TORCH")
endif()
