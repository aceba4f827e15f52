#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/trace/read_trace.h"
#include "tests/trace/text_parts.h"
#include "trace/activity/summary.h"
#include "trace/readers/readers_internal.h"

static const dl_read_options plain = {0};

static dl_status read_named(dl_read_trace *item, const char *name, const char *text, dl_error *err)
{
    text_parts parts = parts_of(text, 1 << 16);
    return dl_kineto_read_text(item, name, read_part, &parts, err);
}

static dl_read_trace read_text(const char *text)
{
    dl_read_trace item = {0};
    dl_error err = {0};
    if (read_named(&item, "trace.json", text, &err) != DL_OK) fail_msg("%s", err.text);
    return item;
}

static void free_item(dl_read_trace *item)
{
    dl_notes_free(&item->notes);
    dl_trace_free(&item->trace);
}

/* PyTorch 1.8: an array; capitalized categories; a kernel's tid is a text and its external id links
 * to an Operator. */
static void generation_0_is_read(void **state DL_UNUSED)
{
    dl_read_trace item = read_text(
        "[ {\"ph\": \"X\", \"cat\": \"Operator\", \"name\": \"aten::mul\", \"pid\": 90, \"tid\": "
        "\"4093\","
        " \"ts\": 1600000000000100, \"dur\": 40, \"args\": {\"External id\": 3}},\n"
        " {\"ph\": \"X\", \"cat\": \"Runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 90, "
        "\"tid\": \"90\","
        " \"ts\": 1600000000000110, \"dur\": 9,"
        " \"args\": {\"cbid\": 211, \"correlation\": 71, \"external id\": 3}},\n"
        " {\"ph\": \"s\", \"id\": 71, \"pid\": 90, \"tid\": 90, \"ts\": 1600000000000110,"
        " \"cat\": \"async\", \"name\": \"launch\"},\n"
        " {\"ph\": \"X\", \"cat\": \"Kernel\", \"name\": \"mul_kernel\", \"pid\": 2, \"tid\": "
        "\"stream 7\","
        " \"ts\": 1600000000000130, \"dur\": 5, \"args\": {\"device\": 2, \"stream\": 7,"
        " \"correlation\": 71, \"external id\": 3, \"registers per thread\": 32,"
        " \"shared memory\": 48, \"grid\": [64, 2, 1], \"block\": [256, 1, 1]}},\n"
        " {\"ph\": \"X\", \"cat\": \"Memcpy\", \"name\": \"Memcpy HtoD (Pageable -> Device)\", "
        "\"pid\": 2,"
        " \"tid\": \"stream 7\", \"ts\": 1600000000000140, \"dur\": 2, \"args\": {\"device\": 2,"
        " \"stream\": 7, \"correlation\": 72, \"bytes\": 4096}},\n"
        " {\"ph\": \"i\", \"s\": \"t\", \"name\": \"[memory]\", \"pid\": 90, \"tid\": 90, \"ts\": "
        "1} ]");
    const dl_activity *kernel = find(&item, DL_ACTIVITY_KERNEL, 0);
    assert_string_equal(name_of(&item, kernel), "mul_kernel");
    assert_string_equal(item.trace.strings[kernel->detail],
                        "grid 64x2x1 block 256x1x1 shared 48 regs 32");
    assert_int_equal(kernel->device, 2);
    assert_int_equal(kernel->stream, 7);
    assert_int_equal(kernel->correlation, 71);
    assert_int_equal(kernel->start_ns, 1600000000000130000);
    assert_int_equal(kernel->duration_ns, 5000);
    const dl_activity *call = find(&item, DL_ACTIVITY_CALL, 0);
    assert_int_equal(call->correlation, 71);
    assert_int_equal(call->thread, 90);
    assert_int_equal(call->object, 3);
    assert_int_equal(find(&item, DL_ACTIVITY_RANGE, 0)->object, 3);
    const dl_activity *copy = find(&item, DL_ACTIVITY_MEMCPY, 0);
    assert_int_equal(copy->copy, DL_COPY_H2D);
    assert_int_equal(copy->memory, DL_MEMORY_PAGEABLE);
    assert_int_equal(copy->bytes, 4096);
    assert_int_equal(item.trace.activity_count, 4);
    assert_true(item.trace.complete);
    assert_true(has_note(&item, "whole microseconds"));
    free_item(&item);
}

/* PyTorch 1.9: generation 0's events in an object; flows end on the device. PyTorch 1.12: different
 * names, flows "async_cpu_to_gpu", External id = correlation. Both give the same activities. */
