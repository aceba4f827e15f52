#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "trace/readers/json_events.h"
#include "trace/readers/kineto_internal.h"
#include "trace/readers/reader.h"

/* Operators whose input has one sample per row, the most reliable first. The rows of a linear
 * layer's input after flattening are samples times positions. The last operator is the loss, which
 * has one target per sample or per position. */
static const struct {
    const char *name;
    int input;       /* index of the input with the samples */
    size_t dims;     /* minimum number of dimensions */
    size_t sequence; /* from this number of dimensions on, the second one may be the samples; 0:
                      * never */
} operators[DL_KINETO_SAMPLE_OPERATORS] = {
    {"aten::conv2d", 0, 4, 0},    {"aten::conv1d", 0, 3, 0}, {"aten::conv3d", 0, 5, 0},
    {"aten::embedding", 1, 2, 2}, {"aten::linear", 0, 2, 3}, {"aten::nll_loss_forward", 1, 1, 0},
};
enum { LOSS = DL_KINETO_SAMPLE_OPERATORS - 1 };

/* First dimensions of one of a call's inputs. */
typedef struct shape {
    int wanted, input;
    size_t dims;
    int64_t first, second;
    int64_t elements; /* number of elements of the input; INT64_MAX: as many or more, or unknown */
} shape;

static void take_dim(void *context, dl_json_text key DL_UNUSED, dl_json_text value)
{
    shape *s = context;
    int64_t dim = 0;
    if (!dl_json_int(value, &dim) || __builtin_mul_overflow(s->elements, dim, &s->elements))
        s->elements = INT64_MAX;
    if (s->dims == 0 && !dl_json_int(value, &s->first)) s->first = 0;
    if (s->dims == 1 && !dl_json_int(value, &s->second)) s->second = 0;
    s->dims++;
}

static void take_input(void *context, dl_json_text key DL_UNUSED, dl_json_text value)
{
    shape *s = context;
    if (s->input++ == s->wanted && !dl_json_visit(value, take_dim, s)) s->first = 0;
}

/* --- gradients of inputs ---------------------------------------------------------------------- */

/* Roles of a shape, which is the text of a tensor's dimensions, in operators with samples. */
enum { SHAPE_OF_INPUT = 1, SHAPE_OF_WEIGHT = 2 };

/* The inputs of an operator. */
typedef struct layer {
    dl_kineto *kineto;
    int samples, input; /* index of the input with the samples or of the first weight, and of the
                         * next one */
    uint32_t shape;     /* string id of the last input's shape */
} layer;

/* Operators whose inputs from this index on are weights, or lists of them, in a forward pass. */
static const struct {
    const char *name;
    int first;
} weighted[] = {
    {"aten::convolution", 1}, {"aten::addmm", 2},      {"aten::matmul", 1},
    {"aten::lstm", 1},        {"aten::gru", 1},        {"aten::rnn_tanh", 1},
    {"aten::rnn_relu", 1},    {"aten::_cudnn_rnn", 1}, {"aten::mkldnn_rnn_layer", 1},
};

static void name_shape(void *context, dl_json_text key DL_UNUSED, dl_json_text value)
{
    layer *l = context;
    l->shape = dl_trace_builder_intern(&l->kineto->builder, value.at, value.bytes);
}

static void add_role(layer *l, dl_json_text value, uint8_t role)
{
    dl_kineto *kineto = l->kineto;
    name_shape(l, value, value);
    if (l->shape >= kineto->shape_room) {
        const size_t room = kineto->builder.string_room;
        kineto->shape_roles = dl_realloc(kineto->shape_roles, room, 1, "shapes");
        memset(kineto->shape_roles + kineto->shape_room, 0, room - kineto->shape_room);
        kineto->shape_room = room;
    }
    kineto->shape_roles[l->shape] |= role;
}

static void take_shape(void *context, dl_json_text key DL_UNUSED, dl_json_text value)
{
    layer *l = context;
    add_role(l, value, l->input++ == l->samples ? SHAPE_OF_INPUT : SHAPE_OF_WEIGHT);
}

static void take_weight(void *context, dl_json_text key DL_UNUSED, dl_json_text value)
{
    layer *l = context, inner = {.kineto = l->kineto, .samples = -1};
    if (l->input++ < l->samples) return;
    if (value.bytes > 1 && value.at[1] == '[')
        dl_json_visit(value, take_shape, &inner);
    else
        add_role(l, value, SHAPE_OF_WEIGHT);
}

uint32_t dl_kineto_shape_of_rows(dl_kineto *kineto, const dl_json_text *values)
{
    const dl_json_text dims = dl_kineto_input_dims(values);
    layer l = {.kineto = kineto};
    shape s = {.elements = 1};
    if (dims.at == NULL || !dl_json_visit(dims, take_input, &s) || s.dims < 2 || s.first < 2 ||
        !dl_json_visit(dims, name_shape, &l))
        return 0;
    return l.shape;
}

void dl_kineto_leave_out_inputs(dl_kineto *kineto)
{
    dl_trace *trace = &kineto->builder.trace;
    size_t count = 0;
    uint32_t shape_id = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        dl_activity *a = &trace->activities[i];
        const uint32_t id = a->correlation;
        if (a->kind != DL_ACTIVITY_RANGE || id == 0) continue;
        a->correlation = 0;
        if (id >= kineto->shape_room || kineto->shape_roles[id] != SHAPE_OF_INPUT) continue;
        a->bytes = 0;
        shape_id = id;
        count++;
    }
    if (count > 0)
        dl_read_note(kineto->item,
                     "%zu gradients have the shape of a layer's input and of no weight, such as "
                     "%s: they are taken for those of inputs with requires_grad, not of parameters",
                     count, trace->strings[shape_id]);
}

