#include "tests/refused.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/ini.h"
#include "common/machine.h"

/* Two sockets; nested switches on socket 0 with GPUs 0 and 1, GPU 2 on socket 1. */
#define HEAD "[machine]\nschema = 1\nname = box\npeer = switch\n"
#define PARTS                                                               \
    "[gpu_model k80]\nmemory_bytes = 12GiB\nmemory_bytes_per_s = 240GB/s\n" \
    "fp32_flop_per_s = 4.4Tflop/s, catalogue\n"                             \
    "[link x16]\nbytes_per_s = 12GB/s, measured\nlatency_ns = 1us\n"        \
    "[link qpi]\nbytes_per_s = 19.2GB/s\nduplex_bytes_per_s = 30GB/s\nlatency_ns = 200\n"
#define HOST "[host]\nsockets = 2\nmemory_bytes_per_s = 60GB/s\nsocket_link = qpi\n"
#define SWITCHES \
    "[switch low]\nparent = top\nlink = x16\n[switch top]\nparent = socket0\nlink = x16\n"
#define TOWER                                                                        \
    "[switch a]\nparent = socket0\nlink = x16\n[switch b]\nparent = a\nlink = x16\n" \
    "[switch c]\nparent = b\nlink = x16\n[switch d]\nparent = c\nlink = x16\n"       \
    "[switch e]\nparent = d\nlink = x16\n[switch f]\nparent = e\nlink = x16\n"       \
    "[switch g]\nparent = f\nlink = x16\n"
#define GPUS                                              \
    "[gpus 0-1]\nmodel = k80\nparent = low\nlink = x16\n" \
    "[gpus 2]\nmodel = k80\nparent = socket1\nlink = x16\n"
#define KERNELS                                                                                   \
    "[kernels k80 fp32]\nforward_flop_per_s = 1Gflop/s\nforward_bytes_per_s = 1GB/s\nforward_ns " \
    "= "                                                                                          \
    "1us\ndata_flop_per_s = 1Gflop/s\ndata_bytes_per_s = 1GB/s\ndata_ns = 1us\n"                  \
    "weight_flop_per_s = 1Gflop/s\nweight_bytes_per_s = 1GB/s\nweight_ns = 1us\n"                 \
    "move_bytes_per_s = 1GB/s\nmove_ns = 1us\n"
#define BOX HEAD PARTS HOST SWITCHES GPUS

static void a_file_is_read(void **state DL_UNUSED)
{
    static const char text[] =
        BOX "[nics 0]\nparent = top\nlink = x16\nport = qpi\n[nvlinks pair]\nlink = qpi\n"
            "lanes = 2\npairs = 0-1, 1-2\n[protocol simple]\nlaunch_ns = 5us\nhop_ns = 3us\n"
            "network_hop_ns = 8us\nbandwidth_frac = 0.9, measured\n";
    dl_machine m = {0};
    dl_error err = {0};
    if (dl_machine_read_text(&m, "m.ini", text, sizeof text - 1, &err) != DL_OK) {
        fail_msg("line %d: %s", err.line, err.text);
    }
    assert_string_equal(m.name, "box");
    assert_int_equal(m.nodes, 1);
    assert_int_equal(m.kinds[0].peer, DL_PEER_SWITCH);
    assert_int_equal(m.kinds[0].gpu_count, 3);
    assert_string_equal(m.models[m.kinds[0].gpus[2].model].name, "k80");
    assert_true(m.models[0].fp32_flop_per_s.value == 4.4e12);
    assert_false(m.models[0].tf32_flop_per_s.known);
    assert_string_equal(m.kinds[0].switches[m.kinds[0].gpus[0].parent - m.kinds[0].sockets].name,
                        "low");
    assert_int_equal(dl_machine_parent(&m.kinds[0], m.kinds[0].gpus[0].parent), 3);
    assert_int_equal(dl_machine_socket(&m.kinds[0], m.kinds[0].gpus[0].parent), 0);
    assert_int_equal(dl_machine_socket(&m.kinds[0], m.kinds[0].gpus[2].parent), 1);
    assert_int_equal(dl_machine_parent(&m.kinds[0], 1), -1);
    assert_string_equal(m.classes[m.kinds[0].socket_link].name, "qpi");
    assert_string_equal(m.classes[m.kinds[0].nics[0].port].name, "qpi");
    assert_int_equal(m.kinds[0].nvswitch_link, -1);
    assert_int_equal(m.kinds[0].nvlink_count, 2);
    assert_true(m.kinds[0].nvlinks[1].a == 1 && m.kinds[0].nvlinks[1].b == 2 &&
                m.kinds[0].nvlinks[1].lanes == 2);
    assert_true(m.protocols[0].bandwidth_frac.value == 0.9);
    assert_true(m.classes[0].latency_ns.value == 1000);
    assert_int_equal(m.classes[0].bytes_per_s.origin, DL_ORIGIN_MEASURED);
    dl_machine_free(&m);
    dl_machine_free(&m);
}

