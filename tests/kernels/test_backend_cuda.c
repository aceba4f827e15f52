/* The "cuda" backend compared with the processor's: every kind of layer, the optimizers, a few
 * steps of whole models. Skipped where CUDA finds no GPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda_internal.h"
#include "kernels/exchange.h"
#include "kernels/model.h"
#include "kernels/optimizer.h"
#include "tests/check.h"
#include "tests/kernels/layer_cases.h"
#include "tests/near.h"

#define SKIPPED 77

/* Float has a precision of 1e-7; sums of some hundred terms in another order 1e-5. */
#define TOLERANCE 1e-4

static dl_device *device;

/* A layer with separate memory in float, on either backend. */
typedef struct rig {
    dl_layer layer;
    int batch;
    size_t in_count, out_count;
    void *other, *labels;
} rig;

static void put(const dl_backend *backend, void *to, const float *from, size_t count)
{
    backend->upload(to, from, count * sizeof *from);
    dl_error err = {0};
    if (backend->wait(&err) != DL_OK) fail_msg("%s", err.text);
}

/* Returns the values as double; free() them. */
static double *get(const dl_backend *backend, const void *from, size_t count)
{
    DL_AUTOFREE float *values = dl_calloc(count, sizeof *values, "test");
    double *result = dl_calloc(count, sizeof *result, "test");
    dl_error err = {0};
    backend->download(values, from, count * sizeof *values);
    if (backend->wait(&err) != DL_OK) fail_msg("%s", err.text);
    for (size_t i = 0; i < count; i++)
        result[i] = (double)values[i];
    return result;
}

static void draw(dl_random *random, const dl_backend *backend, void *to, size_t count)
{
    DL_AUTOFREE float *values = dl_calloc(count, sizeof *values, "test");
    for (size_t i = 0; i < count; i++)
        values[i] = (float)dl_random_normal(random);
    put(backend, to, values, count);
}

static void *numbers(const dl_backend *backend, size_t count)
{
    return backend->allocate(count * sizeof(float), "test");
}

static void rig_allocate(rig *r)
{
    dl_layer *layer = &r->layer;
    const dl_backend *backend = layer->backend;
    layer->parameters = numbers(backend, layer->parameter_count);
    layer->gradients = numbers(backend, layer->parameter_count);
    layer->input = numbers(backend, r->in_count);
    layer->input_gradient = numbers(backend, r->in_count);
    layer->output = layer->input;
    layer->output_gradient = layer->input_gradient;
    if (!layer->type->in_place) {
        layer->output = numbers(backend, r->out_count);
        layer->output_gradient = numbers(backend, r->out_count);
    }
    layer->state = backend->allocate(layer->state_bytes, "test");
    layer->scratch = backend->allocate(layer->scratch_bytes, "test");
    r->other = numbers(backend, r->in_count);
    layer->other = r->other;
    r->labels = backend->allocate((size_t)r->batch * sizeof(int32_t), "test");
    layer->labels = r->labels;
}

/* Sets the initial state as a model does, drawn from a separate stream. */
static void init_state(rig *r)
{
    const dl_layer *layer = &r->layer;
    if (layer->type->init == NULL) return;
    dl_random random;
    dl_random_init(&random, 9, 0, 0, 0);
    DL_AUTOFREE void *parameters = dl_calloc(layer->parameter_count, sizeof(float), "test");
    DL_AUTOFREE void *state = dl_calloc(1, layer->state_bytes, "test");
    layer->type->init(layer, parameters, state, &random);
    layer->backend->upload(layer->state, state, layer->state_bytes);
    assert_int_equal(layer->backend->wait(NULL), DL_OK);
}

static void rig_init(rig *r, const dl_backend *backend, const layer_case *c)
{
    dl_random random;
    dl_random_init(&random, 7, 0, 0, 0);
    *r = (rig){.batch = c->batch,
               .layer = {.spec = &c->spec,
                         .backend = backend,
                         .in = c->in,
                         .max_batch = c->batch,
                         .wants_input_gradient = true,
                         .training = true}};
    assert_int_equal(backend->start(NULL), DL_OK);
    dl_layer_plan(&r->layer);
    r->in_count = (size_t)c->batch * dl_shape_count(c->in);
    r->out_count = (size_t)c->batch * dl_shape_count(r->layer.out);
    rig_allocate(r);
    init_state(r);
    draw(&random, backend, r->layer.input, r->in_count);
    draw(&random, backend, r->other, r->in_count);
    draw(&random, backend, r->layer.parameters, r->layer.parameter_count);
    DL_AUTOFREE int32_t *labels = dl_calloc((size_t)c->batch, sizeof *labels, "test");
    for (int i = 0; i < c->batch; i++) {
        labels[i] = (int32_t)dl_random_below(&random, dl_shape_count(c->in));
    }
    backend->upload(r->labels, labels, (size_t)c->batch * sizeof *labels);
    assert_int_equal(backend->wait(NULL), DL_OK);
}

