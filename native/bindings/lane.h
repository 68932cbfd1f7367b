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

  explicit CancelTokenHandle(const Napi::CallbackInfo& info);

  Napi::Value cancelled(const Napi::CallbackInfo& info);
  Napi::Value cancel(const Napi::CallbackInfo& info);
};

}  // namespace aegir
