// The JavaScript classes Lane and CancelToken.
#pragma once

#include <memory>

#include "native/bindings/handle.h"
#include "native/core/cancel.h"
#include "native/core/lane.h"

namespace aegir {

class LaneHandle : public Handle<LaneHandle, std::shared_ptr<Lane>> {
 public:
  static constexpr const char* kName = "Lane";
  static constexpr napi_type_tag kTag{0x9f3c6d0a5be14b27, 0x8c1e74d2a0f95e36};

  // new Lane({ name, threads })
  explicit LaneHandle(const Napi::CallbackInfo& info);

  Napi::Value name(const Napi::CallbackInfo& info);
  Napi::Value threads(const Napi::CallbackInfo& info);
  Napi::Value pending(const Napi::CallbackInfo& info);
  Napi::Value drain(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);

  // A dropped lane finishes its queued jobs; the environment keeps it until its thread has ended.
  static void beforeRelease(Napi::Env, std::shared_ptr<Lane>& lane) { lane->close(); }
};

class CancelTokenHandle : public Handle<CancelTokenHandle, std::shared_ptr<CancelToken>> {
 public:
  static constexpr const char* kName = "CancelToken";
  static constexpr napi_type_tag kTag{0x2d7ab1c4e8f04956, 0xb36f0e915d28c7a4};

  explicit CancelTokenHandle(const Napi::CallbackInfo& info);

  Napi::Value cancelled(const Napi::CallbackInfo& info);
  Napi::Value cancel(const Napi::CallbackInfo& info);
};

}  // namespace aegir
