/* The products of the processor's backend, in each kind that this processor supports. */
#include "kernels/backend_cpu_internal.h"
#include "tests/check.h"

enum { DEPTH = 5, COLUMNS = 2 * DL_PANEL, ROWS_MAX = 13, UNTOUCHED = 77 };

/* Small integers: every sum is exact, in any order. */
static float left_at(int i, int l)
{
    return (float)((3 * i + 5 * l) % 7 - 3);
}

static float right_at(int l, int j)
{
    return (float)((2 * l + 3 * j) % 11 - 5);
}

static float expected_at(int i, int j, float start)
{
    float sum = start;
    for (int l = 0; l < DEPTH; l++)
        sum += left_at(i, l) * right_at(l, j);
    return sum;
}

static float a[ROWS_MAX * DEPTH], b[DEPTH * COLUMNS], c[(ROWS_MAX + 1) * COLUMNS];

/* c[rows x COLUMNS], starting at 2, is added to or overwritten; the row after it must not
 * change. */
static void check_product(const dl_product_kind *kind, dl_product product, int rows)
{
    for (int i = 0; i < (ROWS_MAX + 1) * COLUMNS; i++)
        c[i] = i < rows * COLUMNS ? 2 : UNTOUCHED;
    product.m = rows;
    product.n = COLUMNS;
    product.k = DEPTH;
    product.a = a;
    product.b = b;
    product.c = c;
    product.c_row = COLUMNS;
    kind->run(&product);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < COLUMNS; j++) {
            const float expected = expected_at(i, j, product.accumulate ? 2 : 0);
            if (c[i * COLUMNS + j] != expected) {
                fail_msg("%s, %d rows: (%d, %d) is %g, not %g", kind->name, rows, i, j,
                         (double)c[i * COLUMNS + j], (double)expected);
            }
        }
    }
    for (int j = 0; j < COLUMNS; j++)
        assert_true(c[rows * COLUMNS + j] == UNTOUCHED);
}

/* Every number of rows up to two full tiles and one more, so that all remainders occur. */
static void check_rows(dl_product product)
{
    int checked = 0;
    for (const dl_product_kind *kind = dl_product_kinds(); kind->name != NULL; kind++) {
        if (!kind->is_there()) continue;
        for (int rows = 1; rows <= ROWS_MAX; rows++)
            check_product(kind, product, rows);
        checked++;
    }
    assert_true(checked >= 1);
}

static void rows_times_panels(void **state DL_UNUSED)
{
    for (int l = 0; l < DEPTH; l++) {
        for (int i = 0; i < ROWS_MAX; i++)
            a[i * DEPTH + l] = left_at(i, l);
        for (int j = 0; j < COLUMNS; j++)
            b[(j / DL_PANEL * DEPTH + l) * DL_PANEL + j % DL_PANEL] = right_at(l, j);
    }
    check_rows((dl_product){
        .a_row = DEPTH, .a_depth = 1, .b_panel = (size_t)DEPTH * DL_PANEL, .b_depth = DL_PANEL});
}

/* a is transposed, b stored by rows, and the product added to c. */
static void sums_of_columns_times_rows(void **state DL_UNUSED)
{
    for (int l = 0; l < DEPTH; l++) {
        for (int i = 0; i < ROWS_MAX; i++)
            a[l * ROWS_MAX + i] = left_at(i, l);
        for (int j = 0; j < COLUMNS; j++)
            b[l * COLUMNS + j] = right_at(l, j);
    }
    check_rows((dl_product){.accumulate = true,
                            .a_row = 1,
                            .a_depth = ROWS_MAX,
                            .b_panel = DL_PANEL,
                            .b_depth = COLUMNS});
}

enum { LONG = 2 * DL_PANEL, FILTERS = 8 };

static float expected_dot(int i, int j, float start)
{
    float sum = start;
    for (int l = 0; l < LONG; l++)
        sum += left_at(i, l) * right_at(l, j);
    return sum;
}

/* c[rows x FILTERS] = or += a b^T; the row after it must not change. */
static void check_dots(const dl_product_kind *kind, int rows, bool accumulate)
{
    static float left[ROWS_MAX * LONG], right[FILTERS * LONG], sums[(ROWS_MAX + 1) * FILTERS];
    for (int l = 0; l < LONG; l++) {
        for (int i = 0; i < ROWS_MAX; i++)
            left[i * LONG + l] = left_at(i, l);
        for (int j = 0; j < FILTERS; j++)
            right[j * LONG + l] = right_at(l, j);
    }
    for (int i = 0; i < (ROWS_MAX + 1) * FILTERS; i++)
        sums[i] = i < rows * FILTERS ? 2 : UNTOUCHED;
    kind->run_dots(&(dl_dots){.m = rows,
                              .n = FILTERS,
                              .k = LONG,
                              .accumulate = accumulate,
                              .a = left,
                              .a_row = LONG,
                              .b = right,
                              .b_row = LONG,
                              .c = sums,
                              .c_row = FILTERS});
    for (int i = 0; i < rows * FILTERS; i++) {
        const float expected = expected_dot(i / FILTERS, i % FILTERS, accumulate ? 2 : 0);
        if (sums[i] != expected) {
            fail_msg("%s, %d rows: %d is %g, not %g", kind->name, rows, i, (double)sums[i],
                     (double)expected);
        }
    }
    for (int j = 0; j < FILTERS; j++)
        assert_true(sums[rows * FILTERS + j] == UNTOUCHED);
}

static void rows_times_rows(void **state DL_UNUSED)
{
    for (const dl_product_kind *kind = dl_product_kinds(); kind->name != NULL; kind++) {
        for (int rows = 1; kind->is_there() && rows <= ROWS_MAX; rows++) {
            check_dots(kind, rows, false);
            check_dots(kind, rows, true);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_times_panels),
        cmocka_unit_test(sums_of_columns_times_rows),
        cmocka_unit_test(rows_times_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