#define MIXED                                                                           \
    "[machine]\nschema = 1\nname = x\npeer = all\nnodes = 4\n" PARTS HOST SWITCHES GPUS \
    "[nics 0]\nparent = top\nlink = x16\nport = qpi\n"

/* Nodes 1 and 3 have a kind with only one socket, other GPUs and no switch; node 2 has other GPUs
 * in the same places as the first node. */
static void nodes_are_of_kinds(void **state DL_UNUSED)
{
    static const char text[] = MIXED
        "[shm]\nbytes_per_s = 6GB/s\n[overlap]\ninside_slowdown = 4\n[overlap of "
        "t4]\ninside_slowdown = 2\n"
        "[gpu_model t4]\nmemory_bytes = 16GB\nmemory_bytes_per_s = 300GB/s\n"
        "fp32_flop_per_s = 8Tflop/s\n[nodes 1, 3]\nkind = t4\n[host of t4]\nsockets = 1\n"
        "[gpus 0 of t4]\nmodel = t4\nparent = socket0\nlink = x16\n[nodes 2]\nmodel = t4\n"
        "[machine of t4]\npeer = none\n[nics 0 of t4]\nparent = socket0\nlink = x16\nport = qpi\n";
    DL_SCOPED(dl_machine) m = {0};
    dl_error err = {0};
    if (dl_machine_read_text(&m, "m.ini", text, sizeof text - 1, &err) != DL_OK) {
        fail_msg("line %d: %s", err.line, err.text);
    }
    const dl_node_kind *t4 = dl_machine_node(&m, 1);
    assert_string_equal(t4->name, "t4");
    assert_ptr_equal(dl_machine_node(&m, 3), t4);
    assert_int_equal(t4->sockets, 1);
    assert_int_equal(t4->gpu_count, 1);
    assert_int_equal(t4->peer, DL_PEER_NONE);
    assert_true(t4->memory_bytes_per_s.value == 60e9);
    assert_int_equal(dl_machine_node(&m, 0)->gpu_count, 3);
    /* Copies through host memory depend on a kind's own GPUs. */
    assert_true(dl_machine_node(&m, 2)->shm_bytes_per_s.value == 6e9);
    assert_false(t4->shm_bytes_per_s.known);
    assert_true(dl_machine_node(&m, 0)->overlap_slowdown.value == 4);
    assert_true(t4->overlap_slowdown.value == 2);
    assert_int_equal(dl_machine_node(&m, 0)->peer, DL_PEER_ALL);
    assert_string_equal(dl_machine_model(&m, 2, 0)->name, "t4");
    assert_string_equal(dl_machine_model(&m, 0, 0)->name, "k80");
    assert_int_equal(dl_machine_gpus(&m), 8);
    assert_int_equal(dl_machine_links_kind(&m, 2), 0);
}

static dl_status read_wrong(const char *text, dl_error *err)
{
    dl_machine m = {0};
    const dl_status status = dl_machine_read_text(&m, "m.ini", text, strlen(text), err);
    if (status != DL_OK) assert_null(m.path);
    return status;
}

