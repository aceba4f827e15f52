#include "profiler/data_source.h"

#include <stdlib.h>

#include "common/alloc.h"

/* As many images as MNIST has, so that the working set is the same. */
#define TRAINING_IMAGES 60000
#define TEST_IMAGES 10000

const char *const dl_data_choice_names[] = {"auto", "mnist", "synthetic", NULL};

static char *mnist_folder(const dl_data_source *source)
{
    if (source->folder != NULL) return dl_strdup(source->folder);
    const char *root = getenv("DL_DATA");
    return dl_format("%s/mnist", root != NULL && root[0] != '\0' ? root : "./data");
}

/* Test images are those of the next seed: the patterns of the classes are the same. */
static void make_synthetic(const dl_data_source *source, dl_data_set *set)
{
    if (source->test_set) {
        dl_data_set_synthetic(set, TEST_IMAGES, source->seed + 1);
    } else {
        dl_data_set_synthetic(set, TRAINING_IMAGES, source->seed);
    }
}

dl_status dl_data_source_open(const dl_data_source *source, dl_data_set *set, char **note,
                              dl_error *err)
{
    if (source->choice == DL_DATA_SYNTHETIC) {
        make_synthetic(source, set);
        *note = dl_format("synthetic, %zu images", set->count);
        return DL_OK;
    }
    char *folder = mnist_folder(source);
    dl_error why = {0};
    dl_status status = dl_data_set_read_mnist(set, folder, source->test_set, &why);
    if (status == DL_OK) {
        *note = dl_format("mnist, %zu images from %s", set->count, folder);
    } else if (status == DL_ERR_IO && source->choice == DL_DATA_AUTO) {
        make_synthetic(source, set);
        *note = dl_format("synthetic, %zu images (no MNIST in %s)", set->count, folder);
        status = DL_OK;
    } else if (err != NULL) {
        *err = why;
    }
    free(folder);
    return status;
}
