// The C++ standard that the client needs. An older one would give hundreds of errors, of which none names the cause.
#pragma once

#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)
#error "the client of idem needs C++17 or later, for example -std=c++17"
#include <idem/needs_cxx17> // no such file: the compiler stops here
#endif