static void what_is_wrong_is_refused_with_its_line(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {"[machine]\nname = x\n", DL_ERR_DATA, 0, "schema"},
        {"[machine]\nschema = 2\n", DL_ERR_RANGE, 2, "schema"},
        {"[machine]\nnam = x\n", DL_ERR_NAME, 2, "'name'"},
        {"[machin]\n", DL_ERR_NAME, 1, "machine"},
        {"[machine]\nschema = 1\nname = x\npeer = swich\n", DL_ERR_NAME, 4, "switch"},
        {HEAD "nodes = 0\n", DL_ERR_RANGE, 5, "nodes"},
        {HEAD "price_usd_per_hour = cheap\n", DL_ERR_PARSE, 5, "not a number"},
        {HEAD "[gpu_model k]\nmemory_bytes = 1GB\n", DL_ERR_DATA, 5, "memory_bytes_per_s"},
        {HEAD "[link a]\nbytes_per_s = 0\n", DL_ERR_RANGE, 6,
         "0 B/s is not within 1 kB/s to 1 PB/s"},
        {HEAD "[link a]\nbytes_per_s = 12.4\n", DL_ERR_RANGE, 6,
         "[link a] bytes_per_s = 12.4: 12.4 B/s is not within 1 kB/s to 1 PB/s; did you forget the "
         "unit: 12.4GB/s?"},
        {HEAD "[link a]\nbytes_per_s = 12.4B/s\n", DL_ERR_RANGE, 6, "to 1 PB/s"},
        {HEAD "[link a]\nbytes_per_s = 1e300\n", DL_ERR_RANGE, 6, "EB/s is not within"},
        {HEAD "[gpu_model k]\nmemory_bytes = 11\n", DL_ERR_RANGE, 6,
         "11 B is not within 1 MB to 1 PB; did you forget the unit: 11GB?"},
        {HEAD "[gpu_model k]\nmemory_bytes = 11GB\nmemory_bytes_per_s = 484GB/s\n"
              "fp32_flop_per_s = 11.3\n",
         DL_ERR_RANGE, 8, "did you forget the unit: 11.3Tflop/s?"},
        {HEAD "[link a]\nbytes_per_s = 1GBs\n", DL_ERR_NAME, 6, "GB/s"},
        {HEAD "[link a]\nbytes_per_s = 1e9\nlatency_ns = 2s\n", DL_ERR_RANGE, 7,
         "2 s is not within 0 ns to 1 s"},
        {HEAD "[link a]\nbytes_per_s = 1e9\n", DL_ERR_DATA, 5, "latency_ns"},
        {HEAD
         "[protocol a chain]\nlaunch_ns = 0\nhop_ns = 0\nnetwork_hop_ns = 0\nbandwidth_frac = 1\n",
         DL_ERR_RANGE, 5, "'ring' or 'tree'"},
        {HEAD "[protocol a]\nlaunch_ns = 0\nhop_ns = 0\nnetwork_hop_ns = 0\nbandwidth_frac = 1.5\n",
         DL_ERR_RANGE, 9, "1.5 is not within 0.001 to 1"},
        {HEAD PARTS "[host]\nsockets = 2\nmemory_bytes_per_s = 1GB/s\n", DL_ERR_DATA, 16,
         "socket_link"},
        {HEAD PARTS "[host]\nsockets = 2\nmemory_bytes_per_s = 1e9\nsocket_link = qpj\n",
         DL_ERR_NAME, 19, "'qpi'"},
        {HEAD PARTS HOST "[switch a]\nparent = a\nlink = x16\n", DL_ERR_RANGE, 0, "ring"},
        {HEAD PARTS HOST TOWER, DL_ERR_RANGE, 0, "[switch g] lies too deep"},
        {HEAD PARTS HOST "[switch socket1]\nparent = socket0\n", DL_ERR_RANGE, 20, "socket"},
        {HEAD PARTS HOST SWITCHES "[switch c]\nparent = socket2\nlink = x16\n", DL_ERR_NAME, 27,
         "socket"},
        {HEAD PARTS HOST, DL_ERR_DATA, 0, "no [gpus"},
        {BOX "[gpus 4]\nmodel = k80\nparent = low\nlink = x16\n", DL_ERR_RANGE, 34, "gaps"},
        {BOX "[gpus two]\nmodel = k80\nparent = low\nlink = x16\n", DL_ERR_RANGE, 34, "range"},
        {BOX "[gpus 3]\nmodel = k8\nparent = low\nlink = x16\n", DL_ERR_NAME, 35, "'k80'"},
        {BOX "[nvlinks a]\nlink = qpi\npairs = 0-3\n", DL_ERR_RANGE, 36, "'0-3'"},
        {BOX "[nvlinks a]\nlink = qpi\npairs = 1-1\n", DL_ERR_RANGE, 36, "'1-1'"},
        {BOX "[nvlinks a]\nlink = qpi\npairs = 1\n", DL_ERR_RANGE, 36, "'1'"},
        {BOX "[nvlinks a]\nlink = qpi\npairs = 0-1, 0-1\n", DL_ERR_RANGE, 36, "twice"},
        {BOX "[nics 0]\nparent = low\nlink = x16\n", DL_ERR_DATA, 34, "port"},
        {BOX "[kernels k80]\n", DL_ERR_RANGE, 34, "fp32, tf32, fp16 or bf16"},
        {BOX "[kernels k80 fp8]\n", DL_ERR_RANGE, 34, "fp32, tf32, fp16 or bf16"},
        {BOX "[kernels k8 fp32]\n", DL_ERR_RANGE, 34, "no [gpu_model] of this name"},
        {BOX "[kernels k80 fp32]\nmove_ns = 1us\n", DL_ERR_DATA, 34, "forward_flop_per_s"},
        {BOX KERNELS "norm_ns = 1us\n", DL_ERR_RANGE, 34,
         "norm_bytes_per_s and norm_ns belong together"},
        {BOX KERNELS "attention_forward_ns = 1us\n", DL_ERR_RANGE, 34, "attention_backward"},
        {BOX KERNELS "attention_forward_ns = 1us\nattention_forward_flop_per_s = 1Gflop/s\n",
         DL_ERR_RANGE, 34, "attention_backward"},
        {BOX "[nvswitch]\n", DL_ERR_DATA, 34, "link"},
        {BOX "[nvswitch]\nlink = x16\nsum_frac = 1.5\n", DL_ERR_RANGE, 36, "sum_frac"},
        {"[machine]\nschema = 1\nname = x\npeer = all\nnodes = 2\n" PARTS HOST SWITCHES GPUS,
         DL_ERR_DATA, 5, "not connected"},
    };
    assert_all_refused(cases, "m.ini", read_wrong);
}

