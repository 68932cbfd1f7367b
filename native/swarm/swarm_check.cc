// Laws of the swarm modules that run without Node. Exit code 1 where one fails.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <cstdio>
#include <functional>

#include "native/core/error.h"
#include "native/swarm/alignment.h"
#include "native/swarm/fusion.h"
#include "native/swarm/output_fusion.h"
#include "native/swarm/ridge.h"
#include "native/swarm/router.h"

using namespace aegir;

namespace {

int failures = 0;

void expect(bool ok, const char* what) {
  std::printf("%s %s\n", ok ? "ok  " : "FAIL", what);
  if (!ok) ++failures;
}

at::Generator seeded(uint64_t seed) { return at::make_generator<at::CPUGeneratorImpl>(seed); }

at::Tensor normal(at::IntArrayRef shape, at::Generator& gen) {
  return at::empty(shape, at::kDouble).normal_(0, 1, gen);
}

at::Tensor rows(std::vector<int64_t> list) { return at::tensor(list, at::kLong); }

FusionConfig fusionConfig(FusionMode mode, int64_t layers = 1) {
  FusionConfig config;
  config.numHeads = 2;
  config.headSize = 3;
  config.numAgents = 2;
  config.mode = mode;
  config.layers = layers;
  config.dtype = at::kDouble;
  return config;
}

void randomise(torch::nn::Module& module, at::Generator& gen) {
  for (auto& p : module.parameters()) p.data().normal_(0, 0.5, gen);
}

// The equations of docs/swarm.md as written: every agent in every row, inactive ones masked.
at::Tensor plainWeightedSum(const RWKVStateFusion& fusion, const at::Tensor& own,
                            const std::vector<at::Tensor>& states, const at::Tensor& active) {
  const auto parameters = fusion->named_parameters();
  const auto query = parameters["query"][0], keyProj = parameters["keyProj"][0];
  auto all = own.unsqueeze(1);  // (B,1+n,H,N,N)
  for (const auto& s : states) all = at::cat({all, s.unsqueeze(1)}, 1);
  const auto keys = all.flatten(3).matmul(keyProj.t());  // (B,1+n,H,N)
  auto scores = at::einsum("bnhk,hk->bnh", {keys, query});
  scores = scores.masked_fill(active.logical_not().unsqueeze(-1), -INFINITY);
  return at::einsum("bnh,bnhij->bhij", {scores.softmax(1), all});
}

void checkFusion() {
  auto gen = seeded(7);
  const auto own = normal({4, 2, 3, 3}, gen), a = normal({4, 2, 3, 3}, gen), b = normal({4, 2, 3, 3}, gen);
  const auto r0 = rows({0, 2}), r1 = rows({2, 3});
  const std::vector<AgentStates> agents{{0, r0, a.index_select(0, r0)}, {1, r1, b.index_select(0, r1)}};
  const auto active = at::tensor({1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 0, 1}).view({4, 3}).to(at::kBool);

  for (const auto mode : {FusionMode::WeightedSum, FusionMode::Gated, FusionMode::ConcatProject}) {
    RWKVStateFusion fusion(fusionConfig(mode), gen);
    const auto start = fusion->forward(0, 4, own, agents).states;
    const auto mean =
        mode == FusionMode::ConcatProject ? own[2] + (a[2] + b[2]) / 2 : (own[2] + a[2] + b[2]) / 3;
    expect(at::allclose(start[2], mean), "starts from the mean of the active states");
    randomise(*fusion, gen);
    const auto fused = fusion->forward(0, 4, own, agents);
    expect(at::equal(fused.states[1], own[1]), "a row with no active agent keeps its own state bit for bit");
    const auto absent = fusion->forward(0, 4, {}, agents);
    expect(at::equal(absent.states[1], at::zeros({2, 3, 3}, at::kDouble)), "absent own state is zeros");
    const auto zeros = fusion->forward(0, 4, at::zeros_like(own), agents);
    expect(at::allclose(absent.states, zeros.states), "absent own state equals a zero state");
    const auto swapped = fusion->forward(0, 4, own, {agents[1], agents[0]});
    expect(at::allclose(fused.states, swapped.states, 1e-12, 1e-12), "order of the agents does not matter");
    if (mode == FusionMode::WeightedSum) {
      expect(at::allclose(fused.states, plainWeightedSum(fusion, own, {a, b}, active)),
             "weighted sum as written");
      expect(at::equal(fused.weights.select(2, 0).eq(0), active.logical_not()),
             "inactive weights are exactly 0");
    }
  }
}

void checkFusionGradient() {
  auto gen = seeded(11);
  const auto own = normal({3, 2, 3, 3}, gen);
  const auto r = rows({0, 2});
  for (const auto mode : {FusionMode::WeightedSum, FusionMode::Gated, FusionMode::ConcatProject}) {
    RWKVStateFusion fusion(fusionConfig(mode), gen);
    randomise(*fusion, gen);
    const auto states = normal({2, 2, 3, 3}, gen), probe = normal({3, 2, 3, 3}, gen);
    const auto loss = [&] { return (fusion->forward(0, 3, own, {{1, r, states}}).states * probe).sum(); };
    loss().backward();
    double worst = 0;
    for (auto& p : fusion->parameters()) {
      auto flat = p.data().view(-1);
      const auto grad = p.grad().view(-1);
      for (int64_t i = 0; i < flat.numel(); i += 1 + flat.numel() / 17) {
        const double eps = 1e-6, value = flat[i].item<double>();
        flat[i] = value + eps;
        const double up = loss().item<double>();
        flat[i] = value - eps;
        const double down = loss().item<double>();
        flat[i] = value;
        worst = std::max(worst, std::abs((up - down) / (2 * eps) - grad[i].item<double>()));
      }
    }
    expect(worst < 1e-7, "gradient of the fusion's parameters against finite differences");
  }
}

AlignmentConfig alignmentConfig(AlignmentMode mode) {
  AlignmentConfig config;
  config.primary = {3, 4, 3};
  config.specialist = {2, 2, 5};
  config.mode = mode;
  config.vectors = true;
  config.dtype = at::kDouble;
  return config;
}

void checkAlignment() {
  auto gen = seeded(13);
  AlignmentProjection bilinear(alignmentConfig(AlignmentMode::Bilinear));
  AlignmentProjection dense(alignmentConfig(AlignmentMode::Dense));
  expect(bilinear->sourceLayer(0) == 0 && bilinear->sourceLayer(2) == 1, "layer map stretches the stacks");
  expect(bilinear->sourceHead(1) == 0 && bilinear->sourceHead(2) == 1, "head map");
  const auto states = normal({200, 2, 5, 5}, gen);
  const auto mapped = bilinear->forward(0, states);
  expect(at::allclose(mapped, dense->forward(0, states)), "dense starts as the bilinear form does");
  const double kept = (mapped.norm() / states.index_select(1, rows({0, 0, 1, 1})).norm()).item<double>();
  expect(std::abs(kept - 1) < 0.03, "the start keeps norms");

  // A known bilinear map is recovered from pairs.
  std::vector<at::Tensor> source{normal({60, 2, 5, 5}, gen), normal({60, 2, 5, 5}, gen)}, target;
  const auto left = normal({4, 3, 5}, gen), right = normal({4, 3, 5}, gen);
  for (int64_t j = 0; j < 3; ++j) {
    const auto from = source[bilinear->sourceLayer(j)].index_select(1, rows({0, 0, 1, 1}));
    target.push_back(at::einsum("hij,bhjk,hlk->bhil", {left, from, right}));
  }
  expect(bilinear->fit(source, target, 1e-9) < 1e-5, "bilinear ridge recovers a bilinear map");
  expect(dense->fit(source, target, 1e-9) < 1e-5, "dense ridge recovers a bilinear map");

  std::vector<at::Tensor> vectors, wanted;
  const auto matrix = normal({10, 12}, gen), shift = normal({12}, gen);
  for (int64_t i = 0; i < 4; ++i) vectors.push_back(normal({80, 10}, gen));
  for (int64_t i = 0; i < 6; ++i)
    wanted.push_back(vectors[2 * bilinear->sourceLayer(i / 2) + i % 2].matmul(matrix) + shift);
  expect(bilinear->fit(vectors, wanted, 1e-10) < 1e-6, "centred ridge recovers an affine map of vectors");
}

void checkDenseLimit() {
  AlignmentConfig config;
  config.primary = {1, 8, 64};
  config.specialist = {1, 4, 64};
  config.mode = AlignmentMode::Dense;
  try {
    AlignmentProjection alignment(config);
    expect(false, "dense refuses to allocate above its limit");
  } catch (const Error& error) {
    expect(std::string(error.what()).find("536870912") != std::string::npos, "the refusal names the weights");
  }
}

void checkLatentRidge() {
  const auto out = at::tensor({1., 0., 0., 2., 1., 1.}, at::kDouble).view({3, 2});
  const auto in = at::tensor({.5, 0., 0., 1., .5, .6}, at::kDouble).view({3, 2});
  const auto fit = latentRidge(out, in, 1e-5);
  const auto map = at::tensor({0.499997, 0.044445, 1e-6, 0.51111}, at::kDouble).view({2, 2});
  const auto e = latentAlign(fit, at::tensor({2., -1.}, at::kDouble).view({1, 2}));
  expect(at::allclose(fit.map, map, 0, 1e-6) && std::abs(fit.targetNorm - 0.760342) < 1e-6,
         "V11: map and norm");
  expect(at::allclose(e, at::tensor({0.700464, -0.295752}, at::kDouble).view({1, 2}), 0, 1e-6),
         "V11: embedding");
}

void checkRouterAndOutputs() {
  auto gen = seeded(17);
  RouterConfig routerConfig;
  routerConfig.dModel = 8;
  routerConfig.numSpecialists = 3;
  SpecialistRouter router(routerConfig);
  const auto hidden = normal({5, 8}, gen).to(at::kFloat);
  expect(at::equal(router->forward(hidden), at::zeros({5, 3})), "the router starts at p = 0.5");
  for (auto& p : router->parameters()) p.data().normal_(0, 50, gen);
  expect(router->forward(hidden).abs().max().item<float>() <= 6, "logits stay within the soft cap");

  OutputFusionConfig config;
  config.dModel = 4;
  config.specialists = {{3, 5}, {6, 2}};
  config.dtype = at::kDouble;
  OutputFusion fusion(config);
  const std::vector<AgentOutputs> agents{{1, rows({1}), normal({1, 6}, gen), normal({1, 2}, gen)}};
  const auto start = fusion->forward(3, agents);
  expect(start.embedding.abs().sum().item<double>() == 0, "the residual starts at zero");
  expect(!start.logits.defined(), "without labels nothing is added to logits");
  randomise(*fusion, gen);
  const auto residual = fusion->forward(3, agents).embedding;
  expect(residual[0].abs().sum().item<double>() == 0 && residual[1].abs().sum().item<double>() > 0,
         "only rows with an active agent have a residual");
}

// Labels of one name: ln p but for a constant, at the weight; a label without one says nothing.
void checkLabelMaps() {
  auto gen = at::detail::createCPUGenerator(11);
  OutputFusionConfig config;
  config.dModel = 4;
  config.numLabels = 2;
  config.ownWeight = 0.25;
  config.specialists = {{3, 3, {1, -1, 0}, 0.5}};
  config.dtype = at::kDouble;
  OutputFusion fusion(config);
  const auto logits = normal({1, 3}, gen);
  const auto [embedding, said, scale] = fusion->forward(2, {{0, rows({1}), normal({1, 3}, gen), logits}});
  expect(scale[0].item<double>() == 1 && scale[1].item<double>() == 0.25,
         "the primary's own answer counts less where a specialist answers");
  const auto logp = logits.log_softmax(1);
  const auto difference = (said[1][1] - said[1][0]) - 0.5 * (logp[0][0] - logp[0][2]);
  expect(std::abs(difference.item<double>()) < 1e-12, "logits differ as ln p of the labels of one name");
  expect(said[0].abs().sum().item<double>() == 0, "a row without an active agent gets no logits");
}

}  // namespace

int main() {
  checkFusion();
  checkFusionGradient();
  checkAlignment();
  checkDenseLimit();
  checkLatentRidge();
  checkRouterAndOutputs();
  checkLabelMaps();
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
