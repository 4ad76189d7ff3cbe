/* The clipped gradient of three classes and more for one type of numbers, as `steps.h` has it for two.

   Classes stand side by side in LANES, filled up with empty places, so that a record's scores stay in registers. */

typedef REAL NAME(Lanes) __attribute__((vector_size(64), aligned(sizeof(REAL))));
typedef WHOLE NAME(Wholes) __attribute__((vector_size(64), aligned(sizeof(REAL))));
#define LANES ((long)(64 / sizeof(REAL)))

/* e^x of numbers that are at most 0 and none of which is not a number, to a few units of the last place: by 2^n e^r,
   with r at most half of ln 2 and Taylor's series. Below LEAST it is as good as nothing. */
INLINE void NAME(exponentials)(NAME(Lanes) *of)
{
    NAME(Lanes) x = *of;
    NAME(Wholes) least = x < (REAL)LEAST;
    x = (NAME(Lanes))(((NAME(Wholes))x & ~least) | ((NAME(Wholes))((NAME(Lanes)){0} + (REAL)LEAST) & least));
    NAME(Lanes) shifted = x * (REAL)1.44269504088896340736 + (REAL)ROUNDED, whole = shifted - (REAL)ROUNDED;
    NAME(Lanes) rest = (x - whole * (REAL)LN2_HIGH) - whole * (REAL)LN2_LOW, sum = (NAME(Lanes)){0} + 1;
#pragma GCC unroll 16
    for (long power = TERMS; power > 0; power--) sum = 1 + sum * (rest * (REAL)(1.0 / power));
    *of = (NAME(Lanes))((NAME(Wholes))sum + ((NAME(Wholes))shifted << MANTISSA));
}

/* Probabilities less the label, in place of a record's scores; empty places get nothing. Returns their squared length. */
INLINE REAL NAME(slopes)(long outputs, long wide, long label, REAL *restrict scores)
{
    REAL top = scores[0], total = 0, square = 0;
    int finite = 1;
    for (long c = 0; c < outputs; c++) {
        top = scores[c] > top ? scores[c] : top;
        finite &= scores[c] < (REAL)INFINITY;
    }
    for (long c = outputs; c < wide; c++) scores[c] = top;
    for (long c = 0; c < wide; c += LANES) {
        NAME(Lanes) *at = (NAME(Lanes) *)(scores + c);
        *at -= top;
        NAME(exponentials)(at);
    }
    for (long c = 0; c < outputs; c++) total += scores[c];
    if (!finite) total = (REAL)NAN;
    for (long c = 0; c < outputs; c++) {
        scores[c] = scores[c] / total - (c == label);
        square += scores[c] * scores[c];
    }
    for (long c = outputs; c < wide; c++) scores[c] = 0;
    return square;
}

/* One client's sum of clipped gradients into `sum`, by weights whose rows are `wide`; the share that was clipped. */
INLINE REAL NAME(batch_of_many)(long records, long columns, long outputs, long wide, NAME(Rows) rows,
                                const REAL *restrict labels, const REAL *restrict shares, REAL divisor, REAL bound,
                                const REAL *restrict weights, REAL *restrict sum, REAL *restrict norms,
                                REAL *restrict scores)
{
    long longer = 0, present = 0;
    for (long i = 0; i < columns * wide; i++) sum[i] = 0;
    for (long r = 0; r < records; r++) {
        const REAL *row = NAME(coming)(rows, columns, r);
        REAL square = NAME(dot)(row, row, columns);
        for (long c = 0; c < wide; c += LANES) {
            NAME(Lanes) score = {0};
            for (long j = 0; j < columns; j++) score += row[j] * *(const NAME(Lanes) *)(weights + j * wide + c);
            *(NAME(Lanes) *)(scores + c) = score;
        }
        REAL norm = SQRT(square * NAME(slopes)(outputs, wide, (long)labels[r], scores)), over = norm / bound;
        if (norms) norms[r] = norm;
        longer += norm > bound;
        present += square > 0;
        over = (over > 1 ? over : 1) * divisor;
        REAL counts = (shares ? shares[r] : 1) / over;
        for (long c = 0; c < wide; c += LANES) {
            NAME(Lanes) slope = *(const NAME(Lanes) *)(scores + c) * counts;
            for (long j = 0; j < columns; j++) *(NAME(Lanes) *)(sum + j * wide + c) += row[j] * slope;
        }
    }
    return (REAL)longer / (REAL)(present > 0 ? present : 1);
}
