#include "profiler/machine/machine_box.h"

#include <stdlib.h>

#include "tests/check.h"

#define NEAR(a, b) assert_float_equal((float)((a) / (b)), 1.0F, 1e-3F)
#define GEN3X16              \
    {                        \
        8e9, 16, 15.753846e9 \
    }

static dl_box_switch switches[] = {
    {.bus_id = "0000:11:00.0", .parent = 0, .link = GEN3X16},
    {.bus_id = "0000:51:00.0", .parent = 1, .link = GEN3X16},
};
#define V100                                                                        \
    .device_id = 0x1db1, .name = "Tesla V100-SXM2-16GB", .major = 7, .cores = 5120, \
    .clock_hz = 1.53e9, .memory_clock_hz = 877e6, .memory_bus_bits = 4096,          \
    .memory_bytes = 16 * 0x1p30, .link = GEN3X16
static const dl_box_gpu gpus[] = {
    {V100, .bus_id = "0000:13:00.0", .parent = 2},
    {V100, .bus_id = "0000:14:00.0", .parent = 2},
    {V100, .bus_id = "0000:53:00.0", .parent = 3},
    {.bus_id = "0000:54:00.0", .parent = 3, .device_id = 0x20b0, .link = GEN3X16},
};
static dl_box_nic nics[] = {
    {.bus_id = "0000:15:00.0",
     .name = "mlx5_0",
     .infiniband = true,
     .parent = 2,
     .link = GEN3X16,
     .port_bytes_per_s = 12.5e9},
    {.bus_id = "0000:60:00.0", .name = "eno1", .parent = 0},
    {.bus_id = "0000:60:00.1",
     .name = "eno2",
     .parent = 1,
     .link = GEN3X16,
     .port_bytes_per_s = 1.25e9},
};
static dl_box_nvlink nvlinks[] = {{0, 1, 2}, {0, 2, 1}, {1, 2, 2}};

/* Two sockets, three V100s that are fully known, two NICs with a cable and one without. */
static dl_box make_box(dl_box_gpu copy[4])
{
    memcpy(copy, gpus, sizeof gpus);
    return (dl_box){.name = "box; one",
                    .processor = "E5-2698 v4",
                    .sockets = 2,
                    .cores = 40,
                    .memory_bytes = 512e9,
                    .numa_count = 2,
                    .places_known = true,
                    .switches = switches,
                    .switch_count = 2,
                    .gpus = copy,
                    .gpu_count = 3,
                    .nics = nics,
                    .nic_count = 3,
                    .nvlinks = nvlinks,
                    .nvlink_count = 3,
                    .nvlink_bytes_per_s = 25.781e9,
                    .peer_known = true,
                    .peer = DL_PEER_SOCKET,
                    .peer_memory = true,
                    .socket_memory_bytes_per_s = 60e9,
                    .socket_link_bytes_per_s = 17e9};
}

static char *write_text(const dl_box *box, dl_machine_gaps *gaps)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dl_machine_write(box, out, gaps);
    fclose(out);
    return text;
}

static dl_machine read_back(const char *text)
{
    dl_machine machine = {0};
    dl_error err = {0};
    if (dl_machine_read_text(&machine, "written.ini", text, strlen(text), &err) != DL_OK) {
        fail_msg("line %d: %s\n%s", err.line, err.text, text);
    }
    return machine;
}

static void check_host(const dl_machine *m)
{
    assert_string_equal(m->name, "box, one"); /* a semicolon would begin a comment */
    assert_int_equal(m->kinds[0].peer, DL_PEER_SOCKET);
    assert_true(m->kinds[0].gpudirect);
    assert_int_equal(m->kinds[0].sockets, 2);
    assert_int_equal(m->kinds[0].cores, 40);
    NEAR(m->kinds[0].memory_bytes.value, 512e9);
    NEAR(m->kinds[0].memory_bytes_per_s.value, 60e9);
    assert_int_equal(m->kinds[0].memory_bytes_per_s.origin, DL_ORIGIN_MEASURED);
    NEAR(m->classes[m->kinds[0].socket_link].bytes_per_s.value, 17e9);
    NEAR(m->classes[m->kinds[0].socket_link].latency_ns.value, 500.0);
}

