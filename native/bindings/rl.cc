// Clipped losses and the capped-Bernoulli routing policy.
#include <array>
#include <utility>

#include "native/bindings/async.h"
#include "native/bindings/convert.h"
#include "native/bindings/register.h"
#include "native/rl/known_gradient.h"
#include "native/rl/routing_policy.h"
#include "native/rl/token_clip_loss.h"

namespace aegir {
namespace {

using kernels::Aggregation;
using kernels::ClipKind;
using kernels::ClipLossOptions;
using kernels::ClipLossResult;
using kernels::ClipLossTensors;
using kernels::KlForm;

template <class Enum, size_t N>
Enum enumField(const Napi::Object& object, const char* name,
               const std::array<std::pair<const char*, Enum>, N>& values) {
  const auto text = stringField(object, name);
  std::string known;
  for (const auto& [spelling, value] : values) {
    if (text == spelling) return value;
    known += (known.empty() ? "" : ", ") + std::string(spelling);
  }
  fail(ErrorCode::Config, name, ": expected one of ", known, ", got '", text, "'");
}

constexpr std::array<std::pair<const char*, ClipKind>, 2> kKinds{
    {{"ppo", ClipKind::Ppo}, {"k25", ClipKind::K25}}};
constexpr std::array<std::pair<const char*, KlForm>, 3> kKlForms{
    {{"k1", KlForm::K1}, {"k2", KlForm::K2}, {"k3", KlForm::K3}}};
constexpr std::array<std::pair<const char*, Aggregation>, 4> kAggregations{
    {{"token-mean", Aggregation::TokenMean},
     {"seq-mean-token-mean", Aggregation::SeqMeanTokenMean},
     {"seq-mean-token-sum", Aggregation::SeqMeanTokenSum},
     {"seq-mean-token-sum-norm", Aggregation::SeqMeanTokenSumNorm}}};

ClipLossOptions clipLossOptions(const Napi::Object& object) {
  ClipLossOptions options;
  options.kind = enumField(object, "kind", kKinds);
  options.epsLow = numberField(object, "epsLow");
  options.epsHigh = numberField(object, "epsHigh");
  options.dualClip = optionalNumber(object, "dualClip");
  options.logAlpha = numberField(object, "logAlpha", options.logAlpha);
  options.logBeta = numberField(object, "logBeta", options.logBeta);
  options.tau = numberField(object, "tau", options.tau);
  options.maskPenalty = boolField(object, "maskPenalty", options.maskPenalty);
  options.klCoef = numberField(object, "klCoef", options.klCoef);
  if (!isAbsent(object.Get("klForm"))) options.klForm = enumField(object, "klForm", kKlForms);
  options.aggregation = enumField(object, "aggregation", kAggregations);
  options.norm = numberField(object, "norm", options.norm);
  options.denominator = optionalNumber(object, "denominator");
  return options;
}

ClipLossTensors clipLossTensors(const Napi::Object& object) {
  return {tensorField(object, "logp"),       tensorField(object, "logpOld"),
          tensorField(object, "advantages"), optionalTensor(object, "mask"),
          optionalTensor(object, "weights"), optionalTensor(object, "correction"),
          optionalTensor(object, "logpRef")};
}

Napi::Object statsObject(Napi::Env env, const ClipLossResult& stats) {
  auto object = Napi::Object::New(env);
  object.Set("nValid", static_cast<double>(stats.nValid));
  object.Set("clipLow", static_cast<double>(stats.clipLow));
  object.Set("clipHigh", static_cast<double>(stats.clipHigh));
  object.Set("dual", static_cast<double>(stats.dual));
  object.Set("kl1", stats.kl1);
  object.Set("kl3", stats.kl3);
  object.Set("entropy", stats.entropy);
  object.Set("maxAbsLogRatio", stats.maxAbsLogRatio);
  object.Set("ess", stats.ess);
  return object;
}

Napi::Value tokenClipLoss(const Napi::CallbackInfo& info) {
  auto lane = laneArg(info[0]);
  auto input = clipLossTensors(objectArg(info[1], "input"));
  auto options = clipLossOptions(objectArg(info[2], "options"));
  return enqueue(
      info.Env(), lane, nullptr,
      [input = std::move(input), options] { return rl::tokenClipLoss(input, options); },
      [](Napi::Env env, rl::TokenClipLoss& result) {
        auto object = Napi::Object::New(env);
        object.Set("loss", wrapTensor(env, result.loss));
        object.Set("stats", statsObject(env, result.stats));
        return object;
      });
}

// toJs of work that gives one tensor, under `name`.
auto tensorAs(const char* name) {
  return [name](Napi::Env env, at::Tensor& tensor) {
    auto object = Napi::Object::New(env);
    object.Set(name, wrapTensor(env, tensor));
    return object;
  };
}

Napi::Value weightedSum(const Napi::CallbackInfo& info) {
  auto lane = laneArg(info[0]);
  auto x = tensorArg(info[1], "x");
  auto coefficients = tensorArg(info[2], "coefficients");
  return enqueue(
      info.Env(), lane, nullptr, [x, coefficients] { return rl::weightedSum(x, coefficients); },
      tensorAs("loss"));
}

Napi::Value restrictLogits(const Napi::CallbackInfo& info) {
  auto lane = laneArg(info[0]);
  auto z = tensorArg(info[1], "z");
  const auto sets = objectArg(info[2], "sets");
  auto allowed = optionalTensor(sets, "allowed"), mask = optionalTensor(sets, "mask");
  return enqueue(
      info.Env(), lane, nullptr, [z, allowed, mask] { return rl::restrictLogits(z, allowed, mask); },
      tensorAs("logits"));
}

Napi::Value logProb(const Napi::CallbackInfo& info) {
  auto lane = laneArg(info[0]);
  auto z = tensorArg(info[1], "z");
  auto actions = tensorArg(info[2], "actions");
  const auto cap = integerArg(info[3], "cap", 0);
  return enqueue(
      info.Env(), lane, nullptr, [z, actions, cap] { return rl::cappedBernoulliLogProb(z, actions, cap); },
      tensorAs("logp"));
}

Napi::Value sample(const Napi::CallbackInfo& info) {
  auto lane = laneArg(info[0]);
  auto z = tensorArg(info[1], "z");
  const auto cap = integerArg(info[2], "cap", 0);
  const auto draws = integerArg(info[3], "draws", 0);
  auto generator = generatorArg(info[4], "generator");
  return enqueue(
      info.Env(), lane, nullptr,
      [z, cap, draws, generator] { return rl::cappedBernoulliSample(z, cap, draws, generator); },
      tensorAs("actions"));
}

Napi::Value mode(const Napi::CallbackInfo& info) {
  auto lane = laneArg(info[0]);
  auto z = tensorArg(info[1], "z");
  const auto cap = integerArg(info[2], "cap", 0);
  const auto threshold = numberArg(info[3], "threshold");
  return enqueue(
      info.Env(), lane, nullptr, [z, cap, threshold] { return rl::cappedBernoulliMode(z, cap, threshold); },
      tensorAs("actions"));
}

Napi::Value stats(const Napi::CallbackInfo& info) {
  auto lane = laneArg(info[0]);
  auto z = tensorArg(info[1], "z");
  const auto cap = integerArg(info[2], "cap", 0);
  at::Tensor zOld;
  if (!isAbsent(info[3])) zOld = tensorArg(info[3], "zOld");
  return enqueue(
      info.Env(), lane, nullptr, [z, cap, zOld] { return rl::cappedBernoulliStats(z, cap, zOld); },
      [](Napi::Env env, rl::CappedBernoulliStats& result) {
        auto object = Napi::Object::New(env);
        object.Set("marginals", wrapTensor(env, result.marginals));
        object.Set("entropy", wrapTensor(env, result.entropy));
        object.Set("kl", wrapOptionalTensor(env, result.kl));
        return object;
      });
}

}  // namespace

void registerRl(Napi::Env, Napi::Object exports) {
  setFunction<tokenClipLoss>(exports, "tokenClipLoss");
  setFunction<weightedSum>(exports, "weightedSum");
  setFunction<restrictLogits>(exports, "restrictLogits");
  setFunction<logProb>(exports, "cappedBernoulliLogProb");
  setFunction<sample>(exports, "cappedBernoulliSample");
  setFunction<mode>(exports, "cappedBernoulliMode");
  setFunction<stats>(exports, "cappedBernoulliStats");
}

}  // namespace aegir