static void wrong_kinds_of_nodes_are_refused(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {MIXED "[nodes 4]\nmodel = k80\n", DL_ERR_RANGE, 39, "fewer nodes"},
        {MIXED "[nodes 0-1, 1]\nmodel = k80\n", DL_ERR_RANGE, 39, "some of these nodes"},
        {MIXED "[nodes 0,]\nmodel = k8\n", DL_ERR_NAME, 40, "'k80'"},
        {MIXED "[nodes 0, x]\nmodel = k80\n", DL_ERR_RANGE, 39, "0, 4-5"},
        {MIXED "[nodes 0]\n", DL_ERR_RANGE, 39, "kind or model"},
        {MIXED "[nodes 0]\nkind = a\nmodel = k80\n", DL_ERR_RANGE, 39, "kind or model"},
        {MIXED "[nodes 0]\nkind = a\n", DL_ERR_NAME, 40, "[nics 0 of a]"},
        {MIXED "[host of a]\n", DL_ERR_NAME, 39, "no [nodes ..] has kind = a"},
        {MIXED "[nodes 0]\nkind = fat\n[host of fat]\n[host of far]\n", DL_ERR_NAME, 42, "'fat'"},
        {MIXED "[nodes 0]\nkind = a\n[host of a]\nsockets = 1\n", DL_ERR_NAME, 33,
         "(nodes of kind a)"},
        {MIXED "[nodes 0]\nkind = a\n[gpus 1 of a]\n", DL_ERR_RANGE, 41, "without gaps"},
        {MIXED "[nodes 0]\nkind = a\n[nics 0 of a]\nspeed = 1\n", DL_ERR_NAME, 42, "speed"},
        {MIXED "[nodes 0]\nkind = a\n[machine of a]\nnodes = 1\n", DL_ERR_NAME, 42,
         "of the whole machine"},
        {MIXED "[nodes 0]\nkind = a\n[host of a]\n[link x of a]\n", DL_ERR_DATA, 42, "bytes_per_s"},
        {MIXED "[fabric of a]\n", DL_ERR_NAME, 39, "unknown section"},
    };
    assert_all_refused(cases, "m.ini", read_wrong);
}

static void a_missing_file_is_an_error(void **state DL_UNUSED)
{
    dl_machine m = {0};
    dl_error err = {0};
    assert_int_equal(dl_machine_read(&m, "no/such.ini", &err), DL_ERR_IO);
}

