#include "native/bindings/lane.h"

#include "native/bindings/async.h"
#include "native/bindings/convert.h"
#include "native/bindings/register.h"

namespace aegir {
namespace {

// On a GPU too everything has run.
Nothing waitForDevices() {
  streams::drain();
  return {};
}
Napi::Value undefinedResult(Napi::Env env, Nothing&) { return env.Undefined(); }

}  // namespace

LaneHandle::LaneHandle(const Napi::CallbackInfo& info) : Handle(info) {
  guard(info.Env(), [&] {
    auto options = objectArg(info[0], "options");
    const int threads = static_cast<int>(integerField(options, "threads", 1, kMaxThreads));
    auto lane = Lane::create(stringField(options, "name"), threads);
    instanceOf(info.Env()).addLane(lane);
    hold(info.Env(), std::move(lane));
  });
}

Napi::Value LaneHandle::name(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), native()->name());
}

Napi::Value LaneHandle::threads(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), native()->threads());
}

Napi::Value LaneHandle::pending(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(native()->pending()));
}

Napi::Value LaneHandle::drain(const Napi::CallbackInfo& info) {
  return enqueue(info.Env(), native(), nullptr, waitForDevices, undefinedResult);
}

Napi::Value LaneHandle::close(const Napi::CallbackInfo& info) { return closeLane(info.Env(), *native()); }

CancelTokenHandle::CancelTokenHandle(const Napi::CallbackInfo& info) : Handle(info) {
  hold(info.Env(), std::make_shared<CancelToken>());
}

Napi::Value CancelTokenHandle::cancelled(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), native()->cancelled());
}

Napi::Value CancelTokenHandle::cancel(const Napi::CallbackInfo& info) {
  native()->cancel();
  return info.Env().Undefined();
}

void registerLane(Napi::Env env, Napi::Object exports) {
  using L = LaneHandle;
  defineHandle<L>(
      env, exports,
      {L::getter<&L::name>("name"), L::getter<&L::threads>("threads"), L::getter<&L::pending>("pending"),
       L::method<&L::drain>("drain"), L::method<&L::close>("close")});
  using C = CancelTokenHandle;
  defineHandle<C>(env, exports, {C::getter<&C::cancelled>("cancelled"), C::method<&C::cancel>("cancel")});
}

}  // namespace aegir
