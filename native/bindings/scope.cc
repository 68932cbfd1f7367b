#include "native/bindings/scope.h"

#include "native/bindings/convert.h"
#include "native/bindings/handle.h"
#include "native/bindings/register.h"

namespace aegir {
namespace {

class ScopeHandle : public Handle<ScopeHandle, std::shared_ptr<Scope>> {
 public:
  static constexpr const char* kName = "Scope";

  explicit ScopeHandle(const Napi::CallbackInfo& info) : Handle(info) {
    hold(info.Env(), std::make_shared<Scope>());
    ++instanceOf(info.Env()).openScopes;
  }

  static void beforeRelease(Napi::Env env, std::shared_ptr<Scope>& scope) {
    --instanceOf(env).openScopes;
    scope->releaseAll(env);
  }

  // move(value, to?): takes a handle out of its scope, into `to` where given; false where value is no scoped
  // handle.
  Napi::Value move(const Napi::CallbackInfo& info) {
    ScopeMember* member = nullptr;
    const auto [wrapped, name] = wrappedHandle(info[0]);
    for (const auto& [scoped, cast] : instanceOf(info.Env()).scopedClasses) {
      if (name == scoped) member = cast(wrapped);
    }
    if (member && isAbsent(info[1])) member->leaveScope();
    if (member && !isAbsent(info[1])) nativeArg<ScopeHandle>(info[1], "to")->add(*member);
    return Napi::Boolean::New(info.Env(), member != nullptr);
  }
};

Napi::Value setScopeProvider(const Napi::CallbackInfo& info) {
  check(info[0].IsFunction(), ErrorCode::Argument, "provider: expected a function, got ",
        describeValue(info[0]));
  instanceOf(info.Env()).scopeProvider = Napi::Persistent(info[0].As<Napi::Function>());
  return info.Env().Undefined();
}

}  // namespace

void ScopeMember::leaveScope() {
  if (scope_) scope_->remove(*this);
}

Scope::~Scope() {
  for (ScopeMember* member : members_) member->scope_ = nullptr;
}

void Scope::add(ScopeMember& member) {
  member.leaveScope();
  member.scope_ = this;
  member.position_ = members_.size();
  members_.push_back(&member);
}

void Scope::remove(ScopeMember& member) {
  members_[member.position_] = members_.back();
  members_[member.position_]->position_ = member.position_;
  members_.pop_back();
  member.scope_ = nullptr;
}

void Scope::releaseAll(Napi::Env env) {
  while (!members_.empty()) {
    ScopeMember& member = *members_.back();
    remove(member);
    member.releaseFromScope(env);
  }
}

std::shared_ptr<Scope> currentScope(Napi::Env env) {
  Instance& instance = instanceOf(env);
  if (instance.settlingScope) return *instance.settlingScope;
  if (instance.openScopes == 0 || instance.scopeProvider.IsEmpty()) return nullptr;
  const Napi::Value scope = instance.scopeProvider.Call({});
  if (isAbsent(scope)) return nullptr;
  auto& handle = handleArg<ScopeHandle>(scope, "scope");
  return handle.disposed() ? nullptr : handle.native();
}

void registerScope(Napi::Env env, Napi::Object exports) {
  using S = ScopeHandle;
  defineHandle<S>(env, exports, {S::method<&S::move>("move")});
  setFunction<setScopeProvider>(exports, "setScopeProvider");
}

}  // namespace aegir
