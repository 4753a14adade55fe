// The boundary between C++ exceptions and PostgreSQL errors.
//
// Core code (extension/src/core) reports failures by exceptions and frees memory by destructors. The server reports failures by
// longjmp and frees memory by contexts. Neither may cross the other's frames. `call_core` therefore runs core code, copies any
// exception into a plain value, leaves the handler, and only then raises the server's error.
//
// REQUIRES: the callable makes no call that can ereport, including palloc. Its result is trivially destructible.
#pragma once

#include "server/pg.hpp"

#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace idem {

struct CoreFailure {
    int sqlstate = 0; // 0: the call succeeded
    char message[256] = {};

    void set(int code, const char *text) noexcept {
        sqlstate = code;
        strlcpy(message, text, sizeof message);
    }
};

[[noreturn]] inline void raise_core_failure(const CoreFailure &failure) {
    ereport(ERROR, (errcode(failure.sqlstate), errmsg_internal("%s", failure.message)));
    pg_unreachable();
}

template <typename Callable> auto call_core(Callable &&callable) -> std::invoke_result_t<Callable> {
    using Result = std::invoke_result_t<Callable>;
    static_assert(std::is_trivially_destructible_v<Result>, "the result must survive a longjmp");
    Result result{};
    CoreFailure failure;
    try {
        result = callable();
    } catch (const std::bad_alloc &) {
        failure.set(ERRCODE_OUT_OF_MEMORY, "out of memory");
    } catch (const std::invalid_argument &error) {
        failure.set(ERRCODE_INVALID_PARAMETER_VALUE, error.what());
    } catch (const std::exception &error) {
        failure.set(ERRCODE_INTERNAL_ERROR, error.what());
    } catch (...) {
        failure.set(ERRCODE_INTERNAL_ERROR, "unknown exception");
    }
    if (failure.sqlstate != 0)
        raise_core_failure(failure);
    return result;
}

// Runs core code that returns a string. The result is a varlena (text or bytea) with its bytes, in the current memory context.
template <typename Callable> struct varlena *core_string(Callable &&callable) {
    return call_core([&]() -> struct varlena * {
        const std::string bytes = callable();
        const Size size = VARHDRSZ + bytes.size();
        // Without MCXT_ALLOC_NO_OOM, an allocation failure would longjmp over the destructor of `bytes`.
        void *memory =
            AllocSizeIsValid(size) ? MemoryContextAllocExtended(CurrentMemoryContext, size, MCXT_ALLOC_NO_OOM) : nullptr;
        if (memory == nullptr)
            throw std::bad_alloc();
        auto *result = static_cast<struct varlena *>(memory);
        SET_VARSIZE(result, size);
        std::memcpy(VARDATA(result), bytes.data(), bytes.size());
        return result;
    });
}

} // namespace idem