static void rig_free(rig *r)
{
    dl_layer *layer = &r->layer;
    const dl_backend *backend = layer->backend;
    if (!layer->type->in_place) {
        backend->release(layer->output);
        backend->release(layer->output_gradient);
    }
    backend->release(layer->parameters);
    backend->release(layer->gradients);
    backend->release(layer->input);
    backend->release(layer->input_gradient);
    backend->release(layer->state);
    backend->release(layer->scratch);
    backend->release(r->other);
    backend->release(r->labels);
}

static void check_same(const rig *a, const void *from_a, const rig *b, const void *from_b,
                       size_t count, const char *what)
{
    DL_AUTOFREE double *actual = get(a->layer.backend, from_a, count);
    DL_AUTOFREE double *expected = get(b->layer.backend, from_b, count);
    if (!near_all(actual, expected, count, TOLERANCE)) {
        fail_msg("%s, %s", a->layer.spec->name, what);
    }
}

static void run_both(rig *gpu, rig *cpu)
{
    dl_random random;
    for (int i = 0; i < 2; i++) {
        rig *r = i == 0 ? gpu : cpu;
        r->layer.type->forward(&r->layer, r->batch);
        if (r->layer.type->result != NULL) {
            assert_int_equal(r->layer.type->result(&r->layer, r->batch, NULL), DL_OK);
        }
    }
    check_same(gpu, gpu->layer.output, cpu, cpu->layer.output, gpu->out_count, "output");
    for (int i = 0; i < 2; i++) {
        rig *r = i == 0 ? gpu : cpu;
        dl_random_init(&random, 8, 0, 0, 0);
        draw(&random, r->layer.backend, r->layer.output_gradient, r->out_count);
        if (r->layer.accumulates) {
            draw(&random, r->layer.backend, r->layer.input_gradient, r->in_count);
        }
        r->layer.type->backward(&r->layer, r->batch);
    }
    check_same(gpu, gpu->layer.input_gradient, cpu, cpu->layer.input_gradient, gpu->in_count,
               "input gradient");
    check_same(gpu, gpu->layer.gradients, cpu, cpu->layer.gradients, gpu->layer.parameter_count,
               "parameter gradient");
}

/* Each layer runs twice, since the first call of a shape chooses an algorithm. */
static void layers_match_the_processors(void **state DL_UNUSED)
{
    for (int i = 0; i < CASE_COUNT; i++) {
        DL_SCOPED(rig) gpu, cpu;
        rig_init(&gpu, &dl_backend_cuda, &cases[i]);
        rig_init(&cpu, dl_backend_cpu(DL_FLOAT), &cases[i]);
        run_both(&gpu, &cpu);
        if (!gpu.layer.type->in_place) run_both(&gpu, &cpu);
        assert_true(near_scaled(gpu.layer.loss, cpu.layer.loss, 1, TOLERANCE));
        assert_int_equal(gpu.layer.correct, cpu.layer.correct);
        if (strcmp(cases[i].spec.kind, "batch_norm") == 0) {
            check_same(&gpu, gpu.layer.state, &cpu, cpu.layer.state,
                       4 * (size_t)cases[i].in.channels, "statistics");
            gpu.layer.training = cpu.layer.training = false;
            gpu.layer.type->forward(&gpu.layer, gpu.batch);
            cpu.layer.type->forward(&cpu.layer, cpu.batch);
            check_same(&gpu, gpu.layer.output, &cpu, cpu.layer.output, gpu.out_count, "inference");
        }
    }
}

static void second_reader_adds_its_gradient(void **state DL_UNUSED)
{
    for (int i = 0; i < CASE_COUNT; i++) {
        rig gpu, cpu;
        rig_init(&gpu, &dl_backend_cuda, &cases[i]);
        if (gpu.layer.type->can_accumulate) {
            rig_init(&cpu, dl_backend_cpu(DL_FLOAT), &cases[i]);
            gpu.layer.accumulates = cpu.layer.accumulates = true;
            run_both(&gpu, &cpu);
            rig_free(&cpu);
        }
        rig_free(&gpu);
    }
}

