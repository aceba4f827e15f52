/* A model as a sequence of layers. First the plan: the inputs of each layer, and the gradients that
 * share memory. A layer's output is kept from forward to backward, since the backward pass of its
 * readers needs it. The gradient of an output lives only from the backward pass of its last reader
 * to that of its writer, so few arrays (slots) serve all: two in a chain of layers, one more beside
 * a skip connection. */
#include "kernels/model.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "kernels/layers/layer.h"
#include "kernels/model_table.h"
#include "kernels/pinned_threads.h"

/* A layer's connections; layers are numbered from 0. */
typedef struct model_link {
    int input;         /* the layer whose output it reads, -1 = the model's input */
    int other;         /* its second input, -1 = none */
    int gradient_slot; /* slot of its output's gradient, -1 = none: the loss */
} model_link;

typedef struct model_plan {
    model_link *links; /* [layer_count] */
    int slot_count;
    size_t *slot_size; /* [slot_count] numbers per sample: maximum over the slot's users */
} model_plan;

/* Fills `links` from the specs; all slots are -1. A link out of the model is a broken invariant. */
static void plan_links(model_plan *plan, const dl_layer_spec *specs, int layer_count)
{
    *plan = (model_plan){.links = dl_calloc((size_t)layer_count, sizeof *plan->links, "links")};
    for (int i = 0; i < layer_count; i++) {
        model_link *link = &plan->links[i];
        link->input = i - (specs[i].back > 0 ? specs[i].back : 1);
        link->other = specs[i].skip > 0 ? i - specs[i].skip : -1;
        link->gradient_slot = -1;
        DL_ASSERT(link->input >= -1 && i - specs[i].skip >= 0, "%s: inputs %d and %d",
                  specs[i].name, link->input, i - specs[i].skip);
    }
}

/* A slot during the planning of a backward pass. */
typedef struct slot {
    size_t size;
    int users; /* layers, except in-place ones, that have yet to read it; 0 = free */
} slot;

/* Takes a slot for `size` numbers: the smallest free one that is large enough, else the largest
 * free one, which grows, else a new one. slots[] has room for one per layer. */
static int take_slot(slot *slots, int *count, size_t size)
{
    int best = -1;
    for (int s = 0; s < *count; s++) {
        if (slots[s].users > 0) continue;
        const bool fits = slots[s].size >= size;
        if (best < 0 || (fits && (slots[best].size < size || slots[s].size < slots[best].size)) ||
            (!fits && slots[best].size < size && slots[s].size > slots[best].size)) {
            best = s;
        }
    }
    if (best < 0) best = (*count)++;
    if (slots[best].size < size) slots[best].size = size;
    slots[best].users = 1;
    return best;
}

/* Gives the input of an in-place layer the slot of its output's gradient, which the layer changes
 * in place; an addition gives both inputs its output's gradient unchanged. */
static void pass_on(model_link *links, slot *slots, const dl_layer *layers, int i)
{
    const int own = links[i].gradient_slot;
    DL_ASSERT(links[i].input >= 0 && links[links[i].input].gradient_slot < 0 &&
                  slots[own].users == 1,
              "%s: in place on an array that others read", layers[i].spec->name);
    links[links[i].input].gradient_slot = own;
    if (links[i].other < 0) return;
    DL_ASSERT(links[links[i].other].gradient_slot < 0, "%s: what it adds is read after it",
              layers[i].spec->name);
    links[links[i].other].gradient_slot = own;
    slots[own].users++;
}

/* Assigns a slot to the gradient of the input of a layer that is not in place; if a later layer
 * reads the same input, this layer adds to the gradient that the later one writes. */
static void hand_down(model_link *links, slot *slots, int *count, dl_layer *layers, int i)
{
    model_link *input = &links[links[i].input];
    if (input->gradient_slot < 0) {
        input->gradient_slot = take_slot(slots, count, dl_shape_count(layers[i].in));
        return;
    }
    DL_ASSERT(layers[i].type->can_accumulate && slots[input->gradient_slot].users == 1,
              "%s: cannot add to its input's gradient", layers[i].spec->name);
    layers[i].accumulates = true;
}

/* Chooses the slots of planned layers, in the order of a backward pass, and sets
 * layers[].accumulates if an output has a second reader. Asserts, as the specs come from this
 * program, that every output has a reader, that no in-place layer's input has other readers after
 * that layer, and that second readers can accumulate. */
