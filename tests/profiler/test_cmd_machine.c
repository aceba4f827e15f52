/* The command with the double of the driver in place of libnvidia-ml.so.1 (LD_LIBRARY_PATH), so
 * that every machine has at least two A100s. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/machine.h"
#include "profiler/commands.h"
#include "tests/command.h"

static char *folder, *machine_file;

static int make(void **state DL_UNUSED)
{
    const char *parent = getenv("TMPDIR");
    folder = dl_format("%s/machine-XXXXXX", parent != NULL ? parent : "/tmp");
    if (mkdtemp(folder) == NULL) return -1;
    machine_file = dl_format("%s/machine.ini", folder);
    return 0;
}

static int clean(void **state DL_UNUSED)
{
    remove(machine_file);
    rmdir(folder);
    free(machine_file);
    free(folder);
    return 0;
}

/* Returns the command's output on `stream`; free() it. */
static char *run(command_stream stream, int expected_status, const char *const *arguments)
{
    char *argv[8] = {dl_strdup("dlprof machine")}, *text;
    int argc = 1;
    for (; arguments[argc - 1] != NULL; argc++)
        argv[argc] = dl_strdup(arguments[argc - 1]);
    const int status = run_command(dl_cmd_machine, argv, stream, &text);
    while (argc > 0)
        free(argv[--argc]);
    if (status != expected_status) fail_msg("exit %d: %s", status, text);
    return text;
}

static const dl_gpu_model *find_model(const dl_machine *m, const char *name)
{
    for (int i = 0; i < m->model_count; i++) {
        if (strcmp(m->models[i].name, name) == 0) return &m->models[i];
    }
    fail_msg("no model %s", name);
    return NULL;
}

/* dlsim's reader accepts the file if and only if the command reports no gap. */
static void the_reader_takes_what_the_command_calls_whole(void **state DL_UNUSED)
{
    const char *const argv[] = {"--measure", "-o", machine_file, NULL};
    DL_AUTOFREE char *text = run(COMMAND_OUT, 0, argv);
    DL_SCOPED(dl_machine) m = {0};
    dl_error err = {0};
    const dl_status status = dl_machine_read(&m, machine_file, &err);
    const bool whole = strstr(text, "fill in") == NULL;
    if ((status == DL_OK) != whole) fail_msg("%s (line %d)\n%s", err.text, err.line, text);
    assert_contains(text, machine_file);
    if (whole) {
        assert_true(m.kinds[0].gpu_count >= 2);
        assert_true(m.kinds[0].nvlink_count == 1 || m.kinds[0].gpu_count > 2);
        const dl_gpu_model *model = find_model(&m, "a100-sxm4-40gb");
        assert_float_equal((float)(model->fp16_flop_per_s.value / 1e12), 312, 1);
        assert_float_equal((float)(model->memory_bytes_per_s.value / 1e9), 1555, 1);
        assert_true(m.kinds[0].memory_bytes_per_s.value > 0);
        assert_int_equal(m.kinds[0].memory_bytes_per_s.origin, DL_ORIGIN_MEASURED);
    }
}

static void without_measuring_the_memory_rate_is_missing(void **state DL_UNUSED)
{
    const char *const argv[] = {"-o", machine_file, NULL};
    DL_AUTOFREE char *text = run(COMMAND_OUT, 0, argv);
    assert_contains(text, "  [host] memory_bytes_per_s\n");
}

static void standard_output_holds_the_file_alone(void **state DL_UNUSED)
{
    const char *const argv[] = {NULL};
    DL_AUTOFREE char *text = run(COMMAND_OUT, 0, argv);
    assert_contains(text, "; Written by dlprof machine");
    assert_null(strstr(text, "before dlsim reads"));
}

static void errors_have_their_exit_status(void **state DL_UNUSED)
{
    const char *const nowhere[] = {"-o", "/no/such/folder/x.ini", NULL};
    char *text = run(COMMAND_ERR, 1, nowhere);
    assert_contains(text, "/no/such/folder/x.ini");
    free(text);
    const char *const wrong[] = {"--mesure", NULL};
    text = run(COMMAND_ERR, 2, wrong);
    assert_contains(text, "--measure");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reader_takes_what_the_command_calls_whole),
        cmocka_unit_test(without_measuring_the_memory_rate_is_missing),
        cmocka_unit_test(standard_output_holds_the_file_alone),
        cmocka_unit_test(errors_have_their_exit_status),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
