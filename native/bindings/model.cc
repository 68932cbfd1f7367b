// Models, their prefixes and recurrent states: module kinds "annotator" and "causalLM", and the forward
// calls.
#include <c10/core/GradMode.h>

#include <memory>
#include <utility>

#include "native/bindings/async.h"
#include "native/bindings/convert.h"
#include "native/bindings/module.h"
#include "native/bindings/register.h"
#include "native/bindings/state.h"
#include "native/model/graphed_forward.h"
#include "native/model/heads.h"
#include "native/model/recompute.h"

namespace aegir {
namespace {

using model::AegirState;
using model::BackboneConfig;
using model::BlockSpec;
using model::Model;
using model::StageConfig;

using SharedPrefix = std::shared_ptr<const model::Prefix>;

class PrefixHandle : public Handle<PrefixHandle, SharedPrefix> {
 public:
  static constexpr const char* kName = "Prefix";
  static constexpr bool kScoped = true;

  explicit PrefixHandle(const Napi::CallbackInfo& info) : Handle(info) {}

  template <class Visit>
  static void eachTensor(const SharedPrefix& prefix, Visit visit) {
    for (const auto& tensor : {prefix->hidden, prefix->vFirst, prefix->poolWeights, prefix->routingHidden}) {
      if (tensor.defined()) visit(tensor);
    }
  }

