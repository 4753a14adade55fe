// An idempotency key and its options.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include <idem/standard.hpp>

namespace idem {

using duration = std::chrono::milliseconds;

/// How long to wait for a holder: zero never waits, `forever` waits without bound (deadlock detection, lock_timeout and cancel
/// still apply).
struct wait_limit {
    wait_limit() : bound(duration::zero()) {}
    template <typename Rep, typename Period>
    wait_limit(std::chrono::duration<Rep, Period> longest) : bound(std::chrono::ceil<duration>(longest)) {}
    static wait_limit forever() {
        wait_limit unlimited;
        unlimited.bound.reset();
        return unlimited;
    }

    std::optional<duration> bound;
};

/// One idempotency key with its options. An option that is not set is that of the scope, else that of the server's settings.
///
/// A setter changes and returns the object it is called on; called on a temporary, it returns a new object, never a reference.
///
///     idem::request{"pay-7f3a"}.in("payments").of_json(body).ttl(std::chrono::hours{48})
class request {
  public:
    request(std::string key) : key_(std::move(key)) {}
    request(const char *key) : key_(key) {}

    /// The space in which the key is unique.
    request &in(std::string scope) & {
        scope_ = std::move(scope);
        return *this;
    }
    request in(std::string scope) && { return std::move(in(std::move(scope))); }
    /// Sets the fingerprint: the same key with another one is a mismatch. The server hashes the JSON, regardless of key order
    /// and white space. If several of these three are called, with_fingerprint takes precedence over of_json, and that over
    /// of_text.
    request &of_json(std::string json) & {
        json_ = std::move(json);
        return *this;
    }
    request of_json(std::string json) && { return std::move(of_json(std::move(json))); }
    /// The same for a request that is text but not JSON.
    request &of_text(std::string text) & {
        text_ = std::move(text);
        return *this;
    }
    request of_text(std::string text) && { return std::move(of_text(std::move(text))); }
    /// The same with the caller's own hash, as hexadecimal digits.
    request &with_fingerprint(std::string hex) & {
        fingerprint_ = std::move(hex);
        return *this;
    }
    request with_fingerprint(std::string hex) && { return std::move(with_fingerprint(std::move(hex))); }
    /// How long the key is kept after the work is done.
    request &ttl(duration ttl) & {
        ttl_ = ttl;
        return *this;
    }
    request ttl(duration ttl) && { return std::move(this->ttl(ttl)); }
    /// Leased flows: how long the holder may be silent before others may take over.
    request &lease(duration lease) & {
        lease_ = lease;
        return *this;
    }
    request lease(duration lease) && { return std::move(this->lease(lease)); }
    /// How long to wait for another holder; the default is not to wait.
    request &wait(wait_limit wait) & {
        wait_ = wait;
        return *this;
    }
    request wait(wait_limit wait) && { return std::move(this->wait(wait)); }

    const std::string &key() const noexcept { return key_; }
    const std::string &scope() const noexcept { return scope_; }
    const std::optional<std::string> &json() const noexcept { return json_; }
    const std::optional<std::string> &text() const noexcept { return text_; }
    const std::optional<std::string> &fingerprint() const noexcept { return fingerprint_; }
    const std::optional<duration> &ttl() const noexcept { return ttl_; }
    const std::optional<duration> &lease() const noexcept { return lease_; }
    const wait_limit &wait() const noexcept { return wait_; }

  private:
    std::string key_, scope_;
    std::optional<std::string> json_, text_, fingerprint_;
    std::optional<duration> ttl_, lease_;
    wait_limit wait_;
};

} // namespace idem
