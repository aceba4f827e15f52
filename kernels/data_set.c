#include "kernels/data_set.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/random.h"

#define MNIST_CLASSES 10

/* IDX: big-endian u32 magic (type 0x08 = bytes, number of dimensions), one u32 per dimension, then
 * the bytes. */
#define IDX_MAGIC_LABELS 0x00000801u
#define IDX_MAGIC_IMAGES 0x00000803u

/* Larger images are refused: no real set has them, but a damaged header may. */
#define SAMPLE_BYTES_MAX (1u << 24)

/* An IDX file is unpacked in pieces of this size, up to the maximum. */
#define PIECE_BYTES ((size_t)1 << 22)
#define FILE_BYTES_MAX ((size_t)1 << 36)

/* Content of an IDX file, unpacked. */
typedef struct idx_file {
    char *path;
    uint8_t *bytes;
    size_t count;
} idx_file;

static void free_idx(idx_file *file)
{
    free(file->bytes);
    free(file->path);
}

/* Returns the word at byte 4 * `index`; 0 if the file ends before. */
static uint32_t idx_word(const idx_file *file, size_t index)
{
    uint32_t word = 0;
    if (4 * (index + 1) <= file->count) memcpy(&word, file->bytes + 4 * index, 4);
    return be32toh(word);
}

/* Length of the file according to its header, which is in the first piece read; 0 for another magic
 * number or too large images. `dimensions` (1 or 3): number of sizes in the header. */
static size_t promised_bytes(const idx_file *file, uint32_t magic, size_t dimensions)
{
    const size_t header = 4 * (1 + dimensions);
    if (file->count < header || idx_word(file, 0) != magic) return 0;
    uint64_t sample_bytes = 1;
    for (size_t d = 1; d < dimensions; d++)
        sample_bytes *= idx_word(file, 1 + d);
    if (sample_bytes > SAMPLE_BYTES_MAX) return 0;
    const uint64_t bytes = header + sample_bytes * idx_word(file, 1);
    return bytes < FILE_BYTES_MAX ? (size_t)bytes : FILE_BYTES_MAX;
}

/* Unpacks at most one byte more than the header states, but at least the first piece, and only that
 * piece of a file of another kind, so that a small file cannot fill the memory. DL_ERR_FORMAT for a
 * damaged gzip stream, DL_ERR_IO for a read error. */
static dl_status unpack(idx_file *file, gzFile stream, uint32_t magic, size_t dimensions,
                        dl_error *err)
{
    int got, code = Z_OK;
    size_t wanted = PIECE_BYTES;
    bool more;
    do {
        file->bytes = dl_realloc(file->bytes, file->count + wanted, 1, "IDX data");
        got = gzread(stream, file->bytes + file->count, (unsigned)wanted);
        if (got > 0) file->count += (size_t)got;
        const size_t limit = promised_bytes(file, magic, dimensions) + 1;
        more = got == (int)wanted && file->count < limit;
        if (more) wanted = limit - file->count < PIECE_BYTES ? limit - file->count : PIECE_BYTES;
    } while (more);
    const char *text = gzerror(stream, &code);
    if (code == Z_ERRNO) {
        return dl_error_set_at(err, DL_ERR_IO, file->path, 0, "read failed: %s", strerror(errno));
    }
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
        return dl_error_set_at(err, DL_ERR_FORMAT, file->path, 0, "damaged or cut gzip stream: %s",
                               text);
    }
    return DL_OK;
}

/* Reads FOLDER/NAME or else FOLDER/NAME.gz; gzopen reads both kinds. *file must be freed in any
 * case. */
static dl_status read_idx(idx_file *file, const char *folder, const char *name, uint32_t magic,
                          size_t dimensions, dl_error *err)
{
    static const char *const suffixes[] = {"", ".gz"};
    for (size_t i = 0; i < 2; i++) {
        char *path = dl_format("%s/%s%s", folder, name, suffixes[i]);
        gzFile stream = gzopen(path, "rb");
        const int reason = errno;
        *file = (idx_file){.path = path};
        if (stream != NULL) {
            const dl_status status = unpack(file, stream, magic, dimensions, err);
            gzclose_r(stream);
            return status;
        }
        if (reason != ENOENT) {
            return dl_error_set(err, DL_ERR_IO, "cannot open %s: %s", path, strerror(reason));
        }
        free_idx(file);
    }
    *file = (idx_file){0};
    return dl_error_set(err, DL_ERR_IO, "neither %s nor %s.gz is in %s", name, name, folder);
}