  Napi::Value rows(const Napi::CallbackInfo& info) {
    return Napi::Number::New(info.Env(), static_cast<double>(native()->packing.sequences.count));
  }
};

std::vector<BlockSpec> blocksField(const Napi::Object& stage, const char* name) {
  std::vector<BlockSpec> blocks;
  const auto list = arrayArg(stage.Get(name), name);
  for (uint32_t i = 0; i < list.Length(); ++i) {
    const auto block = objectArg(list.Get(i), std::string(name) + "[" + std::to_string(i) + "]");
    const auto code = stringField(block, "code");
    check(code == "w" || code == "W", ErrorCode::Config, name, ": block code '", code, "', supported: w, W");
    blocks.push_back(
        {code == "W", integerField(block, "dIntermediate", 1), boolField(block, "reversed", false)});
  }
  check(!blocks.empty(), ErrorCode::Config, name, ": expected at least one block");
  return blocks;
}

StageConfig stageField(const Napi::Object& object, const Napi::Object& ranks, bool innermost) {
  StageConfig stage;
  stage.dModel = integerField(object, "dModel", 1);
  stage.headSize = integerField(object, "headSize", 1);
  check(stage.dModel % stage.headSize == 0, ErrorCode::Config, "headSize: ", stage.headSize,
        " does not divide dModel ", stage.dModel);
  stage.ranks = {integerField(ranks, "decay", 1), integerField(ranks, "a", 1), integerField(ranks, "v", 1),
                 integerField(ranks, "gate", 1)};
  stage.encoder = blocksField(object, "encoder");
  if (innermost) return stage;
  stage.decoder = blocksField(object, "decoder");
  stage.downsample = numberField(object, "downsample");
  check(stage.downsample > 1, ErrorCode::Config, "downsample: expected more than 1, got ", stage.downsample);
  return stage;
}

model::NgramConfig ngramField(const Napi::Object& object) {
  model::NgramConfig config;
  config.form.sizes = integerList(object.Get("sizes"), "ngrams.sizes");
  config.form.lowercase = boolField(object, "lowercase", false);
  config.form.shapes = boolField(object, "shapes", false);
  config.buckets = integerField(object, "buckets", 1);
  config.width = integerField(object, "width", 1);
  return config;
}

std::shared_ptr<BackboneConfig> backboneConfig(const Napi::Object& object) {
  auto config = std::make_shared<BackboneConfig>();
  const auto ranks = arrayArg(object.Get("loraRanks"), "loraRanks");
  auto stage = objectArg(object.Get("stages"), "stages");
  for (;;) {
    const auto i = static_cast<uint32_t>(config->stages.size());
    check(i < ranks.Length(), ErrorCode::Config, "loraRanks: expected one entry per stage, got ",
          ranks.Length());
    const auto inner = stage.Get("inner");
    config->stages.push_back(stageField(stage, objectArg(ranks.Get(i), "loraRanks"), isAbsent(inner)));
    if (i > 0) {
      check(config->stages[i].dModel >= config->stages[i - 1].dModel, ErrorCode::Config, "dModel: stage ", i,
            " is narrower than the stage around it");
    }
    if (isAbsent(inner)) break;
    stage = objectArg(inner, "inner");
  }
  config->vocabSize = integerField(object, "vocabSize", 1);
  config->numRoles = integerField(object, "numRoles", 1);
  const auto ngrams = object.Get("ngrams");
  if (!isAbsent(ngrams)) config->ngrams = ngramField(objectArg(ngrams, "ngrams"));
  const auto scheme = stringField(object, "init");
  check(scheme == "rwkv" || scheme == "annotation", ErrorCode::Config,
        "init: expected rwkv or annotation, got '", scheme, "'");
  config->init = scheme == "rwkv" ? model::InitScheme::Rwkv : model::InitScheme::Annotation;
  const auto dtype = object.Get("dtype");
  if (!isAbsent(dtype)) config->dtype = dtypeArg(dtype, "dtype");
  check(config->dtype == at::kFloat || config->dtype == at::kDouble, ErrorCode::Config,
        "dtype: expected f32 or f64");
  config->products = config->dtype;
  const auto precision = object.Get("precision");
  if (!isAbsent(precision)) config->products = dtypeArg(precision, "precision");
  check(
      config->products == config->dtype || (config->products == at::kBFloat16 && config->dtype == at::kFloat),
      ErrorCode::Config, "precision: expected bf16, with dtype f32, or what dtype is");
  return config;
}

std::vector<model::Pooling> poolingField(const Napi::Object& object) {
  std::vector<model::Pooling> pooling;
  for (const auto& name : stringList(object.Get("pooling"), "pooling")) {
    const bool known = name == "mean" || name == "max" || name == "context";
    check(known, ErrorCode::Config, "pooling: expected mean, max or context, got '", name, "'");
    pooling.push_back(name == "mean"  ? model::Pooling::Mean
                      : name == "max" ? model::Pooling::Max
                                      : model::Pooling::Context);
  }
  check(!pooling.empty(), ErrorCode::Config, "pooling: expected at least one of mean, max, context");
  return pooling;
}

std::vector<std::vector<int64_t>> labelFactorsField(const Napi::Object& object) {
  std::vector<std::vector<int64_t>> factors;
  const auto lists = object.Get("labelFactors");
  if (isAbsent(lists)) return factors;
  const auto array = arrayArg(lists, "labelFactors");
  for (uint32_t label = 0; label < array.Length(); ++label) {
    auto& own = factors.emplace_back();
    const auto list = arrayArg(array.Get(label), "labelFactors");
    for (uint32_t i = 0; i < list.Length(); ++i)
      own.push_back(integerArg(list.Get(i), "labelFactors", 0, 2 * int64_t{array.Length()}));
  }
  return factors;
}

model::HeadConfig headConfig(const Napi::Object& object, int64_t dModel) {
  model::HeadConfig head{integerField(object, "numLabels", 1), poolingField(object),
                         labelFactorsField(object)};
  head.poolNorm = boolField(object, "poolNorm", false);
  if (isAbsent(object.Get("columns"))) return head;
  const auto columns = objectArg(object.Get("columns"), "columns");
  head.columnHeads = integerField(columns, "heads", 1);
  head.columnPositions = integerField(columns, "positions", 0);
  check(dModel % head.columnHeads == 0, ErrorCode::Config, "columns.heads: ", head.columnHeads,
        " does not divide dModel ", dModel);
  return head;
}

std::shared_ptr<torch::nn::Module> makeAnnotator(Napi::Object object, at::Generator generator) {
  const auto config = backboneConfig(object);
  const auto other = object.Get("backboneOf");
  const auto backbone = isAbsent(other) ? nullptr : moduleArg<Model>(other, "backboneOf")->backbone();
  return std::make_shared<model::ColumnAnnotation>(
      model::InitContext{config->init, std::move(generator), config->dtype, config->products}, config,
      headConfig(object, config->stages[0].dModel), backbone);
}

std::shared_ptr<torch::nn::Module> makeCausalLM(Napi::Object object, at::Generator generator) {
  const auto config = backboneConfig(object);
  return std::make_shared<model::CausalLM>(
      model::InitContext{config->init, std::move(generator), config->dtype, config->products}, config);
}

// A model's input with everything that it refers to.
struct InputArgs {
  model::ModelInput input;
  std::shared_ptr<const AegirState> state;
  bool grad = false;
  int threads = 0;
  std::optional<bool> recompute;

