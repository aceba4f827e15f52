#include "sim/report/figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/alloc.h"
#include "tests/check.h"

/* Figures are drawn by a gnuplot of this text, a script of the shell. */
static void put_gnuplot(const char *text)
{
    mkdir("figures_bin", 0755);
    FILE *out = fopen("figures_bin/gnuplot", "w");
    assert_non_null(out);
    fprintf(out, "#!/bin/sh\n%s\n", text);
    fclose(out);
    assert_int_equal(chmod("figures_bin/gnuplot", 0755), 0);
    char *path = dl_format("figures_bin:%s", getenv("PATH"));
    setenv("PATH", path, 1);
    free(path);
}

/* Of two figures the first never comes; the limit is for both together. */
static void a_gnuplot_that_hangs_is_ended(void **state)
{
    (void)state;
    put_gnuplot("exec sleep 1000");
    dl_drawing drawing;
    dl_error err = {0};
    assert_int_equal(dl_drawing_begin(&drawing, &err), DL_OK);
    assert_int_equal(drawing.limit_ns, 60000000000);
    drawing.limit_ns = 50000000;
    dl_figure figures[2] = {{.name = "speedup", .results = "r.csv"},
                            {.name = "speedup", .results = "r.csv"}};
    dl_figures_draw(&drawing, figures, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_null(figures[i].svg);
        assert_string_equal(figures[i].why_not, "gnuplot took more than 0.05 s");
        dl_figure_free(&figures[i]);
    }
    dl_drawing_end(&drawing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_gnuplot_that_hangs_is_ended)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
