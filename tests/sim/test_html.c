#include "sim/report/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

typedef struct memory {
    char *text;
    size_t bytes;
    FILE *out;
} memory;

static FILE *begin(memory *m)
{
    m->out = open_memstream(&m->text, &m->bytes);
    return m->out;
}

static void assert_written(memory *m, const char *text)
{
    fclose(m->out);
    assert_string_equal(m->text, text);
    free(m->text);
}

static void text_is_nothing_but_text(void **state)
{
    (void)state;
    memory m;
    dl_html(begin(&m), "<i a=\"%s\">%s</i>", "\" onclick='x'", "a<b>&\n\t\x01");
    assert_written(&m, "<i a=\"&quot; onclick=&#39;x&#39;\">a&lt;b&gt;&amp;\n  </i>");
}

static void numbers_go_as_by_printf(void **state)
{
    (void)state;
    memory m;
    dl_html(begin(&m), "%d %lld %zu %+.1f %.4g %% %.*s.", -3, 4000000000LL, (size_t)7, 0.25, 12.0,
            2, "<b>");
    assert_written(&m, "-3 4000000000 7 +0.2 12 % &lt;b.");
    dl_html(begin(&m), "[%.1f]", (double)NAN);
    assert_written(&m, "[]");
}

/* Tabs of the format part cells, not those of texts; a number that is none leaves its cell
 * empty. */
static void rows_have_a_cell_a_column(void **state)
{
    (void)state;
    static const char *const columns[] = {"<a", NULL, "b (%)"};
    memory m;
    dl_html_table table = {begin(&m), columns, 3};
    dl_html_row(&table, NULL, "%s\tunseen\t%.1f %%", "x\ty", 5.0);
    dl_html_row(&table, "c", "%s\tunseen\t%.1f %%", "z", (double)NAN);
    assert_written(&m, "<tr><th scope=\"row\">x y</th><td class=\"number\">5.0 %</td></tr>\n"
                       "<tr class=\"c\"><th scope=\"row\">z</th><td class=\"number\"></td></tr>\n");
    dl_html_table_begin(&table, begin(&m), "<1>", columns, 3);
    fflush(m.out);
    assert_non_null(strstr(m.text, "<caption>&lt;1&gt;</caption>"));
    assert_non_null(
        strstr(m.text, "<th scope=\"col\">a</th><th scope=\"col\" class=\"number\">b (%)"));
    fclose(m.out);
    free(m.text);
}

/* RFC 4648, section 10. */
static void base64_of_the_standard(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memory m;
        dl_html_base64(begin(&m), cases[i][0], strlen(cases[i][0]));
        assert_written(&m, cases[i][1]);
    }
    memory m;
    dl_html_base64(begin(&m), "\xff\xfe\xfd", 3);
    assert_written(&m, "//79");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_nothing_but_text),
        cmocka_unit_test(numbers_go_as_by_printf),
        cmocka_unit_test(rows_have_a_cell_a_column),
        cmocka_unit_test(base64_of_the_standard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
