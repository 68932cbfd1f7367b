#include "native/bindings/errors.h"

#include <new>

#include "native/bindings/instance.h"
#include "native/core/torch_error.h"

namespace aegir {
namespace {

std::string firstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

ErrorText describeException(const std::exception_ptr& exception, ErrorCode torchCode) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const c10::Error& error) {
    return {torchErrorCode(error, torchCode), torchErrorText(error)};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::OutOfMemory, "out of memory"};
  } catch (const std::exception& error) {
    return {ErrorCode::Internal, firstLine(error.what())};
  } catch (...) {
    return {ErrorCode::Internal, "unknown native exception"};
  }
}

Napi::Error makeError(Napi::Env env, const ErrorText& text) {
  const char* code = errorCodeName(text.code);
  auto& errorClass = instanceOf(env).errorClass;
  if (!errorClass.IsEmpty()) {
    auto object = errorClass.New({Napi::String::New(env, code), Napi::String::New(env, text.message)});
    return Napi::Error(env, object);
  }
  auto error = Napi::Error::New(env, text.message);
  error.Set("code", Napi::String::New(env, code));
  return error;
}

}  // namespace aegir