  model::ModelInput get() const {
    auto result = input;
    result.state = state.get();
    return result;
  }
};

model::Dropout dropoutField(const Napi::Object& object) {
  const double rate = numberField(object, "rate");
  check(rate >= 0 && rate < 1, ErrorCode::Argument, "dropout.rate: expected 0 or more and under 1, got ",
        rate);
  return {rate, static_cast<uint64_t>(integerField(object, "seed"))};
}

template <class H>
const typename H::NativeType& readHandle(const Napi::Value& value, const char* argument) {
  const auto& native = nativeArg<H>(value, argument);
  if (streams::inUse()) H::eachTensor(native, streams::noteRead);
  return native;
}

std::optional<bool> recomputeField(const Napi::Object& object) {
  const auto value = object.Get("recompute");
  return isAbsent(value) ? std::nullopt : std::optional(boolArg(value, "recompute"));
}

InputArgs inputArgs(const Napi::Value& value) {
  const auto object = objectArg(value, "input");
  InputArgs args;
  args.input.inputIds = tensorField(object, "inputIds");
  args.input.roleIds = optionalTensor(object, "roleIds");
  args.input.lengths = optionalTensor(object, "lengths");
  args.input.cuSeqlens = optionalTensor(object, "cuSeqlens");
  args.input.poolMask = optionalTensor(object, "poolMask");
  args.input.table = {optionalTensor(object, "targets"), optionalTensor(object, "context"),
                      optionalTensor(object, "positions")};
  args.grad = boolField(object, "grad", false);
  args.recompute = recomputeField(object);
  const auto threads = object.Get("threads");
  if (!isAbsent(threads)) args.threads = static_cast<int>(integerArg(threads, "threads", 1, kMaxThreads));
  const auto dropout = object.Get("dropout");
  if (!isAbsent(dropout)) args.input.dropout = dropoutField(objectArg(dropout, "dropout"));
  const auto state = object.Get("state");
  if (!isAbsent(state)) args.state = std::make_shared<AegirState>(readHandle<StateHandle>(state, "state"));
  return args;
}

Napi::Value outputObject(Napi::Env env, model::ModelOutput& output) {
  auto object = Napi::Object::New(env);
  object.Set("logits", wrapTensor(env, output.logits));
  object.Set("pooled", wrapOptionalTensor(env, output.pooled));
  object.Set("ownLogits", wrapOptionalTensor(env, output.ownLogits));
  object.Set("state", makeHandle<StateHandle>(env, std::move(output.state)));
  object.Set("routingHidden", wrapTensor(env, output.routingHidden));
  object.Set("ratioLoss", wrapTensor(env, output.ratioLoss));
  object.Set("boundaryRates", numberArray(env, output.boundaryRates));
  return object;
}

Napi::Value modelForward(const Napi::CallbackInfo& info) {
  auto module = moduleArg<Model>(info[1], "module");
  // Graphs are of a GPU; elsewhere a model that asked for them runs as any other.
  const bool onGpu = module->parameters().front().is_cuda();
  auto graphs = onGpu ? nativeArg<ModuleHandle>(info[1], "module").graphs : nullptr;
  auto args = inputArgs(info[2]);
  const int threads = args.threads;
  auto work = [module, graphs, args = std::move(args)] {
    c10::AutoGradMode mode(args.grad);
    model::RecomputeMode recompute(args.recompute);
    if (graphs && !args.grad) return graphs->forward(args.get());
    return module->forward(args.get());
  };
  return enqueue(info.Env(), laneArg(info[0]), {cancelArg(info[3]), threads}, std::move(work), outputObject);
}

Napi::Value modelPrefix(const Napi::CallbackInfo& info) {
  auto module = moduleArg<Model>(info[1], "module");
  auto work = [module, args = inputArgs(info[2])]() -> SharedPrefix {
    c10::AutoGradMode mode(args.grad);
    model::RecomputeMode recompute(args.recompute);
    return std::make_shared<model::Prefix>(module->prefix(args.get()));
  };
  return enqueue(info.Env(), laneArg(info[0]), cancelArg(info[3]), std::move(work),
                 [](Napi::Env env, SharedPrefix& prefix) {
                   auto object = Napi::Object::New(env);
                   object.Set("routingHidden", wrapTensor(env, prefix->routingHidden));
                   object.Set("prefix", makeHandle<PrefixHandle>(env, std::move(prefix)));
                   return object;
                 });
}

std::vector<model::StageKv> stageKvField(const Napi::Object& object, const char* name) {
  std::vector<model::StageKv> stages;
  if (isAbsent(object.Get(name))) return stages;
  const auto list = arrayArg(object.Get(name), name);
  for (uint32_t i = 0; i < list.Length(); ++i) {
    const auto stage = objectArg(list.Get(i), name);
    stages.push_back({integerField(stage, "stage"), tensorListField(stage, "layers")});
  }
  return stages;
}

Napi::Value modelRest(const Napi::CallbackInfo& info) {
  auto module = moduleArg<Model>(info[1], "module");
  auto prefix = readHandle<PrefixHandle>(info[2], "prefix");
  const auto object = objectArg(info[3], "rest");
  model::RestInput rest{stageKvField(object, "innerKv"), optionalTensor(object, "headResidual"),
                        optionalTensor(object, "logitResidual"), optionalTensor(object, "logitScale")};
  const bool grad = boolField(object, "grad", false);
  const auto recomputed = recomputeField(object);
  auto work = [module, prefix, rest, grad, recomputed] {
    c10::AutoGradMode mode(grad);
    model::RecomputeMode recompute(recomputed);
    return module->rest(*prefix, rest);
  };
  return enqueue(info.Env(), laneArg(info[0]), cancelArg(info[4]), std::move(work), outputObject);
}

Napi::Value prefixSelectRows(const Napi::CallbackInfo& info) {
  auto prefix = readHandle<PrefixHandle>(info[1], "prefix");
  auto rows = tensorArg(info[2], "rows");
  auto work = [prefix, rows]() -> SharedPrefix {
    // A prefix with a graph keeps it.
    c10::AutoGradMode mode(prefix->hidden.requires_grad());
    return std::make_shared<model::Prefix>(prefix->selectRows(rows));
  };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work),
                 [](Napi::Env env, SharedPrefix& selected) {
                   auto object = Napi::Object::New(env);
                   object.Set("prefix", makeHandle<PrefixHandle>(env, std::move(selected)));
                   return object;
                 });
}