/* --- samples ---------------------------------------------------------------------------------- */

/* Maximum number of different sizes counted per operator; calls with further sizes are not
 * counted. */
#define SIZES_MAX 4096

static void count_size(dl_kineto_sizes *sizes, int64_t samples, int64_t second)
{
    for (size_t i = 0; i < sizes->count; i++) {
        if (sizes->items[i].samples != samples || sizes->items[i].second != second) continue;
        sizes->items[i].calls++;
        return;
    }
    if (sizes->count == SIZES_MAX) return;
    DL_APPEND(sizes->items, sizes->count, "sizes of batches") =
        (dl_kineto_size){samples, second, 1};
}

void dl_kineto_count_samples(dl_kineto *kineto, const char *name, const dl_json_text *values)
{
    if (strncmp(name, "aten::", strlen("aten::")) != 0) return;
    const dl_json_text dims = dl_kineto_input_dims(values);
    if (dims.at == NULL) return;
    for (size_t w = 0; w < DL_LENGTH(weighted); w++) {
        layer l = {.kineto = kineto, .samples = weighted[w].first};
        if (strcmp(name, weighted[w].name) == 0) dl_json_visit(dims, take_weight, &l);
    }
    for (size_t o = 0; o < DL_KINETO_SAMPLE_OPERATORS; o++) {
        if (strcmp(name, operators[o].name) != 0) continue;
        shape s = {.wanted = operators[o].input, .elements = 1};
        layer l = {.kineto = kineto, .samples = operators[o].input};
        if (!dl_json_visit(dims, take_input, &s)) return;
        if (o != LOSS && !dl_json_visit(dims, take_shape, &l)) return;
        if (s.first <= 0 || s.dims < operators[o].dims) return;
        if (operators[o].sequence == 0 || s.dims < operators[o].sequence) s.second = 0;
        int64_t number;
        const bool trains = dl_json_int(values[KEY_SEQUENCE], &number) && number >= 0;
        if (trains && !kineto->trains[o]) {
            kineto->trains[o] = true;
            kineto->samples[o].count = kineto->elements[o].count = 0;
        }
        if (!trains && kineto->trains[o]) return;
        count_size(&kineto->samples[o], s.first, s.second);
        count_size(&kineto->elements[o], s.elements, 0);
        return;
    }
}

static size_t calls_of_all(const dl_kineto_sizes *sizes)
{
    size_t calls = 0;
    for (size_t i = 0; i < sizes->count; i++)
        calls += sizes->items[i].calls;
    return calls;
}

static size_t calls_with(const dl_kineto_sizes *sizes, int64_t samples)
{
    size_t calls = 0;
    for (size_t i = 0; i < sizes->count; i++)
        if (sizes->items[i].samples == samples) calls += sizes->items[i].calls;
    return calls;
}

/* Returns the most frequent first dimension with its most frequent second dimension. Of equally
 * frequent first dimensions the largest is chosen: a position embedding has one row for all samples
 * and is called as often as the word embedding. */
static dl_kineto_size most_frequent(const dl_kineto_sizes *sizes)
{
    dl_kineto_size best = {0};
    size_t most = 0;
    for (size_t i = 0; i < sizes->count; i++) {
        const dl_kineto_size *size = &sizes->items[i];
        const size_t calls = calls_with(sizes, size->samples);
        const bool further = size->samples == best.samples;
        if (further ? size->calls <= best.calls
                    : calls < most || (calls == most && size->samples < best.samples))
            continue;
        best = *size;
        most = calls;
    }
    return best;
}

/* Takes the batch size from the first operator of the table that was called. Sequences may have the
 * samples in the first or in the second dimension: the loss tells which if it has one target per
 * sample. */
void dl_kineto_tell_samples(dl_kineto *kineto)
{
    const int64_t targets = most_frequent(&kineto->samples[LOSS]).samples;
    for (size_t o = 0; o < LOSS; o++) {
        const dl_kineto_size best = most_frequent(&kineto->samples[o]);
        if (best.calls == 0) continue;
        const bool by_loss = best.second > 0 && best.second == targets && targets != best.samples;
        dl_trace_builder_meta(&kineto->builder, DL_META_SAMPLES, "%lld",
                              (long long)(by_loss ? best.second : best.samples));
        dl_trace_builder_meta(&kineto->builder, DL_META_SAMPLES_OF, "%s%s", operators[o].name,
                              by_loss ? " and the loss" : "");
        if (best.second > 1 && targets != best.samples && !by_loss)
            dl_trace_builder_meta(&kineto->builder, DL_META_SAMPLES_OR, "%lld",
                                  (long long)best.second);
        dl_trace_builder_meta(&kineto->builder, DL_META_INPUT_SIZES, "%zu",
                              kineto->elements[o].count);
        dl_trace_builder_meta(&kineto->builder, DL_META_INPUT_CALLS, "%zu",
                              calls_of_all(&kineto->elements[o]));
        return;
    }
}

void dl_kineto_free_samples(dl_kineto *kineto)
{
    for (size_t o = 0; o < DL_KINETO_SAMPLE_OPERATORS; o++) {
        free(kineto->samples[o].items);
        free(kineto->elements[o].items);
    }
    free(kineto->shape_roles);
}