static void check_devices(const dl_machine *m)
{
    assert_int_equal(m->kinds[0].switch_count, 2);
    assert_int_equal(m->kinds[0].gpu_count, 3);
    assert_int_equal(m->model_count, 1);
    assert_string_equal(m->models[0].name, "tesla_v100-sxm2-16gb");
    NEAR(m->models[0].memory_bytes.value, 16 * 0x1p30);
    NEAR(m->models[0].fp32_flop_per_s.value, 15.67e12);
    assert_int_equal(m->models[0].fp32_flop_per_s.origin, DL_ORIGIN_CATALOGUE);
    NEAR(m->models[0].fp16_flop_per_s.value, 125.3e12);
    assert_int_equal(m->models[0].fp16_flop_per_s.origin, DL_ORIGIN_ASSUMED);
    assert_false(m->models[0].tf32_flop_per_s.known);
    static const int parents[] = {2, 2, 3};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(m->kinds[0].gpus[i].parent, parents[i]);
        assert_string_equal(m->classes[m->kinds[0].gpus[i].link].name, "pcie3x16");
    }
    assert_int_equal(dl_machine_socket(&m->kinds[0], m->kinds[0].gpus[2].parent), 1);
    assert_int_equal(m->kinds[0].nic_count, 2);
    assert_int_equal(m->kinds[0].nics[0].parent, 2);
    assert_string_equal(m->classes[m->kinds[0].nics[0].port].name, "infiniband100");
    assert_int_equal(m->kinds[0].nics[1].parent, 1);
    NEAR(m->classes[m->kinds[0].nics[1].port].bytes_per_s.value, 1.175e9);
    assert_int_equal(m->kinds[0].nvlink_count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(m->kinds[0].nvlinks[i].lanes,
                         m->kinds[0].nvlinks[i].a == 0 && m->kinds[0].nvlinks[i].b == 2 ? 1 : 2);
    assert_int_equal(m->kinds[0].nvswitch_link, -1);
}

static void what_is_written_is_read(void **state DL_UNUSED)
{
    dl_box_gpu copy[4];
    const dl_box box = make_box(copy);
    dl_machine_gaps gaps = {0};
    DL_AUTOFREE char *text = write_text(&box, &gaps);
    assert_int_equal(gaps.count, 0);
    DL_SCOPED(dl_machine) m = read_back(text);
    check_host(&m);
    check_devices(&m);
    assert_contains(text, "eno1 at 0000:60:00.0 left out");
}

