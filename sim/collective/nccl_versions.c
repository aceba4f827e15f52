#include <math.h>

#include "sim/collective/nccl_internal.h"

static const dl_nccl_by_algorithm hops_2_5[DL_NCCL_WAYS] = {
    [DL_NCCL_NVLINK] = {{0.5, 1.9, 28}, {0.4, 2.5, 5.7}},
    [DL_NCCL_PCI] = {{1, 1.9, 28}, {1, 2.5, 5.7}},
    [DL_NCCL_NET] = {{5, 7.5, 50}, {0.9, 2.5, 6.6}},
};
static const dl_nccl_by_algorithm hops_2_7[DL_NCCL_WAYS] = {
    [DL_NCCL_NVLINK] = {{0.52, 1.2, 28}, {0.47, 1.9, 3.4}},
    [DL_NCCL_PCI] = {{1, 1.9, 28}, {1, 2.5, 5.7}},
    [DL_NCCL_NET] = {{5, 8.5, 50}, {2.7, 4, 9.6}},
};
static const dl_nccl_by_algorithm hops_2_8[DL_NCCL_WAYS] = {
    [DL_NCCL_NVLINK] = {{0.52, 1.25, 28}, {0.47, 1.9, 3.4}},
    [DL_NCCL_PCI] = {{1, 1.9, 28}, {1, 2.5, 5.7}},
    [DL_NCCL_NET] = {{5, 8.5, 28}, {2.7, 4, 9.6}},
};
static const dl_nccl_by_algorithm hops_2_18[DL_NCCL_WAYS] = {
    [DL_NCCL_NVLINK] = {{0.6, 1.25, 28}, {0.6, 1.9, 3.4}, {0, 0, 23}, {0, 0, 23}},
    [DL_NCCL_PCI] = {{1, 1.9, 28}, {1, 2.5, 5.7}},
    [DL_NCCL_NET] = {{5, 8.5, 28}, {2.7, 4, 14}, {0, 0, 18}, {0, 0, 14}},
};
static const dl_nccl_by_algorithm hops_2_26[DL_NCCL_WAYS] = {
    [DL_NCCL_NVLINK] = {{0.6, 1.25, 4}, {0.6, 1.9, 3.4}, {0, 0, 25}, {0, 0, 25}},
    [DL_NCCL_PCI] = {{1, 1.9, 4}, {1, 2.5, 5.7}},
    [DL_NCCL_NET] = {{5, 8.5, 14}, {2.7, 4, 14}, {0, 0, 18}, {0, 0, 14}},
};
static const dl_nccl_by_algorithm hops_2_28[DL_NCCL_WAYS] = {
    [DL_NCCL_NVLINK] = {{0.6, 1.25, 4}, {0.6, 1.9, 3.4}, {0, 0, 25}, {0, 0, 25}},
    [DL_NCCL_PCI] = {{1, 1.9, 4}, {1, 2.5, 5.7}},
    [DL_NCCL_NET] = {{5, 8.5, 14}, {2.7, 4, 14}, {0, 0, 18}, {0, 0, 20.9}},
};

static const dl_nccl_by_algorithm calls_2_5 = {{4.4, 4.4, 0}, {3.6, 3.6, 8.4}};
static const dl_nccl_by_algorithm calls_2_7 = {{4.4, 4.4, 0}, {3.6, 10, 8.4}};
static const dl_nccl_by_algorithm calls_2_17 = {{4.4, 4.4, 0}, {3.6, 10, 8.4}, {0, 0, 40}};
static const dl_nccl_by_algorithm calls_2_18 = {{6.8, 14, 0}, {6.6, 14, 8.4}};
static const dl_nccl_by_algorithm calls_2_26 = {{6.8, 14, 8.4}, {6.6, 14, 8.4}};

/* clang-format off */
#define ANY3 {INFINITY, INFINITY, INFINITY}
/* Limits of 2.5 and 2.7: only LL128 and trees have limits, for all channels together; six channels
 * are assumed, the rings of a DGX-1. */