Napi::Value createState(const Napi::CallbackInfo& info) {
  const auto config = moduleArg<Model>(info[0], "module")->config();
  return makeHandle<StateHandle>(info.Env(),
                                 AegirState::fromTensors(config, namedTensorsArg(info[1], "tensors")));
}

// average += (1 - decay) (weights - average), for every parameter.
Napi::Value averageWeights(const Napi::CallbackInfo& info) {
  auto average = moduleArg<Model>(info[1], "average"), source = moduleArg<Model>(info[2], "module");
  const double decay = numberArg(info[3], "decay");
  check(decay >= 0 && decay < 1, ErrorCode::Argument, "decay: expected 0 or more and under 1, got ", decay);
  auto work = [average, source, decay] {
    c10::NoGradGuard noGrad;
    auto to = average->parameters();
    const auto from = source->parameters();
    check(to.size() == from.size(), ErrorCode::Shape, "average: is of another geometry than module");
    for (size_t i = 0; i < to.size(); ++i) to[i].lerp_(from[i], 1 - decay);
    return true;
  };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work),
                 [](Napi::Env env, bool&) { return Napi::Object::New(env); });
}

}  // namespace

void registerModel(Napi::Env env, Napi::Object exports) {
  using S = StateHandle;
  defineHandle<S>(env, exports,
                  {S::method<&S::tensors>("tensors"), S::method<&S::innerKv>("innerKv"),
                   S::method<&S::innerShift>("innerShift"), S::method<&S::selectRows>("selectRows")});
  defineHandle<PrefixHandle>(env, exports, {PrefixHandle::getter<&PrefixHandle::rows>("rows")});
  registerModuleKind(env, "annotator", makeAnnotator);
  registerModuleKind(env, "causalLM", makeCausalLM);
  setFunction<modelForward>(exports, "modelForward");
  setFunction<modelPrefix>(exports, "modelPrefix");
  setFunction<modelRest>(exports, "modelRest");
  setFunction<prefixSelectRows>(exports, "prefixSelectRows");
  setFunction<createState>(exports, "createState");
  setFunction<averageWeights>(exports, "averageWeights");
}

}  // namespace aegir
