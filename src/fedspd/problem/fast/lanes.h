/* What kernels do to several records at a time, for one type of numbers: REAL and what goes with it.

   Records are taken by FOUR, whose sums do not wait for each other. The last ones are filled up with themselves, so that
   a record's numbers do not depend on how many stand beside it; and a column's sum takes them in their order. */

typedef REAL NAME(Lanes) __attribute__((vector_size(64), aligned(sizeof(REAL))));
typedef WHOLE NAME(Wholes) __attribute__((vector_size(64), aligned(sizeof(REAL))));
#define LANES ((long)(64 / sizeof(REAL)))

INLINE REAL NAME(dot)(const REAL *restrict a, const REAL *restrict b, long n)
{
    REAL sum = 0;
#pragma omp simd reduction(+ : sum)
    for (long i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

INLINE void NAME(add)(REAL *restrict to, REAL scale, const REAL *restrict from, long n)
{
#pragma omp simd
    for (long i = 0; i < n; i++) to[i] += scale * from[i];
}

/* Records: one after the other from `features` on, or the rows of that table which `numbers` names. */
typedef struct {
    const REAL *features;
    const long long *numbers, *last; /* of all batches; none where records are together */
} NAME(Rows);

/* The t-th of FOUR rows from a first one on, of which only so many are left. */
INLINE const REAL *NAME(row)(NAME(Rows) rows, long columns, long first, long t, long left)
{
    long r = first + (t < left ? t : left - 1);
    return rows.features + (rows.numbers ? rows.numbers[r] : r) * columns;
}

/* FOUR rows are read for the first time. What lies anywhere in a large table takes long to come, so others are asked for
   AHEAD of their turn. */
INLINE void NAME(ask_ahead)(NAME(Rows) rows, long columns, long first, long left)
{
    if (!rows.numbers) return;
    for (long r = first; r < first + (left < FOUR ? left : FOUR); r++) {
        const long long *ahead = rows.last - (rows.numbers + r) > AHEAD ? rows.numbers + r + AHEAD : rows.last;
        for (long j = 0; j < columns; j += 64 / (long)sizeof(REAL)) ASK_FOR(rows.features + *ahead * columns + j);
    }
}

/* Products of the rows from a first one on with a vector, and of each with itself if these are asked for; in whole FOURs. */
INLINE void NAME(products)(long begin, long records, long columns, NAME(Rows) rows, const REAL *restrict by,
                           REAL *restrict products, REAL *restrict squares)
{
    for (long r = 0; r < records; r += FOUR) {
        long first = begin + r, left = records - r;
        const REAL *a = NAME(row)(rows, columns, first, 0, left), *b = NAME(row)(rows, columns, first, 1, left);
        const REAL *c = NAME(row)(rows, columns, first, 2, left), *d = NAME(row)(rows, columns, first, 3, left);
        NAME(ask_ahead)(rows, columns, first, left);
        REAL of_a = 0, of_b = 0, of_c = 0, of_d = 0, aa = 0, bb = 0, cc = 0, dd = 0;
        if (squares)
#pragma omp simd reduction(+ : of_a, of_b, of_c, of_d, aa, bb, cc, dd)
            for (long j = 0; j < columns; j++) {
                of_a += a[j] * by[j], of_b += b[j] * by[j], of_c += c[j] * by[j], of_d += d[j] * by[j];
                aa += a[j] * a[j], bb += b[j] * b[j], cc += c[j] * c[j], dd += d[j] * d[j];
            }
        else
#pragma omp simd reduction(+ : of_a, of_b, of_c, of_d)
            for (long j = 0; j < columns; j++)
                of_a += a[j] * by[j], of_b += b[j] * by[j], of_c += c[j] * by[j], of_d += d[j] * by[j];
        products[r] = of_a, products[r + 1] = of_b, products[r + 2] = of_c, products[r + 3] = of_d;
        if (squares) squares[r] = aa, squares[r + 1] = bb, squares[r + 2] = cc, squares[r + 3] = dd;
    }
}

/* Adds multiples of rows; those of records that are not there are nothing. */
INLINE void NAME(add_rows)(long begin, long records, long columns, NAME(Rows) rows, const REAL *restrict scales,
                           REAL *restrict to)
{
    for (long r = 0; r < records; r += FOUR) {
        long first = begin + r, left = records - r;
        const REAL *a = NAME(row)(rows, columns, first, 0, left), *b = NAME(row)(rows, columns, first, 1, left);
        const REAL *c = NAME(row)(rows, columns, first, 2, left), *d = NAME(row)(rows, columns, first, 3, left);
        REAL by_a = scales[r], by_b = scales[r + 1], by_c = scales[r + 2], by_d = scales[r + 3];
#pragma omp simd
        for (long j = 0; j < columns; j++) {
            REAL sum = to[j] + by_a * a[j];
            sum += by_b * b[j];
            sum += by_c * c[j];
            to[j] = sum + by_d * d[j];
        }
    }
}

INLINE NAME(Lanes) NAME(chosen)(NAME(Wholes) those, NAME(Lanes) yes, NAME(Lanes) no)
{
    return (NAME(Lanes))(((NAME(Wholes))yes & those) | ((NAME(Wholes))no & ~those));
}

/* e^x of numbers that are at most 0 and none of which is not a number, to a few units of the last place: by 2^n e^r,
   with r at most half of ln 2 and Taylor's series. Below LEAST it is nothing: what is computed of it, its square too,
   would be less than the normal range holds, where some processors take ten times as long. */
INLINE NAME(Lanes) NAME(exponentials)(NAME(Lanes) x)
{
    NAME(Wholes) nothing = x < (REAL)LEAST;
    x = NAME(chosen)(nothing, (NAME(Lanes)){0} + (REAL)LEAST, x);
    NAME(Lanes) shifted = x * (REAL)1.44269504088896340736 + (REAL)ROUNDED, whole = shifted - (REAL)ROUNDED;
    NAME(Lanes) rest = (x - whole * (REAL)LN2_HIGH) - whole * (REAL)LN2_LOW;
    NAME(Lanes) sum = (NAME(Lanes)){0} + (REAL)(1 / FACTORIALS[TERMS]);
#pragma GCC unroll 16
    for (long power = TERMS - 1; power >= 0; power--) sum = (REAL)(1 / FACTORIALS[power]) + sum * rest;
    return (NAME(Lanes))(((NAME(Wholes))sum + ((NAME(Wholes))shifted << MANTISSA)) & ~nothing);
}

/* Probabilities of the second of two classes in place of a BLOCK of scores, and what they would be of the other sign's
   larger one: e^{-|score|}. What is not a number stays one. */
INLINE void NAME(probabilities)(REAL *restrict scores, REAL *restrict tails)
{
    for (long i = 0; i < BLOCK; i += LANES) {
        NAME(Lanes) x = *(NAME(Lanes) *)(scores + i), size = NAME(chosen)(x < 0, x, -x);
        NAME(Lanes) tail = NAME(exponentials)(NAME(chosen)(size > -80, size, (NAME(Lanes)){0} - 80));
        NAME(Lanes) found = NAME(chosen)(x < 0, tail, (NAME(Lanes)){0} + 1) / (1 + tail);
        *(NAME(Lanes) *)(scores + i) = NAME(chosen)(x == x, found, x);
        *(NAME(Lanes) *)(tails + i) = tail;
    }
}
