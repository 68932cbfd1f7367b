// Checks what torch's exceptions become, with the texts that torch has for them.
#include <cstdio>

#include "native/core/torch_error.h"

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  std::printf("%s %s\n", holds ? "ok  " : "FAIL", what);
  if (!holds) ++failures;
}

template <class Throw>
void expectError(const char* what, aegir::ErrorCode code, const std::string& text, const Throw& raise) {
  try {
    raise();
  } catch (const c10::Error& error) {
    const auto found = aegir::torchErrorCode(error, aegir::ErrorCode::Internal);
    if (found == code && aegir::torchErrorText(error) == text) return expect(true, what);
    std::printf("got %s: %s\n", aegir::errorCodeName(found), aegir::torchErrorText(error).c_str());
  }
  expect(false, what);
}

}  // namespace

int main() {
  using aegir::ErrorCode;
  const char* sizes =
      "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which "
      "9.12 MiB is "
      "free. Process 1 has 79.09 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by "
      "PyTorch, and "
      "8.00 GiB is reserved by PyTorch but unallocated.";
  expectError("CUDA's allocator: the sizes and no advice", ErrorCode::OutOfMemory, sizes, [&] {
    TORCH_CHECK_WITH(OutOfMemoryError, false, sizes,
                     " If reserved but unallocated memory is large try setting X.",
                     " See documentation for Memory Management  (https://pytorch.org)");
  });
  expectError("memory that CUDA itself lacks", ErrorCode::OutOfMemory, "CUDA error: out of memory", [] {
    TORCH_CHECK(false, "CUDA error: out of memory\nCUDA kernel errors might be asynchronous");
  });
  expectError("a library without memory", ErrorCode::OutOfMemory,
              "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", [] {
                TORCH_CHECK(false,
                            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`");
              });
  expectError("the CPU's allocator", ErrorCode::OutOfMemory,
              "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.", [] {
                TORCH_CHECK(false,
                            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.");
              });
  expectError("a missing implementation", ErrorCode::Dtype, "not for this dtype",
              [] { TORCH_CHECK_NOT_IMPLEMENTED(false, "not for this dtype"); });
  expectError("anything else", ErrorCode::Internal, "first line",
              [] { TORCH_CHECK(false, "first line\nsecond"); });
  std::printf("torch_error_check: %d failed\n", failures);
  return failures == 0 ? 0 : 1;
}
