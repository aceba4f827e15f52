/* Rates of links and GPU memories from a benchmark of GPUs, and the machine file that contains
 * them. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "profiler/machine/machine_box.h"
#include "tests/check.h"

#define PATH "test_machine_copies.dlt"
#define GB 1e9
#define BYTES ((uint64_t)1 << 30)

static dl_trace_writer *writer;
static dl_trace_stream *stream;

static void open_trace(void)
{
    dl_error err = {0};
    assert_int_equal(dl_trace_writer_open(&writer, PATH, &err), DL_OK);
    stream = dl_trace_writer_stream(writer);
}

/* Adds three samples, of which the median counts, and slow ones of a smaller size, which do not
 * count. */
static void add(const char *name, uint32_t device, uint32_t threads, uint32_t vectors,
                double bytes_per_s)
{
    static const double times[] = {1, 0.9, 3};
    dl_record r = {.kind = DL_RECORD_BENCH,
                   .name = dl_trace_writer_intern(writer, name),
                   .worker = device,
                   .threads = threads,
                   .vectors = vectors,
                   .staleness = DL_NO_STALENESS};
    for (int i = 0; i < 3; i++) {
        r.bytes = BYTES;
        r.duration_ns = llround(times[i] * (double)BYTES / bytes_per_s * 1e9);
        dl_trace_stream_append(stream, &r);
        r.bytes = 1024;
        r.duration_ns = 5000;
        dl_trace_stream_append(stream, &r);
    }
}

static dl_trace close_trace(void)
{
    dl_trace trace = {0};
    dl_error err = {0};
    assert_int_equal(dl_trace_writer_close(&writer, &err), DL_OK);
    assert_int_equal(dl_trace_read(&trace, PATH, &err), DL_OK);
    unlink(PATH);
    return trace;
}

#define GEN4X16               \
    {                         \
        16e9, 16, 31.507692e9 \
    }
#define A100                                                                                   \
    .device_id = 0x20b0, .name = "NVIDIA A100", .major = 8, .cores = 6912, .clock_hz = 1.41e9, \
    .memory_clock_hz = 1215e6, .memory_bus_bits = 5120, .memory_bytes = 40 * 0x1p30,           \
    .link = GEN4X16

/* Two GPUs of one socket, each in a separate slot. */
static void make_box(dl_box *box, dl_box_gpu *gpus)
{
    gpus[0] = (dl_box_gpu){A100, .bus_id = "0000:17:00.0"};
    gpus[1] = (dl_box_gpu){A100, .bus_id = "0000:65:00.0"};
    *box = (dl_box){.sockets = 1,
                    .cores = 16,
                    .numa_count = 1,
                    .places_known = true,
                    .gpus = gpus,
                    .gpu_count = 2,
                    .peer_known = true,
                    .socket_memory_bytes_per_s = 100 * GB};
}

#define NEAR(a, b) assert_float_equal((float)((a) / (b)), 1.0F, 1e-6F)

static char *written(const dl_box *box)
{
    char *text = NULL;
    size_t bytes = 0;
    DL_SCOPED(dl_machine_gaps) gaps = {0};
    FILE *out = open_memstream(&text, &bytes);
    dl_machine_write(box, out, &gaps);
    fclose(out);
    return text;
}

/* CUDA numbers the GPUs in reverse. To a GPU 24 GB/s, from it 26; with copies in the other
 * direction only 18: (24 + 26) x 18 / 24 together. Both GPUs concurrently get 40 of 48 GB/s. An
 * average of 4 moves 5 vectors. */
