#include "native/core/live_tensors.h"

namespace aegir {
namespace {

const c10::StorageImpl* storageOf(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace

int64_t LiveTensors::add(const at::Tensor& tensor) {
  ++count_;
  const auto* storage = storageOf(tensor);
  if (!storage) return 0;
  auto [entry, isNew] = storages_.emplace(storage, Entry{0, static_cast<int64_t>(storage->nbytes())});
  ++entry->second.handles;
  if (!isNew) return 0;
  bytes_ += entry->second.bytes;
  return entry->second.bytes;
}

int64_t LiveTensors::remove(const at::Tensor& tensor) {
  --count_;
  const auto entry = storages_.find(storageOf(tensor));
  if (entry == storages_.end() || --entry->second.handles > 0) return 0;
  const int64_t bytes = entry->second.bytes;
  storages_.erase(entry);
  bytes_ -= bytes;
  return -bytes;
}

}  // namespace aegir
