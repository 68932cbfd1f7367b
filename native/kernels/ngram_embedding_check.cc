// Compares n-gram embeddings, the CPU's and the emulated CUDA ones, with plain ATen over the buckets in f64,
// and the two with each other bucket by bucket.
#include <ATen/TensorIndexing.h>
#include <ATen/ops/index.h>
#include <ATen/ops/randint.h>

#include "native/kernels/check_support.h"
#include "native/kernels/ngram_embedding.h"

namespace aegir::kernels {
namespace {

struct Case {
  std::string name;
  std::vector<int64_t> bounds;
  int64_t buckets, width;
  NgramForm form;
  bool history;
};

NgramInput inputOf(const Case& c) {
  const int64_t sequences = static_cast<int64_t>(c.bounds.size()) - 1, past = c.form.history();
  // Few different ids, so that n-grams come more than once, two of one letter; -1 in a history: nothing had
  // been read.
  const at::Tensor alphabet = at::tensor(std::vector<int64_t>{'k', 'K', 200, '7', 'Z', 'a', '/', 300, -1});
  const auto draw = [&](at::IntArrayRef shape, int64_t from) {
    return alphabet.index({at::randint(0, from, shape, at::kLong)});
  };
  return {at::randn({c.buckets, c.width}, at::kDouble), draw({c.bounds.back()}, 8),
          at::tensor(c.bounds, at::kLong), c.history ? draw({sequences, past}, 9) : at::Tensor(), c.form};
}

void compare(Checker& checker, const Case& c, at::Tensor (*run)(const NgramInput&), at::ScalarType type,
             const std::string& title) {
  NgramInput expected = inputOf(c), actual = expected;
  actual.table = expected.table.to(type).requires_grad_();
  expected.table = actual.table.detach().to(at::kDouble).requires_grad_();
  const at::Tensor output = run(actual), reference = ngramEmbeddingReference(expected);
  const double tolerance = type == at::kDouble ? 1e-13 : 1e-5;
  const std::string name = title + " " + c.name;
  checker.close(name + " output", output, reference, tolerance);
  const at::Tensor weights = at::randn(reference.sizes(), at::kDouble);
  checker.close(name + " gradient", gradients({output}, {weights}, {actual.table})[0],
                gradients({reference}, {weights}, {expected.table})[0], tolerance);
  checker.close(name + " buckets", ngramBucketsCuda(actual), ngramBuckets(expected), 0);
  checker.close(name + " history", ngramHistoryCuda(actual), ngramHistory(expected), 0);
}

int run() {
  openEmulatedCuda();
  Checker checker;
  const uint64_t seed = 20260104;
  at::manual_seed(seed);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const std::vector<Case> cases{
      {"one token", {0, 1}, 7, 3, {{1}}, false},
      {"sizes 1 2 4", {0, 40, 40, 41, 300}, 37, 5, {{1, 2, 4}}, false},
      {"sizes 1 2 4 with history", {0, 40, 40, 41, 300}, 37, 5, {{1, 2, 4}}, true},
      {"sizes 1 2 4 with history and shapes", {0, 40, 40, 41, 300}, 37, 149, {{1, 2, 4}, false, true}, true},
      {"sizes 1 2 4 without case", {0, 40, 40, 41, 300}, 37, 5, {{1, 2, 4}, true}, true},
      {"sizes 2 to 6", {0, 3, 9}, 1000, 48, {{2, 3, 4, 5, 6}}, true},
      {"sizes 2 to 6 and shapes", {0, 3, 9}, 1000, 48, {{2, 3, 4, 5, 6}, true, true}, true},
      {"size 16", {0, 20}, 11, 2, {{16}}, true},
      {"no token", {0, 0}, 7, 3, {{1, 2}, true, true}, true}};
  for (const Case& c : cases) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      const std::string name = type == at::kFloat ? "f32" : "f64";
      compare(checker, c, ngramEmbedding, type, name);
      compare(checker, c, ngramEmbeddingCuda, type, "emulated CUDA " + name);
    }
  }
  return checker.finish("ngram_embedding_check");
}

}  // namespace
}  // namespace aegir::kernels

int main() { return aegir::kernels::run(); }
