// JavaScript objects that own a native value until dispose() or until they are collected.
//
//   class GeneratorHandle : public Handle<GeneratorHandle, at::Generator> {
//    public:
//     static constexpr const char* kName = "Generator";  // its address is the class's identity
//     explicit GeneratorHandle(const Napi::CallbackInfo& info);
//   };
//   using G = GeneratorHandle;
//   defineHandle<G>(env, exports, {G::method<&G::getState>("getState")});
//
// Every handle has `disposed`, `dispose()` and `[Symbol.dispose]()`. A class with `static constexpr bool
// kScoped = true` belongs to the tidy scope in which makeHandle makes it. Methods are guarded: C++ exceptions
// become errors with a code.
#pragma once

#include <napi.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/bindings/errors.h"
#include "native/bindings/instance.h"
#include "native/bindings/scope.h"

namespace aegir {

std::string describeValue(const Napi::Value& value);

// Handle classes that hold tensors say which, so that memory() counts them:
//   template <class Visit>
//   static void eachTensor(const Native& value, Visit visit) { visit(value.hidden); }
template <class T, class Native>
constexpr bool kHoldsTensors =
    requires(const Native& value) { T::eachTensor(value, [](const at::Tensor&) {}); };

template <class T, class Native>
class Handle : public Napi::ObjectWrap<T>, public ScopeMember {
 public:
  using NativeType = Native;
  static constexpr bool kScoped = false;

  explicit Handle(const Napi::CallbackInfo& info) : Napi::ObjectWrap<T>(info) {
    Instance& instance = instanceOf(info.Env());
    instance.handles.emplace(static_cast<T*>(this), T::kName);
    if (void* value = std::exchange(instance.adopting, nullptr)) {
      hold(info.Env(), std::move(*static_cast<Native*>(value)));
      if constexpr (T::kScoped) {
        if (auto scope = currentScope(info.Env())) scope->add(*this);
      }
    }
  }

  // Collected, or the environment ends. T is gone by now, so what release() calls of it is static.
  ~Handle() override {
    release(this->Env());
    instanceOf(this->Env()).handles.erase(static_cast<T*>(this));
  }

  bool disposed() const { return !native_.has_value(); }

  Native& native(const char* argument = "this") {
    if (!native_) fail(ErrorCode::Disposed, argument, ": this ", T::kName, " has been disposed");
    return *native_;
  }

  // Called before the value goes; hides in T where there is something to do.
  static void beforeRelease(Napi::Env, Native&) {}

  Napi::Value dispose(const Napi::CallbackInfo& info) {
    release(info.Env());
    return info.Env().Undefined();
  }
  Napi::Value getDisposed(const Napi::CallbackInfo& info) {
    return Napi::Boolean::New(info.Env(), disposed());
  }

  template <auto body>
  Napi::Value guarded(const Napi::CallbackInfo& info) {
    return guard(info.Env(), [&] { return (static_cast<T*>(this)->*body)(info); });
  }
  template <auto body>
  void guardedSetter(const Napi::CallbackInfo& info, const Napi::Value& value) {
    guard(info.Env(), [&] { (static_cast<T*>(this)->*body)(info, value); });
  }

  template <auto body>
  static Napi::ClassPropertyDescriptor<T> method(const char* name) {
    return T::InstanceMethod(name,
                             static_cast<typename T::InstanceMethodCallback>(&T::template guarded<body>));
  }
  template <auto get>
  static Napi::ClassPropertyDescriptor<T> getter(const char* name) {
    return T::InstanceAccessor(
        name, static_cast<typename T::InstanceGetterCallback>(&T::template guarded<get>), nullptr);
  }
  template <auto get, auto set>
  static Napi::ClassPropertyDescriptor<T> accessor(const char* name) {
    return T::InstanceAccessor(
        name, static_cast<typename T::InstanceGetterCallback>(&T::template guarded<get>),
        static_cast<typename T::InstanceSetterCallback>(&T::template guardedSetter<set>));
  }
  template <Method body>
  static Napi::ClassPropertyDescriptor<T> staticMethod(const char* name) {
    return T::StaticMethod(name, [](const Napi::CallbackInfo& info) -> Napi::Value {
      return guard(info.Env(), [&] { return body(info); });
    });
  }

 protected:
  void hold(Napi::Env env, Native native) {
    native_.emplace(std::move(native));
    if constexpr (kHoldsTensors<T, Native>) {
      T::eachTensor(*native_, [&](const at::Tensor& tensor) { instanceOf(env).tensorHeld(env, tensor); });
    }
  }
  void releaseFromScope(Napi::Env env) override { release(env); }

 private:
  void release(Napi::Env env) {
    if (!native_) return;
    leaveScope();
    T::beforeRelease(env, *native_);
    if constexpr (kHoldsTensors<T, Native>) {
      T::eachTensor(*native_, [&](const at::Tensor& tensor) { instanceOf(env).tensorReleased(env, tensor); });
    }
    native_.reset();
  }

  std::optional<Native> native_;
};

// What `value` wraps and its class's kName; null where it is no handle of this environment. A type tag would
// say the same, at ten times the time.
inline std::pair<void*, const char*> wrappedHandle(const Napi::Value& value) {
  void* wrapped = nullptr;
  if (value.IsEmpty() || napi_unwrap(value.Env(), value, &wrapped) != napi_ok) return {};
  const auto& handles = instanceOf(value.Env()).handles;
  const auto found = handles.find(wrapped);
  return found == handles.end() ? std::pair<void*, const char*>{} : std::pair{wrapped, found->second};
}

// Defines class T in `exports` and remembers its constructor for makeHandle.
template <class T>
void defineHandle(Napi::Env env, Napi::Object exports,
                  std::vector<Napi::ClassPropertyDescriptor<T>> properties) {
  properties.push_back(T::template method<&T::dispose>("dispose"));
  properties.push_back(T::template getter<&T::getDisposed>("disposed"));
  auto constructor = T::DefineClass(env, T::kName, properties);
  auto prototype = constructor.Get("prototype").template As<Napi::Object>();
  prototype.Set(Napi::Symbol::WellKnown(env, "dispose"), prototype.Get("dispose"));
  instanceOf(env).constructors[T::kName] = Napi::Persistent(constructor);
  if constexpr (T::kScoped) {
    instanceOf(env).scopedClasses.emplace_back(
        T::kName, [](void* wrapped) -> ScopeMember* { return static_cast<T*>(wrapped); });
  }
  exports.Set(T::kName, constructor);
}

// A new handle that owns `value`.
template <class T>
Napi::Object makeHandle(Napi::Env env, typename T::NativeType value) {
  auto& instance = instanceOf(env);
  // Construction itself may throw (a full JS stack): the value must not be adopted by the next handle.
  struct Offer {
    void*& slot;
    ~Offer() { slot = nullptr; }
  } offer{instance.adopting = &value};
  return instance.constructors.at(T::kName).Value().New(std::initializer_list<napi_value>{});
}

// The handle in `value`; `argument` names it in the error where it is something else.
template <class T>
T& handleArg(const Napi::Value& value, const char* argument) {
  const auto [wrapped, name] = wrappedHandle(value);
  if (name != T::kName)
    fail(ErrorCode::Argument, argument, ": expected a ", T::kName, ", got ", describeValue(value));
  return *static_cast<T*>(wrapped);
}

template <class T>
typename T::NativeType& nativeArg(const Napi::Value& value, const char* argument) {
  return handleArg<T>(value, argument).native(argument);
}

}  // namespace aegir
