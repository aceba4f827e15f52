#include "profiler/data_source.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/names.h"
#include "kernels/model_table.h"

const char *const dl_data_choice_names[] = {"auto", "mnist", "cifar10", "synthetic", NULL};

dl_data_choice dl_data_choice_of(const char *set_name)
{
    const int choice = dl_names_find(set_name, dl_data_choice_names, DL_DATA_SYNTHETIC + 1);
    DL_ASSERT(choice > DL_DATA_AUTO, "no data set is called '%s'", set_name);
    return (dl_data_choice)choice;
}

/* A set that can be read. */
typedef struct real_set {
    dl_data_choice choice;
    const char *title;
    dl_shape shape;
    int classes;
    dl_status (*read)(dl_data_set *set, const char *folder, int test_set, dl_error *err);
    size_t images[2]; /* for training, for the test */
} real_set;

static const real_set real_sets[] = {
    {DL_DATA_MNIST, "MNIST", {28, 28, 1}, 10, dl_data_set_read_mnist, {60000, 10000}},
    {DL_DATA_CIFAR10, "CIFAR-10", {32, 32, 3}, 10, dl_data_set_read_cifar10, {50000, 10000}},
};
enum { REAL_SETS = sizeof real_sets / sizeof real_sets[0] };

/* Synthetic images of other shapes: 256 of ImageNet's are 39 MB. */
static const size_t other_images[2] = {256, 64};

static const dl_model_table *model_of(const dl_data_source *source)
{
    const dl_model_table *table = dl_model_table_find(source->model);
    DL_ASSERT(table != NULL, "no model is called '%s'", source->model);
    return table;
}

static bool fits(const real_set *real, const dl_model_table *model)
{
    return real->shape.rows == model->in.rows && real->shape.columns == model->in.columns &&
           real->shape.channels == model->in.channels &&
           real->classes == dl_model_table_classes(model);
}

/* The set that is meant: the chosen one, or with `auto` and `synthetic` that of the model's shape;
 * or NULL. */
static const real_set *find_real(const dl_data_source *source)
{
    const bool by_shape = source->choice == DL_DATA_AUTO || source->choice == DL_DATA_SYNTHETIC;
    for (int i = 0; i < REAL_SETS; i++) {
        if (by_shape ? fits(&real_sets[i], model_of(source))
                     : real_sets[i].choice == source->choice) {
            return &real_sets[i];
        }
    }
    return NULL;
}

static char *folder_of(const dl_data_source *source, const real_set *real)
{
    if (source->folder != NULL) return dl_strdup(source->folder);
    const char *root = getenv("DL_DATA");
    return dl_format("%s/%s", root != NULL && root[0] != '\0' ? root : "./data",
                     dl_data_choice_names[real->choice]);
}

/* Test images are those of the next seed: the patterns of the classes are the same. `why` ends the
 * note. */
static void make_synthetic(const dl_data_source *source, const real_set *real, const char *why,
                           dl_data_set *set, char **note)
{
    const dl_model_table *model = model_of(source);
    const size_t *images = real != NULL ? real->images : other_images;
    dl_data_set_synthetic(set, model->in, dl_model_table_classes(model), images[source->test_set],
                          source->seed + source->test_set);
    *note = dl_format("synthetic, %zu images of %dx%dx%d%s", set->count, model->in.rows,
                      model->in.columns, model->in.channels, why);
}

dl_status dl_data_source_open(const dl_data_source *source, dl_data_set *set, char **note,
                              dl_error *err)
{
    const real_set *real = find_real(source);
    if (real == NULL || source->choice == DL_DATA_SYNTHETIC) {
        make_synthetic(source, real, real == NULL ? " (no real set of this shape can be read)" : "",
                       set, note);
        return DL_OK;
    }
    char *folder = folder_of(source, real);
    dl_error why = {0};
    dl_status status = real->read(set, folder, source->test_set, &why);
    if (status == DL_OK) {
        *note = dl_format("%s, %zu images from %s", set->name, set->count, folder);
    } else if (status == DL_ERR_IO && source->choice == DL_DATA_AUTO) {
        char *reason = dl_format(" (no %s in %s)", real->title, folder);
        make_synthetic(source, real, reason, set, note);
        free(reason);
        status = DL_OK;
    } else if (err != NULL) {
        *err = why;
    }
    free(folder);
    return status;
}
