#include "native/bindings/async.h"

namespace aegir {
namespace {

double performanceMilliseconds(Napi::Env env, streams::SteadyTime time) {
  const auto nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  return static_cast<double>(nanoseconds - instanceOf(env).performanceOrigin()) / 1e6;
}

const ErrorText kAborted{ErrorCode::Aborted, "the operation was aborted"};

}  // namespace

Napi::Object intervalObject(Napi::Env env, const std::shared_ptr<streams::Span>& span) {
  auto interval = Napi::Object::New(env);
  if (!span->onDevice()) {
    interval.Set("start", performanceMilliseconds(env, span->start()));
    interval.Set("end", performanceMilliseconds(env, span->finish()));
    return interval;
  }
  const auto define = [&](const char* name, streams::SteadyTime (streams::Span::*time)() const) {
    const auto get = [span, time](const Napi::CallbackInfo& info) -> Napi::Value {
      return guard(info.Env(), [&]() -> Napi::Value {
        return Napi::Number::New(info.Env(), performanceMilliseconds(info.Env(), ((*span).*time)()));
      });
    };
    interval.DefineProperty(Napi::PropertyDescriptor::Accessor(env, interval, name, get, napi_enumerable));
  };
  define("start", &streams::Span::start);
  define("end", &streams::Span::finish);
  return interval;
}

AsyncJobBase::AsyncJobBase(Napi::Env env, ErrorCode torchCode)
    : deferred_(env),
      completions_(instanceOf(env).completions),
      scope_(currentScope(env)),
      torchCode_(torchCode) {}

void AsyncJobBase::run() noexcept {
  const auto attempt = [this](const auto& step) {
    try {
      step();
    } catch (...) {
      if (!error_) error_ = describeException(std::current_exception(), torchCode_);
    }
  };
  attempt([this] {
    order_.start();
    work();
  });
  attempt([this] { order_.finish(); });
  releaseWork();
}

void AsyncJobBase::abandon() noexcept {
  error_ = kAborted;
  releaseWork();
}

void AsyncJobBase::deliver(std::unique_ptr<LaneJob> self) noexcept {
  // The queue is unbounded and outlives every lane, so the call is never refused.
  if (completions_.NonBlockingCall(this) == napi_ok) self.release();
}

Napi::Value AsyncJobBase::scopedResult(Napi::Env env) {
  auto& settling = instanceOf(env).settlingScope;
  settling = scope_;
  try {
    auto value = result(env);
    settling.reset();
    return value;
  } catch (...) {
    settling.reset();
    throw;
  }
}

void AsyncJobBase::settle(Napi::Env env) noexcept {
  try {
    Napi::HandleScope scope(env);
    settlePromise(env);
  } catch (...) {
    // JavaScript can no longer run here: the environment is ending, and no one waits for the promise.
  }
}

void AsyncJobBase::settlePromise(Napi::Env env) {
  try {
    order_.see();
    if (error_) return deferred_.Reject(makeError(env, *error_).Value());
    auto value = scopedResult(env);
    if (value.IsObject()) value.As<Napi::Object>().Set("interval", intervalObject(env, order_.span()));
    deferred_.Resolve(value);
  } catch (const Napi::Error& error) {
    deferred_.Reject(error.Value());
  } catch (...) {
    deferred_.Reject(makeError(env, describeException(std::current_exception(), torchCode_)).Value());
  }
}

Napi::Value enqueueJob(Napi::Env env, Lane& lane, std::unique_ptr<AsyncJobBase> job) {
  auto promise = job->promise();
  if (job->cancel && job->cancel->cancelled()) {
    job->abandon();
    job->settle(env);
    return promise;
  }
  lane.submit(std::move(job));
  instanceOf(env).jobQueued(env);
  return promise;
}

Napi::Value closeLane(Napi::Env env, Lane& lane) {
  auto work = [] {
    streams::drain();
    return Nothing{};
  };
  auto toJs = [](Napi::Env where, Nothing&) { return where.Undefined(); };
  auto job = std::make_unique<AsyncJob<decltype(work), decltype(toJs)>>(env, work, toJs, ErrorCode::Internal);
  auto promise = job->promise();
  std::unique_ptr<LaneJob> last = std::move(job);
  if (lane.closeAfter(last)) {
    instanceOf(env).jobQueued(env);
  } else {
    last->run();
    static_cast<AsyncJobBase&>(*last).settle(env);
  }
  return promise;
}

void settleOnJsThread(Napi::Env env, Napi::Function, Instance* instance, AsyncJobBase* job) {
  std::unique_ptr<AsyncJobBase> owned(job);
  // Without an environment the queue is being emptied after its end: there is no one to tell.
  if (static_cast<napi_env>(env) == nullptr) return;
  instance->jobSettled(env);
  owned->settle(env);
}

}  // namespace aegir
