/* Data sets in memory: MNIST from IDX files (plain or gzipped), CIFAR-10 from its binary files, or
 * a synthetic set of any shape.
 *
 * Pixels are kept as bytes, channels last; dl_data_set_batch converts them to numbers in [0, 1] as
 * it fills a model's input, which is the input cost that a trace records. */
#ifndef DL_KERNELS_DATA_SET_H
#define DL_KERNELS_DATA_SET_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/backend.h"

typedef struct dl_data_set {
    char *name;       /* "mnist", "cifar10" or "synthetic" */
    uint8_t *pixels;  /* [count x sample_bytes]: row, column, channel */
    uint16_t *labels; /* [count] */
    size_t count;
    size_t sample_bytes; /* 784 or 3072 for the real sets */
    int classes;         /* 10 for the real sets */
} dl_data_set;

/* Reads FOLDER/train-images-idx3-ubyte[.gz] and its labels (or the t10k- pair). Missing or
 * unreadable files: DL_ERR_IO; wrong magic, sizes that disagree, a label over 9, truncation, bytes
 * after the end, a damaged gzip stream: DL_ERR_FORMAT. The caller frees *set after success. */
dl_status dl_data_set_read_mnist(dl_data_set *set, const char *folder, int test_set,
                                 dl_error *err) DL_MUST_CHECK;

/* Reads FOLDER/data_batch_1.bin ... data_batch_5.bin, or test_batch.bin: 10000 records of a label
 * and 32 x 32 pixels, channel by channel (https://www.cs.toronto.edu/~kriz/cifar.html, "binary
 * version"). Missing or unreadable files: DL_ERR_IO; another size or a label over 9: DL_ERR_FORMAT.
 * The caller frees *set after success. */
dl_status dl_data_set_read_cifar10(dl_data_set *set, const char *folder, int test_set,
                                   dl_error *err) DL_MUST_CHECK;

/* Makes `count` images of `shape` in 1..65536 classes: a random pattern per class plus noise, so
 * that training on it converges. Equal seeds give equal sets; the patterns are the same for all
 * seeds, so a set of another seed is a test set. The caller frees *set. */
void dl_data_set_synthetic(dl_data_set *set, dl_shape shape, int classes, size_t count,
                           uint64_t seed);

void dl_data_set_free(dl_data_set *set);

/* Writes samples order[0 .. batch-1], each < count, to input[batch x sample_bytes] (as numbers
 * of type `precision`) and labels[batch]. */
void dl_data_set_batch(const dl_data_set *set, const uint32_t *order, int batch,
                       dl_precision precision, void *input, int32_t *labels);

#endif
