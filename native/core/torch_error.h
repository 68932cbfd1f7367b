// What torch's own exceptions mean: a code, and one line without a backtrace.
#pragma once

#include <c10/util/Exception.h>

#include <string>

#include "native/core/error.h"

namespace aegir {

// `fallback` for an error that torch does not name more closely than as one.
ErrorCode torchErrorCode(const c10::Error& error, ErrorCode fallback);
std::string torchErrorText(const c10::Error& error);

}  // namespace aegir
