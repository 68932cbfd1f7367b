// Without Node: the model's own operators against plain ATen, the laws of a recurrent state on small random
// models, and the time of a training step.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <cstdio>

#include "native/kernels/check_support.h"
#include "native/kernels/sequence_mean_cuda.h"
#include "native/model/heads.h"

using namespace aegir::model;

namespace {

int failures = 0;

void report(const char* what, const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  const double difference = (actual - expected).abs().max().item<double>();
  const bool passed = difference <= tolerance;
  if (!passed) ++failures;
  std::printf("%-4s %s: max difference %.2e\n", passed ? "ok" : "FAIL", what, difference);
}

std::shared_ptr<BackboneConfig> smallConfig(int depth, c10::ScalarType dtype) {
  auto config = std::make_shared<BackboneConfig>();
  config->vocabSize = 264;
  config->numRoles = 8;
  config->dtype = dtype;
  for (int i = 0; i < depth; ++i) {
    StageConfig stage;
    stage.dModel = 32 + 16 * i;
    stage.headSize = 16;
    stage.ranks = {8, 8, 8, 16};
    stage.encoder = {{false, 2 * stage.dModel}, {i % 2 == 1, 2 * stage.dModel}};
    if (i + 1 < depth) {
      stage.decoder = {{false, 2 * stage.dModel}};
      stage.downsample = 3;
    }
    config->stages.push_back(stage);
  }
  return config;
}

void checkLaws(int depth) {
  std::printf("%d stage(s)\n", depth);
  c10::AutoGradMode noGrad(false);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  const auto config = smallConfig(depth, at::kDouble);
  CausalLM model({InitScheme::Annotation, generator, at::kDouble}, config);
  for (auto& parameter : model.parameters())
    parameter.add_(at::rand(parameter.sizes(), generator, parameter.options()), 0.05);

  const int64_t batch = 3, tokens = 19;
  const auto ids = at::randint(0, 264, {batch, tokens}, generator, at::kLong);
  const auto whole = model.forward({ids});
  for (int64_t split : {1, 7, 18}) {
    const auto head = model.forward({ids.narrow(1, 0, split)});
    ModelInput rest{ids.narrow(1, split, tokens - split)};
    rest.state = &head.state;
    const auto tail = model.forward(rest);
    report("split logits", at::cat({head.logits, tail.logits}, 1), whole.logits, 1e-10);
    const auto a = tail.state.tensors(), b = whole.state.tensors();
    for (size_t i = 0; i < a.size(); ++i) {
      if (!at::allclose(a[i].second, b[i].second, 1e-9, 1e-10))
        report(a[i].first.c_str(), a[i].second, b[i].second, 1e-10);
    }
  }
  AegirState state(config);
  std::vector<at::Tensor> steps;
  for (int64_t t = 0; t < tokens; ++t) {
    ModelInput step{ids.narrow(1, t, 1)};
    if (t > 0) step.state = &state;
    auto output = model.forward(step);
    steps.push_back(output.logits);
    state = output.state;
  }
  report("single steps", at::cat(steps, 1), whole.logits, 1e-10);

  const auto lengths = at::tensor(std::vector<int64_t>{19, 1, 8});
  ModelInput padded{ids};
  padded.lengths = lengths;
  const auto right = model.forward(padded);
  ModelInput packed{at::cat({ids[0], ids[1].narrow(0, 0, 1), ids[2].narrow(0, 0, 8)}).unsqueeze(0)};
  packed.cuSeqlens = at::tensor(std::vector<int64_t>{0, 19, 20, 28});
  const auto line = model.forward(packed);
  report("packed", line.logits[0].narrow(0, 20, 8), right.logits[2].narrow(0, 0, 8), 1e-10);
  const auto alone = model.forward({ids[2].narrow(0, 0, 8).unsqueeze(0)});
  report("padding", right.logits[2].narrow(0, 0, 8), alone.logits[0], 1e-10);
  report("padding is zero", right.logits[2].narrow(0, 8, 11),
         at::zeros_like(right.logits[2].narrow(0, 8, 11)), 0);
}

// The gradients of `inputs` under the same random cotangent, of an operator and of its plain form.
void compareGradients(const char* what, const at::Tensor& actual, const at::Tensor& expected,
                      const std::vector<at::Tensor>& inputs) {
  report(what, actual, expected, 1e-14);
  const auto cotangent =
      at::linspace(-1, 1, expected.numel(), expected.options().requires_grad(false)).view_as(expected);
  const auto mine = torch::autograd::grad({actual}, inputs, {cotangent});
  const auto plain = torch::autograd::grad({expected}, inputs, {cotangent});
  for (size_t i = 0; i < inputs.size(); ++i) report(what, mine[i], plain[i], 1e-13);
}

void checkOperators() {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const auto p = at::rand({23}, generator, options).requires_grad_();
  const auto x = at::rand({23, 5}, generator, options).requires_grad_();
  const Routing routing{p, p >= 0.5, {}};
  const auto c = at::where(routing.boundary, p, 1 - p);
  compareGradients("straight-through", straightThrough(x, routing), x * (1 + c - c.detach()).unsqueeze(1),
                   {p, x});

  const auto sequences = makeSequences(at::tensor(std::vector<int64_t>{0, 4, 4, 5, 23}), 23);
  const auto mask = (at::rand({23}, generator, options) > 0.4).to(at::kDouble);
  const auto member = at::arange(4).unsqueeze(1).eq(sequences.sequenceOf).to(at::kDouble) * mask;  // (S,K)
  const auto mean = at::mm(member, x) / member.sum(1, true).clamp_min(1);
  compareGradients("sequence mean", sequenceMean(x, mask, sequences), mean, {x});

  aegir::kernels::openEmulatedCuda();
  const auto x32 = x.detach().to(at::kFloat).requires_grad_();
  for (const auto& weights : {mask, at::ones_like(mask)}) {
    const auto part = at::arange(4).unsqueeze(1).eq(sequences.sequenceOf).to(at::kDouble) * weights;
    const auto expected = at::mm(part, x32.to(at::kDouble)) / part.sum(1, true).clamp_min(1);
    const auto actual = aegir::kernels::sequenceMeanCuda(x32, weights.to(at::kFloat), sequences.cuSeqlens);
    report("emulated CUDA sequence mean", actual, expected, 1e-6);
    const auto cotangent = at::linspace(-1, 1, expected.numel(), at::kFloat).view_as(expected);
    report("emulated CUDA sequence mean gradient", torch::autograd::grad({actual}, {x32}, {cotangent})[0],
           torch::autograd::grad({expected}, {x32}, {cotangent.to(at::kDouble)})[0], 1e-6);
  }
}

void timeTraining(int depth) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  const auto config = smallConfig(depth, at::kFloat);
  for (auto& stage : config->stages) {
    stage.dModel *= 2;
    stage.headSize = 32;
  }
  ColumnAnnotation model({InitScheme::Annotation, generator, at::kFloat}, config, {28});
  ModelInput input{at::randint(0, 256, {64, 64}, generator, at::kLong)};
  for (int i = 0; i < 6; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto output = model.forward(input);
    const auto middle = std::chrono::steady_clock::now();
    (output.logits.square().mean() + 0.03 * output.ratioLoss).backward();
    const auto end = std::chrono::steady_clock::now();
    const auto ms = [](auto d) { return std::chrono::duration<double, std::milli>(d).count(); };
    if (i > 2)
      std::printf("%d stage(s): forward %.1f ms, backward %.1f ms\n", depth, ms(middle - start),
                  ms(end - middle));
  }
}

}  // namespace

int main() {
  at::set_num_threads(1);
  checkOperators();
  for (int depth : {1, 2, 3}) checkLaws(depth);
  for (int depth : {1, 2}) timeTraining(depth);
  return failures == 0 ? 0 : 1;
}