/* Both backends choose the same positions, also for equal maxima. */
static void pooling_chooses_the_first_of_equal_maxima(void **state DL_UNUSED)
{
    const dl_windows pool = {
        .count = 1, .in = {2, 2, 2}, .out = {1, 1, 2}, .kernel = 2, .stride = 2};
    const float x[] = {1, -1, 2, -1, 2, -2, 0, -1};
    const dl_backend *backend = &dl_backend_cuda;
    void *image = numbers(backend, 8), *y = numbers(backend, 2);
    int32_t *choice = backend->allocate(2 * sizeof *choice, "test"), places[2];
    put(backend, image, x, 8);
    backend->max_pool(&pool, image, y, choice);
    backend->download(places, choice, sizeof places);
    assert_int_equal(backend->wait(NULL), DL_OK);
    assert_int_equal(places[0], 1);
    assert_int_equal(places[1], 0);
    backend->release(image);
    backend->release(y);
    backend->release(choice);
}

static void optimizers_match_the_processors(void **state DL_UNUSED)
{
    enum { COUNT = 1000, STEPS = 3 };
    for (int i = 0; dl_optimizer_names[i] != NULL; i++) {
        const dl_optimizer_config config = {
            .name = dl_optimizer_names[i], .learning_rate = 0.1, .momentum = 0.9};
        double *results[2];
        for (int b = 0; b < 2; b++) {
            const dl_backend *backend = b == 0 ? &dl_backend_cuda : dl_backend_cpu(DL_FLOAT);
            dl_random random;
            dl_random_init(&random, 3, 0, 0, 0);
            dl_optimizer *optimizer = NULL;
            assert_int_equal(dl_optimizer_create_on(&optimizer, &config, backend, COUNT, NULL),
                             DL_OK);
            void *parameters = numbers(backend, COUNT), *gradients = numbers(backend, COUNT);
            draw(&random, backend, parameters, COUNT);
            for (int s = 0; s < STEPS; s++) {
                draw(&random, backend, gradients, COUNT);
                dl_optimizer_begin(optimizer);
                dl_optimizer_apply(optimizer, parameters, gradients, 0, 600);
                dl_optimizer_apply(optimizer, parameters, gradients, 600, COUNT - 600);
            }
            results[b] = get(backend, parameters, COUNT);
            backend->release(parameters);
            backend->release(gradients);
            dl_optimizer_destroy(optimizer);
        }
        if (!near_all(results[0], results[1], COUNT, TOLERANCE)) fail_msg("%s", config.name);
        free(results[0]);
        free(results[1]);
    }
}

