// Queues work on a lane and gives JavaScript a Promise.
//
//   Napi::Value wkv7(const Napi::CallbackInfo& info) {
//     auto lane = laneArg(info[0]);
//     auto input = readInput(info[1]);                      // everything JavaScript is read here, on the JS
//     thread return enqueue(info.Env(), lane, cancelArg(info[2]),
//       [input] { return kernels::wkv7(input); },           // on the lane's thread: no Napi values,
//       gradients off
//       [](Napi::Env env, Wkv7Result& result) {             // on the JS thread
//         auto object = Napi::Object::New(env);
//         object.Set("output", wrapTensor(env, result.output));
//         return object;
//       });
//   }
//
// `work` holds native values alone (at::Tensor, shared_ptr …), never Napi ones: it is destroyed on the lane's
// thread, or anywhere when the environment ends. What it throws becomes the rejection. The object that toJs
// returns gets `interval`. Arguments that are wrong throw at once, before a Promise exists.
#pragma once

#include <napi.h>

#include <chrono>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "native/bindings/errors.h"
#include "native/bindings/instance.h"
#include "native/bindings/scope.h"
#include "native/core/lane.h"
#include "native/core/streams.h"

namespace aegir {

// { start, end } in milliseconds on the clock of performance.now(). Of work on a device they are read from it
// when they are asked for, which waits for its end.
Napi::Object intervalObject(Napi::Env env, const std::shared_ptr<streams::Span>& span);

class AsyncJobBase : public LaneJob {
 public:
  AsyncJobBase(Napi::Env env, ErrorCode torchCode);

  Napi::Promise promise() const { return deferred_.Promise(); }
  void run() noexcept final;
  void abandon() noexcept final;
  void deliver(std::unique_ptr<LaneJob> self) noexcept final;
  // On the JS thread: resolves or rejects.
  void settle(Napi::Env env) noexcept;

 protected:
  virtual void work() = 0;
  virtual void releaseWork() noexcept = 0;
  virtual Napi::Value result(Napi::Env env) = 0;

 private:
  void settlePromise(Napi::Env env);
  Napi::Value scopedResult(Napi::Env env);

  Napi::Promise::Deferred deferred_;
  Completions completions_;
  // Handles in the result belong to the scope in which the job was queued.
  std::shared_ptr<Scope> scope_;
  const ErrorCode torchCode_;
  std::optional<ErrorText> error_;
  streams::JobOrder order_;
};

template <class Work, class ToJs>
class AsyncJob final : public AsyncJobBase {
  using Result = std::invoke_result_t<Work&>;

 public:
  AsyncJob(Napi::Env env, Work work, ToJs toJs, ErrorCode torchCode)
      : AsyncJobBase(env, torchCode), work_(std::move(work)), toJs_(std::move(toJs)) {}

 protected:
  void work() override { result_.emplace((*work_)()); }
  void releaseWork() noexcept override { work_.reset(); }
  Napi::Value result(Napi::Env env) override { return toJs_(env, *result_); }

 private:
  std::optional<Work> work_;
  ToJs toJs_;
  std::optional<Result> result_;
};

// Queues the job, or rejects at once where its token is already cancelled.
Napi::Value enqueueJob(Napi::Env env, Lane& lane, std::unique_ptr<AsyncJobBase> job);

// How a job runs: what cancels it, and its intra-op threads, 0 for the lane's.
struct JobTerms {
  std::shared_ptr<CancelToken> cancel;
  int threads = 0;
  JobTerms(std::nullptr_t) {}
  JobTerms(std::shared_ptr<CancelToken> cancel, int threads = 0)
      : cancel(std::move(cancel)), threads(threads) {}
};

// `torchCode`: the code of errors that torch itself raises in `work`. A `work` without a result returns
// Nothing.
template <class Work, class ToJs>
Napi::Value enqueue(Napi::Env env, const std::shared_ptr<Lane>& lane, JobTerms terms, Work work, ToJs toJs,
                    ErrorCode torchCode = ErrorCode::Internal) {
  auto job = std::make_unique<AsyncJob<Work, ToJs>>(env, std::move(work), std::move(toJs), torchCode);
  job->cancel = std::move(terms.cancel);
  job->threads = terms.threads;
  return enqueueJob(env, *lane, std::move(job));
}

struct Nothing {};

// toJs of work without a result: an object that carries the interval alone.
inline Napi::Value emptyResult(Napi::Env env, Nothing&) { return Napi::Object::New(env); }

// Closes the lane; the Promise resolves to undefined when everything queued before has run.
Napi::Value closeLane(Napi::Env env, Lane& lane);

}  // namespace aegir
