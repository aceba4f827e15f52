#include "profiler/machine/machine_box.h"

#include <stdlib.h>

#include "tests/check.h"

static char *write_text(const dl_box *box)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dl_box_write_json(box, out);
    fclose(out);
    return text;
}

/* Removes blanks and newlines, so that tests do not depend on the layout. */
static char *squeeze(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        if (*from != ' ' && *from != '\n') *to++ = *from;
    }
    *to = '\0';
    return text;
}

static void facts_are_written(void **state)
{
    (void)state;
    dl_box_switch pcie = {.bus_id = "0000:11:00.0", .parent = 1, .link = {8e9, 16, 15.75e9}};
    dl_box_gpu gpus[] = {{.bus_id = "0000:13:00.0",
                          .parent = 2,
                          .device_id = 0x20b0,
                          .name = "A100",
                          .major = 8,
                          .cores = 100,
                          .clock_hz = 1e9},
                         {.bus_id = "0000:14:00.0", .parent = 0, .device_id = 7}};
    dl_box_nic nic = {
        .bus_id = "0000:15:00.0", .name = "eth\"0", .parent = 1, .port_bytes_per_s = 1.25e9};
    dl_box_nvlink nvlink = {0, 1, 4};
    const dl_box box = {.name = "box",
                        .sockets = 2,
                        .cores = 8,
                        .numa_count = 2,
                        .memory_bytes = 1e9,
                        .places_known = true,
                        .switches = &pcie,
                        .switch_count = 1,
                        .gpus = gpus,
                        .gpu_count = 2,
                        .nics = &nic,
                        .nic_count = 1,
                        .nvlinks = &nvlink,
                        .nvlink_count = 1,
                        .peer_known = true,
                        .peer = DL_PEER_SOCKET};
    char *text = squeeze(write_text(&box));
    assert_true(text[0] == '{' && text[strlen(text) - 1] == '}');
    static const char *const parts[] = {
        "\"schema\":1,\"name\":\"box\",\"processor\":null,\"sockets\":2,\"cores\":8",
        "\"switches\":[{\"bus_id\":\"0000:11:00.0\",\"socket\":1,\"switch\":null,\"link\":{"
        "\"generation\":3,\"lanes\":16,\"wire_bytes_per_s\":15750000000}}]",
        "\"gpus\":[{\"bus_id\":\"0000:13:00.0\",\"socket\":1,\"switch\":0,\"link\":{"
        "\"generation\":null,\"lanes\":null,\"wire_bytes_per_s\":null},\"device_id\":8368,"
        "\"name\":\"A100\",\"major\":8,\"minor\":0,\"cores\":100",
        "\"fp32_flop_per_s\":200000000000,\"tf32_flop_per_s\":1600000000000",
        "\"device_id\":7,\"name\":null,\"major\":null,\"minor\":null",
        "\"name\":\"eth\\\"0\",\"infiniband\":false,\"port_bytes_per_s\":1250000000}]",
        "\"nvlinks\":[{\"a\":0,\"b\":1,\"lanes\":4}],\"peer\":\"socket\"}",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_contains(text, parts[i]);
    free(text);
}

static void an_empty_machine_has_empty_lists(void **state)
{
    (void)state;
    const dl_box box = {.sockets = 1};
    char *text = squeeze(write_text(&box));
    assert_contains(text, "\"switches\":[],\"gpus\":[],\"nics\":[]");
    assert_contains(text, "\"peer\":null");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_are_written),
        cmocka_unit_test(an_empty_machine_has_empty_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
