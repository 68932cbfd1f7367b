// The one error type of the native code: a code that JavaScript sees as `AegirError.code`, and a message that
// names the argument, what it was and what was expected.
#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>

namespace c10 {
enum class ScalarType : int8_t;
}

namespace aegir {

enum class ErrorCode {
  Shape,        // ERR_SHAPE
  Dtype,        // ERR_DTYPE
  Device,       // ERR_DEVICE
  OutOfMemory,  // ERR_OUT_OF_MEMORY
  Config,       // ERR_CONFIG
  Checkpoint,   // ERR_CHECKPOINT
  Data,         // ERR_DATA
  Libtorch,     // ERR_LIBTORCH
  Disposed,     // ERR_DISPOSED
  Aborted,      // ERR_ABORTED
  Argument,     // ERR_ARGUMENT
  NonFinite,    // ERR_NON_FINITE
  Internal,     // ERR_INTERNAL
};

const char* errorCodeName(ErrorCode code);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// A part of a message; dtypes by the package's names (dtype.cc).
template <class Part>
const Part& said(const Part& part) {
  return part;
}
std::string said(c10::ScalarType dtype);

template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  std::ostringstream message;
  (message << ... << said(parts));
  throw Error(code, message.str());
}

// check(x.dim() == 2, ErrorCode::Shape, "inputIds: expected (B,T), got ", x.sizes());
template <class... Parts>
void check(bool condition, ErrorCode code, const Parts&... parts) {
  if (!condition) fail(code, parts...);
}

}  // namespace aegir