/* Computes the losses of a few steps on one batch. */
static void train(const dl_backend *backend, const char *name, int batch, int steps, double *losses)
{
    dl_model *model = NULL;
    dl_optimizer *optimizer = NULL;
    dl_error err = {0};
    if (dl_model_create_on(&model, name, backend, batch, 1, &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    const dl_optimizer_config config = {.name = "sgd", .learning_rate = 0.01, .momentum = 0.9};
    const size_t count = dl_model_parameter_count(model);
    assert_int_equal(dl_optimizer_create_on(&optimizer, &config, backend, count, &err), DL_OK);
    dl_random random;
    dl_random_init(&random, 5, 0, 0, 0);
    float *input = dl_model_input(model);
    for (size_t i = 0; i < (size_t)batch * dl_model_input_count(model); i++)
        input[i] = (float)dl_random_normal(&random);
    for (int i = 0; i < batch; i++)
        dl_model_labels(model)[i] = i % dl_model_class_count(model);
    const int operations = dl_model_operation_count(model);
    for (int s = 0; s < steps; s++) {
        dl_model_upload(model, batch);
        for (int op = 0; op < operations; op++)
            dl_model_forward(model, op, batch);
        losses[s] = dl_model_loss(model);
        for (int op = operations - 1; op >= 0; op--)
            dl_model_backward(model, op, batch);
        dl_optimizer_begin(optimizer);
        dl_optimizer_apply(optimizer, dl_model_parameters(model), dl_model_gradients(model), 0,
                           count);
    }
    if (backend->wait(&err) != DL_OK) fail_msg("%s", err.text);
    dl_optimizer_destroy(optimizer);
    dl_model_destroy(model);
}

/* Rounding errors grow with the steps, and faster in deeper networks. */
static void losses_match_the_processors(void **state DL_UNUSED)
{
    static const struct {
        const char *name;
        int batch;
        double tolerance;
    } models[] = {{"mlp", 16, 1e-3}, {"lenet", 16, 1e-3}, {"vgg19_bn", 8, 0.05}};
    enum { STEPS = 4 };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        double gpu[STEPS], cpu[STEPS];
        train(&dl_backend_cuda, models[i].name, models[i].batch, STEPS, gpu);
        train(dl_backend_cpu(DL_FLOAT), models[i].name, models[i].batch, STEPS, cpu);
        for (int s = 0; s < STEPS; s++) {
            const double tolerance = s == 0 ? 1e-3 : models[i].tolerance;
            if (!near_scaled(gpu[s], cpu[s], 0.1, tolerance)) {
                fail_msg("%s, step %d", models[i].name, s);
            }
        }
    }
}

static void steps_repeat_bit_for_bit(void **state DL_UNUSED)
{
    double first[3], again[3];
    train(&dl_backend_cuda, "lenet", 16, 3, first);
    train(&dl_backend_cuda, "lenet", 16, 3, again);
    assert_memory_equal(first, again, sizeof first);
}

/* A device that has failed reports it, also in later calls. */
static void too_little_memory_is_an_error(void **state DL_UNUSED)
{
    dl_device *own = NULL;
    dl_error err = {0};
    assert_int_equal(dl_device_cuda.open(&own, 0, &(dl_device_settings){0}, &err), DL_OK);
    dl_device_cuda.use(own);
    assert_null(dl_backend_cuda.allocate((size_t)1 << 60, "a test"));
    assert_int_equal(dl_backend_cuda.wait(&err), DL_ERR_SYSTEM);
    assert_contains(err.text, "1152921504606846976 bytes for a test");
    assert_int_equal(dl_backend_cuda.wait(&err), DL_ERR_SYSTEM);
    dl_device_cuda.close(own);
    dl_device_cuda.use(device);
}

/* Times between marks are in the marks' order, and a copy of 64 MiB takes time. */
static void marks_measure_time(void **state DL_UNUSED)
{
    const size_t bytes = (size_t)64 << 20;
    void *host = dl_backend_cuda.allocate_host(bytes, "test");
    void *memory = dl_backend_cuda.allocate(bytes, "test");
    dl_device_cuda.mark(0);
    dl_backend_cuda.upload(memory, host, bytes);
    dl_device_cuda.mark(5);
    assert_int_equal(dl_backend_cuda.wait(NULL), DL_OK);
    const double ns = dl_device_cuda.between_ns(0, 5);
    if (!(ns > 1e4 && ns < 1e10)) fail_msg("64 MiB in %g ns", ns);
    dl_backend_cuda.release(memory);
    dl_backend_cuda.release_host(host);
}

/* Averages have the processor's bits, whatever their length. */
static void averages_have_the_processors_bits(void **state DL_UNUSED)
{
    enum { COUNT = 100003, VECTORS = 13 };
    const dl_backend *cpu = dl_backend_cpu(DL_FLOAT);
    dl_random random;
    dl_random_init(&random, 8, 0, 0, 0);
    void *near[VECTORS], *far[VECTORS], *near_mean = numbers(cpu, COUNT);
    void *far_mean = numbers(&dl_backend_cuda, COUNT);
    for (int v = 0; v < VECTORS; v++) {
        near[v] = numbers(cpu, COUNT);
        far[v] = numbers(&dl_backend_cuda, COUNT);
        draw(&random, cpu, near[v], COUNT);
        put(&dl_backend_cuda, far[v], near[v], COUNT);
    }
    for (int n = 1; n <= VECTORS; n++) {
        dl_exchange_average(near_mean, (const void *const *)near, n, 0, COUNT, DL_FLOAT);
        dl_device_cuda.average(far_mean, (const void *const *)far, n, COUNT);
        DL_AUTOFREE double *expected = get(cpu, near_mean, COUNT);
        DL_AUTOFREE double *actual = get(&dl_backend_cuda, far_mean, COUNT);
        assert_memory_equal(actual, expected, COUNT * sizeof *actual);
    }
    for (int v = 0; v < VECTORS; v++) {
        cpu->release(near[v]);
        dl_backend_cuda.release(far[v]);
    }
    cpu->release(near_mean);
    dl_backend_cuda.release(far_mean);
}

static void check_vectors(const void *near, const void *far, size_t count, const char *what)
{
    DL_AUTOFREE double *expected = get(dl_backend_cpu(DL_FLOAT), near, count);
    DL_AUTOFREE double *actual = get(&dl_backend_cuda, far, count);
    if (!near_all(actual, expected, count, TOLERANCE)) fail_msg("%s", what);
}

/* Message, decoded values and residual of the GPU equal those of the processor. */
static void check_message(dl_quantise kind)
{
    enum { COUNT = 5000, ROUNDS = 3 };
    const dl_backend *cpu = dl_backend_cpu(DL_FLOAT), *cuda = &dl_backend_cuda;
    DL_SCOPED(dl_quantise_plan) plan;
    dl_quantise_plan_init(&plan, kind);
    dl_quantise_plan_add(&plan, 1500);
    dl_quantise_plan_add(&plan, COUNT - 1500);
    const size_t block_bytes = plan.block_count * sizeof *plan.blocks;
    void *blocks = cuda->allocate(block_bytes, "test");
    void *near[4], *far[4]; /* values, residual, message, result */
    dl_random random;
    dl_random_init(&random, 9, 0, 0, 0);
    for (int i = 0; i < 4; i++) {
        near[i] = cpu->allocate(COUNT * sizeof(float), "test");
        far[i] = cuda->allocate(COUNT * sizeof(float), "test");
    }
    cuda->upload(blocks, plan.blocks, block_bytes);
    draw(&random, cpu, near[0], COUNT);
    put(cuda, far[0], near[0], COUNT);
    for (int round = 0; round < ROUNDS; round++) {
        dl_quantise_encode(&plan, near[0], near[1], near[2], DL_FLOAT);
        dl_quantise_decode(&plan, near[2], near[3], DL_FLOAT);
        dl_device_cuda.encode(&plan, blocks, far[0], far[1], far[2]);
        dl_device_cuda.decode(&plan, blocks, far[2], far[3]);
        check_vectors(near[3], far[3], COUNT, "values");
        check_vectors(near[1], far[1], COUNT, "residual");
    }
    for (int i = 0; i < 4; i++) {
        cpu->release(near[i]);
        cuda->release(far[i]);
    }
    cuda->release(blocks);
}

static void messages_match_the_processors(void **state DL_UNUSED)
{
    check_message(DL_QUANTISE_FP16);
    check_message(DL_QUANTISE_1BIT);
}

/* With fp16 gradients are scaled; unscaled they are close to those of fp32. After an overflow all
 * are 0. */
static void scaled_gradients_are_unscaled(void **state DL_UNUSED)
{
    float values[3] = {DL_CUDA_LOSS_SCALE, -2 * DL_CUDA_LOSS_SCALE, 0.5f};
    void *memory = numbers(&dl_backend_cuda, 3);
    put(&dl_backend_cuda, memory, values, 3);
    dl_device_cuda.unscale(memory, 3);
    double *actual = get(&dl_backend_cuda, memory, 3);
    assert_true(actual[0] == 1 && actual[1] == -2 && actual[2] == 0.5 / (double)DL_CUDA_LOSS_SCALE);
    free(actual);
    values[1] = INFINITY;
    put(&dl_backend_cuda, memory, values, 3);
    dl_device_cuda.unscale(memory, 3);
    actual = get(&dl_backend_cuda, memory, 3);
    for (int i = 0; i < 3; i++)
        assert_true(actual[i] == 0);
    free(actual);
    dl_backend_cuda.release(memory);
}

static int open_device(void **state DL_UNUSED)
{
    dl_error err = {0};
    if (dl_device_cuda.open(&device, 0, &(dl_device_settings){0}, &err) != DL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    dl_device_cuda.use(device);
    return 0;
}

static int close_device(void **state DL_UNUSED)
{
    dl_device_cuda.close(device);
    return 0;
}

/* test_backend_cuda [NAME]: skips the test NAME, for checkers that report an intended error. */
int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_skip_filter(argv[1]);
    int count = 0;
    dl_error err = {0};
    if (dl_device_cuda.count(&count, &err) != DL_OK) {
        printf("skipped: %s\n", err.text);
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_match_the_processors),
        cmocka_unit_test(second_reader_adds_its_gradient),
        cmocka_unit_test(pooling_chooses_the_first_of_equal_maxima),
        cmocka_unit_test(optimizers_match_the_processors),
        cmocka_unit_test(losses_match_the_processors),
        cmocka_unit_test(steps_repeat_bit_for_bit),
        cmocka_unit_test(too_little_memory_is_an_error),
        cmocka_unit_test(marks_measure_time),
        cmocka_unit_test(averages_have_the_processors_bits),
        cmocka_unit_test(messages_match_the_processors),
        cmocka_unit_test(scaled_gradients_are_unscaled),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
