// Losses of the models; registered with the optimiser (optim.cc).
#pragma once

#include <napi.h>

namespace aegir {

void registerLoss(Napi::Env env, Napi::Object exports);

}  // namespace aegir
