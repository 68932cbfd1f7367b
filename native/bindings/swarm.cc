// Router, alignment, state fusion and output fusion: module kinds and their forward calls.
#include <c10/core/GradMode.h>

#include <utility>

#include "native/bindings/async.h"
#include "native/bindings/convert.h"
#include "native/bindings/module.h"
#include "native/bindings/register.h"
#include "native/core/transfer.h"
#include "native/model/sequences.h"
#include "native/swarm/alignment.h"
#include "native/swarm/fusion.h"
#include "native/swarm/output_fusion.h"
#include "native/swarm/ridge.h"
#include "native/swarm/router.h"

namespace aegir {
namespace {

at::ScalarType dtypeField(const Napi::Object& config) {
  const auto value = config.Get("dtype");
  if (isAbsent(value)) return at::kFloat;
  const auto dtype = dtypeArg(value, "dtype");
  check(dtype == at::kFloat || dtype == at::kDouble, ErrorCode::Config, "dtype: expected f32 or f64");
  return dtype;
}

StateGeometry geometryField(const Napi::Object& config, const char* name) {
  const auto object = objectArg(config.Get(name), name);
  return {integerField(object, "layers", 1), integerField(object, "heads", 1),
          integerField(object, "headSize", 1)};
}

int64_t denseLimit(const Napi::Object& config) {
  return static_cast<int64_t>(numberField(config, "maxDenseWeights", static_cast<double>(int64_t{64} << 20)));
}

std::shared_ptr<torch::nn::Module> makeRouter(Napi::Object object, at::Generator) {
  RouterConfig config;
  config.dModel = integerField(object, "dModel", 1);
  config.numSpecialists = integerField(object, "numSpecialists");
  config.softCap = numberField(object, "softCap", config.softCap);
  config.dtype = dtypeField(object);
  return std::make_shared<SpecialistRouterImpl>(config);
}

std::shared_ptr<torch::nn::Module> makeStateFusion(Napi::Object object, at::Generator generator) {
  FusionConfig config;
  config.numHeads = integerField(object, "numHeads", 1);
  config.headSize = integerField(object, "headSize", 1);
  config.numAgents = integerField(object, "numAgents");
  config.layers = static_cast<int64_t>(numberField(object, "layers", 1));
  config.maxDenseWeights = denseLimit(object);
  config.dtype = dtypeField(object);
  const auto mode = stringField(object, "mode");
  check(mode == "weighted_sum" || mode == "gated" || mode == "concat_project", ErrorCode::Config,
        "mode: expected weighted_sum, gated or concat_project, got '", mode, "'");
  config.mode = mode == "gated"            ? FusionMode::Gated
                : mode == "concat_project" ? FusionMode::ConcatProject
                                           : FusionMode::WeightedSum;
  return std::make_shared<RWKVStateFusionImpl>(config, generator);
}

std::shared_ptr<torch::nn::Module> makeAlignment(Napi::Object object, at::Generator) {
  AlignmentConfig config;
  config.primary = geometryField(object, "primary");
  config.specialist = geometryField(object, "specialist");
  config.vectors = boolField(object, "vectors", false);
  config.maxDenseWeights = denseLimit(object);
  config.dtype = dtypeField(object);
  const auto mode = stringField(object, "mode");
  check(mode == "identity" || mode == "bilinear" || mode == "dense", ErrorCode::Config,
        "mode: expected identity, bilinear or dense, got '", mode, "'");
  config.mode = mode == "identity" ? AlignmentMode::Identity
                : mode == "dense"  ? AlignmentMode::Dense
                                   : AlignmentMode::Bilinear;
  return std::make_shared<AlignmentProjectionImpl>(config);
}

// Empty where absent.
std::vector<int64_t> labelsField(const Napi::Object& object, int64_t numLabels) {
  std::vector<int64_t> labels;
  if (isAbsent(object.Get("labels"))) return labels;
  const auto list = arrayArg(object.Get("labels"), "labels");
  for (uint32_t i = 0; i < list.Length(); ++i)
    labels.push_back(integerArg(list.Get(i), "labels", -1, numLabels - 1));
  return labels;
}

std::shared_ptr<torch::nn::Module> makeOutputFusion(Napi::Object object, at::Generator) {
  OutputFusionConfig config;
  config.dModel = integerField(object, "dModel", 1);
  config.numLabels = integerField(object, "numLabels");
  config.ownWeight = numberField(object, "ownWeight", 1);
  config.dtype = dtypeField(object);
  const auto list = arrayArg(object.Get("specialists"), "specialists");
  for (uint32_t i = 0; i < list.Length(); ++i) {
    const auto one = objectArg(list.Get(i), "specialists[" + std::to_string(i) + "]");
    config.specialists.push_back({integerField(one, "dModel", 1), integerField(one, "numLabels", 1),
                                  labelsField(one, config.numLabels), numberField(one, "weight", 0)});
  }
  return std::make_shared<OutputFusionImpl>(config);
}

Napi::Value routerForward(const Napi::CallbackInfo& info) {
  auto router = moduleArg<SpecialistRouterImpl>(info[1], "router");
  auto hidden = tensorArg(info[2], "routingHidden");
  const bool grad = boolArg(info[3], "grad");
  auto work = [router, hidden, grad] {
    c10::AutoGradMode mode(grad);
    return router->forward(hidden);
  };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work),
                 [](Napi::Env env, at::Tensor& logits) {
                   auto object = Napi::Object::New(env);
                   object.Set("logits", wrapTensor(env, logits));
                   return object;
                 });
}

