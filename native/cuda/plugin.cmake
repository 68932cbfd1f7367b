# The CUDA plug-in aegir_cuda.so, which the core opens where it lies beside it.
# AUTO builds it where a CUDA build of libtorch and nvcc are found; ON fails without them.
set(AEGIR_CUDA "AUTO" CACHE STRING "build the CUDA plug-in: AUTO, ON or OFF")
set_property(CACHE AEGIR_CUDA PROPERTY STRINGS AUTO ON OFF)
set(AEGIR_CUDA_ARCHS "80-real;90-real;90-virtual" CACHE STRING "GPU architectures; the virtual one is PTX for later ones")

set(AEGIR_CUDA_MISSING "")
if(AEGIR_CUDA STREQUAL "OFF")
  set(AEGIR_CUDA_MISSING "AEGIR_CUDA is OFF")
elseif(NOT EXISTS "${AEGIR_TORCH_DIR}/lib/libtorch_cuda.so")
  set(AEGIR_CUDA_MISSING "libtorch has no CUDA")
else()
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(AEGIR_CUDA_MISSING "no working nvcc")
  endif()
endif()
if(AEGIR_CUDA_MISSING)
  if(AEGIR_CUDA STREQUAL "ON")
    message(FATAL_ERROR "AEGIR_CUDA is ON: ${AEGIR_CUDA_MISSING}")
  endif()
  message(STATUS "CUDA plug-in: not built (${AEGIR_CUDA_MISSING})")
  return()
endif()

set(CMAKE_CUDA_ARCHITECTURES ${AEGIR_CUDA_ARCHS})
enable_language(CUDA)
message(STATUS "CUDA plug-in: for ${AEGIR_CUDA_ARCHS}, nvcc ${CMAKE_CUDA_COMPILER_VERSION}")

file(GLOB AEGIR_CUDA_SOURCES CONFIGURE_DEPENDS native/cuda/*.cu)
# The toolkit's runtime is left out of the link: libtorch brings the one that the process uses.
set_source_files_properties(native/cuda/plugin.cc PROPERTIES LANGUAGE CXX)
add_library(aegir_cuda MODULE native/cuda/plugin.cc ${AEGIR_CUDA_SOURCES})
set_target_properties(aegir_cuda PROPERTIES PREFIX "" CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
  CUDA_ARCHITECTURES "${AEGIR_CUDA_ARCHS}" CUDA_RUNTIME_LIBRARY None CUDA_VISIBILITY_PRESET hidden
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../../libtorch/lib")
target_include_directories(aegir_cuda PRIVATE ${CMAKE_SOURCE_DIR})
target_include_directories(aegir_cuda SYSTEM PRIVATE
  ${AEGIR_TORCH_DIR}/include ${AEGIR_TORCH_DIR}/include/torch/csrc/api/include
  ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_compile_options(aegir_cuda PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-unused-parameter>)
target_link_directories(aegir_cuda PRIVATE ${AEGIR_TORCH_DIR}/lib)
# As needed, the linker would drop torch_cuda, whose loading is the point.
target_link_options(aegir_cuda PRIVATE -Wl,--no-as-needed -Wl,--enable-new-dtags)
target_link_libraries(aegir_cuda PRIVATE torch_cuda c10_cuda torch_cpu c10)