/* Each file shipped with the program can be read, and has the GPUs of the real machine. */
static void the_shipped_files_are_read(void **state DL_UNUSED)
{
    static const struct {
        const char *file, *model;
        int nodes, gpus;
    } shipped[] = {
        {"z10pe_2x1080ti", "gtx1080ti", 1, 2},
        {"z10pe_8x1080ti", "gtx1080ti", 1, 8},
        {"p2.8xlarge", "k80", 1, 8},
        {"p2.16xlarge", "k80", 1, 16},
        {"gce_k80_8", "k80", 1, 8},
        {"azure_nc24", "k80", 1, 4},
        {"dgx1_p100", "p100", 1, 8},
        {"dgx1_v100", "v100", 2, 8},
        {"t4_4x4_ethernet", "t4", 4, 4},
        {"dgx_a100", "a100", 4, 8},
        {"dgx_h100", "h100", 4, 8},
        {"gh200_9x", "gh200", 9, 1},
        {"regions_2", "a100", 2, 1},
        {"regions_4", "a100", 4, 1},
        {"regions_8", "a100", 8, 1},
        {"sites_8", "a100", 8, 1},
        {"gtx1080_2", "gtx1080", 1, 2},
        {"gtx980_4", "gtx980", 1, 4},
        {"titanx_4", "titanx", 1, 4},
        {"k20m_4", "k20m", 1, 4},
        {"k20x_8x", "k20x", 1, 8},
        {"k20x_farm", "k20x", 24, 2},
        {"cntk_8x8_k40", "k40", 8, 8},
        {"c4130_p100", "p100pcie", 4, 4},
        {"p2.8xlarge_x8", "k80", 8, 8},
        {"p2.16xlarge_x16", "k80", 16, 16},
        {"p3.16xlarge", "v100", 1, 8},
        {"g6e_4x_l40s", "l40s", 4, 1},
        {"p775", "power7", 8, 4},
        {"z10pe_1080ti_2080ti", "gtx1080ti", 1, 2},
    };
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s.ini", DL_MACHINES, shipped[i].file);
        DL_SCOPED(dl_machine) m = {0};
        dl_error err = {0};
        if (dl_machine_read(&m, path, &err) != DL_OK) {
            fail_msg("%s:%d: %s", path, err.line, err.text);
        }
        assert_int_equal(m.nodes, shipped[i].nodes);
        assert_int_equal(m.kinds[0].gpu_count, shipped[i].gpus);
        assert_string_equal(m.models[m.kinds[0].gpus[0].model].name, shipped[i].model);
    }
    glob_t files = {0};
    assert_int_equal(glob(DL_MACHINES "/*.ini", 0, NULL, &files), 0);
    assert_int_equal(files.gl_pathc, sizeof shipped / sizeof *shipped);
    globfree(&files);
}

/* Eight nodes: no site is empty, whereas two nodes each would leave none for the last of five. */
static void sites_share_the_nodes(void **state DL_UNUSED)
{
    static const struct {
        int sites, of[8];
    } cases[] = {{0, {0}},
                 {2, {0, 0, 0, 0, 1, 1, 1, 1}},
                 {3, {0, 0, 0, 1, 1, 1, 2, 2}},
                 {5, {0, 0, 1, 1, 2, 3, 3, 4}},
                 {8, {0, 1, 2, 3, 4, 5, 6, 7}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dl_machine machine = {.nodes = 8, .site_count = cases[i].sites};
        for (int node = 0; node < 8; node++)
            assert_int_equal(dl_machine_site(&machine, node), cases[i].of[node]);
    }
}

/* Work proportional to the product of both would take minutes. */
static void many_sections_and_entries_are_refused(void **state DL_UNUSED)
{
    enum { SECTIONS = 300000, BYTES = 16 };
    char *text = malloc((size_t)SECTIONS * BYTES), *end = text;
    assert_non_null(text);
    for (int i = 0; i < SECTIONS; i++)
        end += sprintf(end, "[link]\na%d=\n", i);
    dl_machine m = {0};
    dl_error err = {0};
    assert_int_not_equal(dl_machine_read_text(&m, "m.ini", text, (size_t)(end - text), &err),
                         DL_OK);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sites_share_the_nodes),
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(nodes_are_of_kinds),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_line),
        cmocka_unit_test(wrong_kinds_of_nodes_are_refused),
        cmocka_unit_test(a_missing_file_is_an_error),
        cmocka_unit_test(the_shipped_files_are_read),
        cmocka_unit_test(many_sections_and_entries_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