Napi::Value alignForward(const Napi::CallbackInfo& info) {
  auto alignment = moduleArg<AlignmentProjectionImpl>(info[1], "alignment");
  const int64_t layer = integerArg(info[2], "layer", 0);
  auto states = tensorArg(info[3], "states");
  const bool grad = boolArg(info[4], "grad");
  auto work = [alignment, layer, states, grad] {
    c10::AutoGradMode mode(grad);
    return states.dim() == 2 ? alignment->forwardVector(layer, states) : alignment->forward(layer, states);
  };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work),
                 [](Napi::Env env, at::Tensor& aligned) {
                   auto object = Napi::Object::New(env);
                   object.Set("states", wrapTensor(env, aligned));
                   return object;
                 });
}

Napi::Value alignFit(const Napi::CallbackInfo& info) {
  auto alignment = moduleArg<AlignmentProjectionImpl>(info[1], "alignment");
  auto source = tensorList(info[2], "source");
  auto target = tensorList(info[3], "target");
  const double ridge = numberArg(info[4], "ridge");
  auto work = [alignment, source, target, ridge] { return alignment->fit(source, target, ridge); };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work), [](Napi::Env env, double& residual) {
    auto object = Napi::Object::New(env);
    object.Set("residual", residual);
    return object;
  });
}

Napi::Value latentRidgeCall(const Napi::CallbackInfo& info) {
  struct Result {
    LatentRidge fit;
    at::Tensor embedding;
  };
  const auto input = objectArg(info[1], "input");
  auto wOut = tensorField(input, "wOut"), wIn = tensorField(input, "wIn"),
       hidden = optionalTensor(input, "hidden");
  const double lambda = numberField(input, "lambda");
  auto work = [wOut, wIn, hidden, lambda] {
    Result result{latentRidge(wOut, wIn, lambda), {}};
    if (hidden.defined()) result.embedding = latentAlign(result.fit, hidden);
    return result;
  };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work), [](Napi::Env env, Result& result) {
    auto object = Napi::Object::New(env);
    object.Set("map", wrapTensor(env, result.fit.map));
    object.Set("targetNorm", result.fit.targetNorm);
    object.Set("embedding", wrapOptionalTensor(env, result.embedding));
    return object;
  });
}

struct FuseAgent {
  int64_t index;
  std::shared_ptr<AlignmentProjectionImpl> alignment;  // null: the identity
  at::Tensor rows, take;
  std::vector<at::Tensor> states;  // per layer of the specialist
};

struct FuseInput {
  std::shared_ptr<RWKVStateFusionImpl> fusion;
  int64_t batch, layers;
  std::vector<at::Tensor> own;  // empty: zeros
  std::vector<FuseAgent> agents;
  bool grad;
};

struct FuseResult {
  std::vector<at::Tensor> states, weights;
  std::vector<std::shared_ptr<streams::Span>> alignments;
};

at::Tensor taken(const at::Tensor& rows, const at::Tensor& take) {
  if (!take.defined()) return rows;
  model::checkRows("agents: take", take, rows.dim() > 0 ? rows.size(0) : 0);
  return rows.index_select(0, queuedTo(take, rows.device()));
}

FuseAgent readFuseAgent(const Napi::Object& object, const std::string& name, int64_t layers) {
  FuseAgent agent;
  agent.index = integerField(object, "index");
  if (!isAbsent(object.Get("alignment")))
    agent.alignment = moduleArg<AlignmentProjectionImpl>(object.Get("alignment"), name + ".alignment");
  agent.rows = tensorField(object, "rows");
  agent.take = optionalTensor(object, "take");
  agent.states = tensorListField(object, "states");
  const int64_t expected = agent.alignment ? agent.alignment->config().specialist.layers : layers;
  check(static_cast<int64_t>(agent.states.size()) == expected, ErrorCode::Shape, name, ".states: expected ",
        expected, " layers, got ", agent.states.size());
  check(!agent.alignment || agent.alignment->config().primary.layers == layers, ErrorCode::Shape, name,
        ".alignment: made for a primary of other depth than ", layers, " layers");
  return agent;
}