static void generations_0b_and_1_are_read(void **state DL_UNUSED)
{
    static const struct {
        const char *categories[3], *flow, *thread, *stream, *id_key;
        int id, object;
    } cases[] = {
        {{"Operator", "Runtime", "Kernel"}, "async", "\"90\"", "\"stream 7\"", "external id", 3, 3},
        {{"cpu_op", "cuda_runtime", "kernel"}, "async_cpu_to_gpu", "90", "7", "External id", 71, 0},
    };
    for (size_t i = 0; i < 2; i++) {
        char text[2000];
        snprintf(
            text, sizeof text,
            "{\"schemaVersion\": 1, \"traceEvents\": ["
            "{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"op\", \"pid\": 90, \"tid\": %s,"
            " \"ts\": 100, \"dur\": 40, \"args\": {\"External id\": 3}},"
            "{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"cudaLaunchKernel\", \"pid\": 90,"
            " \"tid\": %s, \"ts\": 110, \"dur\": 9,"
            " \"args\": {\"correlation\": 71, \"%s\": %d}},"
            "{\"ph\": \"s\", \"id\": 71, \"pid\": 90, \"tid\": %s, \"ts\": 110, \"cat\": \"%s\","
            " \"name\": \"f\"},"
            "{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"k\", \"pid\": 2, \"tid\": %s,"
            " \"ts\": 130, \"dur\": 5, \"args\": {\"correlation\": 71}},"
            "{\"ph\": \"f\", \"id\": 71, \"pid\": 2, \"tid\": %s, \"ts\": 130, \"cat\": \"%s\","
            " \"name\": \"f\", \"bp\": \"e\"}]}",
            cases[i].categories[0], cases[i].thread, cases[i].categories[1], cases[i].thread,
            cases[i].id_key, cases[i].id, cases[i].thread, cases[i].flow, cases[i].categories[2],
            cases[i].stream, cases[i].stream, cases[i].flow);
        dl_read_trace item = read_text(text);
        assert_int_equal(item.trace.activity_count, 3);
        assert_int_equal(find(&item, DL_ACTIVITY_RANGE, 0)->thread, 90);
        assert_int_equal(find(&item, DL_ACTIVITY_RANGE, 0)->object, 3);
        assert_int_equal(find(&item, DL_ACTIVITY_CALL, 0)->object, cases[i].object);
        /* Without arguments for them, device and stream are pid and tid. */
        assert_int_equal(find(&item, DL_ACTIVITY_KERNEL, 0)->device, 2);
        assert_int_equal(find(&item, DL_ACTIVITY_KERNEL, 0)->stream, 7);
        assert_int_equal(find(&item, DL_ACTIVITY_KERNEL, 0)->correlation, 71);
        free_item(&item);
    }
}

#define CALL(name, dims)                                                                         \
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::" name "\", \"pid\": 1, \"tid\": 1," \
    " \"ts\": 1, \"dur\": 1, \"args\": {\"" dims "}}"

#define CONV_32 CALL("conv2d", "Input Dims\": [[32, 3, 8, 8], [4, 3, 3, 3]]")
#define CONV_8 CALL("conv2d", "Input Dims\": [[8, 3, 8, 8], [4, 3, 3, 3]]")
#define CONV_LOWER_32 CALL("conv2d", "Input dims\": [[32, 4, 6, 6]]") /* PyTorch 1.8 */
#define WORDS CALL("embedding", "Input Dims\": [[1000, 8], [16, 20]]")
#define LOSS(targets) CALL("nll_loss_forward", "Input Dims\": [[" #targets ", 10], [" #targets "]]")
#define POSITIONS CALL("embedding", "Input Dims\": [[512, 8], [1, 20]]")

/* The batch is that of most calls of the most reliable operator: two of three convolutions have 32
 * rows, whatever the linear layers have. Embeddings use the second input, and the larger of equally
 * frequent batches: one of words (16 rows), one of positions (one row). Where the loss has a target
 * per sample, it tells whether sequences have the samples in their second dimension. Weights alone,
 * or vectors, give no batch. With sequence numbers, calls without one, as of a validation, do not
 * count. */
static void shapes_show_the_batch(void **state DL_UNUSED)
{
    static const struct {
        const char *calls, *samples, *of;
    } cases[] = {
        {CONV_32 "," CONV_8 "," CONV_LOWER_32 "," CALL("linear", "Input Dims\": [[99, 8], [8, 8]]"),
         "32", "aten::conv2d"},
        {WORDS "," POSITIONS "," CALL("linear", "Input Dims\": [[320, 8], [8, 8]]"), "16",
         "aten::embedding"},
        {CALL("linear", "Input Dims\": [[20, 4, 8], [8, 8]]"), "20", "aten::linear"},
        {CALL("linear", "Input Dims\": [[20, 4, 8], [8, 8]]") "," LOSS(4), "4",
         "aten::linear and the loss"},
        {CALL("linear", "Input Dims\": [[20, 4, 8], [8, 8]]") "," LOSS(80), "20", "aten::linear"},
        {CALL("embedding", "Input Dims\": [[99, 8], [35, 20]]") "," LOSS(20), "20",
         "aten::embedding and the loss"},
        {CALL("linear", "Input Dims\": [[20, 4], [8, 4]]") "," LOSS(4), "20", "aten::linear"},
        {CALL("embedding", "Input Dims\": [[99, 8], [8, 20]]") "," CALL(
             "embedding", "Input Dims\": [[99, 8], [8, 30]]") "," POSITIONS "," POSITIONS,
         "8", "aten::embedding"},
        {CONV_32 "," CONV_LOWER_32 "," CALL(
             "conv2d",
             "Sequence number\": 0, \"Input Dims\": [[8, 3, 4, 4], [3, 3, 3, 3]]") "," CONV_32,
         "8", "aten::conv2d"},
        {CONV_32 "," CONV_32 "," CALL(
             "conv2d", "Sequence number\": -1, \"Input Dims\": [[8, 3, 4, 4], [3, 3, 3, 3]]"),
         "32", "aten::conv2d"},
        {CALL("linear", "Input Dims\": [[8], [8, 8]]"), NULL, NULL},
        {CALL("add", "Input Dims\": [[20, 4], [20, 4]]"), NULL, NULL},
        {CALL("conv2d", "Input Dims\": []"), NULL, NULL},
        {CALL("conv2d", "other\": 3"), NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1500];
        snprintf(text, sizeof text, "{\"traceEvents\": [%s]}", cases[i].calls);
        dl_read_trace item = read_text(text);
        const char *samples = dl_trace_meta(&item.trace, DL_META_SAMPLES);
        if (cases[i].samples == NULL) {
            assert_null(samples);
        } else {
            assert_string_equal(samples, cases[i].samples);
            assert_string_equal(dl_trace_meta_text(&item.trace, DL_META_SAMPLES_OF), cases[i].of);
        }
        free_item(&item);
    }
}

