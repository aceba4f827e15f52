/* Philox4x32-10 (Salmon et al., SC 2011), for processors not supported by Random123's headers. */
#ifndef DL_COMMON_PHILOX_H
#define DL_COMMON_PHILOX_H

#include <stdint.h>

/* Computes the block of four numbers for a counter and a key. */
static inline void dl_philox4x32_10(const uint32_t counter[4], const uint32_t key[2],
                                    uint32_t block[4])
{
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    uint32_t first_key = key[0], second_key = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t of_a = UINT64_C(0xd2511f53) * a, of_c = UINT64_C(0xcd9e8d57) * c;
        a = (uint32_t)(of_c >> 32) ^ b ^ first_key;
        b = (uint32_t)of_c;
        c = (uint32_t)(of_a >> 32) ^ d ^ second_key;
        d = (uint32_t)of_a;
        first_key += 0x9e3779b9;
        second_key += 0xbb67ae85;
    }
    block[0] = a;
    block[1] = b;
    block[2] = c;
    block[3] = d;
}

#endif
