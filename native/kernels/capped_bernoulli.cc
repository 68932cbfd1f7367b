#include "native/kernels/capped_bernoulli.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace aegir::kernels {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
constexpr int64_t kRowsPerTask = 16;

// A sum over actions of e^(a.z), kept as its logarithm: `+` joins disjoint sets of actions, `*` independent
// choices.
struct Weight {
  double log = kMinusInfinity;

  static Weight one() { return {0}; }
  static Weight activate(double z, double) { return {z}; }
};

Weight operator*(Weight x, Weight y) { return {x.log + y.log}; }

Weight operator+(Weight x, Weight y) {
  const double high = std::max(x.log, y.log);
  if (high == kMinusInfinity) return {};
  return {high + std::log1p(std::exp(std::min(x.log, y.log) - high))};
}

// The same with the mean of a.v over those actions: the derivative of `log` along v.
struct MeanWeight {
  double log = kMinusInfinity;
  double mean = 0;

  static MeanWeight one() { return {0, 0}; }
  static MeanWeight activate(double z, double v) { return {z, v}; }
};

MeanWeight operator*(MeanWeight x, MeanWeight y) { return {x.log + y.log, x.mean + y.mean}; }

MeanWeight operator+(MeanWeight x, MeanWeight y) {
  const double log = (Weight{x.log} + Weight{y.log}).log;
  if (log == kMinusInfinity) return {};
  return {log, std::exp(x.log - log) * x.mean + std::exp(y.log - log) * y.mean};
}

// One row with its forbidden specialists left out, and its tables.
template <class W>
class Row {
 public:
  // v may be null where W does not use it.
  void load(const double* z, const double* v, int64_t n, int64_t cap) {
    allowed_.clear();
    choices_.clear();
    for (int64_t i = 0; i < n; ++i) {
      if (z[i] == kMinusInfinity) continue;
      allowed_.push_back(i);
      choices_.push_back(W::activate(z[i], v ? v[i] : 0));
    }
    cap_ = std::min<int64_t>(cap, size());
    fillAtMost();
  }

  int64_t size() const { return int64_t(allowed_.size()); }
  int64_t cap() const { return cap_; }
  // Index of the i-th allowed specialist in the whole row.
  int64_t specialist(int64_t i) const { return allowed_[i]; }
  const W& choice(int64_t i) const { return choices_[i]; }
  // Z_b of the allowed specialists from i on.
  const W& atMost(int64_t i, int64_t b) const { return atMost_[i * (cap_ + 1) + b]; }
  const W& total() const { return atMost(0, cap_); }

  // Calls each(i, sum of the weights of the actions that activate the i-th allowed specialist).
  template <class Each>
  void forEachActivation(const Each& each) {
    // exactly[k]: weight of activating k of the specialists before i.
    exactly_.assign(cap_ + 1, W{});
    exactly_[0] = W::one();
    for (int64_t i = 0; i < size(); ++i) {
      W others{};
      for (int64_t k = 0; k < cap_; ++k) others = others + exactly_[k] * atMost(i + 1, cap_ - 1 - k);
      each(i, choice(i) * others);
      for (int64_t k = cap_; k > 0; --k) exactly_[k] = exactly_[k] + exactly_[k - 1] * choice(i);
    }
  }

 private:
  void fillAtMost() {
    atMost_.assign((size() + 1) * (cap_ + 1), W::one());
    for (int64_t i = size() - 1; i >= 0; --i) {
      for (int64_t b = 1; b <= cap_; ++b) {
        atMost_[i * (cap_ + 1) + b] = atMost(i + 1, b) + choice(i) * atMost(i + 1, b - 1);
      }
    }
  }

  int64_t cap_ = 0;
  std::vector<int64_t> allowed_;
  std::vector<W> choices_;
  std::vector<W> atMost_;
  std::vector<W> exactly_;
};

// Calls each(row index, Row<W>) for every row, rows in parallel.
template <class W, class Each>
void forEachRow(const CappedBernoulliPolicy& policy, const double* v, const Each& each) {
  at::parallel_for(0, policy.rows, kRowsPerTask, [&](int64_t begin, int64_t end) {
    Row<W> row;
    for (int64_t r = begin; r < end; ++r) {
      row.load(policy.z + r * policy.n, v ? v + r * policy.n : nullptr, policy.n, policy.cap);
      each(r, row);
    }
  });
}

// P(a_i = 1) = z_i Z_{b-1}(after i) / Z_b(from i), specialist by specialist with the remaining budget b.
void sampleRow(const Row<Weight>& row, const double* uniforms, bool* actions) {
  int64_t budget = row.cap();
  for (int64_t i = 0; i < row.size() && budget > 0; ++i) {
    const double on = (row.choice(i) * row.atMost(i + 1, budget - 1)).log - row.atMost(i, budget).log;
    if (uniforms[row.specialist(i)] >= std::exp(on)) continue;
    actions[row.specialist(i)] = true;
    --budget;
  }
}

}  // namespace

void cappedBernoulliLogZ(const CappedBernoulliPolicy& policy, double* logZ) {
  forEachRow<Weight>(policy, nullptr, [&](int64_t r, Row<Weight>& row) { logZ[r] = row.total().log; });
}

void cappedBernoulliMarginals(const CappedBernoulliPolicy& policy, double* marginals, double* logZ) {
  std::fill_n(marginals, policy.rows * policy.n, 0.0);
  forEachRow<Weight>(policy, nullptr, [&](int64_t r, Row<Weight>& row) {
    logZ[r] = row.total().log;
    row.forEachActivation([&](int64_t i, Weight on) {
      marginals[r * policy.n + row.specialist(i)] = std::exp(on.log - row.total().log);
    });
  });
}

void cappedBernoulliCovariance(const CappedBernoulliPolicy& policy, const double* v, double* result) {
  std::fill_n(result, policy.rows * policy.n, 0.0);
  // Cov(a_i, a.v) = P(a_i = 1) (E[a.v | a_i = 1] - E[a.v]).
  forEachRow<MeanWeight>(policy, v, [&](int64_t r, Row<MeanWeight>& row) {
    row.forEachActivation([&](int64_t i, MeanWeight on) {
      const double marginal = std::exp(on.log - row.total().log);
      result[r * policy.n + row.specialist(i)] = marginal * (on.mean - row.total().mean);
    });
  });
}

void cappedBernoulliSample(const CappedBernoulliPolicy& policy, const double* uniforms, int64_t draws,
                           bool* actions) {
  const int64_t stride = policy.rows * policy.n;
  std::fill_n(actions, draws * stride, false);
  forEachRow<Weight>(policy, nullptr, [&](int64_t r, Row<Weight>& row) {
    for (int64_t g = 0; g < draws; ++g) {
      const int64_t at = g * stride + r * policy.n;
      sampleRow(row, uniforms + at, actions + at);
    }
  });
}

void cappedBernoulliMode(const CappedBernoulliPolicy& policy, double cut, bool* actions) {
  std::fill_n(actions, policy.rows * policy.n, false);
  std::vector<int64_t> order(policy.n);
  for (int64_t r = 0; r < policy.rows; ++r) {
    const double* z = policy.z + r * policy.n;
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [z](int64_t i, int64_t j) { return z[i] > z[j]; });
    for (int64_t k = 0; k < std::min(policy.cap, policy.n) && z[order[k]] > cut; ++k) {
      actions[r * policy.n + order[k]] = true;
    }
  }
}

}  // namespace aegir::kernels
