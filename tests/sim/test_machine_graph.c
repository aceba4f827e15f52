#include "tests/machine_fixture.h"

#include <stdlib.h>

#include "sim/network/machine_graph.h"

#define BOX                                                                                     \
    "[machine]\nschema = 1\nname = a \"box\"\nnodes = 2\npeer = none\n" FIXTURE_PARTS           \
    "[host]\nsockets = 2\nmemory_bytes_per_s = 40GB/s, measured\nroot_bytes_per_s = 20GB/s\n"   \
    "socket_link = duplex\n[switch plx]\nparent = socket1\nlink = x16\n[gpus 0-1]\nmodel = g\n" \
    "parent = plx\nlink = x16\n[nics 0]\nparent = socket0\nlink = x16\nport = wire\n"           \
    "[nvlinks pair]\nlink = fast\nlanes = 2\npairs = 0-1\n[network]\nbytes_per_s = 3GB/s\n"

/* Returns the text, which the caller frees. */
static char *draw(const dl_machine *machine)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    dl_machine_graph_write(machine, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void every_part_and_link_is_drawn(void **state DL_UNUSED)
{
    static const char *const parts[] = {
        "graph machine {\n  label=\"a \\\"box\\\", one of 2 nodes\";\n",
        "  socket0 [shape=box, label=\"socket 0\\nroot 20 GB/s\"];\n",
        "  memory1 -- socket1 [label=\"40 GB/s\"];\n",
        "  socket0 -- socket1 [label=\"duplex\\n10 GB/s\\n15 both ways\", style=dashed];\n",
        "  switch0 [shape=diamond, label=\"plx\"];\n",
        "  socket1 -- switch0 [label=\"x16\\n10 GB/s\", style=dashed];\n",
        "  gpu1 [shape=box, style=rounded, label=\"gpu 1\\ng\"];\n",
        "  switch0 -- gpu1 [label=\"x16\\n10 GB/s\", style=dashed];\n",
        "  socket0 -- nic0 [",
        "  gpu0 -- gpu1 [label=\"fast x 2\\n100 GB/s\", style=dashed];\n",
        "  network [shape=ellipse, label=\"network\\n3 GB/s\"];\n",
        "  nic0 -- network [label=\"wire\\n1 GB/s\", style=dashed];\n",
    };
    DL_SCOPED(dl_machine) m = fixture_machine(BOX);
    DL_AUTOFREE char *text = draw(&m);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_contains(text, parts[i]);
    assert_string_equal(text + strlen(text) - 2, "}\n");
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

/* Eight GPUs, each on a separate switch and on the NVSwitch; eight NICs with a port; two
 * sockets. */
static void a_shipped_machine_has_all_its_edges(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = fixture_shipped("dgx_h100");
    DL_AUTOFREE char *text = draw(&m);
    assert_int_equal(count_of(text, " -- "), 2 + 1 + 8 + 8 + 8 + 8 + 8);
    assert_int_equal(count_of(text, " -- nvswitch [label=\"nvlink4\\n376.6 GB/s\""), 8);
    assert_contains(text, "NVSwitch\\nsums");
}

static void files_are_written_or_refused(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = fixture_machine(BOX);
    dl_error err = {0};
    assert_int_equal(dl_machine_graph_save(&m, "test_machine_graph.dot", &err), DL_OK);
    assert_int_equal(remove("test_machine_graph.dot"), 0);
    assert_int_equal(dl_machine_graph_save(&m, "no/such/folder.dot", &err), DL_ERR_IO);
    assert_contains(err.text, "No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_and_link_is_drawn),
        cmocka_unit_test(a_shipped_machine_has_all_its_edges),
        cmocka_unit_test(files_are_written_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
