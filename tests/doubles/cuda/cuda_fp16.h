/* Half precision on the processor, computed like CUDA's intrinsics of these names. */
#ifndef DL_TESTS_DOUBLES_CUDA_FP16_H
#define DL_TESTS_DOUBLES_CUDA_FP16_H

#include <math.h>
#include <stdint.h>

struct __half {
    uint16_t bits;
};

/* Rounds ties to even; subnormal below 2^-14, infinite from 65520 on. */
static inline __half __float2half_rn(float value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const float size = fabsf(value);
    if (isnan(value)) return {(uint16_t)(sign | 0x7fff)};
    if (size >= 65520.0f) return {(uint16_t)(sign | 0x7c00)};
    if (size < ldexpf(1, -14)) return {(uint16_t)(sign | (uint16_t)nearbyintf(ldexpf(size, 24)))};
    const int exponent = ilogbf(size);
    /* A fraction that is rounded up to 2048 carries into the exponent. */
    const int fraction = (int)nearbyintf(ldexpf(size, 10 - exponent));
    return {(uint16_t)(sign | (((exponent + 14) << 10) + fraction))};
}

static inline float __half2float(__half half)
{
    const int exponent = half.bits >> 10 & 31, fraction = half.bits & 1023;
    const float size = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                       : exponent == 0 ? ldexpf((float)fraction, -24)
                                       : ldexpf((float)(1024 + fraction), exponent - 25);
    return half.bits >> 15 != 0 ? -size : size;
}

#endif
