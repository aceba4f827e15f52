/* What a trained model is worth. */
#include <math.h>

#include "kernels/train/train_worker.h"

/* Samples a forward pass of dl_train_accuracy: at most so many, and no more than fit into the bytes
 * (ResNet-50 keeps 91 MB a sample). */
#define ACCURACY_BATCH 200
#define ACCURACY_BYTES ((size_t)1 << 30)

/* Copies the parameters into a model of single precision, in which predictions are made. */
static void set_parameters(dl_model *model, const double *parameters)
{
    float *to = dl_model_parameters(model);
    const size_t count = dl_model_parameter_count(model);
    for (size_t i = 0; i < count; i++)
        to[i] = (float)parameters[i];
}

/* A model for batches of *batch samples. */
static dl_status create_for_accuracy(dl_model **model, const char *name, int *batch, dl_error *err)
{
    const dl_status status = dl_model_create(model, name, DL_FLOAT, 1, 0, err);
    if (status != DL_OK) return status;
    const dl_model_memory memory = dl_model_memory_use(*model);
    const size_t most =
        ACCURACY_BYTES / (memory.activation_bytes + memory.activation_gradient_bytes + 1);
    *batch = most < 1 ? 1 : most > ACCURACY_BATCH ? ACCURACY_BATCH : (int)most;
    dl_model_destroy(*model);
    return dl_model_create(model, name, DL_FLOAT, *batch, 0, err);
}

dl_status dl_train_accuracy(const char *model_name, const double *parameters,
                            const dl_data_set *data, double *accuracy, dl_error *err)
{
    dl_model *model = NULL;
    int most = 0;
    dl_status status = create_for_accuracy(&model, model_name, &most, err);
    if (status == DL_OK) status = dl_train_check_data(data, model, model_name, err);
    if (status != DL_OK) {
        dl_model_destroy(model);
        return status;
    }
    set_parameters(model, parameters);
    uint32_t order[ACCURACY_BATCH];
    size_t right = 0;
    for (size_t done = 0; done < data->count;) {
        const size_t rest = data->count - done;
        const int batch = rest < (size_t)most ? (int)rest : most;
        for (int i = 0; i < batch; i++)
            order[i] = (uint32_t)(done + (size_t)i);
        dl_data_set_batch(data, order, batch, DL_FLOAT, dl_model_input(model),
                          dl_model_labels(model));
        for (int op = 0; op < dl_model_operation_count(model); op++) {
            dl_model_forward(model, op, batch);
        }
        right += (size_t)dl_model_correct(model);
        done += (size_t)batch;
    }
    dl_model_destroy(model);
    *accuracy = (double)right / (double)data->count;
    return DL_OK;
}

bool dl_train_diverged(const dl_train_result *result)
{
    return !isfinite(result->last_loss);
}