static void plan_gradients(model_plan *plan, dl_layer *layers, int layer_count)
{
    model_link *links = plan->links;
    DL_AUTOFREE slot *slots = dl_calloc((size_t)layer_count, sizeof *slots, "slots");
    int count = 0;
    for (int i = layer_count - 1; i >= 0; i--) {
        const int own = links[i].gradient_slot;
        DL_ASSERT(own >= 0 || i == layer_count - 1, "%s: nobody reads it", layers[i].spec->name);
        if (layers[i].type->in_place) {
            pass_on(links, slots, layers, i);
            continue;
        }
        if (links[i].input >= 0) hand_down(links, slots, &count, layers, i);
        if (own >= 0) slots[own].users--;
    }
    plan->slot_count = count;
    plan->slot_size = dl_calloc((size_t)count, sizeof *plan->slot_size, "slot sizes");
    for (int s = 0; s < count; s++)
        plan->slot_size[s] = slots[s].size;
}

/* Layer i draws its parameters from the stream (seed, worker = STREAM + i), disjoint from the
 * workers' streams, so that they depend only on the seed and the layer's position. */
#define STREAM 0x100000u

struct dl_model {
    const dl_model_table *table;
    const dl_backend *backend;
    int max_batch;
    int layer_count;
    dl_layer *layers; /* the last one is the loss */
    model_plan plan;
    void **gradient_slots; /* [plan.slot_count] */
    size_t parameter_count;
    char *parameters, *gradients;
    void *input;
    int32_t *labels;
    void *host_input;     /* filled by the caller; = input if host_memory */
    int32_t *host_labels; /* filled by the caller; = labels if host_memory */
    void *scratch;        /* shared by all layers: only one works at a time */
    int batch;            /* batch size of the last forward pass */
};

static dl_layer *loss_layer(const dl_model *model)
{
    return &model->layers[model->layer_count - 1];
}

/* Sets the links, shapes and sizes of all layers, from the input on. */
static void plan_layers(dl_model *model, const dl_model_table *table)
{
    model->layer_count = table->layer_count;
    model->layers = dl_calloc((size_t)table->layer_count, sizeof *model->layers, "layers");
    plan_links(&model->plan, table->layers, table->layer_count);
    for (int i = 0; i < model->layer_count; i++) {
        const model_link *link = &model->plan.links[i];
        dl_layer *layer = &model->layers[i];
        layer->spec = &table->layers[i];
        layer->backend = model->backend;
        layer->in = link->input < 0 ? table->in : model->layers[link->input].out;
        layer->max_batch = model->max_batch;
        layer->wants_input_gradient = model->parameter_count > 0;
        layer->training = true;
        dl_layer_plan(layer);
        DL_ASSERT(link->other < 0 ||
                      dl_shape_count(model->layers[link->other].out) == dl_shape_count(layer->in),
                  "%s: its inputs differ in size", layer->spec->name);
        model->parameter_count += layer->parameter_count;
    }
    plan_gradients(&model->plan, model->layers, model->layer_count);
}

/* Bytes of `count` numbers per sample. */
static size_t sample_bytes(const dl_model *model, size_t count)
{
    return (size_t)model->max_batch * count * dl_precision_bytes(model->backend->precision);
}

static size_t scratch_bytes(const dl_model *model)
{
    size_t most = 0;
    for (int i = 0; i < model->layer_count; i++) {
        if (model->layers[i].scratch_bytes > most) most = model->layers[i].scratch_bytes;
    }
    return most;
}

size_t dl_model_parameter_bytes(const dl_model *model)
{
    return model->parameter_count * dl_precision_bytes(model->backend->precision);
}

static void allocate_memory(dl_model *model)
{
    const dl_backend *backend = model->backend;
    const model_plan *plan = &model->plan;
    const size_t bytes = dl_model_parameter_bytes(model);
    model->parameters = backend->allocate(bytes, "parameters");
    model->gradients = backend->allocate(bytes, "gradients");
    model->input =
        backend->allocate(sample_bytes(model, dl_shape_count(model->layers[0].in)), "input");
    model->labels = backend->allocate((size_t)model->max_batch * sizeof *model->labels, "labels");
    model->host_input = model->input;
    model->host_labels = model->labels;
    if (!backend->host_memory) {
        model->host_input = backend->allocate_host(
            sample_bytes(model, dl_shape_count(model->layers[0].in)), "input");
        model->host_labels =
            backend->allocate_host((size_t)model->max_batch * sizeof *model->labels, "labels");
    }
    model->scratch = backend->allocate(scratch_bytes(model), "scratch");
    model->gradient_slots =
        dl_calloc((size_t)plan->slot_count, sizeof *model->gradient_slots, "slots");
    for (int s = 0; s < plan->slot_count; s++) {
        model->gradient_slots[s] =
            backend->allocate(sample_bytes(model, plan->slot_size[s]), "output gradients");
    }
}

