// The JavaScript class Scope: handles made while a scope is current belong to it and are released with it.
#pragma once

#include <napi.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace aegir {

class Scope;

// What a handle class inherits to belong to scopes.
class ScopeMember {
 public:
  virtual ~ScopeMember() { leaveScope(); }
  void leaveScope();

 protected:
  virtual void releaseFromScope(Napi::Env env) = 0;

 private:
  friend class Scope;
  Scope* scope_ = nullptr;
  size_t position_ = 0;
};

// Used on the environment's JS thread alone.
class Scope {
 public:
  ~Scope();
  void add(ScopeMember& member);
  void remove(ScopeMember& member);
  void releaseAll(Napi::Env env);

 private:
  std::vector<ScopeMember*> members_;
};

// The scope that a handle made now belongs to: that of the job being settled, or else what the provider given
// to setScopeProvider returns; null where there is none.
std::shared_ptr<Scope> currentScope(Napi::Env env);

}  // namespace aegir
