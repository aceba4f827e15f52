/* A model: layers over one flat block of parameters, run one operation at a time.
 *
 * Parameters and gradients are flat arrays of dl_model_parameter_count() numbers, float or double
 * by precision, so that exchanging them means copying one vector. Each layer's parameters are one
 * range of it. A model belongs to one thread; replicas are separate models.
 *
 * A step fills dl_model_input and dl_model_labels, then calls dl_model_upload, dl_model_forward for
 * all operations in order and dl_model_backward for all in reverse order. dl_model_backward
 * overwrites the gradients. The loss is the mean over the batch, so gradients of shards average to
 * that of the whole batch. */
#ifndef DL_KERNELS_MODEL_H
#define DL_KERNELS_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/backend.h"
#include "kernels/precision.h"

typedef struct dl_model dl_model;

/* Names of the models, NULL-terminated:
 *   "mlp"       784-128-64-10
 *   "lenet"     20 and 50 filters 5x5, 500, 10; max-pooling 2x2; ReLU
 *   "vgg19_bn"  for 32x32x3 images in 10 classes: the 16 convolutions of VGG-19 (Simonyan &
 *               Zisserman 2015, configuration E), each with bias and batch norm; one dense layer
 *   "resnet50"  for 224x224x3 images in 1000 classes: He et al. 2016, table 1, with the stride in
 *               the 3x3 convolutions ("v1.5"), as torchvision has it */
extern const char *const dl_model_names[];

/* Builds a model for batches of 1..max_batch samples; parameters are drawn (He normal, biases 0;
 * classifiers of the two large models normal of deviation 0.01) from the stream of `seed`: equal
 * seeds give equal parameters. Unknown name: DL_ERR_NAME; max_batch < 1: DL_ERR_RANGE; no OpenBLAS:
 * DL_ERR_UNSUPPORTED; threads for the drawing refused: DL_ERR_SYSTEM. */
dl_status dl_model_create(dl_model **model, const char *name, dl_precision precision, int max_batch,
                          uint64_t seed, dl_error *err) DL_MUST_CHECK;
/* dl_model_create on a backend, whose operations the calling thread can use; also DL_ERR_SYSTEM if
 * the backend's `wait` fails, mostly for lack of memory. */
dl_status dl_model_create_on(dl_model **model, const char *name, const dl_backend *backend,
                             int max_batch, uint64_t seed, dl_error *err) DL_MUST_CHECK;
/* dl_model_create_on with parameters and running statistics copied from `like`, a model of the same
 * precision in the host's memory. */
dl_status dl_model_create_like(dl_model **model, const dl_model *like, const dl_backend *backend,
                               int max_batch, dl_error *err) DL_MUST_CHECK;
void dl_model_destroy(dl_model *model); /* NULL is fine */

dl_precision dl_model_precision(const dl_model *model);
size_t dl_model_parameter_count(const dl_model *model);
size_t dl_model_parameter_bytes(const dl_model *model);

/* Bytes of the backend's memory held by a model. Activations (the input, and the data that layers
 * keep for their backward pass) and their gradients grow with max_batch, the rest hardly does. The
 * optimizer's state is not included. */
typedef struct dl_model_memory {
    size_t parameter_bytes, gradient_bytes;
    size_t activation_bytes, activation_gradient_bytes;
    size_t scratch_bytes;
} dl_model_memory;
dl_model_memory dl_model_memory_use(const dl_model *model);

/* Flat parameters and gradients, [parameter_count] of float or double in the backend's memory;
 * owned by the model, 64-byte aligned, at fixed addresses for its life. */
void *dl_model_parameters(dl_model *model);
void *dl_model_gradients(dl_model *model);

/* Input [batch x input_count] (row, column, channel) and labels [batch] (class numbers) of the next
 * step; owned by the model, in the host's memory, to be filled by the caller. */
size_t dl_model_input_count(const dl_model *model);
int dl_model_class_count(const dl_model *model);
void *dl_model_input(dl_model *model);
int32_t *dl_model_labels(dl_model *model);

/* Copies input and labels of `batch` samples to the backend; they must stay unchanged until the
 * backend's `wait`. Does nothing on the processor, and may be left out. */
void dl_model_upload(dl_model *model, int batch);

/* Operations in forward order: "conv1", "pool1", "relu1", ..., "loss"; a layer comes after those
 * whose output it reads. first/count: the range of its parameters (count 0: none). */
int dl_model_operation_count(const dl_model *model);
const char *dl_model_operation_name(const dl_model *model, int operation);
void dl_model_operation_parameters(const dl_model *model, int operation, size_t *first,
                                   size_t *count);

/* Floating-point operations per sample of an operation's GEMMs, forward and backward (2 m n k each;
 * other work counts 0): for efficiency figures. */
double dl_model_operation_flops(const dl_model *model, int operation);

/* Runs one operation for 1 <= batch <= max_batch samples. */
void dl_model_forward(dl_model *model, int operation, int batch);
void dl_model_backward(dl_model *model, int operation, int batch);
/* All operations forward, then all backward. */
void dl_model_pass(dl_model *model, int batch);

/* Mean loss of the last forward pass, and its number of correctly classified samples. Both wait for
 * the backend; NaN and 0 if it failed. */
double dl_model_loss(dl_model *model);
int dl_model_correct(dl_model *model);

#endif
