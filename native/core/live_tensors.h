// Counts the tensors that handles of one environment hold, and the bytes of their storages, each storage
// once.
#pragma once

#include <ATen/core/Tensor.h>

#include <c10/util/flat_hash_map.h>

#include <cstdint>

namespace aegir {

// Used from the environment's JS thread alone.
class LiveTensors {
 public:
  // Both return the change of live bytes, for the garbage collector's account of external memory.
  int64_t add(const at::Tensor& tensor);
  int64_t remove(const at::Tensor& tensor);

  int64_t count() const { return count_; }
  int64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    int64_t handles;
    int64_t bytes;
  };
  ska::flat_hash_map<const c10::StorageImpl*, Entry> storages_;
  int64_t count_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace aegir
