// info() and setErrorClass().
#include <ATen/Version.h>
#include <torch/version.h>

#include "native/bindings/convert.h"
#include "native/bindings/instance.h"
#include "native/bindings/register.h"
#include "native/core/lane.h"
#include "native/cuda/loader.h"
#include "native/kernels/simd_level.h"

#ifndef AEGIR_VERSION
#error "AEGIR_VERSION comes from package.json through CMakeLists.txt"
#endif

namespace aegir {
namespace {

// The version that the loaded libtorch reports about its own build.
std::string loadedTorchVersion() {
  const std::string config = at::show_config();
  const std::string key = "TORCH_VERSION=";
  const size_t at = config.find(key);
  if (at == std::string::npos) return "unknown";
  const size_t from = at + key.size();
  return config.substr(from, config.find_first_of(", \n", from) - from);
}

Napi::Object cudaInfo(Napi::Env env) {
  const cuda::Status& status = cuda::status();
  auto info = Napi::Object::New(env);
  info.Set("available", status.reason.empty());
  info.Set("reason", status.reason);
  info.Set("plugin", status.plugin.empty() ? env.Null() : Napi::String::New(env, status.plugin));
  auto devices = Napi::Array::New(env);
  for (const auto& name : status.devices) devices.Set(devices.Length(), name);
  info.Set("devices", devices);
  return info;
}

Napi::Value info(const Napi::CallbackInfo& call) {
  auto env = call.Env();
  auto result = Napi::Object::New(env);
  result.Set("version", AEGIR_VERSION);
  result.Set("torchBuilt", TORCH_VERSION);
  result.Set("torchLoaded", loadedTorchVersion());
  result.Set("threads", defaultIntraOpThreads());
  result.Set("simd", kernels::simdLevelName(kernels::simdLevel()));
  result.Set("cuda", cudaInfo(env));
  return result;
}

Napi::Value setErrorClass(const Napi::CallbackInfo& call) {
  check(call[0].IsFunction(), ErrorCode::Argument, "errorClass: expected a class, got ",
        describeValue(call[0]));
  instanceOf(call.Env()).errorClass = Napi::Persistent(call[0].As<Napi::Function>());
  return call.Env().Undefined();
}

// The least that a call into the addon costs, for the bench: nothing is read and nothing made.
napi_value noop(Napi::Env env) {
  napi_value function;
  const auto body = [](napi_env, napi_callback_info) -> napi_value { return nullptr; };
  const napi_status status = napi_create_function(env, "noop", NAPI_AUTO_LENGTH, body, nullptr, &function);
  NAPI_THROW_IF_FAILED(env, status, nullptr);
  return function;
}

}  // namespace

void registerInfo(Napi::Env env, Napi::Object exports) {
  exports.Set("noop", Napi::Function(env, noop(env)));
  setFunction<info>(exports, "info");
  setFunction<setErrorClass>(exports, "setErrorClass");
}

}  // namespace aegir
