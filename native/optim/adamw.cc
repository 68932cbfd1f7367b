#include "native/optim/adamw.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "native/core/error.h"
#include "native/cuda/loader.h"
#include "native/optim/muon.h"

namespace aegir::optim {

namespace {

double squaredNorm(const at::Tensor& gradient) {
  double total = 0;
  AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "squaredNorm", [&] {
    const scalar_t* g = gradient.const_data_ptr<scalar_t>();
    // Four running sums in double let the loop vectorise; their order is fixed.
    double sums[4] = {0, 0, 0, 0};
    const int64_t n = gradient.numel(), whole = n - n % 4;
    for (int64_t i = 0; i < whole; i += 4) {
      for (int64_t j = 0; j < 4; ++j)
        sums[j] += static_cast<double>(g[i + j]) * static_cast<double>(g[i + j]);
    }
    for (int64_t i = whole; i < n; ++i) sums[0] += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  });
  return total;
}

// Of gradients on GPUs: one wait for all of them.
double squaredNormOfAll(const std::vector<at::Tensor>& gradients) {
  if (gradients.empty()) return 0;
  std::vector<at::Tensor> norms;
  for (const auto& gradient : gradients) {
    norms.push_back(at::linalg_vector_norm(gradient, 2, std::nullopt, /*keepdim=*/false, at::kDouble)
                        .to(gradients[0].device()));
  }
  return at::stack(norms).square().sum().item<double>();
}

struct Update {
  double gradScale, beta1, beta2, eps, decay, stepSize, squareCorrection;
};

template <class T>
void updateParameter(T* __restrict__ p, const T* __restrict__ g, T* __restrict__ m, T* __restrict__ v,
                     int64_t n, const Update& update) {
  const T scale = static_cast<T>(update.gradScale), eps = static_cast<T>(update.eps);
  const T b1 = static_cast<T>(update.beta1), c1 = static_cast<T>(1 - update.beta1);
  const T b2 = static_cast<T>(update.beta2), c2 = static_cast<T>(1 - update.beta2);
  const T decay = static_cast<T>(update.decay), stepSize = static_cast<T>(update.stepSize);
  const T correction = static_cast<T>(update.squareCorrection);
  for (int64_t i = 0; i < n; ++i) {
    const T gradient = g[i] * scale;
    m[i] = b1 * m[i] + c1 * gradient;
    v[i] = b2 * v[i] + c2 * gradient * gradient;
    p[i] = p[i] * decay - stepSize * m[i] / (std::sqrt(v[i] * correction) + eps);
  }
}

void updateOnGpu(const at::Tensor& p, const at::Tensor& g, const at::Tensor& m, const at::Tensor& v,
                 const Update& u) {
  const cuda::AdamW arguments{g.numel(),
                              g.scalar_type() == at::kDouble,
                              p.mutable_data_ptr(),
                              g.const_data_ptr(),
                              m.mutable_data_ptr(),
                              v.mutable_data_ptr(),
                              u.gradScale,
                              u.beta1,
                              u.beta2,
                              u.eps,
                              u.decay,
                              u.stepSize,
                              u.squareCorrection};
  cuda::launch(&cuda::Table::adamW, p, arguments);
}

void update(const at::Tensor& p, const at::Tensor& g, const at::Tensor& m, const at::Tensor& v,
            const Update& u) {
  if (!p.is_cpu()) return updateOnGpu(p, g, m, v, u);
  AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "adamw", [&] {
    updateParameter(p.mutable_data_ptr<scalar_t>(), g.const_data_ptr<scalar_t>(),
                    m.mutable_data_ptr<scalar_t>(), v.mutable_data_ptr<scalar_t>(), g.numel(), u);
  });
}

}  // namespace

AdamW::AdamW(std::vector<AdamWParameter> parameters, AdamWOptions options) : options_(options) {
  std::unordered_set<std::string> names;
  for (auto& parameter : parameters) {
    const auto& value = parameter.value;
    check(names.insert(parameter.name).second, ErrorCode::Argument, "AdamW: parameter '", parameter.name,
          "' is given twice");
    check(value.is_cpu() || value.is_cuda(), ErrorCode::Device, "AdamW: parameter '", parameter.name,
          "' is on ", value.device(), ", expected the CPU or CUDA");
    check(value.scalar_type() == at::kFloat || value.scalar_type() == at::kDouble, ErrorCode::Dtype,
          "AdamW: parameter '", parameter.name, "' is ", value.scalar_type(), ", expected f32 or f64");
    check(value.is_contiguous(), ErrorCode::Argument, "AdamW: parameter '", parameter.name,
          "' is not contiguous");
    check(!parameter.muon || value.dim() == 2, ErrorCode::Shape, "AdamW: parameter '", parameter.name,
          "' of shape ", value.sizes(), " is no matrix: Muon cannot update it");
    const auto zeros = [moments = value.detach()] { return at::zeros_like(moments); };
    const bool muon = parameter.muon;
    slots_.push_back({std::move(parameter), zeros(), muon ? at::Tensor() : zeros(), 0});
  }
}