static const dl_nccl_bounds bounds_2_5 = {
    .ll = {ANY3, ANY3, ANY3, ANY3},
    .ll128_ring = {{16.7, 16.7, 16.7}, {16.7, 16.7, 16.7}, {16.7, 16.7, 16.7}, {16.7, 16.7, 16.7}},
    .ll128_tree = {ANY3, ANY3, ANY3, ANY3},
    .tree = {{15, 11.7, 11.7}, {15, 11.7, 11.7}, {15, 11.7, 11.7}, {15, 11.7, 11.7}},
};
static const dl_nccl_bounds bounds_2_7 = {
    .ll = {ANY3, ANY3, ANY3, ANY3},
    .ll128_ring = {{16.7, 16.7, 16.7}, {16.7, 16.7, 16.7}, {16.7, 16.7, 16.7}, {16.7, 16.7, 16.7}},
    .ll128_tree = {{13, 13, 13}, {13, 13, 13}, {13, 13, 13}, {13, 13, 13}},
    .tree = {{18.3, 18.3, 13.3}, {18.3, 18.3, 13.3}, {18.3, 18.3, 13.3}, {18.3, 18.3, 13.3}},
};
static const dl_nccl_bounds bounds_2_8 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {87.7, 22.5, 19}, {87.7, 22.5, 19}},
    .ll128_ring = {{16.9, 16.9, 16.9}, {16.9, 16.9, 16.9}, {16.9, 16.9, 16.9}, {16.9, 16.9, 16.9}},
    .ll128_tree = {{16.9, 16.9, 16.9}, {16.9, 16.9, 16.9}, {16.9, 16.9, 16.9}, {16.9, 16.9, 16.9}},
    .tree = {{26.5, 18.5, 10}, {24, 22.5, 16}, {24, 22.5, 16}, {24, 22.5, 16}},
};
static const dl_nccl_bounds bounds_2_10 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {87.7, 22.5, 19}, {87.7, 22.5, 19}},
    .ll128_ring = {{20, 20, 20}, {20, 20, 20}, {20, 20, 20}, {20, 20, 20}},
    .ll128_tree = {{20, 20, 20}, {20, 20, 20}, {20, 20, 20}, {20, 20, 20}},
    .tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {24, 23.6, 17.8}, {24, 23.6, 17.8}},
};
static const dl_nccl_bounds bounds_2_17 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {87.7, 22.5, 19}, {87.7, 22.5, 19}},
    .ll128_ring = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {36.7, 36.7, 36.7}},
    .ll128_tree = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {36.7, 36.7, 36.7}},
    .tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 33}, {38.7, 41.4, 33}},
};
static const dl_nccl_bounds bounds_2_18 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {87.7, 22.5, 19}, {87.7, 22.5, 19}},
    .ll128_ring = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {36.7, 36.7, 36.7}},
    .ll128_tree = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {36.7, 36.7, 29}},
    .tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {38.7, 41.4, 36}},
};
static const dl_nccl_bounds bounds_2_26 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}},
    .ll128_ring = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {73.4, 73.4, 73.4}},
    .ll128_tree = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {73.4, 73.4, 58}},
    .tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {77.4, 82.8, 72}},
};
static const dl_nccl_bounds bounds_2_28 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}},
    .ll128_ring = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}},
    .ll128_tree = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}},
    .tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}},
};

#define LL_CORRECTION \
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1}
#define SIMPLE_CORRECTION                                                                         \
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}
static const dl_nccl_by_size none[DL_NCCL_PROTOCOLS] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
static const dl_nccl_by_size correction_2_7[DL_NCCL_PROTOCOLS] = {
    LL_CORRECTION,
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .5, .6, .6, .7, .7, .8, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .5, .5, .6, .6, .7, .8, .9, 1}};
static const dl_nccl_by_size correction_2_8[DL_NCCL_PROTOCOLS] = {
    LL_CORRECTION,
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .5, .6, .6, .7, .7, .8, .9, .9, .92, .92},
    SIMPLE_CORRECTION};
static const dl_nccl_by_size correction_2_10[DL_NCCL_PROTOCOLS] = {
    LL_CORRECTION,
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    SIMPLE_CORRECTION};

#define ANY {INFINITY, INFINITY, INFINITY, INFINITY}
#define EACH(x) {x, x, x, x}

static const dl_nccl_constants versions[] = {
    {5, calls_2_5, hops_2_5, &bounds_2_5, none,
     0.9, 1 / 3.0, 7.0 / 9, 1, ANY, 1, EACH(1),
     0, 2, true, false, false, 0},
    {7, calls_2_7, hops_2_7, &bounds_2_7, correction_2_7,
     0.9, 1 / 3.8, 0.915, 1, {INFINITY, 235, 235, 235}, 1.8, EACH(1.9),
     4096, 2, false, false, false, 0},
    {8, calls_2_7, hops_2_8, &bounds_2_8, correction_2_8,
     0.92, 1 / 3.8, 0.915, 1, {INFINITY, 235, 235, 235}, 1.8, EACH(1.9),
     4096, 2, false, false, false, 0},
    {10, calls_2_7, hops_2_8, &bounds_2_10, correction_2_10,
     0.92, 1 / 3.8, 120.0 / 128, 1, {INFINITY, 235, 235, 235}, 1.8, EACH(1.9),
     4096, 2, false, false, false, 0},
    {17, calls_2_17, hops_2_8, &bounds_2_17, correction_2_10,
     0.92, 1 / 3.8, 120.0 / 128, 1, {INFINITY, 235, 370, 370}, 1.8, {1.9, 1.9, 1.5, 1.5},
     4096, 0, false, false, false, 0.75},
    {18, calls_2_18, hops_2_18, &bounds_2_18, correction_2_10,
     0.92, 1 / 3.8, 120.0 / 128, 0.85, ANY, 1, {1.9, 1.4, 1.4, 1.4},
     0, 0, false, false, true, 5.0 / 6},
    {26, calls_2_26, hops_2_26, &bounds_2_26, correction_2_10,
     0.92, 1 / 3.8, 120.0 / 128, 0.85, ANY, 1, {1.9, 1.4, 1.4, 1.4},
     0, 2, false, true, true, 5.0 / 6},
    {28, calls_2_26, hops_2_28, &bounds_2_28, correction_2_10,
     0.92, 1 / 3.8, 120.0 / 128, 0.85, ANY, 1, {1.9, 1.4, 1.4, 1.4},
     0, 2, false, true, true, 0},
};
/* clang-format on */

const double dl_nccl_nvls_efficiency[DL_NCCL_GENERATIONS] = {0, 0, 0.85, 0.74};

const dl_nccl_constants *dl_nccl_constants_of(int minor)
{
    const dl_nccl_constants *found = &versions[0];
    for (size_t v = 0; v < sizeof versions / sizeof *versions; v++)
        if (versions[v].minor <= minor) found = &versions[v];
    return found;
}