/* Checks the header, the magic number and `dimensions` sizes, and removes it from the bytes. */
static dl_status take_header(idx_file *file, uint32_t magic, uint32_t *sizes, size_t dimensions,
                             dl_error *err)
{
    const size_t header = 4 * (1 + dimensions);
    if (file->count >= 4 && idx_word(file, 0) != magic) {
        return dl_error_set_at(err, DL_ERR_FORMAT, file->path, 0,
                               "no IDX file of the expected kind: magic 0x%08x, expected 0x%08x",
                               idx_word(file, 0), magic);
    }
    if (file->count < header) {
        return dl_error_set_at(err, DL_ERR_FORMAT, file->path, 0,
                               "the IDX header ends after %zu bytes of %zu", file->count, header);
    }
    for (size_t d = 0; d < dimensions; d++)
        sizes[d] = idx_word(file, 1 + d);
    file->count -= header;
    memmove(file->bytes, file->bytes + header, file->count);
    return DL_OK;
}

/* Checks that the data after the header have this length. */
static dl_status check_body(const idx_file *file, uint64_t bytes, dl_error *err)
{
    if (file->count < bytes) {
        return dl_error_set_at(err, DL_ERR_FORMAT, file->path, 0,
                               "ends after %zu of %llu data bytes", file->count,
                               (unsigned long long)bytes);
    }
    if (file->count == bytes) return DL_OK;
    return dl_error_set_at(err, DL_ERR_FORMAT, file->path, 0,
                           "has more than the %llu data bytes that its header promises",
                           (unsigned long long)bytes);
}

static dl_status read_images(dl_data_set *set, const char *folder, const char *name, dl_error *err)
{
    idx_file file;
    uint32_t sizes[3] = {0};
    dl_status status = read_idx(&file, folder, name, IDX_MAGIC_IMAGES, 3, err);
    if (status == DL_OK) status = take_header(&file, IDX_MAGIC_IMAGES, sizes, 3, err);
    if (status == DL_OK) {
        const uint64_t sample_bytes = (uint64_t)sizes[1] * sizes[2];
        set->count = sizes[0];
        set->sample_bytes = (size_t)sample_bytes;
        if (sizes[0] == 0 || sample_bytes == 0 || sample_bytes > SAMPLE_BYTES_MAX) {
            status = dl_error_set_at(err, DL_ERR_FORMAT, file.path, 0,
                                     "impossible sizes: %u images of %u x %u", sizes[0], sizes[1],
                                     sizes[2]);
        } else {
            status = check_body(&file, sizes[0] * sample_bytes, err);
        }
    }
    if (status == DL_OK) {
        set->pixels = file.bytes;
        file.bytes = NULL;
    }
    free_idx(&file);
    return status;
}

static dl_status read_labels(dl_data_set *set, const char *folder, const char *name, dl_error *err)
{
    idx_file file;
    uint32_t count = 0;
    dl_status status = read_idx(&file, folder, name, IDX_MAGIC_LABELS, 1, err);
    if (status == DL_OK) status = take_header(&file, IDX_MAGIC_LABELS, &count, 1, err);
    if (status == DL_OK && count != set->count) {
        status = dl_error_set_at(err, DL_ERR_FORMAT, file.path, 0, "%u labels for %zu images",
                                 count, set->count);
    }
    if (status == DL_OK) status = check_body(&file, count, err);
    if (status == DL_OK) set->labels = dl_calloc(count, sizeof *set->labels, "labels");
    for (size_t i = 0; status == DL_OK && i < set->count; i++) {
        set->labels[i] = file.bytes[i];
        if (file.bytes[i] < MNIST_CLASSES) continue;
        status = dl_error_set_at(err, DL_ERR_FORMAT, file.path, 0,
                                 "label %u of image %zu is not below %d", file.bytes[i], i,
                                 MNIST_CLASSES);
    }
    free_idx(&file);
    return status;
}

void dl_data_set_free(dl_data_set *set)
{
    free(set->labels);
    free(set->pixels);
    free(set->name);
    *set = (dl_data_set){0};
}