/* A gradient of 20 x 4 numbers: floats if no type is given, as in PyTorch 1.8. */
static void gradients_have_bytes(void **state DL_UNUSED)
{
    static const struct {
        const char *shapes;
        uint64_t bytes;
    } cases[] = {
        {"\"Input Dims\": [[20, 4]], \"Input type\": [\"c10::BFloat16\"]", 160},
        {"\"Input dims\": [[20, 4]], \"Input type\": []", 320},
        {"\"Input dims\": [[20, 4]], \"Input type\": [\"float\"]", 320},
        {"\"other\": 3", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[500];
        snprintf(
            text, sizeof text,
            "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": "
            "\"torch::autograd::AccumulateGrad\", \"pid\": 9, \"tid\": 9, \"ts\": 1, \"dur\": 2, "
            "\"args\": {%s}}]}",
            cases[i].shapes);
        dl_read_trace item = read_text(text);
        assert_int_equal(find(&item, DL_ACTIVITY_RANGE, 0)->bytes, cases[i].bytes);
        free_item(&item);
    }
}

#define ADDED(dims)                                                                        \
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"torch::autograd::AccumulateGrad\", " \
    "\"pid\": 9, "                                                                         \
    "\"tid\": 9, \"ts\": 1, \"dur\": 2, \"args\": {\"Input Dims\": [" dims                 \
    "], \"Input type\": [\"float\"]}}"

#define LINEAR(dims) "," CALL("linear", "Input Dims\": " dims)
#define ALSO_ADDED(dims) "," ADDED(dims)

/* Images with requires_grad are no parameters. A weight is one, even if an input of another layer
 * has its shape, and so is a learned position with one row for all samples. */
static void gradients_of_inputs_have_no_bytes(void **state DL_UNUSED)
{
    static const char text[] = "{\"traceEvents\": [" CONV_32 LINEAR("[[20, 4], [8, 4]]")
        LINEAR("[[8, 4], [5, 4]]") LINEAR("[[1, 6, 4], [4, 4]]") ALSO_ADDED("[8, 4]")
            ALSO_ADDED("[1, 6, 4]") ALSO_ADDED("[20, 4]") ALSO_ADDED("[20, 5]") "]}";
    dl_read_trace item = read_text(text);
    static const uint64_t bytes[] = {128, 96, 0, 400};
    size_t found = 0;
    for (size_t i = 0; i < item.trace.activity_count; i++) {
        const dl_activity *a = &item.trace.activities[i];
        if (strcmp(name_of(&item, a), "torch::autograd::AccumulateGrad") != 0) continue;
        assert_int_equal(a->bytes, bytes[found++]);
        assert_int_equal(a->correlation, 0);
    }
    assert_int_equal(found, 4);
    assert_true(has_note(&item, "1 gradients have the shape of a layer's input"));
    free_item(&item);
}

/* Weights of a recurrent layer, a list, and of GPT-2's Conv1D are none, though inputs of linear
 * layers have their shapes. */
static void gradients_of_other_weights_have_bytes(void **state DL_UNUSED)
{
    static const char text[] = "{\"traceEvents\": [" CONV_32 LINEAR("[[16, 8], [3, 8]]")
        LINEAR("[[8, 24], [3, 24]]") "," CALL(
            "lstm",
            "Input Dims\": [[5, 2, 4], [[1, 2, 4]], "
            "[[16, 4], [16, 8]]]") "," CALL("addmm", "Input Dims\": [[24], [9, 8], [8, 24]]")
            ALSO_ADDED("[16, 8]") ALSO_ADDED("[8, 24]") "]}";
    dl_read_trace item = read_text(text);
    size_t found = 0;
    for (size_t i = 0; i < item.trace.activity_count; i++) {
        const dl_activity *a = &item.trace.activities[i];
        if (strcmp(name_of(&item, a), "torch::autograd::AccumulateGrad") != 0) continue;
        assert_int_equal(a->bytes, found++ == 0 ? 512 : 768);
    }
    assert_int_equal(found, 2);
    free_item(&item);
}

/* PyTorch 1.12 to 2.2: External ids of calls are correlations; the collective is a range, its size
 * is in Input Dims: 8 ranks, [8, 1000] floats = 32,000 bytes, 4,000 per peer; only distributedInfo
 * gives the group. */
static void generation_2_is_read(void **state DL_UNUSED)
{
    dl_read_trace item = read_text(
        "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"GPU A\"},"
        " {\"id\": 3, \"name\": \"GPU B\"}], \"distributedInfo\": {\"backend\": \"nccl\", "
        "\"rank\": 3,"
        " \"world_size\": 8}, \"traceEvents\": [\n"
        " {\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"nccl:all_to_all\", \"pid\": 90,"
        " \"tid\": 95, \"ts\": 100, \"dur\": 50, \"args\": {\"External id\": 8,"
        " \"Input Dims\": [[8, 1000]], \"Input type\": [\"float\"]}},\n"
        " {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 90,"
        " \"tid\": 95, \"ts\": 110, \"dur\": 5, \"args\": {\"External id\": 71, \"correlation\": "
        "71}},\n"
        " {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": "
        "\"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)\","
        " \"pid\": 3, \"tid\": 21, \"ts\": 130, \"dur\": 80, \"args\": {\"External id\": 71,"
        " \"device\": 3, \"stream\": 21, \"correlation\": 71}},\n"
        " {\"name\": \"process_name\", \"ph\": \"M\", \"ts\": 0, \"pid\": 90, \"tid\": 0,"
        " \"args\": {\"name\": \"python3\"}},\n"
        " {\"ph\": \"X\", \"cat\": \"Trace\", \"ts\": 1, \"dur\": 2, \"pid\": \"Spans\", \"tid\": "
        "\"x\","
        " \"name\": \"PyTorch Profiler (0)\"} ]}");
    assert_int_equal(find(&item, DL_ACTIVITY_CALL, 0)->object, 0);
    const dl_activity *collective = find(&item, DL_ACTIVITY_COLLECTIVE, 0);
    assert_string_equal(name_of(&item, collective), "AlltoAll");
    assert_int_equal(collective->bytes, 4000);
    assert_int_equal(collective->thread, 95);
    const dl_activity *comm = find(&item, DL_ACTIVITY_COMM, 0);
    assert_int_equal(comm->object, collective->object);
    assert_int_equal(comm->peer, 3);
    assert_int_equal(comm->count, 8);
    assert_string_equal(dl_trace_meta(&item.trace, "rank"), "3");
    assert_string_equal(dl_trace_meta(&item.trace, "world_size"), "8");
    assert_string_equal(dl_trace_meta(&item.trace, "device.3.name"), "GPU B");
    assert_string_equal(dl_trace_meta(&item.trace, "command"), "python3");

    /* The summary finds the kernel's size: 8 * 4,000 bytes in 80 us. */
    DL_SCOPED(dl_activity_summary) summary = {0};
    dl_activity_summary_init(&summary, &item.trace, NULL);
    assert_int_equal(summary.collectives.count, 1);
    assert_int_equal(summary.collectives.collectives[0].bytes, 4000);
    assert_int_equal(summary.collectives.collectives[0].ranks, 8);
    free_item(&item);
}

/* PyTorch 2.3 and later: fractions, a base time after the events, parameters of collectives; a
 * group of ranks 1 and 3, in which rank 3 is the second; 600 halves are 1,200 bytes. "wait" is not
 * a collective, and the range within record_param_comms does not count twice. */
static const char generation_3[] =
    "{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 3, \"world_size\": 4,"
    " \"nccl_version\": \"2.17.1\", \"pg_config\": [{\"ranks\": [1, 3]}]}, \"traceEvents\": [\n"
    " {\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"record_param_comms\", \"pid\": 90, \"tid\": "
    "95,"
    " \"ts\": 4458676983500.001, \"dur\": 50.5, \"args\": {\"External id\": 8,"
    " \"Collective name\": \"allreduce\", \"dtype\": \"Half\", \"In msg nelems\": 600,"
    " \"Out msg nelems\": 600, \"Group size\": 2, \"Process Group Name\": \"5\","
    " \"Process Group Ranks\": \"[1, 3]\"}},\n"
    " {\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"nccl:all_reduce\", \"pid\": 90,"
    " \"tid\": 95, \"ts\": 4458676983501.5, \"dur\": 40, \"args\": {\"External id\": 9}},\n"
    " {\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"record_param_comms\", \"pid\": 90, \"tid\": "
    "95,"
    " \"ts\": 4458676983600, \"dur\": 5, \"args\": {\"External id\": 10,"
    " \"Collective name\": \"wait\", \"Group size\": 2}},\n"
    " {\"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"f\", \"ts\": 1, \"dur\": 2},\n"
    " {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaEventRecord\", \"pid\": 90,"
    " \"tid\": 95, \"ts\": 4458676983520.25, \"dur\": 1, \"args\": {\"correlation\": 33}},\n"
    " {\"ph\": \"X\", \"cat\": \"cuda_sync\", \"name\": \"Stream Wait Event\", \"pid\": 0, "
    "\"tid\": 24,"
    " \"ts\": 4458676983522, \"dur\": 1, \"args\": {\"wait_on_stream\": 20,"
    " \"wait_on_cuda_event_record_corr_id\": 33, \"wait_on_cuda_event_id\": 6, \"stream\": 24,"
    " \"correlation\": 34, \"device\": 0}},\n"
    " {\"ph\": \"X\", \"cat\": \"mystery\", \"name\": \"m\", \"ts\": 1, \"dur\": 2}\n"
    " ], \"displayTimeUnit\": \"ns\", \"baseTimeNanoseconds\": 1711964646000000000}";

static void generation_3_is_read(void **state DL_UNUSED)
{
    dl_read_trace item = read_text(generation_3);
    assert_int_equal(count(&item, DL_ACTIVITY_COLLECTIVE), 1);
    const dl_activity *collective = find(&item, DL_ACTIVITY_COLLECTIVE, 0);
    assert_string_equal(name_of(&item, collective), "AllReduce");
    assert_int_equal(collective->bytes, 1200);
    /* 1711964646 s + 4458676983500001 ns */
    assert_int_equal(collective->start_ns, 1711964646000000000 + 4458676983500001);
    assert_int_equal(collective->duration_ns, 50500);
    const dl_activity *comm = find(&item, DL_ACTIVITY_COMM, 0);
    assert_int_equal(comm->peer, 1);
    assert_int_equal(comm->count, 2);

    const dl_activity *wait = find(&item, DL_ACTIVITY_SYNC, 0);
    assert_string_equal(name_of(&item, wait), "stream wait");
    assert_int_equal(wait->stream, 24);
    assert_int_equal(wait->object, (UINT64_C(6) << 32) + 33);
    const dl_activity *event = find(&item, DL_ACTIVITY_EVENT, 0);
    assert_int_equal(event->object, wait->object);
    assert_int_equal(event->stream, 20);
    assert_int_equal(event->start_ns, 1711964646000000000 + 4458676983520250);

    assert_string_equal(dl_trace_meta(&item.trace, "nccl_version"), "2.17.1");
    assert_true(has_note(&item, "1 Python functions"));
    assert_true(has_note(&item, "first of 'mystery'"));
    assert_false(has_note(&item, "whole microseconds"));
    free_item(&item);
}

/* Reads the text with ' replaced by ". */
static dl_read_trace read_quoted(const char *text)
{
    DL_AUTOFREE char *copy = strdup(text);
    for (char *at = copy; *at != '\0'; at++)
        if (*at == '\'') *at = '"';
    return read_text(copy);
}

/* Events with separate starts and ends, which PyTorch does not write: one note, about two
 * starts. */
static void separate_ends_are_left_out(void **state DL_UNUSED)
{
    dl_read_trace item = read_quoted(
        "{'traceEvents': ["
        "{'ph':'B','name':'Convolution','cat':'operator','ts':100,'pid':1,'tid':7},"
        "{'ph':'E','name':'Convolution','cat':'operator','ts':130,'pid':1,'tid':7},"
        "{'ph':'B','name':'aten::relu','cat':'cpu_op','ts':140,'pid':1,'tid':7},"
        "{'ph':'E','name':'aten::relu','cat':'cpu_op','ts':150,'pid':1,'tid':7},"
        "{'ph':'X','name':'aten::relu','cat':'cpu_op','ts':160,'dur':5,'pid':1,'tid':7}]}");
    assert_int_equal(item.trace.activity_count, 1);
    assert_true(
        has_note(&item, "2 events of unknown categories are left out, the first of 'operator'"));
    free_item(&item);
}

/* The text after the events is then missing, so times do not count from the base. */
static void a_cut_trace_says_so(void **state DL_UNUSED)
{
    char text[sizeof generation_3];
    strcpy(text, generation_3);
    *strstr(text, "\"cudaEventRecord\"") = '\0';
    dl_read_trace item = read_text(text);
    assert_false(item.trace.complete);
    assert_true(item.trace.bytes_ignored > 0);
    assert_true(has_note(&item, "all 4 whole events"));
    assert_true(has_note(&item, "the time base of the events"));
    assert_int_equal(find(&item, DL_ACTIVITY_COLLECTIVE, 0)->start_ns, 4458676983500001);
    free_item(&item);
}

/* ROCm's copies lack their bytes, which are in hipMemcpy's arguments. */
static void rocm_copies_get_their_bytes_from_the_call(void **state DL_UNUSED)
{
    dl_read_trace item = read_text(
        "{\"traceEvents\": [\n"
        " {\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy HtoD (Host -> Device)\", "
        "\"pid\": 2,"
        " \"tid\": 0, \"ts\": 10.5, \"dur\": 2, \"args\": {\"device\": 2, \"stream\": 0,"
        " \"correlation\": 117, \"kind\": \"HtoD\"}},\n"
        " {\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy DtoD (Device -> Device)\", "
        "\"pid\": 2,"
        " \"tid\": 0, \"ts\": 20.5, \"dur\": 2, \"args\": {\"device\": 2, \"stream\": 0,"
        " \"correlation\": 118, \"kind\": \"DtoD\"}},\n"
        " {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"hipMemcpyWithStream\", \"pid\": 9,"
        " \"tid\": 9, \"ts\": 3, \"dur\": 9, \"args\": {\"External id\": 8, \"stream\": \"0x0\","
        " \"correlation\": 117, \"size\": \"2560\", \"kind\": \"1\"}} ]}");
    assert_int_equal(find(&item, DL_ACTIVITY_MEMCPY, 0)->bytes, 2560);
    assert_int_equal(find(&item, DL_ACTIVITY_MEMCPY, 1)->bytes, 0);
    assert_int_equal(find(&item, DL_ACTIVITY_MEMCPY, 1)->copy, DL_COPY_D2D);
    assert_true(has_note(&item, "1 of 2 copies do not give their bytes"));
    free_item(&item);
}

/* If only the kernels identify their collectives, the call is their launch. */
static void kernels_tell_collectives_where_nothing_else_does(void **state DL_UNUSED)
{
    dl_read_trace item = read_text(
        "{\"distributedInfo\": {\"rank\": 0, \"world_size\": 2}, \"traceEvents\": [\n"
        " {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernelExC\", \"pid\": "
        "90,"
        " \"tid\": 95, \"ts\": 7, \"dur\": 1, \"args\": {\"correlation\": 33}},\n"
        " {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"ncclDevKernel_AllGather_RING_LL(x)\","
        " \"pid\": 0, \"tid\": 24, \"ts\": 9, \"dur\": 5, \"args\": {\"device\": 0, \"stream\": 24,"
        " \"correlation\": 33, \"Collective name\": \"_allgather_base\", \"In msg nelems\": 10,"
        " \"Out msg nelems\": 20, \"Group size\": 2, \"dtype\": \"Long\","
        " \"Process Group Ranks\": \"[0, 1]\"}} ]}");
    const dl_activity *collective = find(&item, DL_ACTIVITY_COLLECTIVE, 0);
    assert_string_equal(name_of(&item, collective), "AllGather");
    assert_int_equal(collective->bytes, 80);
    assert_int_equal(collective->thread, 95);
    assert_int_equal(collective->start_ns, 7000);
    free_item(&item);
}

static void a_missing_rank_is_taken_from_the_name_or_said(void **state DL_UNUSED)
{
    static const char text[] = "{\"distributedInfo\": {\"world_size\": 8}, \"traceEvents\": []}";
    static const struct {
        const char *name, *rank, *note;
    } cases[] = {{"/a/rank9/run_rank5.json.gz", "5", "taken from the file's name"},
                 {"worker2_step_12.json", "2", "taken from the file's name"},
                 {"/a/rank9/trace.json", NULL, "does not give its rank"}};
    for (size_t i = 0; i < 3; i++) {
        dl_read_trace item = {0};
        dl_error err = {0};
        assert_int_equal(read_named(&item, cases[i].name, text, &err), DL_OK);
        const char *rank = dl_trace_meta(&item.trace, "rank");
        if (cases[i].rank == NULL) {
            assert_null(rank);
        } else {
            assert_string_equal(rank, cases[i].rank);
        }
        assert_true(has_note(&item, cases[i].note));
        free_item(&item);
    }
}

/* A kernel without a time, one that ends before it begins, one whose time is too large. */
static void impossible_times_are_counted(void **state DL_UNUSED)
{
    dl_read_trace item = read_text(
        "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"tid\":7,\"dur\":2},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"tid\":7,\"ts\":5,\"dur\":-2},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"tid\":7,\"ts\":9e15,\"dur\":"
        "9e15},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"tid\":7,\"ts\":5,\"dur\":2}]");
    assert_int_equal(item.trace.activity_count, 1);
    assert_string_equal(dl_trace_meta(&item.trace, "invalid_records"), "3");
    free_item(&item);
}

static void write_gz(const char *path, const char *text, size_t cut)
{
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_true(gzwrite(file, text, (unsigned)strlen(text)) > 0);
    assert_int_equal(gzclose(file), Z_OK);
    if (cut == 0) return;
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    fseek(in, 0, SEEK_END);
    long bytes = ftell(in);
    fclose(in);
    assert_int_equal(truncate(path, bytes - (long)cut), 0);
}

/* The file is recognised by its content, packed or not, truncated or not. */
static void files_are_read_by_content(void **state DL_UNUSED)
{
    char path[] = "reader_kineto_XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    close(descriptor);
    for (size_t cut = 0; cut < 2; cut++) {
        dl_read_traces traces = {0};
        dl_error err = {0};
        write_gz(path, generation_3, cut * 60);
        assert_int_equal(dl_read(&traces, path, &plain, &err), DL_OK);
        assert_string_equal(traces.reader, "kineto");
        assert_int_equal(traces.count, 1);
        assert_int_equal(traces.items[0].trace.complete, cut == 0);
        assert_int_equal(has_note(&traces.items[0], "the packed file is truncated"), cut == 1);
        dl_read_free(&traces);
    }
    dl_read_traces traces = {0};
    dl_error err = {0};
    FILE *out = fopen(path, "w");
    fprintf(out, "a table, not a trace\n");
    fclose(out);
    assert_int_equal(dl_read(&traces, path, &plain, &err), DL_ERR_FORMAT);
    assert_contains(err.text, "it is not a trace");
    static const char *const logs[] = {"[2024-08-13 10:00:01] iteration 10/ 500 | elapsed time",
                                       "{'loss': 2.3412, 'epoch': 0.02}"};
    for (size_t i = 0; i < DL_LENGTH(logs); i++) {
        out = fopen(path, "w");
        fprintf(out, "%s\n", logs[i]);
        fclose(out);
        assert_int_equal(dl_read(&traces, path, &plain, &err), DL_ERR_FORMAT);
        assert_contains(err.text, "of a training log goes into dlsim --calibrate");
    }
    out = fopen(path, "w");
    fprintf(out, "\xEF\xBB\xBF%s", generation_3); /* as PowerShell writes UTF-8 */
    fclose(out);
    assert_int_equal(dl_read(&traces, path, &plain, &err), DL_OK);
    assert_true(traces.items[0].trace.complete);
    dl_read_free(&traces);
    out = fopen(path, "w");
    fprintf(out, "{\"traceEvents\": [{\"ph\" 1}]}");
    fclose(out);
    assert_int_equal(dl_read(&traces, path, &plain, &err), DL_ERR_FORMAT);
    assert_contains(err.text, "byte 17: malformed event");
    assert_string_equal(err.file, path);
    unlink(path);
    assert_int_equal(dl_read(&traces, path, &plain, &err), DL_ERR_IO);
}

/* Errors name the kind of other files of the same profilers. */
static void other_files_are_named(void **state DL_UNUSED)
{
    static const struct {
        const char *path, *text, *what;
    } files[] = {
        {"memory.json", "[[1000, 2000], [[0, 1024], [0, 512]]]", "it is a memory timeline"},
        {"memory.raw.json", " [\n [1689, 1, 1024, 0]]", "it is a memory timeline"},
        {"et.json",
         "{\"schema\": \"1.1.1-chakra.0.0.4\", \"nodes\": [{\"id\": 2, \"ctrl_deps\": 1}]}",
         "it is an execution trace"},
        {"recorder.json", "{\"version\": 2, \"pg_config\": {}, \"pg_status\": {}, \"entries\": []}",
         "it is a dump of NCCL's flight recorder"},
        {"xla.trace.json",
         "{\"traceEvents\": [{\"ph\": \"M\", \"pid\": 1, \"name\": \"process_name\", \"args\":"
         " {\"name\": \"/device:GPU:0\"}}]}",
         "it is a trace of TensorFlow's or XLA's"},
        {"memory.html", "<!DOCTYPE html>\n<html></html>", "it is a web page"},
        {"snapshot.pickle", "\x80\x04\x95", "it is a pickled Python object"},
        {"report.nsys-rep", "binary", "it is a report of Nsight Systems; export it"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        dl_read_traces traces = {0};
        dl_error err = {0};
        FILE *out = fopen(files[i].path, "w");
        fprintf(out, "%s", files[i].text);
        fclose(out);
        assert_int_equal(dl_read(&traces, files[i].path, &plain, &err), DL_ERR_FORMAT);
        assert_contains(err.text, files[i].what);
        unlink(files[i].path);
    }
}

/* A copy with a recorded end after the start of the next kernel of its stream. */
static void late_ends_are_cut(void **state DL_UNUSED)
{
    static const char *const text =
        "{\"schemaVersion\": 1, \"traceEvents\": [\n"
        " {\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy HtoD (Pinned -> Device)\","
        " \"pid\": 0, \"tid\": 7, \"ts\": 10, \"dur\": 900, \"args\": {\"device\": 0,"
        " \"stream\": 7, \"correlation\": 1, \"bytes\": 4096}},\n"
        " {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0, \"tid\": 7,"
        " \"ts\": 15, \"dur\": 3, \"args\": {\"device\": 0, \"stream\": 7, \"correlation\": 2}}"
        "]}";
    DL_AUTO(dl_read_free) dl_read_traces traces = {0};
    dl_error err = {0};
    write_gz("late.json", text, 0);
    assert_int_equal(dl_read(&traces, "late.json", &plain, &err), DL_OK);
    assert_int_equal(traces.items[0].trace.late_ends, 1);
    assert_int_equal(traces.items[0].trace.late_worst_ns, 895000);
    assert_int_equal(find(&traces.items[0], DL_ACTIVITY_MEMCPY, 0)->duration_ns, 5000);
    unlink("late.json");
}

/* Nobody writes to this pipe: reading it would block forever. */
static void pipes_and_folders_are_refused(void **state DL_UNUSED)
{
    char path[] = "reader_pipe_XXXXXX";
    dl_read_traces traces = {0};
    dl_error err = {0};
    assert_non_null(mkdtemp(path));
    assert_int_equal(dl_read(&traces, path, &plain, &err), DL_ERR_IO);
    assert_contains(err.text, "is an empty folder");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(dl_read(&traces, path, &plain, &err), DL_ERR_IO);
    assert_contains(err.text, "cannot be read twice");
    unlink(path);
}

/* PyTorch writes at most 30 ranks of a group with each call, and all of them at the head of the
 * trace. Rank 37 is the fifth of ranks 33, 34, ..., place 37 of 64, and second of 5, 37; "Rank"
 * of a send is the peer's place in the group, "Src Rank" the peer itself. */
static const char with_groups[] =
    "{'distributedInfo': {'rank': 37, 'world_size': 64, 'pg_config': ["
    " {'pg_name': '0', 'pg_desc': 'default_pg', 'pg_size': 64, 'ranks': []},"
    " {'pg_name': '2', 'pg_desc': 'mesh_dp', 'pg_size': 4, 'ranks': [5, 7, 37, 38]},"
    " {'pg_name': '3', 'pg_desc': 'undefined', 'pg_size': 2, 'ranks': [5, 37]}]},"
    " 'traceEvents': [\n"
    " {'ph': 'X', 'cat': 'cpu_op', 'name': 'record_param_comms', 'pid': 90, 'tid': 95, 'ts': 10,"
    " 'dur': 5, 'args': {'Collective name': '_allgather_base', 'dtype': 'BFloat16',"
    " 'In msg nelems': 100, 'Out msg nelems': 6400, 'Group size': 64, 'Process Group Name': '0',"
    " 'Process Group Description': 'default_pg', 'Process Group Ranks': '[0, 1, 2, ..., 63]',"
    " 'Rank': 37}},\n"
    " {'ph': 'X', 'cat': 'cpu_op', 'name': 'record_param_comms', 'pid': 90, 'tid': 95, 'ts': 20,"
    " 'dur': 5, 'args': {'Collective name': 'allreduce', 'dtype': 'Float', 'In msg nelems': 100,"
    " 'Out msg nelems': 100, 'Group size': 4, 'Process Group Name': '2',"
    " 'Process Group Ranks': '[5, 7, ..., 38]', 'Rank': 2}},\n"
    " {'ph': 'X', 'cat': 'cpu_op', 'name': 'record_param_comms', 'pid': 90, 'tid': 95, 'ts': 30,"
    " 'dur': 5, 'args': {'Collective name': 'send', 'dtype': 'Float', 'In msg nelems': 7,"
    " 'Out msg nelems': 7, 'Group size': 2, 'Process Group Name': '3', 'Rank': 0}},\n"
    " {'ph': 'X', 'cat': 'cpu_op', 'name': 'record_param_comms', 'pid': 90, 'tid': 95, 'ts': 40,"
    " 'dur': 5, 'args': {'Collective name': 'recv', 'dtype': 'Float', 'In msg nelems': 7,"
    " 'Out msg nelems': 7, 'Group size': 2, 'Process Group Name': '3', 'Rank': 0,"
    " 'Src Rank': 5}},\n"
    " {'ph': 'X', 'cat': 'cpu_op', 'name': 'record_param_comms', 'pid': 90, 'tid': 95, 'ts': 50,"
    " 'dur': 5, 'args': {'Collective name': 'recv', 'dtype': 'Float', 'In msg nelems': 7,"
    " 'Out msg nelems': 7, 'Group size': 2, 'Process Group Name': '3', 'Rank': 0,"
    " 'Src Rank': 6}}\n ]}";

static void process_groups_are_read(void **state DL_UNUSED)
{
    dl_read_trace item = read_quoted(with_groups);
    char *const *strings = item.trace.strings;
    const dl_activity *all = find(&item, DL_ACTIVITY_COMM, 0);
    assert_string_equal(strings[all->name], "default_pg");
    assert_string_equal(strings[all->detail], "[0, 1, 2, ..., 63]");
    assert_int_equal(all->peer, 37);
    assert_int_equal(all->count, 64);
    const dl_activity *data = find(&item, DL_ACTIVITY_COMM, 1);
    assert_string_equal(strings[data->name], "mesh_dp");
    assert_string_equal(strings[data->detail], "[5, 7, 37, 38]");
    assert_int_equal(data->peer, 2);
    const dl_activity *pair = find(&item, DL_ACTIVITY_COMM, 2);
    assert_string_equal(strings[pair->name], "3");
    assert_int_equal(pair->peer, 1);
    assert_int_equal(find(&item, DL_ACTIVITY_COLLECTIVE, 2)->peer, 0);
    assert_int_equal(find(&item, DL_ACTIVITY_COLLECTIVE, 3)->peer, 0);
    assert_int_equal(find(&item, DL_ACTIVITY_COLLECTIVE, 3)->object, pair->object);
    assert_int_equal(find(&item, DL_ACTIVITY_COLLECTIVE, 4)->peer, DL_RANK_UNKNOWN);
    assert_int_equal(count(&item, DL_ACTIVITY_COMM), 3);
    free_item(&item);
}

/* Without "distributedInfo" the rank is that of the process's place in a collective's group, but
 * not the root of a broadcast. */
static void the_rank_follows_from_a_group(void **state DL_UNUSED)
{
    dl_read_trace item = read_quoted(
        "{'traceEvents': ["
        " {'ph': 'X', 'cat': 'cpu_op', 'name': 'record_param_comms', 'pid': 90, 'tid': 95,"
        " 'ts': 10, 'dur': 5, 'args': {'Collective name': 'broadcast', 'dtype': 'Float',"
        " 'In msg nelems': 1, 'Out msg nelems': 1, 'Group size': 2, 'Process Group Name': '4',"
        " 'Process Group Ranks': '[8, 12]', 'Rank': 0}},\n"
        " {'ph': 'X', 'cat': 'cpu_op', 'name': 'record_param_comms', 'pid': 90, 'tid': 95,"
        " 'ts': 20, 'dur': 5, 'args': {'Collective name': 'allreduce', 'dtype': 'Float',"
        " 'In msg nelems': 1, 'Out msg nelems': 1, 'Group size': 2, 'Process Group Name': '4',"
        " 'Process Group Ranks': '[8, 12]', 'Rank': 1}}]}");
    assert_string_equal(dl_trace_meta(&item.trace, "rank"), "12");
    free_item(&item);
}

/* gloo's ranges do not name their group: in a job of several, the number of ranks is unknown. */
static void ranges_of_several_groups_have_no_ranks(void **state DL_UNUSED)
{
    dl_read_trace item = read_quoted(
        "{'distributedInfo': {'rank': 1, 'world_size': 4, 'pg_config': ["
        " {'pg_name': '2', 'pg_desc': 'mesh_tp', 'pg_size': 2, 'ranks': [0, 1]}]},"
        " 'traceEvents': ["
        " {'ph': 'X', 'cat': 'user_annotation', 'name': 'gloo:all_reduce', 'pid': 9, 'tid': 9,"
        " 'ts': 10, 'dur': 9, 'args': {'Input Dims': [[8]], 'Input type': ['float']}}]}");
    assert_int_equal(find(&item, DL_ACTIVITY_COLLECTIVE, 0)->bytes, 32);
    assert_int_equal(count(&item, DL_ACTIVITY_COMM), 0);
    assert_true(has_note(&item, "do not name their process group"));
    free_item(&item);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process_groups_are_read),
        cmocka_unit_test(the_rank_follows_from_a_group),
        cmocka_unit_test(ranges_of_several_groups_have_no_ranks),
        cmocka_unit_test(generation_0_is_read),
        cmocka_unit_test(gradients_have_bytes),
        cmocka_unit_test(gradients_of_inputs_have_no_bytes),
        cmocka_unit_test(gradients_of_other_weights_have_bytes),
        cmocka_unit_test(generations_0b_and_1_are_read),
        cmocka_unit_test(shapes_show_the_batch),
        cmocka_unit_test(generation_2_is_read),
        cmocka_unit_test(generation_3_is_read),
        cmocka_unit_test(a_cut_trace_says_so),
        cmocka_unit_test(rocm_copies_get_their_bytes_from_the_call),
        cmocka_unit_test(kernels_tell_collectives_where_nothing_else_does),
        cmocka_unit_test(a_missing_rank_is_taken_from_the_name_or_said),
        cmocka_unit_test(impossible_times_are_counted),
        cmocka_unit_test(files_are_read_by_content),
        cmocka_unit_test(other_files_are_named),
        cmocka_unit_test(late_ends_are_cut),
        cmocka_unit_test(pipes_and_folders_are_refused),
        cmocka_unit_test(separate_ends_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
