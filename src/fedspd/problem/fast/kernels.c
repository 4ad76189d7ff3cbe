/* What costs most of a run, fused: clipped gradients, proximal steps, and exact sub-problems of two classes.

   The text in Python is the reference: `tests/problem/test_fast.py` demands the same numbers to 1e-12. There is no
   state here, nothing is drawn at random, and memory belongs to the caller. */
#include <math.h>

#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

#if defined(__GNUC__)
#define ASK_FOR(place) __builtin_prefetch(place, 0, 2) /* into the second cache: the first one has little room */
#else
#define ASK_FOR(place) ((void)(place))
#endif
#define AHEAD 8  /* records: asked for later they would come too late */
#define FOUR 4   /* records that are taken at a time */
#define BLOCK 16 /* whose slopes are computed side by side */
#define LONGER 1.00001 /* than the bound, of what counts as clipped: as in `objective.py` */
static const double FACTORIALS[] = {1.0,     1.0,      2.0,       6.0,        24.0,        120.0,        720.0,
                                    5040.0,  40320.0,  362880.0,  3628800.0,  39916800.0,  479001600.0,  6227020800.0};

#define REAL double
#define WHOLE long long
#define MANTISSA 52
#define ROUNDED 0x1.8p52
#define LEAST -300
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#define TERMS 13
#define SQRT sqrt
#define NAME(name) name##_float64
#include "steps.h"
#include "newton.h"
#undef REAL
#undef SQRT
#undef NAME

#undef WHOLE
#undef MANTISSA
#undef ROUNDED
#undef LEAST
#undef LN2_HIGH
#undef LN2_LOW
#undef TERMS

#define REAL float
#define WHOLE int
#define MANTISSA 23
#define ROUNDED 0x1.8p23
#define LEAST -36
#define LN2_HIGH 0x1.62e4p-1
#define LN2_LOW 0x1.7f7d1cp-20
#define TERMS 7
#define SQRT sqrtf
#define NAME(name) name##_float32
#include "steps.h"
