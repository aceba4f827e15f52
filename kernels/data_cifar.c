#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "kernels/data_set.h"

#define SIDE 32
#define CHANNELS 3
#define CLASSES 10
#define PIXELS (SIDE * SIDE)
#define SAMPLE_BYTES (PIXELS * CHANNELS)
#define RECORD_BYTES (1 + SAMPLE_BYTES)
#define FILE_RECORDS 10000

/* A record's pixels lie channel by channel; ours, pixel by pixel. */
static void interleave(uint8_t *to, const uint8_t *from)
{
    for (int p = 0; p < PIXELS; p++) {
        for (int c = 0; c < CHANNELS; c++)
            to[p * CHANNELS + c] = from[c * PIXELS + p];
    }
}

/* Reads the records of an open file to `first` and the following ones; the file must then end. */
static dl_status read_records(FILE *file, const char *path, dl_data_set *set, size_t first,
                              dl_error *err)
{
    uint8_t record[RECORD_BYTES];
    for (size_t i = 0; i < FILE_RECORDS; i++) {
        const size_t got = fread(record, 1, sizeof record, file);
        if (ferror(file)) {
            return dl_error_set_at(err, DL_ERR_IO, path, 0, "read failed: %s", strerror(errno));
        }
        if (got < sizeof record) {
            return dl_error_set_at(err, DL_ERR_FORMAT, path, 0,
                                   "ends after %zu bytes; a CIFAR-10 file has %d",
                                   i * sizeof record + got, FILE_RECORDS * RECORD_BYTES);
        }
        if (record[0] >= CLASSES) {
            return dl_error_set_at(err, DL_ERR_FORMAT, path, 0,
                                   "label %u of image %zu is not below %d", record[0], i, CLASSES);
        }
        set->labels[first + i] = record[0];
        interleave(set->pixels + (first + i) * SAMPLE_BYTES, record + 1);
    }
    if (fgetc(file) == EOF) return DL_OK;
    return dl_error_set_at(err, DL_ERR_FORMAT, path, 0,
                           "has more than the %d bytes of a CIFAR-10 file",
                           FILE_RECORDS * RECORD_BYTES);
}

static dl_status read_file(const char *folder, const char *name, dl_data_set *set, size_t first,
                           dl_error *err)
{
    char *path = dl_format("%s/%s", folder, name);
    dl_status status;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        status = dl_error_set(err, DL_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    } else {
        status = read_records(file, path, set, first, err);
        fclose(file);
    }
    free(path);
    return status;
}

dl_status dl_data_set_read_cifar10(dl_data_set *set, const char *folder, int test_set,
                                   dl_error *err)
{
    static const char *const training[] = {"data_batch_1.bin", "data_batch_2.bin",
                                           "data_batch_3.bin", "data_batch_4.bin",
                                           "data_batch_5.bin"};
    static const char *const test[] = {"test_batch.bin"};
    const char *const *names = test_set ? test : training;
    const size_t files = test_set ? 1 : 5;
    dl_data_set made = {
        .count = files * FILE_RECORDS, .sample_bytes = SAMPLE_BYTES, .classes = CLASSES};
    made.pixels = dl_calloc(made.count, SAMPLE_BYTES, "CIFAR-10 images");
    made.labels = dl_calloc(made.count, sizeof *made.labels, "CIFAR-10 labels");
    dl_status status = DL_OK;
    for (size_t f = 0; status == DL_OK && f < files; f++) {
        status = read_file(folder, names[f], &made, f * FILE_RECORDS, err);
    }
    if (status != DL_OK) {
        dl_data_set_free(&made);
        return status;
    }
    made.name = dl_strdup("cifar10");
    *set = made;
    return DL_OK;
}
