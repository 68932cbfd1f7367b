#include "native/core/torch_error.h"

#include <algorithm>
#include <string_view>

namespace aegir {

ErrorCode torchErrorCode(const c10::Error& error, ErrorCode fallback) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error)) return ErrorCode::OutOfMemory;
  if (dynamic_cast<const c10::NotImplementedError*>(&error)) return ErrorCode::Dtype;
  // torch's own CPU allocator, sizes beyond any memory, and CUDA outside the caching allocator raise a plain
  // error.
  const std::string_view what = error.what_without_backtrace();
  for (const char* beyond : {"can't allocate memory", "Storage size calculation overflowed",
                             "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED"}) {
    if (what.find(beyond) != std::string_view::npos) return ErrorCode::OutOfMemory;
  }
  return fallback;
}

std::string torchErrorText(const c10::Error& error) {
  std::string text = error.what_without_backtrace();
  text.resize(std::min(text.size(), text.find('\n')));
  // After the sizes CUDA's allocator goes on with advice on its settings and where they are documented.
  text.resize(std::min(text.size(), text.find(" If reserved but unallocated memory")));
  return text;
}

}  // namespace aegir