/* Binds the inputs, output, gradients and state of layer i. The layers that it reads must be
 * bound. */
static void bind_layer(dl_model *model, int i)
{
    const model_link *link = &model->plan.links[i];
    dl_layer *layer = &model->layers[i];
    layer->input = link->input < 0 ? model->input : model->layers[link->input].output;
    layer->input_gradient = link->input < 0 ? NULL : model->layers[link->input].output_gradient;
    layer->other = link->other < 0 ? NULL : model->layers[link->other].output;
    layer->output =
        layer->type->in_place
            ? layer->input
            : model->backend->allocate(sample_bytes(model, dl_shape_count(layer->out)), "outputs");
    if (link->gradient_slot >= 0) {
        layer->output_gradient = model->gradient_slots[link->gradient_slot];
    }
    layer->state = model->backend->allocate(layer->state_bytes, "layer state");
    layer->scratch = model->scratch;
    layer->labels = model->labels;
}

/* Initial parameters and states in the host's memory, drawn layer by layer. */
typedef struct drawing {
    const dl_model *model;
    uint64_t seed;
    void **parameters, **states; /* [layer_count] NULL: the layer has none */
    atomic_int next;             /* next layer to be drawn */
} drawing;

/* Each layer draws from a separate stream, so that the result does not depend on the thread. */
static void draw_layers(void *user, int thread DL_UNUSED)
{
    drawing *all = user;
    for (;;) {
        const int i = atomic_fetch_add(&all->next, 1);
        if (i >= all->model->layer_count) return;
        const dl_layer *layer = &all->model->layers[i];
        if (layer->type->init == NULL) continue;
        dl_random random;
        dl_random_init(&random, all->seed, 0, 0, STREAM + (uint32_t)i);
        all->parameters[i] = dl_alloc_aligned(
            layer->parameter_count * dl_precision_bytes(all->model->backend->precision),
            "initial parameters");
        all->states[i] = dl_alloc_aligned(layer->state_bytes, "initial state");
        layer->type->init(layer, all->parameters[i], all->states[i], &random);
    }
}

/* Up to this many parameters, drawing takes less than starting threads. */
#define THREADS_FROM ((size_t)1 << 20)
#define THREADS_MAX 16

/* Number of threads that draw: the calling thread's allowed cores (one if it is pinned), at most
 * THREADS_MAX; one for few parameters. */