/* Without NVLink: GPUs 0 and 1 share a switch and can copy directly, 0 and 2 do not. */
static void ways_through_host_memory_are_written(void **state DL_UNUSED)
{
    static const struct {
        dl_peer peer;
        int gpus;
        bool shared;
    } cases[] = {{DL_PEER_SWITCH, 2, false}, {DL_PEER_SWITCH, 3, true}, {DL_PEER_NONE, 2, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_box_gpu copy[4];
        dl_box box = make_box(copy);
        box.nvlink_count = 0;
        box.gpu_count = cases[i].gpus;
        box.peer_known = true;
        box.peer = cases[i].peer;
        DL_SCOPED(dl_machine_gaps) gaps = {0};
        DL_AUTOFREE char *text = write_text(&box, &gaps);
        assert_int_equal(gaps.count, 0);
        DL_SCOPED(dl_machine) m = read_back(text);
        const dl_quantity *rate = &m.kinds[0].shm_bytes_per_s;
        assert_int_equal(rate->known, cases[i].shared);
        assert_int_equal(m.kinds[0].overlap_slowdown.known, cases[i].shared);
        if (rate->known) assert_true(rate->value == 9e9 && rate->low == 6e9 && rate->high == 16e9);
    }
}

static void an_nvswitch_is_written(void **state DL_UNUSED)
{
    dl_box_gpu copy[4];
    dl_box box = make_box(copy);
    box.nvlink_count = 0;
    box.nvswitch_lanes = 6;
    box.peer_known = false;
    DL_SCOPED(dl_machine_gaps) gaps = {0};
    DL_AUTOFREE char *text = write_text(&box, &gaps);
    DL_SCOPED(dl_machine) m = read_back(text);
    assert_int_equal(m.kinds[0].nvlink_count, 0);
    NEAR(m.classes[m.kinds[0].nvswitch_link].bytes_per_s.value, 6 * 25.781e9 * 0.93);
    assert_int_equal(m.kinds[0].peer, DL_PEER_SWITCH);
    assert_contains(text, "assumed: nvidia-smi topo -p2p r");
}

/* Turns each "; key = ...   ; fill in: where" into "key = 1e9     ; fill in: where". */
static void fill_gaps(char *text)
{
    for (char *dots = text; (dots = strstr(dots, " = ...   ; fill in: ")) != NULL;) {
        char *line = dots;
        while (line[-1] != '\n')
            line--;
        memcpy(dots, " = 1e9", 6);
        memmove(line, line + 2, (size_t)(dots + 6 - line - 2));
        memset(dots + 4, ' ', 2);
    }
}

/* The reader reports exactly the first gap, and accepts the file when all gaps are filled. */
static void gaps_are_what_the_reader_misses(void **state DL_UNUSED)
{
    dl_box_gpu copy[4];
    dl_box box = make_box(copy);
    box.gpu_count = 4; /* of the last one only the PCI number is known */
    box.socket_memory_bytes_per_s = box.socket_link_bytes_per_s = 0;
    box.nvlink_bytes_per_s = 0;
    box.places_known = false;
    snprintf(box.driver_note, sizeof box.driver_note, "%s", "it is not\nloaded");
    dl_machine_gaps gaps = {0};
    DL_AUTOFREE char *text = write_text(&box, &gaps);
    static const char *const expected[] = {
        "[gpu_model nvidia_20b0] memory_bytes",
        "[gpu_model nvidia_20b0] memory_bytes_per_s",
        "[gpu_model nvidia_20b0] fp32_flop_per_s",
        "[link nvlink] bytes_per_s",
        "[link sockets] bytes_per_s",
        "[host] memory_bytes_per_s",
    };
    assert_int_equal(gaps.count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < gaps.count; i++)
        assert_string_equal(gaps.keys[i], expected[i]);
    assert_contains(text, "written at socket0");
    assert_contains(text, "about the GPUs: it is not loaded\n");
    DL_SCOPED(dl_machine) m = {0};
    dl_error err = {0};
    assert_int_equal(dl_machine_read_text(&m, "x", text, strlen(text), &err), DL_ERR_DATA);
    fill_gaps(text);
    m = read_back(text);
    assert_int_equal(m.kinds[0].gpu_count, 4);
    assert_string_equal(m.models[m.kinds[0].gpus[3].model].name, "nvidia_20b0");
    dl_machine_gaps_free(&gaps);
    assert_int_equal(gaps.count, 0);
}

static void a_machine_without_gpus_says_so(void **state DL_UNUSED)
{
    const dl_box box = {.sockets = 1, .cores = 2, .memory_bytes = 1e9, .places_known = true};
    DL_SCOPED(dl_machine_gaps) gaps = {0};
    DL_AUTOFREE char *text = write_text(&box, &gaps);
    assert_contains(text, "This machine has no NVIDIA GPU");
    assert_contains(text, "name      = this machine\n");
    assert_int_equal(gaps.count, 2);
    assert_string_equal(gaps.keys[1], "[gpus] model");
    dl_machine m = {0};
    dl_error err = {0};
    assert_int_equal(dl_machine_read_text(&m, "x", text, strlen(text), &err), DL_ERR_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(ways_through_host_memory_are_written),
        cmocka_unit_test(an_nvswitch_is_written),
        cmocka_unit_test(gaps_are_what_the_reader_misses),
        cmocka_unit_test(a_machine_without_gpus_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