FuseInput readFuseInput(const Napi::CallbackInfo& info) {
  FuseInput input;
  input.fusion = moduleArg<RWKVStateFusionImpl>(info[1], "fusion");
  const auto object = objectArg(info[2], "input");
  input.batch = integerField(object, "batch");
  input.layers = integerField(object, "layers", 1);
  input.grad = boolField(object, "grad", false);
  if (!isAbsent(object.Get("own"))) input.own = tensorListField(object, "own");
  check(input.own.empty() || static_cast<int64_t>(input.own.size()) == input.layers, ErrorCode::Shape,
        "own: expected ", input.layers, " layers, got ", input.own.size());
  const auto list = arrayArg(object.Get("agents"), "agents");
  for (uint32_t i = 0; i < list.Length(); ++i) {
    const auto name = "agents[" + std::to_string(i) + "]";
    input.agents.push_back(readFuseAgent(objectArg(list.Get(i), name), name, input.layers));
  }
  return input;
}

// Per layer of the primary, in its geometry.
std::vector<at::Tensor> alignAll(const FuseAgent& agent, int64_t layers, at::ScalarType dtype) {
  std::vector<at::Tensor> aligned;
  for (int64_t layer = 0; layer < layers; ++layer) {
    auto states =
        taken(agent.states[agent.alignment ? agent.alignment->sourceLayer(layer) : layer], agent.take);
    if (agent.alignment) states = agent.alignment->forward(layer, states.to(agent.alignment->config().dtype));
    aligned.push_back(states.to(dtype));
  }
  return aligned;
}

FuseResult fuse(const FuseInput& input) {
  c10::AutoGradMode mode(input.grad);
  FuseResult result;
  std::vector<std::vector<at::Tensor>> aligned;
  for (const auto& agent : input.agents) {
    const auto& span = result.alignments.emplace_back(std::make_shared<streams::Span>());
    span->begin();
    aligned.push_back(alignAll(agent, input.layers, input.fusion->config().dtype));
    span->end();
  }
  for (int64_t layer = 0; layer < input.layers; ++layer) {
    std::vector<AgentStates> agents;
    for (size_t i = 0; i < aligned.size(); ++i)
      agents.push_back({input.agents[i].index, input.agents[i].rows, aligned[i][layer]});
    const auto own = input.own.empty() ? at::Tensor() : input.own[layer];
    auto fused = input.fusion->forward(layer, input.batch, own, agents);
    result.states.push_back(fused.states);
    if (fused.weights.defined()) result.weights.push_back(fused.weights.detach());
  }
  return result;
}

Napi::Value swarmFuse(const Napi::CallbackInfo& info) {
  auto work = [input = readFuseInput(info)] { return fuse(input); };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work),
                 [](Napi::Env env, FuseResult& result) {
                   auto intervals = Napi::Array::New(env);
                   for (const auto& span : result.alignments)
                     intervals.Set(intervals.Length(), intervalObject(env, span));
                   auto object = Napi::Object::New(env);
                   object.Set("states", wrapTensors(env, result.states));
                   object.Set("weights", wrapTensors(env, result.weights));
                   object.Set("alignIntervals", intervals);
                   return object;
                 });
}

Napi::Value outputFuse(const Napi::CallbackInfo& info) {
  struct Agent {
    AgentOutputs outputs;
    at::Tensor take;
  };
  auto fusion = moduleArg<OutputFusionImpl>(info[1], "fusion");
  const auto object = objectArg(info[2], "input");
  const int64_t batch = integerField(object, "batch");
  const bool grad = boolField(object, "grad", false);
  const auto list = arrayArg(object.Get("agents"), "agents");
  std::vector<Agent> agents;
  for (uint32_t i = 0; i < list.Length(); ++i) {
    const auto one = objectArg(list.Get(i), "agents[" + std::to_string(i) + "]");
    agents.push_back({{integerField(one, "index"), tensorField(one, "rows"), tensorField(one, "pooled"),
                       tensorField(one, "logits")},
                      optionalTensor(one, "take")});
  }
  auto work = [fusion, batch, grad, agents = std::move(agents)] {
    c10::AutoGradMode mode(grad);
    std::vector<AgentOutputs> outputs;
    for (const auto& [out, take] : agents)
      outputs.push_back({out.agent, out.rows, taken(out.pooled, take), taken(out.logits, take)});
    return fusion->forward(batch, outputs);
  };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work),
                 [](Napi::Env env, OutputResiduals& residual) {
                   auto result = Napi::Object::New(env);
                   result.Set("embedding", wrapTensor(env, residual.embedding));
                   if (residual.logits.defined()) result.Set("logits", wrapTensor(env, residual.logits));
                   if (residual.scale.defined()) result.Set("scale", wrapTensor(env, residual.scale));
                   return result;
                 });
}

}  // namespace

void registerSwarm(Napi::Env env, Napi::Object exports) {
  registerModuleKind(env, "router", makeRouter);
  registerModuleKind(env, "stateFusion", makeStateFusion);
  registerModuleKind(env, "alignment", makeAlignment);
  registerModuleKind(env, "outputFusion", makeOutputFusion);
  setFunction<routerForward>(exports, "routerForward");
  setFunction<alignForward>(exports, "alignForward");
  setFunction<alignFit>(exports, "alignFit");
  setFunction<latentRidgeCall>(exports, "latentRidge");
  setFunction<swarmFuse>(exports, "swarmFuse");
  setFunction<outputFuse>(exports, "outputFuse");
}

}  // namespace aegir
