// Whether the tests are built with a sanitizer, and what is allowed for it.
#pragma once

namespace openwork {

// GCC says it by macros, Clang by features.
#ifdef __has_feature
#define OPENWORK_HAS_FEATURE(feature) __has_feature(feature)
#else
#define OPENWORK_HAS_FEATURE(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || OPENWORK_HAS_FEATURE(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__) || OPENWORK_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

#undef OPENWORK_HAS_FEATURE

inline constexpr bool kSanitized = kAddressSanitizer || kThreadSanitizer;

// How many times the work and memory may be what they are without one: its own part.
inline constexpr int kStretch = kSanitized ? 4 : 1;

}  // namespace openwork
