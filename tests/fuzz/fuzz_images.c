/* MNIST's files (IDX) and CIFAR-10's. The first byte selects the file that the rest is: 0 the
 * images, 1 the labels, 2 a batch of CIFAR-10; the other file of a pair is valid. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "common/file.h"
#include "kernels/data_set.h"
#include "tests/fuzz/fuzz_driver.h"
#include "tests/fuzz/fuzz_file.h"

#define FOLDER "fuzz_images.data" /* the program has the name without .data */
#define IMAGES FOLDER "/t10k-images-idx3-ubyte"
#define LABELS FOLDER "/t10k-labels-idx1-ubyte"
#define BATCH FOLDER "/test_batch.bin"

enum { COUNT = 3, PIXELS = 784, RECORD = 3073 };

static uint8_t images[1 + 16 + COUNT * PIXELS] = {0, 0, 0, 8,  3, 0, 0, 0,  COUNT,
                                                  0, 0, 0, 28, 0, 0, 0, 28, 7};
static uint8_t labels[1 + 8 + COUNT] = {1, 0, 0, 8, 1, 0, 0, 0, COUNT, 9, 0, 5};
static uint8_t records[1 + 2 * RECORD] = {2, 9};
/* The labels again, compressed. */
static uint8_t zipped[256] = {1};

static size_t zip_labels(void)
{
    gzFile out = gzopen("fuzz_images.gz", "wb");
    DL_AUTOFREE char *data = NULL;
    size_t bytes = 0;
    dl_error err = {0};
    DL_ASSERT(out != NULL && gzwrite(out, labels + 1, sizeof labels - 1) > 0 &&
                  gzclose(out) == Z_OK,
              "cannot write fuzz_images.gz");
    const dl_status status = dl_file_read("fuzz_images.gz", &data, &bytes, &err);
    DL_ASSERT(status == DL_OK && bytes < sizeof zipped, "%s", err.text);
    memcpy(zipped + 1, data, bytes);
    return 1 + bytes;
}

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static dl_fuzz_seed all[] = {
        {images, sizeof images}, {labels, sizeof labels}, {records, sizeof records}, {zipped, 0}};
    all[3].bytes = zip_labels();
    *seeds = all;
    return sizeof all / sizeof all[0];
}

static void check(dl_status status, dl_data_set *set, const dl_error *err)
{
    if (status != DL_OK) {
        DL_ASSERT(err->text[0] != '\0', "status %d without a text", (int)status);
        return;
    }
    unsigned sum = 0;
    for (size_t i = 0; i < set->count; i++)
        DL_ASSERT(set->labels[i] < set->classes, "label %d", set->labels[i]);
    for (size_t i = 0; i < set->count * set->sample_bytes; i++)
        sum += set->pixels[i]; /* reads all pixels */
    DL_ASSERT(sum <= 255 * set->count * set->sample_bytes, "%u", sum);
    dl_data_set_free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    dl_data_set set = {0};
    dl_error err = {0};
    if (bytes == 0) return 0;
    mkdir(FOLDER, 0777);
    const bool cifar = data[0] % 3 == 2;
    if (cifar) {
        fuzz_file(BATCH, data + 1, bytes - 1);
        check(dl_data_set_read_cifar10(&set, FOLDER, 1, &err), &set, &err);
        return 0;
    }
    const bool is_images = data[0] % 3 == 0;
    fuzz_file(is_images ? IMAGES : LABELS, data + 1, bytes - 1);
    if (is_images) {
        fuzz_file(LABELS, labels + 1, sizeof labels - 1);
    } else {
        fuzz_file(IMAGES, images + 1, sizeof images - 1);
    }
    check(dl_data_set_read_mnist(&set, FOLDER, 1, &err), &set, &err);
    return 0;
}
