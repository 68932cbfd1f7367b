// One function per bindings file; binding.cc calls them all when an environment loads the addon.
#pragma once

#include <napi.h>

namespace aegir {

void registerTensor(Napi::Env env, Napi::Object exports);
void registerGenerator(Napi::Env env, Napi::Object exports);
void registerScope(Napi::Env env, Napi::Object exports);
void registerLane(Napi::Env env, Napi::Object exports);
void registerMemory(Napi::Env env, Napi::Object exports);
void registerInfo(Napi::Env env, Napi::Object exports);
void registerModule(Napi::Env env, Napi::Object exports);
void registerBackward(Napi::Env env, Napi::Object exports);
void registerModel(Napi::Env env, Napi::Object exports);
void registerDecode(Napi::Env env, Napi::Object exports);
void registerKernels(Napi::Env env, Napi::Object exports);
void registerSparse(Napi::Env env, Napi::Object exports);
void registerSwarm(Napi::Env env, Napi::Object exports);
void registerBatched(Napi::Env env, Napi::Object exports);
void registerRl(Napi::Env env, Napi::Object exports);
void registerLoss(Napi::Env env, Napi::Object exports);
void registerOptim(Napi::Env env, Napi::Object exports);

}  // namespace aegir
