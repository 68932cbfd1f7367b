#include "native/core/error.h"

namespace aegir {

const char* errorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::Shape: return "ERR_SHAPE";
    case ErrorCode::Dtype: return "ERR_DTYPE";
    case ErrorCode::Device: return "ERR_DEVICE";
    case ErrorCode::OutOfMemory: return "ERR_OUT_OF_MEMORY";
    case ErrorCode::Config: return "ERR_CONFIG";
    case ErrorCode::Checkpoint: return "ERR_CHECKPOINT";
    case ErrorCode::Data: return "ERR_DATA";
    case ErrorCode::Libtorch: return "ERR_LIBTORCH";
    case ErrorCode::Disposed: return "ERR_DISPOSED";
    case ErrorCode::Aborted: return "ERR_ABORTED";
    case ErrorCode::Argument: return "ERR_ARGUMENT";
    case ErrorCode::NonFinite: return "ERR_NON_FINITE";
    case ErrorCode::Internal: return "ERR_INTERNAL";
  }
  return "ERR_INTERNAL";
}

}  // namespace aegir
