/* Prints the manual page of a kind of file that dlsim reads, from the table of its keys and the
 * example in a file. Usage: key_pages scenario docs/formats.md, or key_pages costs|machine
 * docs/examples/FILE.ini */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/machine.h"
#include "common/manual.h"
#include "common/names.h"
#include "sim/costs/costs.h"
#include "sim/scenario/keys.h"

static const struct page {
    const char *kind, *title, *description;
    const char *example; /* block of the file; NULL: the whole file */
    const char *see_also;
    const dl_keys *keys;
    dl_key_takes_fn takes;
} page_table[] = {
    {"scenario", "scenarios that dlsim simulates",
     "A scenario says what dlsim(1) simulates: a machine, a workload with its cost file, how the "
     "workers synchronize. A key that is a list makes a row of the results for each of its values; "
     "several lists make all combinations.",
     "lenet.ini", "dlsim(1), dlscale-costs(5), dlscale-machine(5)", &dl_scenario_keys,
     dl_scenario_key_takes},
    {"costs", "cost files that dlsim simulates from",
     "A cost file says how long the operations of a training step, its communication and its waits "
     "take. dlcal(1) writes it from traces and measured tables; it may be written by hand. A value "
     "is followed by its standard error and the number of samples, as in 40 +- 0.9 us, n = 100, "
     "where they are known. Which keys a scenario needs depends on its mode and machine: dlsim "
     "--check "
     "lists those that are missing.",
     NULL, "dlcal(1), dlsim(1), dlscale-machine(5), dlscale-scenario(5)", &dl_cost_keys, NULL},
    {"machine", "machine files of dlscale",
     "A machine file says what a machine of GPUs consists of: nodes, GPUs, links and their rates. "
     "dlprof machine writes that of the machine at hand; dlsim --machines lists those that come "
     "with the programs.",
     NULL, "dlprof(1), dlsim(1), dlscale-costs(5), dlscale-scenario(5)", &dl_machine_keys, NULL},
};

enum { PAGE_COUNT = sizeof page_table / sizeof *page_table };

static const char syntax[] =
    "The file has [section] lines and key = value lines. A comment starts with ; or # at the start "
    "of a line, or with a blank and ; after a value. Names of files are relative to the folder of "
    "the file that names them. A number may have a unit, as in 12 GB/s or 1.3 us; without one it "
    "is "
    "in the first of those that are named. Unknown sections and keys, and values outside of their "
    "range, are errors.";

/* The block "```ini file=NAME" of the Markdown text (`name` NULL: the text); NULL: none. free() it. */
static char *find_example(const char *text, const char *name)
{
    if (name == NULL) return dl_strndup(text, strlen(text));
    char *fence = dl_format("```ini file=%s\n", name);
    const char *start = strstr(text, fence);
    const char *end = start != NULL ? strstr(start + strlen(fence), "\n```") : NULL;
    char *found = end != NULL
                      ? dl_strndup(start + strlen(fence), (size_t)(end + 1 - start) - strlen(fence))
                      : NULL;
    free(fence);
    return found;
}

static void print_example(char *text)
{
    dl_man_heading(stdout, "example");
    fputs(".nf\n", stdout);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (line[0] == '.' || line[0] == '\'') fputs("\\&", stdout);
        if (line[0] == '[' && line != text) fputc('\n', stdout);
        dl_man_words(stdout, line);
        fputc('\n', stdout);
    }
    fputs(".fi\n", stdout);
}

int main(int argc, char **argv)
{
    const struct page *page = NULL;
    for (size_t i = 0; i < PAGE_COUNT && argc == 3; i++) {
        if (strcmp(page_table[i].kind, argv[1]) == 0) page = &page_table[i];
    }
    if (page == NULL) {
        fprintf(stderr, "usage: key_pages scenario|costs|machine FILE\n");
        return 2;
    }
    char *text = NULL;
    size_t bytes = 0;
    dl_error err = {0};
    dl_status status = dl_file_read(argv[2], &text, &bytes, &err);
    char *example = status == DL_OK ? find_example(text, page->example) : NULL;
    if (status == DL_OK && example == NULL) {
        status = dl_error_set_at(&err, DL_ERR_DATA, argv[2], 0, "no example %s", page->example);
    }
    if (status == DL_OK) {
        char *name = dl_format("dlscale-%s", page->kind);
        dl_man_head(stdout, name, 5, page->title);
        dl_man_heading(stdout, "description");
        dl_man_text(stdout, page->description);
        fputs(".PP\n", stdout);
        dl_man_text(stdout, syntax);
        dl_man_heading(stdout, "keys");
        dl_keys_print(stdout, page->keys, NULL, DL_KEYS_MAN, page->takes, NULL);
        print_example(example);
        dl_man_see_also(stdout, page->see_also);
        free(name);
    } else {
        dl_error_print(&err, "key_pages", stderr);
    }
    free(example);
    free(text);
    return dl_status_exit_code(status);
}
