#include "native/bindings/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <mutex>

#include "native/bindings/convert.h"
#include "native/bindings/register.h"

namespace aegir {

GeneratorHandle::GeneratorHandle(const Napi::CallbackInfo& info) : Handle(info) {
  guard(info.Env(), [&] {
    const int64_t seed = integerArg(info[0], "seed", 0, (int64_t{1} << 53) - 1);
    hold(info.Env(), at::detail::createCPUGenerator(static_cast<uint64_t>(seed)));
  });
}

Napi::Value GeneratorHandle::seed(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(native().current_seed()));
}

Napi::Value GeneratorHandle::getState(const Napi::CallbackInfo& info) {
  at::Generator& generator = native();
  std::lock_guard<std::mutex> lock(generator.mutex());
  const at::Tensor state = generator.get_state();
  auto bytes = Napi::Uint8Array::New(info.Env(), static_cast<size_t>(state.numel()));
  std::memcpy(bytes.Data(), state.const_data_ptr(), bytes.ByteLength());
  return bytes;
}

Napi::Value GeneratorHandle::setState(const Napi::CallbackInfo& info) {
  at::Generator& generator = native();
  if (!info[0].IsTypedArray() || info[0].As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) {
    fail(ErrorCode::Argument, "state: expected a Uint8Array, got ", describeValue(info[0]));
  }
  auto bytes = info[0].As<Napi::Uint8Array>();
  std::lock_guard<std::mutex> lock(generator.mutex());
  const auto expected = generator.get_state().numel();
  check(static_cast<int64_t>(bytes.ByteLength()) == expected, ErrorCode::Argument, "state: expected ",
        expected, " bytes, as getState() gives, got ", bytes.ByteLength());
  at::Tensor state = at::empty({expected}, at::kByte);
  std::memcpy(state.mutable_data_ptr(), bytes.Data(), bytes.ByteLength());
  try {
    generator.set_state(state);
  } catch (const c10::Error&) {
    fail(ErrorCode::Argument, "state: not the bytes that getState() gave");
  }
  return info.Env().Undefined();
}

void registerGenerator(Napi::Env env, Napi::Object exports) {
  using G = GeneratorHandle;
  defineHandle<G>(env, exports,
                  {G::getter<&G::seed>("seed"), G::method<&G::getState>("getState"),
                   G::method<&G::setState>("setState")});
}

}  // namespace aegir