void AdamW::updateSlot(Slot& slot, const at::Tensor& gradient, double lr, double gradScale) {
  auto& parameter = slot.parameter;
  slot.steps += 1;
  const double rate = lr * parameter.lrScale, steps = static_cast<double>(slot.steps),
               decay = 1 - rate * parameter.weightDecay;
  if (parameter.muon) {
    muonUpdate(parameter.value, gradScale == 1 ? gradient : gradient * gradScale, slot.mean,
               options_.momentum, rate, decay);
  } else {
    update(parameter.value, gradient, slot.mean, slot.square,
           {gradScale, options_.beta1, options_.beta2, options_.eps, decay,
            rate / (1 - std::pow(options_.beta1, steps)), 1 / (1 - std::pow(options_.beta2, steps))});
  }
  // A graph that still refers to the old values must not be differentiated with the new ones.
  parameter.value.unsafeGetTensorImpl()->bump_version();
}

StepResult AdamW::step(double lr, double clipNorm) {
  double total = 0;
  std::vector<at::Tensor> onGpus;
  for (auto& slot : slots_) {
    auto& gradient = slot.parameter.value.mutable_grad();
    if (!gradient.defined()) continue;
    gradient = gradient.contiguous();
    if (gradient.is_cpu()) {
      total += squaredNorm(gradient);
    } else {
      onGpus.push_back(gradient);
    }
  }
  total += squaredNormOfAll(onGpus);
  StepResult result{std::sqrt(total), false};
  result.skipped = !std::isfinite(result.gradNorm);
  const double gradScale =
      clipNorm > 0 && result.gradNorm > clipNorm ? clipNorm / (result.gradNorm + 1e-6) : 1;
  for (auto& slot : slots_) {
    auto& gradient = slot.parameter.value.mutable_grad();
    if (gradient.defined() && !result.skipped) updateSlot(slot, gradient, lr, gradScale);
    gradient.reset();
  }
  return result;
}

std::vector<std::pair<std::string, at::Tensor>> AdamW::stateDict() const {
  std::vector<std::pair<std::string, at::Tensor>> state;
  auto steps = at::empty({static_cast<int64_t>(slots_.size())}, at::TensorOptions().dtype(at::kLong));
  for (size_t i = 0; i < slots_.size(); ++i) steps.mutable_data_ptr<int64_t>()[i] = slots_[i].steps;
  state.emplace_back("step", steps);
  for (const auto& slot : slots_) {
    const auto& name = slot.parameter.name;
    state.emplace_back(name + (slot.parameter.muon ? ".momentum" : ".exp_avg"), slot.mean.clone());
    if (!slot.parameter.muon) state.emplace_back(name + ".exp_avg_sq", slot.square.clone());
  }
  return state;
}

void AdamW::loadStateDict(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  const std::unordered_map<std::string, at::Tensor> given(tensors.begin(), tensors.end());
  std::unordered_set<std::string> known;
  const auto find = [&](const std::string& name, at::IntArrayRef shape, at::ScalarType dtype) {
    const auto found = given.find(name);
    check(found != given.end(), ErrorCode::Checkpoint, "optimiser state: tensor '", name, "' is missing");
    check(found->second.sizes() == shape && found->second.scalar_type() == dtype, ErrorCode::Checkpoint,
          "optimiser state: '", name, "' is ", found->second.scalar_type(), " of shape ",
          found->second.sizes(), ", expected ", dtype, " of shape ", shape);
    known.insert(name);
    return found->second;
  };
  const auto steps = find("step", {static_cast<int64_t>(slots_.size())}, at::kLong).cpu().contiguous();
  auto loaded = slots_;
  for (size_t i = 0; i < loaded.size(); ++i) {
    auto& slot = loaded[i];
    const auto& value = slot.parameter.value;
    const auto moment = [&](const char* suffix) {
      const auto given = find(slot.parameter.name + suffix, value.sizes(), value.scalar_type());
      return given.detach().to(value.options(), /*non_blocking=*/false, /*copy=*/true).contiguous();
    };
    slot.mean = moment(slot.parameter.muon ? ".momentum" : ".exp_avg");
    if (!slot.parameter.muon) slot.square = moment(".exp_avg_sq");
    slot.steps = steps.const_data_ptr<int64_t>()[i];
  }
  for (const auto& entry : tensors) {
    check(known.count(entry.first) > 0, ErrorCode::Checkpoint, "optimiser state: '", entry.first,
          "' belongs to no parameter of this optimiser");
  }
  slots_ = std::move(loaded);
}

}  // namespace aegir::optim
