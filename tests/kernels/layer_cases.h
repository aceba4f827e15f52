/* Layers of all kinds, for tests that run each. */
#ifndef DL_TESTS_LAYER_CASES_H
#define DL_TESTS_LAYER_CASES_H

#include "kernels/layers/layer.h"

typedef struct layer_case {
    dl_layer_spec spec;
    dl_shape in;
    int batch;
} layer_case;

/* Coverage of the cases. conv b: the one-channel 5x5 path. conv c: 8 lines of 8 x 500 doubles per
 * image, 32 lines per tile, so that 5 samples give tiles of 32 and 8 lines. conv d: tiles of 26
 * lines of 10 pixels that begin within an image. The others extend beyond the edge, leave out
 * pixels at the far edge, skip pixels that are in no window, or have no rows to copy. conv by
 * tiles: 12 tiles of 2x2 pixels in both precisions, those at the right edge cut; by blocks: in
 * double precision 125 tiles in blocks of 96, cut at the lower edge. Of few pixels: 12 and 40,
 * products without OpenBLAS; of many: 800 and 840, not a multiple of a block's, deeper than a
 * block, and in tiles of 273 pixels. batch_norm: more channels than one block of sums, more rows
 * than one group, an incomplete group. */
static const layer_case cases[] = {
    {{.name = "dense", .kind = "dense", .units = 5}, {1, 1, 7}, 3},
    {{.name = "dense of an image", .kind = "dense", .units = 4}, {3, 2, 5}, 2},
    {{.name = "conv a", .kind = "conv", .units = 4, .kernel = 3}, {6, 7, 3}, 3},
    {{.name = "conv b", .kind = "conv", .units = 3, .kernel = 5}, {8, 9, 1}, 2},
    {{.name = "conv c", .kind = "conv", .units = 50, .kernel = 5}, {12, 12, 20}, 5},
    {{.name = "conv d", .kind = "conv", .units = 3, .kernel = 3, .padding = 1}, {10, 10, 40}, 6},
    {{.name = "conv of the whole image", .kind = "conv", .units = 2, .kernel = 4}, {4, 4, 2}, 2},
    {{.name = "conv with stride", .kind = "conv", .units = 3, .kernel = 3, .stride = 2},
     {8, 7, 2},
     3},
    {{.name = "conv over the edge",
      .kind = "conv",
      .units = 4,
      .kernel = 3,
      .stride = 2,
      .padding = 1},
     {7, 8, 3},
     2},
    {{.name = "conv as in resnet50",
      .kind = "conv",
      .units = 3,
      .kernel = 7,
      .stride = 2,
      .padding = 3,
      .no_bias = true},
     {10, 10, 3},
     2},
    {{.name = "conv far over the edge",
      .kind = "conv",
      .units = 2,
      .kernel = 5,
      .stride = 3,
      .padding = 4},
     {3, 2, 2},
     2},
    {{.name = "pointwise conv", .kind = "conv", .units = 6, .kernel = 1, .no_bias = true},
     {4, 5, 3},
     3},
    {{.name = "projection", .kind = "conv", .units = 5, .kernel = 1, .stride = 2, .no_bias = true},
     {5, 6, 3},
     3},
    {{.name = "conv by tiles", .kind = "conv", .units = 64, .kernel = 3, .padding = 1},
     {6, 7, 64},
     1},
    {{.name = "conv by blocks of tiles",
      .kind = "conv",
      .units = 32,
      .kernel = 3,
      .padding = 1,
      .no_bias = true},
     {9, 10, 32},
     5},
    {{.name = "conv of few pixels", .kind = "conv", .units = 64, .kernel = 3, .padding = 1},
     {3, 4, 64},
     1},
    {{.name = "pointwise conv of few pixels",
      .kind = "conv",
      .units = 128,
      .kernel = 1,
      .no_bias = true},
     {4, 5, 64},
     2},
    {{.name = "pointwise conv of many pixels",
      .kind = "conv",
      .units = 64,
      .kernel = 1,
      .no_bias = true},
     {20, 20, 320},
     2},
    {{.name = "strided conv of many pixels",
      .kind = "conv",
      .units = 64,
      .kernel = 3,
      .stride = 2,
      .padding = 1},
     {40, 42, 64},
     2},
    {{.name = "pool", .kind = "max_pool", .kernel = 2, .stride = 2}, {4, 6, 3}, 3},
    {{.name = "pool of one block", .kind = "max_pool", .kernel = 2, .stride = 2}, {2, 2, 21}, 2},
    {{.name = "pool of odd sides", .kind = "max_pool", .kernel = 2, .stride = 2}, {5, 7, 3}, 2},
    {{.name = "pool over the edge", .kind = "max_pool", .kernel = 3, .stride = 2, .padding = 1},
     {6, 5, 3},
     2},
    {{.name = "global pool", .kind = "global_pool"}, {3, 3, 5}, 2},
    {{.name = "relu", .kind = "relu"}, {3, 5, 7}, 2},
    {{.name = "add", .kind = "add"}, {3, 5, 7}, 2},
    {{.name = "batch_norm", .kind = "batch_norm"}, {3, 3, 520}, 2},
    {{.name = "batch_norm of vectors", .kind = "batch_norm"}, {1, 1, 5}, 6},
    {{.name = "softmax", .kind = "softmax"}, {1, 1, 10}, 4},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

#endif
