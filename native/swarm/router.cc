#include "native/swarm/router.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>

#include "native/core/error.h"
#include "native/core/transfer.h"

namespace aegir {

SpecialistRouterImpl::SpecialistRouterImpl(const RouterConfig& config) : config_(config) {
  check(config.dModel > 0 && config.numSpecialists >= 0 && config.softCap >= 0, ErrorCode::Config,
        "router: dModel ", config.dModel, " must be positive, numSpecialists ", config.numSpecialists,
        " and softCap ", config.softCap, " not negative");
  const auto options = at::TensorOptions().dtype(config.dtype);
  weight_ = register_parameter("weight", at::zeros({config.numSpecialists, config.dModel}, options));
  bias_ = register_parameter("bias", at::zeros({config.numSpecialists}, options));
}

at::Tensor SpecialistRouterImpl::forward(const at::Tensor& hidden) {
  check(hidden.dim() == 2 && hidden.size(1) == config_.dModel, ErrorCode::Shape,
        "router: routingHidden expected (B,", config_.dModel, "), got ", hidden.sizes());
  const auto features =
      at::layer_norm(queuedTo(hidden, weight_.device()).to(config_.dtype), {config_.dModel});
  const auto logits = at::linear(features, weight_, bias_);
  return config_.softCap > 0 ? (logits / config_.softCap).tanh() * config_.softCap : logits;
}

}  // namespace aegir
