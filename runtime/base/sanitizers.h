// Which sanitizer this is built with: such a program takes terabytes of addresses, ten times as
// long, and sees no memory that assembly or other libraries touch. GCC defines these names itself;
// for clang .bazelrc does.
#pragma once

namespace lockstep {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitized = true;
#else
inline constexpr bool kAddressSanitized = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

inline constexpr bool kSanitized = kAddressSanitized || kThreadSanitized;

}  // namespace lockstep