static int drawing_threads(const dl_model *model)
{
    cpu_set_t allowed;
    if (model->parameter_count < THREADS_FROM ||
        sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 1;
    const int cores = CPU_COUNT(&allowed);
    return cores < THREADS_MAX ? cores : THREADS_MAX;
}

/* Draws all layers and copies them to the backend. */
static dl_status init_layers(const dl_model *model, uint64_t seed, dl_error *err)
{
    const dl_backend *backend = model->backend;
    const size_t count = (size_t)model->layer_count, bytes = dl_precision_bytes(backend->precision);
    drawing all = {.model = model,
                   .seed = seed,
                   .parameters = dl_calloc(count, sizeof(void *), "initial parameters"),
                   .states = dl_calloc(count, sizeof(void *), "initial states")};
    const int threads = drawing_threads(model);
    dl_status status = DL_OK;
    if (threads > 1) {
        status = dl_pinned_threads_run(threads, NULL, draw_layers, &all, err);
    } else {
        draw_layers(&all, 0);
    }
    for (size_t i = 0; i < count; i++) {
        const dl_layer *layer = &model->layers[i];
        if (all.parameters[i] != NULL && status == DL_OK) {
            backend->upload(layer->parameters, all.parameters[i], layer->parameter_count * bytes);
            backend->upload(layer->state, all.states[i], layer->state_bytes);
            status = backend->wait(err);
        }
        free(all.parameters[i]);
        free(all.states[i]);
    }
    free(all.parameters);
    free(all.states);
    return status;
}

/* Copies the parameters and states of `like`, which are in host memory. */
static dl_status copy_layers(const dl_model *model, const dl_model *like, dl_error *err)
{
    const dl_backend *backend = model->backend;
    for (int i = 0; i < model->layer_count; i++) {
        const dl_layer *to = &model->layers[i], *from = &like->layers[i];
        if (to->type->init == NULL) continue;
        DL_ASSERT(to->state_bytes == from->state_bytes, "a state of %zu bytes", to->state_bytes);
        backend->upload(to->parameters, from->parameters,
                        to->parameter_count * dl_precision_bytes(backend->precision));
        backend->upload(to->state, from->state, to->state_bytes);
    }
    return backend->wait(err);
}

/* Sets the layers' memory and parameters, which are copied from `like`, or drawn if it is NULL.
 * Waits for the backend, and so reports that memory could not be allocated. */
static dl_status bind_layers(dl_model *model, const dl_model *like, uint64_t seed, dl_error *err)
{
    dl_status status = model->backend->wait(err);
    const size_t bytes = dl_precision_bytes(model->backend->precision);
    size_t first = 0;
    for (int i = 0; status == DL_OK && i < model->layer_count; i++) {
        dl_layer *layer = &model->layers[i];
        bind_layer(model, i);
        layer->parameters = model->parameters + first * bytes;
        layer->gradients = model->gradients + first * bytes;
        first += layer->parameter_count;
    }
    /* Reports failed allocations of outputs and states since the last wait. */
    if (status == DL_OK) status = model->backend->wait(err);
    if (status != DL_OK) return status;
    return like != NULL ? copy_layers(model, like, err) : init_layers(model, seed, err);
}

void dl_model_destroy(dl_model *model)
{
    if (!model) return;
    const dl_backend *backend = model->backend;
    for (int i = 0; i < model->layer_count; i++) {
        const dl_layer *layer = &model->layers[i];
        backend->release(layer->state);
        if (!layer->type->in_place) backend->release(layer->output);
    }
    for (int s = 0; s < model->plan.slot_count; s++)
        backend->release(model->gradient_slots[s]);
    free(model->gradient_slots);
    free(model->plan.slot_size);
    free(model->plan.links);
    backend->release(model->scratch);
    if (!backend->host_memory) {
        backend->release_host(model->host_labels);
        backend->release_host(model->host_input);
    }
    backend->release(model->labels);
    backend->release(model->input);
    backend->release(model->gradients);
    backend->release(model->parameters);
    free(model->layers);
    free(model);
}

/* Makes a model; frees it if it cannot be completed. */
static dl_status make(dl_model **model, const dl_model_table *table, const dl_model *like,
                      const dl_backend *backend, int max_batch, uint64_t seed, dl_error *err)
{
    dl_model *made = dl_calloc(1, sizeof *made, "model");
    made->table = table;
    made->backend = backend;
    made->max_batch = max_batch;
    dl_status status = backend->start(err);
    if (status == DL_OK) {
        plan_layers(made, table);
        allocate_memory(made);
        status = bind_layers(made, like, seed, err);
    }
    if (status == DL_OK) {
        *model = made;
    } else {
        dl_model_destroy(made);
    }
    return status;
}

dl_model *dl_model_create_from(const dl_model_table *table, dl_precision precision, int max_batch,
                               uint64_t seed)
{
    dl_model *made = NULL;
    const dl_status status =
        make(&made, table, NULL, dl_backend_cpu(precision), max_batch, seed, NULL);
    DL_ASSERT(status == DL_OK, "status %d", (int)status);
    return made;
}

dl_status dl_model_create_on(dl_model **model, const char *name, const dl_backend *backend,
                             int max_batch, uint64_t seed, dl_error *err)
{
    const dl_model_table *table = NULL;
    const dl_status status = dl_model_table_find(&table, name, err);
    if (status != DL_OK) return status;
    if (max_batch < 1) {
        return dl_error_set(err, DL_ERR_RANGE, "a batch of %d samples; at least 1 is needed",
                            max_batch);
    }
    return make(model, table, NULL, backend, max_batch, seed, err);
}

dl_status dl_model_create(dl_model **model, const char *name, dl_precision precision, int max_batch,
                          uint64_t seed, dl_error *err)
{
    return dl_model_create_on(model, name, dl_backend_cpu(precision), max_batch, seed, err);
}

dl_status dl_model_create_like(dl_model **model, const dl_model *like, const dl_backend *backend,
                               int max_batch, dl_error *err)
{
    DL_ASSERT(like->backend->host_memory && like->backend->precision == backend->precision,
              "a model of %d bytes a number", (int)dl_precision_bytes(like->backend->precision));
    return make(model, like->table, like, backend, max_batch, 0, err);
}

dl_precision dl_model_precision(const dl_model *model)
{
    return model->backend->precision;
}

size_t dl_model_parameter_count(const dl_model *model)
{
    return model->parameter_count;
}

dl_model_memory dl_model_memory_use(const dl_model *model)
{
    dl_model_memory use = {
        .parameter_bytes = dl_model_parameter_bytes(model),
        .gradient_bytes = dl_model_parameter_bytes(model),
        .activation_bytes = sample_bytes(model, dl_shape_count(model->layers[0].in)) +
                            (size_t)model->max_batch * sizeof *model->labels,
        .scratch_bytes = scratch_bytes(model),
    };
    for (int i = 0; i < model->layer_count; i++) {
        const dl_layer *layer = &model->layers[i];
        use.activation_bytes += layer->state_bytes;
        if (layer->type->in_place) continue;
        use.activation_bytes += sample_bytes(model, dl_shape_count(layer->out));
    }
    for (int s = 0; s < model->plan.slot_count; s++)
        use.activation_gradient_bytes += sample_bytes(model, model->plan.slot_size[s]);
    return use;
}

void *dl_model_parameters(dl_model *model)
{
    return model->parameters;
}

void *dl_model_gradients(dl_model *model)
{
    return model->gradients;
}

size_t dl_model_input_count(const dl_model *model)
{
    return dl_shape_count(model->layers[0].in);
}

int dl_model_class_count(const dl_model *model)
{
    return (int)dl_shape_count(loss_layer(model)->out);
}

void *dl_model_input(dl_model *model)
{
    return model->host_input;
}

int32_t *dl_model_labels(dl_model *model)
{
    return model->host_labels;
}

void dl_model_upload(dl_model *model, int batch)
{
    const dl_backend *backend = model->backend;
    if (backend->host_memory) return;
    const size_t numbers = (size_t)batch * dl_model_input_count(model);
    backend->upload(model->input, model->host_input,
                    numbers * dl_precision_bytes(backend->precision));
    backend->upload(model->labels, model->host_labels, (size_t)batch * sizeof *model->labels);
}

int dl_model_operation_count(const dl_model *model)
{
    return model->layer_count;
}

static dl_layer *layer_at(const dl_model *model, int operation)
{
    DL_ASSERT(operation >= 0 && operation < model->layer_count, "operation %d of %d", operation,
              model->layer_count);
    return &model->layers[operation];
}

const char *dl_model_operation_name(const dl_model *model, int operation)
{
    return layer_at(model, operation)->spec->name;
}

void dl_model_operation_parameters(const dl_model *model, int operation, size_t *first,
                                   size_t *count)
{
    *count = layer_at(model, operation)->parameter_count;
    *first = 0;
    for (int i = 0; i < operation; i++)
        *first += model->layers[i].parameter_count;
}

double dl_model_operation_flops(const dl_model *model, int operation)
{
    return layer_at(model, operation)->flops;
}

static void check_batch(const dl_model *model, int batch)
{
    DL_ASSERT(batch >= 1 && batch <= model->max_batch, "batch %d of at most %d", batch,
              model->max_batch);
}

void dl_model_forward(dl_model *model, int operation, int batch)
{
    dl_layer *layer = layer_at(model, operation);
    check_batch(model, batch);
    model->batch = batch;
    layer->type->forward(layer, batch);
}

void dl_model_backward(dl_model *model, int operation, int batch)
{
    dl_layer *layer = layer_at(model, operation);
    check_batch(model, batch);
    layer->type->backward(layer, batch);
}

void dl_model_pass(dl_model *model, int batch)
{
    for (int op = 0; op < model->layer_count; op++)
        dl_model_forward(model, op, batch);
    for (int op = model->layer_count - 1; op >= 0; op--)
        dl_model_backward(model, op, batch);
}

/* Fetches the loss layer's results; returns whether that succeeded. */
static bool fetch_result(const dl_model *model)
{
    dl_layer *loss = loss_layer(model);
    return loss->type->result(loss, model->batch, NULL) == DL_OK;
}

double dl_model_loss(dl_model *model)
{
    return fetch_result(model) ? loss_layer(model)->loss : NAN;
}

int dl_model_correct(dl_model *model)
{
    return fetch_result(model) ? loss_layer(model)->correct : 0;
}