dl_status dl_data_set_read_mnist(dl_data_set *set, const char *folder, int test_set, dl_error *err)
{
    static const char *const images[] = {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte"};
    static const char *const labels[] = {"train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"};
    const int which = test_set != 0;
    dl_data_set made = {.classes = MNIST_CLASSES};
    dl_status status = read_images(&made, folder, images[which], err);
    if (status == DL_OK) status = read_labels(&made, folder, labels[which], err);
    if (status != DL_OK) {
        dl_data_set_free(&made);
        return status;
    }
    made.name = dl_strdup("mnist");
    *set = made;
    return DL_OK;
}

void dl_data_set_synthetic(dl_data_set *set, dl_shape shape, int classes, size_t count,
                           uint64_t seed)
{
    const size_t bytes = dl_shape_count(shape);
    DL_ASSERT(classes >= 1 && classes <= UINT16_MAX + 1, "%d classes", classes);
    DL_AUTOFREE uint8_t *patterns = dl_calloc((size_t)classes, bytes, "patterns");
    dl_random stream;
    dl_random_init(&stream, 0, 0, 0, 0);
    dl_random_bytes(&stream, patterns, (size_t)classes * bytes);

    *set = (dl_data_set){.name = dl_strdup("synthetic"),
                         .pixels = dl_calloc(count, bytes, "synthetic images"),
                         .labels = dl_calloc(count, sizeof *set->labels, "synthetic labels"),
                         .count = count,
                         .sample_bytes = bytes,
                         .classes = classes};
    dl_random_init(&stream, seed, 1, 0, 0);
    for (size_t i = 0; i < count; i++) {
        uint8_t *image = set->pixels + i * bytes;
        set->labels[i] = (uint16_t)dl_random_below(&stream, (uint64_t)classes);
        const uint8_t *pattern = patterns + set->labels[i] * bytes;
        dl_random_bytes(&stream, image, bytes);
        for (size_t p = 0; p < bytes; p++) {
            image[p] = (uint8_t)((pattern[p] + image[p]) / 2);
        }
    }
}

void dl_data_set_batch(const dl_data_set *set, const uint32_t *order, int batch,
                       dl_precision precision, void *input, int32_t *labels)
{
    const size_t bytes = set->sample_bytes;
    for (int i = 0; i < batch; i++) {
        const uint8_t *restrict from = set->pixels + order[i] * bytes;
        if (precision == DL_FLOAT) {
            float *restrict to = (float *)input + (size_t)i * bytes;
            for (size_t p = 0; p < bytes; p++)
                to[p] = (float)from[p] / 255.0f;
        } else {
            double *restrict to = (double *)input + (size_t)i * bytes;
            for (size_t p = 0; p < bytes; p++)
                to[p] = from[p] / 255.0;
        }
        labels[i] = set->labels[order[i]];
    }
}

#define CIFAR_SIDE 32
#define CIFAR_CHANNELS 3
#define CIFAR_CLASSES 10
#define CIFAR_PIXELS (CIFAR_SIDE * CIFAR_SIDE)
#define CIFAR_SAMPLE_BYTES (CIFAR_PIXELS * CIFAR_CHANNELS)
#define CIFAR_RECORD_BYTES (1 + CIFAR_SAMPLE_BYTES)
#define CIFAR_FILE_RECORDS 10000
#define CIFAR_FILE_BYTES (CIFAR_FILE_RECORDS * CIFAR_RECORD_BYTES)

/* Converts a record's pixels from channel by channel to pixel by pixel. */
static void interleave(uint8_t *to, const uint8_t *from)
{
    for (int p = 0; p < CIFAR_PIXELS; p++) {
        for (int c = 0; c < CIFAR_CHANNELS; c++)
            to[p * CIFAR_CHANNELS + c] = from[c * CIFAR_PIXELS + p];
    }
}

/* Reads the records of a file into the samples `first`, first + 1, ... */
static dl_status read_cifar_file(const char *folder, const char *name, dl_data_set *set,
                                 size_t first, dl_error *err)
{
    DL_AUTOFREE char *path = dl_format("%s/%s", folder, name), *text = NULL;
    size_t bytes = 0;
    dl_status status = dl_file_read(path, &text, &bytes, err);
    if (status == DL_OK && bytes != CIFAR_FILE_BYTES) {
        status = dl_error_set_at(err, DL_ERR_FORMAT, path, 0,
                                 "has %zu bytes; a CIFAR-10 file has %d", bytes, CIFAR_FILE_BYTES);
    }
    for (size_t i = 0; status == DL_OK && i < CIFAR_FILE_RECORDS; i++) {
        const uint8_t *record = (const uint8_t *)text + i * CIFAR_RECORD_BYTES;
        set->labels[first + i] = record[0];
        interleave(set->pixels + (first + i) * CIFAR_SAMPLE_BYTES, record + 1);
        if (record[0] < CIFAR_CLASSES) continue;
        status =
            dl_error_set_at(err, DL_ERR_FORMAT, path, 0, "label %u of image %zu is not below %d",
                            record[0], i, CIFAR_CLASSES);
    }
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
    dl_data_set made = {.count = files * CIFAR_FILE_RECORDS,
                        .sample_bytes = CIFAR_SAMPLE_BYTES,
                        .classes = CIFAR_CLASSES};
    made.pixels = dl_calloc(made.count, CIFAR_SAMPLE_BYTES, "CIFAR-10 images");
    made.labels = dl_calloc(made.count, sizeof *made.labels, "CIFAR-10 labels");
    dl_status status = DL_OK;
    for (size_t f = 0; status == DL_OK && f < files; f++) {
        status = read_cifar_file(folder, names[f], &made, f * CIFAR_FILE_RECORDS, err);
    }
    if (status != DL_OK) {
        dl_data_set_free(&made);
        return status;
    }
    made.name = dl_strdup("cifar10");
    *set = made;
    return DL_OK;
}