static void links_and_memories_are_measured(void **state DL_UNUSED)
{
    static const int devices[] = {1, 0};
    dl_box_gpu gpus[2];
    dl_box box;
    make_box(&box, gpus);
    open_trace();
    add("h2d", 0, 1, 0, 24 * GB);
    add("d2h", 0, 1, 0, 26 * GB);
    add("h2d_with_d2h", 0, 1, 0, 18 * GB);
    add("h2d", 0, 2, 0, 19 * GB);
    add("h2d", 1, 2, 0, 21 * GB);
    add("gpu_average", 0, 1, 2, 400 * GB);
    add("gpu_average", 0, 1, 4, 250 * GB);
    add("gpu_average", 1, 1, 2, 410 * GB);
    DL_SCOPED(dl_trace) trace = close_trace();
    dl_box_take_copies(&box, &trace, devices);
    for (int g = 0; g < 2; g++) { /* equal links: device 0's rates are used for both */
        NEAR(gpus[g].to_bytes_per_s, 24 * GB);
        NEAR(gpus[g].from_bytes_per_s, 26 * GB);
        NEAR(gpus[g].both_bytes_per_s, 37.5 * GB);
    }
    NEAR(box.root_bytes_per_s, 40 * GB);
    NEAR(gpus[1].average_bytes_per_s, 1250 * GB);
    NEAR(gpus[0].average_bytes_per_s, 1230 * GB);
    DL_AUTOFREE char *text = written(&box);
    assert_contains(text, "; copies of pinned memory: 24 GB/s to a GPU, 26 GB/s from it");
    DL_SCOPED(dl_machine) machine = {0};
    dl_error err = {0};
    if (dl_machine_read_text(&machine, "m.ini", text, strlen(text), &err) != DL_OK)
        fail_msg("%s\n%s", err.text, text);
    const dl_link_class *link = &machine.classes[machine.kinds[0].gpus[0].link];
    NEAR(link->bytes_per_s.value, 25 * GB);
    assert_int_equal(link->bytes_per_s.origin, DL_ORIGIN_MEASURED);
    NEAR(link->duplex_bytes_per_s.value, 37.5 * GB);
    NEAR(machine.kinds[0].root_bytes_per_s.value, 40 * GB);
    const dl_gpu_model *model = &machine.models[machine.kinds[0].gpus[0].model];
    assert_int_equal(model->memory_bytes_per_s.origin, DL_ORIGIN_MEASURED);
    NEAR(model->memory_bytes_per_s.value, 1230 * GB);
}

/* Copies that are as fast concurrently as alone have no limit; and GPUs below one switch do not
 * measure the root. */
static void what_disturbs_nothing_is_no_limit(void **state DL_UNUSED)
{
    static const int devices[] = {0, 1}, hidden[] = {0, -1};
    static dl_box_switch pcie[] = {{.bus_id = "0000:11:00.0", .parent = 0, .link = GEN4X16}};
    dl_box_gpu gpus[2];
    dl_box box;
    make_box(&box, gpus);
    open_trace();
    add("h2d", 0, 1, 0, 24 * GB);
    add("d2h", 0, 1, 0, 24 * GB);
    add("h2d_with_d2h", 0, 1, 0, 23.5 * GB);
    add("h2d", 0, 2, 0, 12 * GB);
    add("h2d", 1, 2, 0, 12 * GB);
    DL_SCOPED(dl_trace) trace = close_trace();
    dl_box_take_copies(&box, &trace, hidden);
    assert_true(gpus[0].both_bytes_per_s == 0 && box.root_bytes_per_s == 0);
    assert_true(gpus[0].average_bytes_per_s == 0);
    box.switches = pcie;
    box.switch_count = 1;
    gpus[0].parent = gpus[1].parent = 1;
    dl_box_take_copies(&box, &trace, devices);
    assert_true(box.root_bytes_per_s == 0);
}

/* Four lanes of 25 GB/s; or an NVSwitch, for any pair. */
static void nvlinks_are_measured_from_gpu_to_gpu(void **state DL_UNUSED)
{
    static const int devices[] = {0, 1};
    static dl_box_nvlink lanes[] = {{0, 1, 4}};
    dl_box_gpu gpus[2];
    dl_box box;
    make_box(&box, gpus);
    open_trace();
    add("p2p", 0, 1, 1, 92 * GB);
    add("p2p", 1, 1, 0, 96 * GB);
    DL_SCOPED(dl_trace) trace = close_trace();
    box.nvlinks = lanes;
    box.nvlink_count = 1;
    dl_box_take_copies(&box, &trace, devices);
    NEAR(box.nvlink_copy_bytes_per_s, 23.5 * GB);
    DL_AUTOFREE char *text = written(&box);
    assert_contains(text, "1 lane of NVLink: copies from GPU to GPU");
    assert_contains(text, " = 23.5GB/s, measured");
    box.nvlink_count = 0;
    box.nvswitch_lanes = 12;
    dl_box_take_copies(&box, &trace, devices);
    NEAR(box.nvswitch_copy_bytes_per_s, 94 * GB);
}

static void gpus_are_found_by_address(void **state DL_UNUSED)
{
    dl_box_gpu gpus[2];
    dl_box box;
    make_box(&box, gpus);
    gpus[1].bus_id[5] = 'a';
    assert_int_equal(dl_box_find_gpu(&box, "0000:A5:00.0"), 1);
    assert_int_equal(dl_box_find_gpu(&box, "0000:99:00.0"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_and_memories_are_measured),
        cmocka_unit_test(what_disturbs_nothing_is_no_limit),
        cmocka_unit_test(nvlinks_are_measured_from_gpu_to_gpu),
        cmocka_unit_test(gpus_are_found_by_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
