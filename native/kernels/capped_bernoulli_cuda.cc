// The capped-Bernoulli policy through the CUDA plug-in.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "native/cuda/loader.h"
#include "native/kernels/capped_bernoulli.h"

namespace aegir::kernels {
namespace {

struct CudaPolicy {
  cuda::CappedPolicy policy;
  at::Tensor room;
};

CudaPolicy policyOf(const at::Tensor& z, int64_t cap) {
  const int64_t rows = z.size(0), n = z.size(1), most = std::min(cap, n);
  const int64_t stride = cuda::cappedRoom(n, most);
  const at::Tensor room = at::empty({rows, stride}, z.options());
  return {{rows, n, most, z.const_data_ptr<double>(), room.mutable_data_ptr<double>(), stride}, room};
}

}  // namespace

std::pair<at::Tensor, at::Tensor> cappedBernoulliMarginalsCuda(const at::Tensor& z, int64_t cap) {
  const at::Tensor marginals = at::empty(z.sizes(), z.options()), logZ = at::empty({z.size(0)}, z.options());
  const CudaPolicy policy = policyOf(z, cap);
  cuda::launch(&cuda::Table::cappedMoments, z,
               {policy.policy, marginals.mutable_data_ptr<double>(), logZ.mutable_data_ptr<double>()});
  return {marginals, logZ};
}

at::Tensor cappedBernoulliLogZCuda(const at::Tensor& z, int64_t cap) {
  const at::Tensor logZ = at::empty({z.size(0)}, z.options());
  const CudaPolicy policy = policyOf(z, cap);
  cuda::launch(&cuda::Table::cappedMoments, z, {policy.policy, nullptr, logZ.mutable_data_ptr<double>()});
  return logZ;
}

at::Tensor cappedBernoulliCovarianceCuda(const at::Tensor& z, int64_t cap, const at::Tensor& v) {
  const at::Tensor result = at::empty(z.sizes(), z.options());
  const CudaPolicy policy = policyOf(z, cap);
  cuda::launch(&cuda::Table::cappedCovariance, z,
               {policy.policy, v.const_data_ptr<double>(), result.mutable_data_ptr<double>()});
  return result;
}

at::Tensor cappedBernoulliSampleCuda(const at::Tensor& z, int64_t cap, const at::Tensor& uniforms) {
  const at::Tensor actions = at::empty(uniforms.sizes(), uniforms.options().dtype(at::kBool));
  const CudaPolicy policy = policyOf(z, cap);
  cuda::launch(
      &cuda::Table::cappedSample, z,
      {policy.policy, uniforms.size(0), uniforms.const_data_ptr<double>(), actions.mutable_data_ptr<bool>()});
  return actions;
}

}  // namespace aegir::kernels
