// C++ exceptions as JavaScript errors with a code.
#pragma once

#include <napi.h>

#include <exception>
#include <string>

#include "native/core/error.h"

namespace aegir {

struct ErrorText {
  ErrorCode code;
  std::string message;
};

// Any exception in one line, without torch's backtrace. Errors that torch itself raises get `torchCode`, but
// for those that torch names more closely (out of memory, not implemented for a dtype).
ErrorText describeException(const std::exception_ptr& exception, ErrorCode torchCode = ErrorCode::Internal);

// An instance of the AegirError class given to setErrorClass (an Error with a `code` before that).
Napi::Error makeError(Napi::Env env, const ErrorText& text);

// Runs the body of a synchronous entry point: every C++ exception leaves it as a JavaScript one.
template <class Body>
auto guard(Napi::Env env, Body&& body, ErrorCode torchCode = ErrorCode::Internal) -> decltype(body()) {
  try {
    return body();
  } catch (const Napi::Error&) {
    throw;
  } catch (...) {
    throw makeError(env, describeException(std::current_exception(), torchCode));
  }
}

using Method = Napi::Value (*)(const Napi::CallbackInfo&);

// setFunction<&info>(exports, "info"): a guarded function.
template <Method method>
void setFunction(Napi::Object exports, const char* name) {
  exports.Set(name, Napi::Function::New(
                        exports.Env(),
                        [](const Napi::CallbackInfo& info) -> Napi::Value {
                          return guard(info.Env(), [&] { return method(info); });
                        },
                        name));
}

}  // namespace aegir
